"""Executors: where the jobs of a sweep run. conf/executor has a YAML for each.

base        the contract, and the division of the cores among workers
inline      in this process, one job after another
processes   in fresh processes of this machine
dask        on a Dask cluster; needs the extra dask
"""

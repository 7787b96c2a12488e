"""Executors: where the jobs of a sweep run. conf/executor has a YAML for each.

base        the contract, the division of the cores among workers, and jobs one after another in this process
processes   in fresh processes of this machine
dask        on a Dask cluster; needs the extra dask
"""

"""Sweeps: many jobs, run by an executor.

executors       where jobs run: in this process, in fresh processes, on a Dask cluster
"""

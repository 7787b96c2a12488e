"""Sweeps: many jobs, run by an executor.

plan        jobs, their keys, the plan on disk before the first job starts, and the states of the jobs
running     which job next, until every job has ended; takes the times of finished runs again
ledger      comparisons of the runs of sweeps: their looks, and trainings that are left out
searching   searches: plans their trials, and chooses the settings of their jobs
executors   where jobs run: the contract, in this process, in fresh processes
dask        jobs on a Dask cluster; needs the extra dask
"""

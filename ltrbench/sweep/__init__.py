"""Sweeps: many jobs, run by an executor.

job         a job, as plan/NUMBER.json describes it
key         everything that the figures of a job depend on
plan        the planned jobs of a sweep, on disk before the first job starts, and their states
running     which job next, until every job has ended; takes the times of finished runs again
searching   searches: plans their trials, and chooses the settings of their jobs
executors   where jobs run: in this process, in fresh processes, on a Dask cluster
"""

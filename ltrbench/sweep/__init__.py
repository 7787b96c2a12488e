"""Sweeps: many jobs, run by an executor.

job         a job, as plan/NUMBER.json describes it
key         everything that the figures of a job depend on
plan        the planned jobs of a sweep, on disk before the first job starts
planning    plans the jobs of a command, and refuses finished jobs that have changed
state       finished, running, failed or waiting, as the folders show it
running     which job next, until every job has ended
searching   searches: plans their trials, and chooses the settings of their jobs
worker      runs one job
timing      takes the times of finished runs again
executors   where jobs run: in this process, in fresh processes, on a Dask cluster
"""

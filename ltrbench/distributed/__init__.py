"""One fit by several processes: the workers of a Dask cluster, their data, and what they exchange.

base         the contract of a place where a fit runs; one process
cluster      the settings of a Dask cluster, which starts or is connected to; needs the extra dask
workers      runs one function on all workers at the same time
rounds       one such call: starts, watches and ends the tasks of the members
members      the same on the side of a worker process
team         what the members of a fit exchange, with the collective of XGBoost
shards       divides a data set among workers, by query
failures     the error of a failed member; how a process ended, in words
connecting   connections to a scheduler, and workers that end; the executor for Dask uses it as well
"""

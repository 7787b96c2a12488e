"""One fit by several processes: the workers of a Dask cluster, their data, and what they exchange.

base      the contract of a place where a fit runs; one process; shards of a data set; failures of members
members   the side of a worker process: connections, and what members exchange with XGBoost's collective
cluster   the side of the client: a Dask cluster, and one function run on all its workers at the same time
"""

"""A store: a data set in a folder of plain arrays, which are opened instead of parsed.

    STORE/manifest.json       schema, counts, fingerprint, sources, and the checksum of every array
    STORE/shard-00000/*.npy   the arrays of consecutive queries; a query is never divided

- features: float32 (n, F); or, if the features are sparse (compressed sparse rows of v values),
  row_start: int64 (n + 1,), columns: int32 (v,), and values: float32 (v,)
- labels: float64 (n,)
- query_start: int64 (q + 1,), first row of each query within the shard, followed by n
- query_ids: UTF-8 bytes of a fixed width (q,)
- document_ids: UTF-8 bytes of a fixed width (n,), if the data set has them
- weights: float64 (n,), weight of each document in training, if the data set has weights
- positions: int64 (n,), if the data set has them
- file_rows: int64 (n,), row of each document in its source, if its rows were grouped by query

for a shard of n documents and q queries. Dense features stay on the disk and are read by blocks; all other
arrays are read into memory, sparse features as well. The manifest is written last, so that a folder without
it is not a store. A store is untrusted: nothing is pickled, and each array must have exactly the header, the
size and the checksum that follow from the manifest.

    manifest   reads, checks and writes manifest.json
    arrays     writes, checks and maps one array
    rows       the dense features of one shard, read by blocks
    ids        ids as bytes of a fixed width
    writing    writes a store from blocks of queries
    reading    reads a store into a RankingDataset
    checking   lists everything that is wrong with a store
    cache      stores of files that were read, found by the content of the files
"""

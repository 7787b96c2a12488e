"""Features of a data set that are not one array in memory.

matrix    FeatureMatrix: (D, F) features that are read by blocks of rows; functions for arrays and matrices
views     rows of an array or of another matrix, without a copy
stacked   arrays or matrices one below the other, such as the shards of a store
mapped    arrays in temporary files, for features that do not fit into memory
sparse    features of which most cells have one value, which are not stored (CSR)
segments  rows as segments of equal adjacent cells, the same for an array and for CSR
"""

from ltrbench.data.features.mapped import array_in_file, fits_on_disk, on_disk_remedy
from ltrbench.data.features.matrix import (
    AnyFeatures,
    CheckedFeatures,
    FeatureMatrix,
    arrays_of,
    as_array,
    gather_rows,
    is_mapped,
    read_rows,
    require_memory,
    row_blocks,
    row_parts,
    rows_of_block,
)
from ltrbench.data.features.segments import row_segments
from ltrbench.data.features.sparse import SparseRows, csr_of, is_sparse, joined_rows, rows_in_order
from ltrbench.data.features.stacked import StackedRows
from ltrbench.data.features.views import RowRanges, RowView, take_rows

__all__ = [
    "AnyFeatures",
    "CheckedFeatures",
    "FeatureMatrix",
    "RowRanges",
    "RowView",
    "SparseRows",
    "StackedRows",
    "array_in_file",
    "arrays_of",
    "as_array",
    "csr_of",
    "fits_on_disk",
    "gather_rows",
    "is_mapped",
    "is_sparse",
    "joined_rows",
    "on_disk_remedy",
    "read_rows",
    "require_memory",
    "row_blocks",
    "row_parts",
    "row_segments",
    "rows_in_order",
    "rows_of_block",
    "take_rows",
]

"""Shapes: the type aliases of all arrays in ltrbench, with their dimensions.

D documents, F features, Q queries, B bins. The documents of a query are adjacent rows: the rows of query q
are `query_start[q]:query_start[q + 1]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float32]  # (D, F), a missing value is NaN
Labels = NDArray[np.float64]  # (D,), graded relevance, higher is better, never negative
# (D,), higher is ranked earlier; in the dtype of the model's output.
Scores = NDArray[np.floating[Any]]
# Numbers in any shape, for example (n,); each use documents its shape.
Values = NDArray[np.float64]
# Row numbers, positions and the like in any shape, as documented at each use.
Indices = NDArray[np.int64]
# (D,), first derivative of the cost with respect to each score.
Gradients = NDArray[np.float64]
Hessians = NDArray[np.float64]  # (D,), second derivative of the cost, never negative
QueryStart = NDArray[np.int64]  # (Q + 1,), first row of each query, followed by D
# (Q,), one value per query; NaN if the metric is undefined for it.
PerQuery = NDArray[np.float64]

"""The one vocabulary of shapes: every array in ltrbench is one of these.

D documents, F features, Q queries, B bins. The documents of a query stand next to each other: query q owns
the rows `query_start[q]:query_start[q + 1]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float32]  # (D, F), a missing value is NaN
Labels = NDArray[np.float64]  # (D,), graded relevance, higher is better, never negative
Scores = NDArray[np.floating[Any]]  # (D,), higher is ranked earlier; of the dtype of whoever scored
Values = NDArray[np.float64]  # of the shape that its user states, such as (n,), a number for each item
Gradients = NDArray[np.float64]  # (D,), the derivative of the cost by each score
Hessians = NDArray[np.float64]  # (D,), the second derivative, never negative
QueryStart = NDArray[np.int64]  # (Q + 1,), the first row of each query, and D at the end
PerQuery = NDArray[np.float64]  # (Q,), one value a query; NaN where the metric is not defined

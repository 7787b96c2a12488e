"""By how much the scores of a model may differ by rounding, whatever the order in which an engine sums.

A score is a sum of n terms: the weighted leaf values, the initial score and an offset. With the unit
roundoff u (2^-24 for float32, 2^-53 for float64), a sum of n terms in any order has an error of at most

    gamma(n - 1) sum of |terms|,    gamma(k) = k u / (1 - k u)

(Higham, 2002, "Accuracy and Stability of Numerical Algorithms", 2nd edition, section 4.2, inequality (4.6)
in the form with gamma of lemma 3.1). A term itself is rounded at most three times: leaf value, weight and
their product. Subtraction of the offset rounds once more. The original and the engine each have this error.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ltrbench.rankers.models.scoring import flat, leaves_of
from ltrbench.rankers.models.trees import Ensemble
from ltrbench.shapes import Features
from ltrbench.shipping.model import Linear, ShippedModel

FORMULA = (
    "Scores differ by rounding if |difference| <= sum over the original and the engine of k u / (1 - k u) "
    "times the sum of |terms|, with k = number of terms + 3 and the unit roundoff u of the dtype of the sum."
)
SOURCE = "Higham (2002), Accuracy and Stability of Numerical Algorithms, 2nd edition, section 4.2, (4.6)"

_ROUNDINGS = 3 + 1 - 1
"""Of a term, and of the offset's subtraction; a sum of n terms has n - 1 additions."""


def score_dtype_of(model: ShippedModel) -> str:
    """Returns the dtype in which the original model sums."""
    return model.scorer.score_dtype if isinstance(model.scorer, Ensemble) else "float64"


def rounding_bounds(
    model: ShippedModel, features: Features, dtypes: Sequence[str], offset: float = 0.0
) -> NDArray[np.float64]:
    """Returns the (D,) largest differences by rounding between two scores of each document.

    Args:
        features: (D, F).
        dtypes: the dtypes in which the two scores are summed.
        offset: what one of them adds to all scores.
    """
    num_terms, magnitudes = _terms(model.scorer, features)
    bounds = np.zeros(len(features))
    for dtype in dtypes:
        steps = num_terms + _ROUNDINGS
        product = steps * float(np.finfo(dtype).eps) / 2
        # A product below the smallest normal number has an absolute error instead of a relative one.
        smallest = steps * float(np.finfo(dtype).smallest_subnormal)
        bounds += product / (1 - product) * (magnitudes + abs(offset)) + smallest
    return bounds


def _terms(scorer: Ensemble | Linear, features: Features) -> tuple[int, NDArray[np.float64]]:
    """Returns the number of terms with initial score and offset, and the (D,) sums of their magnitudes."""
    if isinstance(scorer, Linear):
        used = np.flatnonzero(scorer.weights)
        finite = np.nan_to_num(features[:, used].astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        return len(used) + 2, np.abs(finite) @ np.abs(scorer.weights[used])
    magnitudes = np.full(len(features), abs(scorer.base_score))
    for weighted in scorer.trees:
        tree = flat(weighted.root)
        values = np.abs(tree.value * weighted.weight)
        magnitudes += values[leaves_of(tree, features, scorer.comparison, scorer.threshold_dtype)]
    return len(scorer.trees) + 2, magnitudes

"""Probe rows on which the converted model has another score, by kind, with the first example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltrbench.shipping.certificate.comparison import difference_of
from ltrbench.shipping.certificate.probes import IN_WORDS, ProbeRows


@dataclass(frozen=True)
class ProbeExample:
    """A row with another score.

    Attributes:
        feature: name of the feature with the tested value.
        value: the tested value.
        original, converted: scores.
    """

    feature: str
    value: float
    original: float
    converted: float


@dataclass(frozen=True)
class KindOfProbe:
    """The rows of one kind.

    Attributes:
        tested: number of rows.
        differing: rows whose scores differ by more than rounding.
        example: the first of them; None if there is none.
    """

    tested: int
    differing: int
    example: ProbeExample | None = None

    def sentence(self, kind: str, engine: str) -> str:
        """Returns what differs, for messages; `example` must exist."""
        assert self.example is not None
        example = self.example
        return (
            f"{IN_WORDS.get(kind, kind)} has another score in {self.differing} of {self.tested} test rows, "
            f"such as {example.feature} = {example.value!r}: {example.original!r} in the original and "
            f"{example.converted!r} in {engine}"
        )


def compare_probes(
    probes: ProbeRows,
    feature_names: tuple[str, ...],
    original: NDArray[np.float64],
    converted: NDArray[np.float64],
    bounds: NDArray[np.float64],
) -> Mapping[str, KindOfProbe]:
    """Returns kind -> its rows; kinds in the order of the rows.

    Args:
        original, converted: (N,) scores, the converted ones without their offset.
        bounds: (N,) rounding bounds.
    """
    differs = difference_of(original, converted) > bounds
    kinds: dict[str, KindOfProbe] = {}
    for kind in dict.fromkeys(probes.kinds.tolist()):
        of_kind = probes.kinds == kind
        rows = np.flatnonzero(of_kind & differs)
        example = None
        if rows.size:
            row = int(rows[0])
            example = ProbeExample(
                feature=feature_names[int(probes.changed[row])],
                value=float(probes.values[row]),
                original=float(original[row]),
                converted=float(converted[row]),
            )
        kinds[kind] = KindOfProbe(int(of_kind.sum()), len(rows), example)
    return kinds

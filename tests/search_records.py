"""Records of searches, for tests of runs that a search chose."""

from __future__ import annotations

from typing import Any


def search_record(**changes: Any) -> dict[str, Any]:
    """Returns a `RunResult.search` with every field; the search chose the second of three trials."""
    return {
        "name": "random",
        "seed": 0,
        "metric": "ndcg@10",
        "choose": "per_fold",
        "budget": {"trials": 3},
        "space": {"l2": "0 to 100"},
        "trials": 3,
        "failed": 0,
        "iterations": 40,
        "seconds": 2.5,
        "chosen": 1,
        "settings": {"l2": 0.5},
        "default": {"l2": 0.0},
        "importance": {},
        **changes,
    }

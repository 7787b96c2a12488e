"""Macros of the page on shipping, from the declarations of the targets."""

from __future__ import annotations

from docs.macros.tables import table
from ltrbench.shipping.targets.elasticsearch import ElasticsearchTarget
from ltrbench.shipping.targets.opensearch import OpenSearchTarget

_MEANINGS = {
    "zero": "it is 0",
    "right": "it goes right in every split",
    "missing": "it is a missing value",
}


def absent_features() -> str:
    """Returns a table of what trees do with an absent feature, with one row per range of versions."""
    rows = []
    for target in (ElasticsearchTarget, OpenSearchTarget):
        firsts = [".".join(map(str, first)) for first in target.absent_since]
        meanings = list(target.absent_since.values())
        for number, meaning in enumerate(meanings):
            if number == len(firsts) - 1:
                versions = f"{firsts[number]} and newer"
            elif number == 0:
                versions = f"before {firsts[1]}"
            else:
                versions = f"from {firsts[number]}, before {firsts[number + 1]}"
            rows.append([target.engine_name, versions, _MEANINGS[meaning]])
    return table(["engine", "versions", "an absent feature in trees"], rows)

"""Elasticsearch with the Learning to Rank plug-in of o19s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ltrbench.shipping.plugins import AbsentFeatures, LearningToRankPlugin, rules_of_forms
from ltrbench.shipping.target import Rule

_FILES = "o19s/elasticsearch-learning-to-rank, src/main/java/com/o19s/es/ltr/"
_VECTOR = f"{_FILES}ranker/DenseFeatureVector.java, commit b163434853fcf87f3c88d5d8d0807876a6d8070b"
_SOURCES = {
    "upload": f"{_FILES}rest/RestCreateModelFromSet.java, commit e167d1c9baff9f945acc582541937a2a82b428e5, "
    f"and {_FILES}feature/store/StoredLtrModel.java, commit 9d3682782b780886f1fecb4ffa7d8cb6f00d8d3c",
    "parser": f"{_FILES}ranker/parser/XGBoostJsonParser.java, commit "
    "9d3682782b780886f1fecb4ffa7d8cb6f00d8d3c",
    "trees": f"{_FILES}ranker/dectree/NaiveAdditiveDecisionTree.java, commit "
    "a3c8a49c2f10c3abf14c2b7f2adb9e6ed86a59a7",
    "ranklib": f"{_FILES}ranker/ranklib/RanklibModelParser.java, commit "
    f"2ef152d53d1cbb0ae3c2ce35d7e97ed26a26edfe, and {_FILES}ranker/ranklib/RanklibRanker.java, commit "
    "ce9d18211affbc3e90eb75f025139ddc6158f36a",
    "dense ranklib": f"{_FILES}ranker/ranklib/DenseProgramaticDataPoint.java, commit "
    "b163434853fcf87f3c88d5d8d0807876a6d8070b",
    "linear parser": f"{_FILES}ranker/parser/LinearRankerParser.java, commit "
    "2ef152d53d1cbb0ae3c2ce35d7e97ed26a26edfe",
    "linear": f"{_FILES}ranker/linear/LinearRanker.java, commit 4784e3ecd73269b00f28693e064c60ef91cf0490, "
    f"and {_VECTOR}",
}
_ABSENT = (
    Rule(
        "From plug-in 1.5.9 on, for Elasticsearch 8.11.4, a feature whose query does not match the "
        "document is NaN, which goes left if missing is yes, otherwise right.",
        f"{_FILES}ranker/SparseFeatureVector.java, commit da938c10bf9c45261fada123d4024c59a0f5d981, "
        "pull requests 480 and 482; the evaluator in the fork cdmbr/elasticsearch-learning-to-rank, "
        "ranker/dectree/NaiveAdditiveDecisionTree.java, commit 7f6f8b0a21a674e60b006b8bf2579d5d563421fe",
    ),
    Rule(
        "Before, such a feature is 0, and missing is ignored.",
        f"{_FILES}query/RankerQuery.java, commit f7c77e6af14a240a4d4645e33a27910687af842b, and {_VECTOR}",
    ),
)


@dataclass
class ElasticsearchTarget(LearningToRankPlugin):
    """Elasticsearch with the Learning to Rank plug-in.

    An absent feature is missing from plug-in 1.5.9 on, whose first release is for Elasticsearch 8.11.4, and 0
    in older versions.
    """

    version: str = "9.0"

    name = "elasticsearch"
    verified_against = (
        "the classes of the o19s plug-in (head of 2026, tag v1.5.8-es7.17.8) and RankyMcRankFace, run with "
        "OpenJDK 17 on 2026-11-23, missing values with the head only. Linear models: sources read, not run"
    )
    engine_name = "Elasticsearch"
    address = "ELASTICSEARCH"
    absent_since: ClassVar[Mapping[tuple[int, int], AbsentFeatures]] = {(0, 0): "zero", (8, 11): "missing"}
    rules_of_forms = rules_of_forms(_SOURCES, _ABSENT)

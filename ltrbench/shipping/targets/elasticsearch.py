"""Elasticsearch with the Learning to Rank plug-in of o19s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ltrbench.shipping.simulators.plugins import RANKLIB_FORM_RULES, AbsentFeatures, LearningToRankPlugin
from ltrbench.shipping.target import Rule

_FILES = "o19s/elasticsearch-learning-to-rank, src/main/java/com/o19s/es/ltr/"
_DENSE = Rule(
    "A feature whose query does not match the document is 0.",
    f"{_FILES}query/RankerQuery.java, commit f7c77e6af14a240a4d4645e33a27910687af842b, and "
    f"{_FILES}ranker/DenseFeatureVector.java, commit b163434853fcf87f3c88d5d8d0807876a6d8070b",
)
_UPLOAD = Rule(
    "The upload is an object with the model's name, type and definition; the definition may be a text.",
    f"{_FILES}rest/RestCreateModelFromSet.java, commit e167d1c9baff9f945acc582541937a2a82b428e5, and "
    f"{_FILES}feature/store/StoredLtrModel.java, commit 9d3682782b780886f1fecb4ffa7d8cb6f00d8d3c",
)
_PARSER = f"{_FILES}ranker/parser/XGBoostJsonParser.java, commit 9d3682782b780886f1fecb4ffa7d8cb6f00d8d3c"
_TREES = (
    f"{_FILES}ranker/dectree/NaiveAdditiveDecisionTree.java, commit a3c8a49c2f10c3abf14c2b7f2adb9e6ed86a59a7"
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
    objectives = ("binary:logitraw", "rank:pairwise", "reg:linear")
    rules_of_forms: ClassVar[Mapping[str, tuple[Rule, ...]]] = {
        "xgboost": (
            _UPLOAD,
            Rule("A model is a list of trees, or an object with objective and splits.", _PARSER),
            Rule("Thresholds and leaf values are float32; a field that is not known is refused.", _PARSER),
            Rule("A base score is not read.", _PARSER),
            Rule("A value goes left if the threshold is above it, in float32.", _TREES),
            Rule("The score is a float32 sum of the leaf values, in the order of the trees.", _TREES),
            Rule(
                "From plug-in 1.5.9 on, for Elasticsearch 8.11.4, a feature whose query does not match the "
                "document is NaN, which goes left if missing is yes, otherwise right.",
                f"{_FILES}ranker/SparseFeatureVector.java, commit da938c10bf9c45261fada123d4024c59a0f5d981, "
                "pull requests 480 and 482; the evaluator in the fork cdmbr/elasticsearch-learning-to-rank, "
                "ranker/dectree/NaiveAdditiveDecisionTree.java, commit "
                "7f6f8b0a21a674e60b006b8bf2579d5d563421fe",
            ),
            Rule("Before, such a feature is 0, and missing is ignored.", _DENSE.source),
        ),
        "ranklib": (
            _UPLOAD,
            *RANKLIB_FORM_RULES,
            Rule(
                "The definition is a text. Features are numbered from 1 in the order of the feature set.",
                f"{_FILES}ranker/ranklib/RanklibModelParser.java, "
                "commit 2ef152d53d1cbb0ae3c2ce35d7e97ed26a26edfe, and "
                f"{_FILES}ranker/ranklib/RanklibRanker.java, commit ce9d18211affbc3e90eb75f025139ddc6158f36a",
            ),
            Rule(
                "A feature whose query does not match the document is 0 in all versions; NaN is 0 too.",
                f"{_FILES}ranker/ranklib/DenseProgramaticDataPoint.java, "
                "commit b163434853fcf87f3c88d5d8d0807876a6d8070b",
            ),
        ),
        "linear": (
            _UPLOAD,
            Rule(
                "Weights are float32; a feature without a weight has weight 0.",
                f"{_FILES}ranker/parser/LinearRankerParser.java, "
                "commit 2ef152d53d1cbb0ae3c2ce35d7e97ed26a26edfe",
            ),
            Rule(
                "The score is a float32 sum of weights times features, in the order of the feature set.",
                f"{_FILES}ranker/linear/LinearRanker.java, commit 4784e3ecd73269b00f28693e064c60ef91cf0490",
            ),
            _DENSE,
        ),
    }

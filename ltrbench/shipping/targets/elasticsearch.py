"""Elasticsearch with the Learning to Rank plug-in of o19s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from ltrbench.shipping.learning_to_rank_plugins import LearningToRankPlugin
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
    """Elasticsearch with the Learning to Rank plug-in; an absent feature counts as 0."""

    name = "elasticsearch"
    engine_name = "Elasticsearch"
    address = "ELASTICSEARCH"
    objectives = ("binary:logitraw", "rank:pairwise", "reg:linear")
    rules_of_forms: ClassVar[Mapping[str, tuple[Rule, ...]]] = {
        "xgboost": (
            _UPLOAD,
            Rule("A model is a list of trees, or an object with objective and splits.", _PARSER),
            Rule("Thresholds and leaf values are float32; a field that is not known is refused.", _PARSER),
            Rule("A base score is not read, and neither is the direction of missing values.", _PARSER),
            Rule("A value goes left if the threshold is above it, in float32.", _TREES),
            Rule("The score is a float32 sum of the leaf values, in the order of the trees.", _TREES),
            _DENSE,
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

    @property
    def absent_features(self) -> Literal["zero", "right", "missing"]:
        return "zero"

    def sentence_on_missing(self) -> str:
        return (
            "Elasticsearch counts an absent feature as 0, but the model sends missing values elsewhere. "
            "Train with 0 for missing values, or ship the model to OpenSearch 3.8 or newer."
        )

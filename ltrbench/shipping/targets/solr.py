"""Apache Solr with its Learning to Rank module."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ltrbench.errors import ConfigError
from ltrbench.rankers.models.formats.java.solr import lossy_features, write_solr_linear, write_solr_trees
from ltrbench.shipping.certificate.limits import limits_with_missing_as_zero
from ltrbench.shipping.model import Linear, ShippedModel
from ltrbench.shipping.requests.solr import ID_PREFIX, solr_requests
from ltrbench.shipping.simulators.solr import parse_solr
from ltrbench.shipping.target import MISSING_VALUES, CheckRequests, CheckRows, Engine, Export, Target

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_MOST_ZOOKEEPER_BYTES = 2**20


@dataclass
class SolrTarget(Target):
    """Apache Solr with its Learning to Rank module, which is named `ltr` in Solr.

    Attributes:
        collection: collection whose results are ranked.
        store: feature store of the model; empty: the default one.
    """

    collection: str = "COLLECTION"
    store: str = ""

    name = "solr"

    def __post_init__(self) -> None:
        for field, value in (("collection", self.collection), ("store", self.store or "x")):
            if not _NAME.fullmatch(value):
                raise ConfigError(f"{field} is '{value}'; use letters, digits, '_', '.' and '-' only.")

    def export(self, model: ShippedModel) -> Export:
        _check_names(model)
        lossy: list[str] = []
        if isinstance(model.scorer, Linear):
            weights = model.scorer.weights
            content = write_solr_linear(weights, model.name, model.feature_names, self.store)
            limits = {MISSING_VALUES: "A missing value is 0 in Solr, but has no score in a linear model."}
        else:
            content = write_solr_trees(model.scorer, model.name, model.feature_names, self.store)
            limits = limits_with_missing_as_zero(model.scorer, "Solr")
            lossy = [model.feature_names[feature] for feature in lossy_features(model.scorer)]
        features = json.loads(content)["features"]
        store = [self._example(feature["name"]) for feature in features]
        return Export(
            {
                "model.json": content,
                "features.json": (json.dumps(store, ensure_ascii=False, indent=1) + "\n").encode(),
            },
            request="\n".join(
                (self._curl("feature-store", "features.json"), self._curl("model-store", "model.json"))
            ),
            notes=(
                *_notes(content, features, model),
                *_notes_on_lossy(lossy),
                self._note_on_query(model.name),
            ),
            limits=limits,
        )

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        parsed = parse_solr(export.files["model.json"], export.files["features.json"], model.feature_names)
        return Engine(parsed.scores, "Apache Solr", rules=parsed.rules, score_dtype="float32")

    def check_requests(self, model: ShippedModel, export: Export, rows: CheckRows) -> CheckRequests:
        return solr_requests(model, export.files["model.json"], rows, self.collection)

    def answered_scores(self, answers: Any) -> Mapping[str, float]:
        """Returns document id -> score of a query with fl=id,score, or of an object."""
        if isinstance(answers, dict) and isinstance(answers.get("response"), dict):
            documents = answers["response"].get("docs")
            if not isinstance(documents, list) or not all(map(_has_score, documents)):
                raise ValueError("expected response.docs with id and score of each document; use fl=id,score")
            answers = {
                str(document["id"]).removeprefix(ID_PREFIX): document["score"] for document in documents
            }
        return super().answered_scores(answers)

    def _example(self, name: str) -> dict[str, Any]:
        # Solr refuses an empty query, so that a feature that was forgotten cannot go unnoticed.
        feature = {"name": name, "class": "org.apache.solr.ltr.feature.SolrFeature", "params": {"q": ""}}
        return feature | ({"store": self.store} if self.store else {})

    def _curl(self, store: str, file: str) -> str:
        url = f"$SOLR/solr/{self.collection}/schema/{store}"
        return (
            f"curl --fail-with-body -X PUT \"{url}\" -H 'Content-Type: application/json' "
            f"--data-binary @{file}"
        )

    def _note_on_query(self, name: str) -> str:
        return (
            f"Rank the first 100 results with the parameters rq={{!ltr model={name} reRankDocs=100}} and "
            "fl=id,score."
        )


def _check_names(model: ShippedModel) -> None:
    names = model.feature_names
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(
            f"the feature name '{twice}' is given twice, but names in Solr's feature store must be unique. "
            "Rename one of the features."
        )
    if not _NAME.fullmatch(model.name):
        raise ConfigError(
            f"the model's name is '{model.name}', but it becomes part of a query. Use letters, digits, '_', "
            "'.' and '-' only."
        )


def _notes(content: bytes, features: list[dict[str, Any]], model: ShippedModel) -> list[str]:
    notes = [
        "features.json is an example: write the query of each feature, or another class of feature, before "
        "the upload. A feature without a value is 0.",
        "A model cannot be replaced: delete it first, or export it under another name.",
    ]
    unused = model.num_features - len(features)
    if unused:
        notes.append(
            f"{unused} of {model.num_features} features are not listed, because no score needs them."
        )
    normalized = [feature["name"] for feature in features if "norm" in feature]
    if normalized:
        notes.append(
            "Solr adds 1e-6 to thresholds, in which some small ones would be lost, so the model scales "
            f"{len(normalized)} features by a power of two (norm): {', '.join(normalized[:5])}"
            f"{', ...' if len(normalized) > 5 else '.'} The features themselves stay as they are."
        )
    if len(content) > _MOST_ZOOKEEPER_BYTES:
        notes.append(
            f"The model has {len(content):,} bytes. SolrCloud stores it in ZooKeeper, where the limit is 1 "
            "MB by default: raise jute.maxbuffer, or use org.apache.solr.ltr.model.DefaultWrapperModel."
        )
    return notes


def _notes_on_lossy(names: list[str]) -> list[str]:
    if not names:
        return []
    return [
        f"Thresholds of {', '.join(names[:5])} range over too many orders of magnitude to be written "
        "exactly: the smallest ones are the closest numbers that Solr can have."
    ]


def _has_score(document: Any) -> bool:
    return isinstance(document, dict) and "id" in document and type(document.get("score")) in (int, float)

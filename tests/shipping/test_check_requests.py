"""Rows with expected scores as requests: an engine that follows them computes the expected scores."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ensemble_cases import random_ensemble
from shipped_models import scores_of

from ltrbench.rankers import Ensemble
from ltrbench.shapes import Features
from ltrbench.shipping.target import (
    CheckRequests,
    CheckRows,
    Export,
    Linear,
    ShippedModel,
    Target,
)
from ltrbench.shipping.targets.elasticsearch import ElasticsearchTarget
from ltrbench.shipping.targets.opensearch import OpenSearchTarget
from ltrbench.shipping.targets.ranklib import RankLibTarget
from ltrbench.shipping.targets.solr import ID_PREFIX, SolrTarget
from ltrbench.shipping.targets.vespa import VespaTarget

NAMES = ("a.b", 'c "d" ü', "ltrbench_1_positive")
LARGEST = float(np.finfo(np.float32).max)
VALUES = np.array(
    [
        [0.1, -0.2, 3.0],
        [np.nan, 1e-45, -LARGEST],
        [LARGEST, np.nan, np.nan],
        [-0.0, -1e-45, 0.0],
        [2.0**24 + 2, 1 / 3, -1 / 3],
        [0.5, np.inf, 0.0],
    ],
    dtype=np.float32,
)
IDS = tuple(f"q1-d{row + 1}" for row in range(len(VALUES)))
ROWS = CheckRows(IDS, VALUES, (0, 1, 2), np.ones(len(VALUES)))
FINITE, INFINITE = ROWS.ids[:-1], ROWS.ids[-1]

PLUGINS: tuple[ElasticsearchTarget, ...] = (
    ElasticsearchTarget(),
    OpenSearchTarget(),
    OpenSearchTarget(version="3.5"),
    ElasticsearchTarget(version="8.9"),
    ElasticsearchTarget(form="ranklib"),
    OpenSearchTarget(form="ranklib"),
)
every_plugin = pytest.mark.parametrize(
    "target", PLUGINS, ids=["es", "os", "os 3.5", "es 8.9", "es ranklib", "os ranklib"]
)


def shipped(scorer: Ensemble | Linear | None = None) -> ShippedModel:
    return ShippedModel("Shop", NAMES, scorer or random_ensemble(20, "<", "float32"))


def requested(
    target: Target, model: ShippedModel, rows: CheckRows = ROWS
) -> CheckRequests:
    requests = target.check_requests(model, target.export(model), rows)
    assert requests is not None
    for name, content in requests.files.items():
        if name.endswith(".json"):
            json.loads(content, parse_constant=pytest.fail)
    return requests


# Elasticsearch and OpenSearch


def documents_of(requests: CheckRequests) -> dict[str, dict[str, float]]:
    lines = requests.files["check_documents.ndjson"].decode().splitlines()
    actions = [json.loads(line) for line in lines[::2]]
    assert all(list(action) == ["index"] for action in actions)
    documents = [json.loads(line) for line in lines[1::2]]
    return {
        action["index"]["_id"]: document
        for action, document in zip(actions, documents, strict=True)
    }


def feature_score(
    feature: Mapping[str, Any],
    document: Mapping[str, float],
    before: Mapping[str, float],
) -> float:
    """The score of a feature as the plug-in computes it; NaN if the query does not match."""
    if feature["template_language"] == "derived_expression":
        first, second = feature["template"].split(" - ")
        assert all(name.isidentifier() for name in (first, second))
        return float(np.float32(before[first] - before[second]))
    query = feature["template"]["function_score"]
    field = query["query"]["exists"]["field"]
    assert query["field_value_factor"] == {"field": field}
    assert query["boost_mode"] == "replace"
    if field not in document:
        return float("nan")
    stored = float(np.float32(document[field]))
    assert stored == document[field]  # the field is float32
    assert stored >= 0  # queries must not have negative scores
    return stored


def features_of(requests: CheckRequests) -> tuple[list[str], Features]:
    """The names in the feature set, and the scores of the features for each document."""
    record = json.loads(requests.files["check_featureset.json"])["featureset"]
    assert len({feature["name"] for feature in record["features"]}) == len(
        record["features"]
    )
    rows = []
    for document in documents_of(requests).values():
        scores: dict[str, float] = {}
        for feature in record["features"]:
            assert feature["params"] == []
            scores[feature["name"]] = feature_score(feature, document, scores)
        rows.append(list(scores.values()))
    return [feature["name"] for feature in record["features"]], np.array(
        rows, dtype=np.float32
    )


@every_plugin
def test_features_of_the_documents_are_those_of_the_rows_and_the_uploaded_model_has_the_expected_scores(
    target: ElasticsearchTarget,
) -> None:
    model = shipped()
    requests = requested(target, model)
    names, features = features_of(requests)
    assert tuple(documents_of(requests)) == FINITE
    assert "infinite" in requests.left_out[INFINITE]
    assert tuple(names[-3:]) == NAMES
    np.testing.assert_array_equal(features[:, -3:], VALUES[:-1])
    upload = json.loads(requests.files["check_upload.json"])["model"]
    assert upload["name"] == "Shop_check"
    definition = upload["model"]["definition"]
    indices = {name: index for index, name in enumerate(names)}
    arithmetic, trees = target.read(target.form or "xgboost", definition, indices)
    scores = arithmetic.scores(trees, features)
    np.testing.assert_array_equal(scores, scores_of(target, model, VALUES[:-1]))
    if target.form != "ranklib":
        exported = json.loads(target.export(model).files["upload.json"])["model"][
            "model"
        ]
        assert upload["model"] == exported


def test_the_index_has_every_field_as_float32_and_the_search_asks_for_every_row() -> (
    None
):
    requests = requested(ElasticsearchTarget(), shipped())
    index = json.loads(requests.files["check_index.json"])
    fields = index["mappings"]["properties"]
    assert all(field == {"type": "float"} for field in fields.values())
    assert {
        name for document in documents_of(requests).values() for name in document
    } == set(fields)
    assert index["settings"]["index.mapping.total_fields.limit"] > len(fields)
    search = json.loads(requests.files["check_search.json"])
    condition = search["query"]["bool"]
    assert condition["filter"] == [{"ids": {"values": list(FINITE)}}]
    assert condition["must"] == [{"sltr": {"model": "Shop_check", "params": {}}}]
    assert search["size"] == len(FINITE)


def test_a_row_with_a_negative_score_is_left_out() -> None:
    rows = replace(ROWS, scores=np.array([1.0, -0.5, 0.0, 2.0, 3.0, 1.0]))
    requests = requested(OpenSearchTarget(), shipped(Linear(np.ones(3))), rows)
    assert "negative score" in requests.left_out["q1-d2"]
    assert list(documents_of(requests)) == [name for name in FINITE if name != "q1-d2"]


# Solr


def test_documents_of_solr_have_the_features_and_scores_of_the_rows() -> None:
    trees = random_ensemble(20, "<", "float32")
    for scorer, target in (
        (trees, SolrTarget()),
        (trees, SolrTarget(absent="missing")),
        (Linear(np.array([0.1, -2.0, 1e-3])), SolrTarget()),
    ):
        model = shipped(scorer)
        requests = requested(target, model)
        assert "infinite" in requests.left_out[INFINITE]
        documents = json.loads(requests.files["check_documents.json"])
        assert [document.pop("id") for document in documents] == [
            f"{ID_PREFIX}{name}" for name in FINITE
        ]
        store = json.loads(requests.files["check_features.json"])
        field_of = {feature["name"]: feature["params"]["field"] for feature in store}
        assert list(field_of) == [
            feature["name"]
            for feature in json.loads(target.export(model).files["model.json"])[
                "features"
            ]
        ]
        features = np.full((len(documents), 3), np.nan, dtype=np.float32)
        for row, document in enumerate(documents):
            for index, name in enumerate(NAMES):
                if field_of.get(name) in document:
                    features[row, index] = document.pop(field_of[name])
            assert document == {}
        used = [index for index, name in enumerate(NAMES) if name in field_of]
        np.testing.assert_array_equal(features[:, used], VALUES[:-1, used])
        export = Export({"model.json": requests.files["check_model.json"]}, "")
        expected = scores_of(target, model, VALUES[:-1])
        np.testing.assert_array_equal(
            target.engine(model, export).scores(features), expected
        )


# Vespa


def answer_of_vespa(
    requests: CheckRequests, model: ShippedModel, form: Any
) -> dict[str, Any]:
    """The response of the query: the deployed rank profile, in the simulator, on the fed documents."""
    schema = requests.files["check_schema.sd"].decode()
    fields = re.findall(r"field (f\d+) type float", schema)
    documents = [
        json.loads(line)
        for line in requests.files["check_documents.jsonl"].splitlines()
    ]
    places = {f"attribute({name})": index for index, name in enumerate(fields)}
    features = np.full((len(documents), len(fields)), np.nan, dtype=np.float32)
    for row, document in enumerate(documents):
        for name, value in document["fields"].items():
            features[row, fields.index(name)] = value
    names = json.dumps({name: name for name in places}).encode()
    files = {"Shop_check.profile": schema.encode(), "features.json": names}
    if form != "expression":
        files["Shop_check.json"] = requests.files["Shop_check.json"]
    copied = replace(model, name="Shop_check", feature_names=tuple(places))
    scores = VespaTarget(form=form).engine(copied, Export(files, "")).scores(features)
    hits = [
        {"id": document["put"], "relevance": score}
        for document, score in zip(documents, scores.tolist(), strict=True)
        if math.isfinite(score)
    ]
    return {"root": {"children": hits}}


@pytest.mark.parametrize("form", ["lightgbm", "xgboost", "expression"])
def test_the_application_of_vespa_has_the_features_and_scores_of_the_rows(
    form: Any,
) -> None:
    model = shipped(
        Linear(np.array([0.1, -2.0, 0.5])) if form == "expression" else None
    )
    target = VespaTarget(form=form, phase="second", schema="shop")
    requests = requested(target, model)
    scores = target.answered_scores(answer_of_vespa(requests, model, form))
    expected = dict(
        zip(FINITE, scores_of(target, model, VALUES[:-1]).tolist(), strict=True)
    )
    assert scores == {
        name: score for name, score in expected.items() if math.isfinite(score)
    }
    assert set(requests.left_out) == {INFINITE}
    assert "first-phase" in requests.files["check_schema.sd"].decode()


# RankLib


def test_lines_of_ranklib_have_the_values_of_the_rows() -> None:
    rows = replace(
        ROWS, features=np.where(np.arange(6)[:, None] == 3, np.float32(np.nan), VALUES)
    )
    requests = requested(RankLibTarget(), shipped(), rows)
    lines = requests.files["check_rows.txt"].decode("ascii").splitlines()
    parsed = {}
    for line in lines:
        label, qid, *pairs = line.split(" ")
        assert label == "0"
        numbers = dict(pair.split(":") for pair in pairs)
        parsed[qid.removeprefix("qid:")] = [
            np.float32(numbers.get(str(n), "nan")) for n in (1, 2, 3)
        ]
    assert list(requests.left_out) == [ROWS.ids[3]]  # without any value
    assert list(parsed) == [name for name in ROWS.ids if name != ROWS.ids[3]]
    np.testing.assert_array_equal(list(parsed.values()), np.delete(VALUES, 3, axis=0))

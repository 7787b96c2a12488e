"""The simulators have the scores that the engines' own code gave for shipped files, to the last bit."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from golden_files import golden_file, golden_names

from ltrbench.models.files import read_ranklib_xml
from ltrbench.models.lightgbm_files import read_lightgbm_json
from ltrbench.models.xgboost_files import read_xgboost_dump
from ltrbench.shapes import Features
from ltrbench.shipping.target import RANKLIB_ARITHMETIC, build_target
from ltrbench.shipping.targets.elasticsearch import ElasticsearchTarget
from ltrbench.shipping.targets.solr import read_solr
from ltrbench.shipping.targets.vespa import COMPILED, FAST_FOREST, VM_FOREST, WAYS

FOLDER, SCORES = "engines", ".scores.npz"
WAYS_OF_VESPA = {"tree": COMPILED, "ff": FAST_FOREST, "vm": VM_FOREST}

_NAME = re.compile(
    r"(?P<model>\w+-\w+)-(?P<target>[a-z]+)(_(?P<option>form|version|absent|fast_forest)_(?P<value>.+))?"
)

Scores = Callable[[Features], np.ndarray]


def shipped(stem: str, suffix: str = "") -> bytes:
    """The content of a shipped file of an engine; without a suffix, the model."""
    names = golden_names(FOLDER, f"{stem}.*{suffix}.gz")
    (name,) = (
        name for name in names if suffix or not name.endswith("features.json.gz")
    )
    return gzip.decompress(golden_file(f"{FOLDER}/{name}").read_bytes())


def vespa_names(model: str) -> dict[str, str]:
    names: dict[str, str] = json.loads(shipped(f"{model}-vespa", "features.json"))
    return names


def simulated(
    target: str, option: dict[str, Any], content: bytes, names: dict[str, str]
) -> dict[str, Scores]:
    """What was scored -> the function that simulates it."""
    if target == "vespa":
        read = (
            read_xgboost_dump
            if content.lstrip().startswith(b"[")
            else read_lightgbm_json
        )
        trees = read(
            content, {name: place for place, name in enumerate(names.values())}
        )
        return {
            key: partial(WAYS[way].scores, trees) for key, way in WAYS_OF_VESPA.items()
        }
    places = {name: place for place, name in enumerate(names)}
    if target == "solr":
        of_solr, model = read_solr(json.loads(content), places)
        return {"real": partial(of_solr.scores, model)}
    if target == "ranklib":
        return {
            "real": partial(RANKLIB_ARITHMETIC.scores, read_ranklib_xml(content).trees)
        }
    plugin = build_target(target, option)
    assert isinstance(plugin, ElasticsearchTarget)
    of_plugin, model = plugin.read(plugin.form or "xgboost", content.decode(), places)

    def scores(features: Features) -> np.ndarray:
        # Trees of old versions have no missing values, which went to the code all the same.
        values = of_plugin.scores(model, features)
        has_none = plugin.form is None and plugin.absent_features != "missing"
        return np.where(
            has_none & np.isnan(features).any(axis=1), np.float32(np.nan), values
        )

    return {"real": scores}


@pytest.mark.parametrize("file", golden_names(FOLDER, f"*{SCORES}"))
def test_a_simulator_has_the_scores_of_the_engines_own_code(file: str) -> None:
    expected = np.load(golden_file(f"{FOLDER}/{file}"))
    stem = file.removesuffix(SCORES)
    name = _NAME.fullmatch(stem)
    assert name is not None
    features = np.load(golden_file(f"{FOLDER}/{name['model']}.rows.npz"))["features"]
    content, names = shipped(stem), vespa_names(name["model"])
    option = (
        {name["option"]: name["value"]}
        if name["option"] and name["target"] != "vespa"
        else {}
    )
    functions = simulated(name["target"], option, content, names)
    assert set(functions) == set(expected)
    for key, function in functions.items():
        computed, real = function(features), expected[key]
        assert computed.dtype == real.dtype
        if key == "ff":  # two sums of float64 that take turns, which are one here
            np.testing.assert_allclose(computed, real, rtol=1e-12, atol=1e-12)
            continue
        bits, rows = f"u{computed.itemsize}", ~np.isnan(computed)
        assert (rows | np.isnan(features).any(axis=1)).all()
        np.testing.assert_array_equal(computed[rows].view(bits), real[rows].view(bits))

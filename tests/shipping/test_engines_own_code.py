"""The simulators have the scores that the engines' own code gave for shipped files, to the last bit."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from golden_files import golden_file, golden_names

from ltrbench.shapes import Features
from ltrbench.shipping.shipment import build_target
from ltrbench.shipping.simulators.plugins import LearningToRankPlugin, parse_forest
from ltrbench.shipping.simulators.ranklib import parse_ranklib
from ltrbench.shipping.simulators.solr import parse_solr
from ltrbench.shipping.simulators.vespa import (
    COMPILED,
    FAST_FOREST,
    VM_FOREST,
    import_lightgbm,
    import_xgboost,
    vespa_forest,
)

FOLDER, SCORES = "engines", ".scores.npz"
WAYS_OF_VESPA = {"tree": COMPILED, "ff": FAST_FOREST, "vm": VM_FOREST}

_NAME = re.compile(
    r"(?P<model>\w+-\w+)-(?P<target>[a-z]+)(_(?P<option>form|version|absent|fast_forest)_(?P<value>.+))?"
)

Scores = Callable[[Features], np.ndarray]


def shipped(stem: str, suffix: str = "") -> bytes:
    """The content of a shipped file of an engine; without a suffix, the model."""
    names = golden_names(FOLDER, f"{stem}.*{suffix}.gz")
    (name,) = (name for name in names if suffix or not name.endswith("features.json.gz"))
    return gzip.decompress(golden_file(f"{FOLDER}/{name}").read_bytes())


def vespa_names(model: str) -> dict[str, str]:
    names: dict[str, str] = json.loads(shipped(f"{model}-vespa", "features.json"))
    return names


def of_vespa(content: bytes, names: dict[str, str]) -> dict[str, Scores]:
    places = {name: place for place, name in enumerate(names.values())}
    read = import_xgboost if content.lstrip().startswith(b"[") else import_lightgbm
    forest = vespa_forest(read(content, places))
    return {key: replace(forest, way=way).scores for key, way in WAYS_OF_VESPA.items()}


def of_plugin(target: LearningToRankPlugin, content: bytes, names: list[str]) -> Scores:
    if target.form == "ranklib":
        return parse_ranklib(content).scores
    return parse_forest(content.decode(), names, target.objectives, target.absent_features).scores


def of_solr(content: bytes, names: list[str]) -> Scores:
    store = [{"name": name} for name in names]
    return parse_solr(content, json.dumps(store).encode(), names).scores


@pytest.mark.parametrize("file", golden_names(FOLDER, f"*{SCORES}"))
def test_a_simulator_has_the_scores_of_the_engines_own_code(file: str) -> None:
    expected = np.load(golden_file(f"{FOLDER}/{file}"))
    stem = file.removesuffix(SCORES)
    name = _NAME.fullmatch(stem)
    assert name is not None
    features = np.load(golden_file(f"{FOLDER}/{name['model']}.rows.npz"))["features"]
    content, names = shipped(stem), vespa_names(name["model"])
    rows = np.ones(len(features), dtype=np.bool_)
    if name["target"] == "vespa":
        simulated = of_vespa(content, names)
    elif name["target"] == "ranklib":
        simulated = {"real": parse_ranklib(content).scores}
    elif name["target"] == "solr":
        simulated = {"real": of_solr(content, [*names])}
    else:
        target = build_target(name["target"], {name["option"]: name["value"]} if name["option"] else {})
        assert isinstance(target, LearningToRankPlugin)
        simulated = {"real": of_plugin(target, content, [*names])}
        if target.form is None and target.absent_features != "missing":
            # These versions have no missing values, which went to the code all the same.
            rows = ~np.isnan(features).any(axis=1)
    assert set(simulated) == set(expected)
    for key, scores in simulated.items():
        computed = scores(features)
        assert computed.dtype == expected[key].dtype
        bits = f"u{computed.itemsize}"
        np.testing.assert_array_equal(computed[rows].view(bits), expected[key][rows].view(bits))

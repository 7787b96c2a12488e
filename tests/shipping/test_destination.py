"""`target=` refuses before training what the target refuses afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from messages import naming
from shipped_models import every_target, every_target_and_version, target_of
from test_every_backend_and_target import BACKENDS, DATA, data_of, fitted
from test_shipped_categories import log
from toy_runs import mentions

from ltrbench.errors import ConfigError
from ltrbench.rankers.catboost import CatBoostRanker
from ltrbench.rankers.linear import LinearRanker
from ltrbench.rankers.mlp import MlpRanker
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.xgboost import XGBoostRanker
from ltrbench.shipping.destination import Destination
from ltrbench.shipping.target import MISSING_VALUES


def is_shippable(name: str, options: dict[str, Any], backend: str, kind: str) -> bool:
    """Returns whether the target takes the trained model."""
    _, model = fitted(backend, kind)
    try:
        export = target_of(name, options).export(model)
    except ConfigError:
        return False
    return not model.has_missing_values or MISSING_VALUES not in export.limits


@pytest.mark.parametrize(("backend", "kind"), [*dict.fromkeys(DATA)])
@every_target_and_version
def test_a_destination_refuses_before_training_what_the_target_refuses_afterwards(
    name: str, options: dict[str, Any], backend: str, kind: str
) -> None:
    destination, ranker = Destination(target_of(name, options)), BACKENDS[backend]
    if ranker.is_yardstick or is_shippable(name, options, backend, kind):
        destination.check_data(ranker, data_of(kind))
        return
    with pytest.raises(ConfigError, match=naming(f"target is {name}")):
        destination.check_data(ranker, data_of(kind))


@every_target
def test_a_caution_names_the_scores_that_an_engine_does_not_allow(
    name: str, options: dict[str, Any]
) -> None:
    destination = Destination(target_of(name, options))
    assert destination.caution(NativeRanker()) == ""
    holds_linear = options.get("form") != "ranklib"
    if name in ("elasticsearch", "opensearch") and holds_linear:
        assert mentions(destination.caution(LinearRanker()), "negative", "solr")


@every_target
def test_categories_are_refused_by_name_where_a_target_cannot_hold_their_splits(
    name: str, options: dict[str, Any]
) -> None:
    options = options if name != "elasticsearch" else {**options, "absent": "missing"}
    target = target_of(name, options)
    refusal = naming(f"target is {name}", "brand", "category", "data.encode=onehot")
    with pytest.raises(ConfigError, match=refusal):
        Destination(target).check_data(CatBoostRanker(), log())
    if target.holds_categories:
        Destination(target).check_data(NativeRanker(), log())
        if name != "lightgbm":
            Destination(target).check_data(XGBoostRanker(), log())
            return
        with pytest.raises(ConfigError, match=naming("target is", "brand", "treelite")):
            Destination(target).check_data(XGBoostRanker(), log())
        return
    with pytest.raises(ConfigError, match=refusal):
        Destination(target).check_data(NativeRanker(), log())


def test_a_refusal_names_the_setting_that_the_user_has_written() -> None:
    missing = data_of("missing")
    for setting, option in (
        ("elasticsearch", "absent: zero"),
        ({"name": "elasticsearch", "absent": "zero"}, "absent: missing"),
        ({"name": "solr"}, "absent: missing"),
    ):
        with pytest.raises(ConfigError, match=naming("target={name: ", option)) as it:
            Destination.of(setting).check_data(NativeRanker(), missing)
        assert "--set" not in str(it.value)
    with pytest.raises(ConfigError, match="target") as it:
        Destination.of("lightgbm").check_ranker(LinearRanker())
    assert "--to" not in str(it.value)


@every_target
def test_networks_are_refused_by_all_targets_but_onnx(
    name: str, options: dict[str, Any]
) -> None:
    destination = Destination(target_of(name, options))
    if name == "onnx":
        destination.check_ranker(MlpRanker())
        return
    with pytest.raises(ConfigError, match=naming(name, "MlpRanker", "target=onnx")):
        destination.check_ranker(MlpRanker())

"""Vespa."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import ConfigError, require_choice
from ltrbench.rankers.models.formats.boosters.lightgbm_dump import write_lightgbm_dump
from ltrbench.rankers.models.formats.boosters.xgboost_dump import base_score_as_tree, write_xgboost_dump
from ltrbench.rankers.models.trees import Ensemble, without_zero_missing
from ltrbench.shapes import Features
from ltrbench.shipping.certificate.limits import features_read, limits_of_infinity
from ltrbench.shipping.model import Linear, ShippedModel
from ltrbench.shipping.simulators.vespa import VESPA_RULES, parse_vespa
from ltrbench.shipping.target import MISSING_VALUES, Engine, Export, Rule, Target

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RANK_FEATURE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\([A-Za-z0-9_., ]*\))?(\.[A-Za-z0-9_]+)*")
_WORDS = """
    abs acos argmax argmin asin atan atan2 attribute avg bit ceil concat constant cos cosh count diag elu exp
    expand fabs f floor fmod hamming if in isNan join l1_normalize l2_normalize ldexp log log10 map matmul max
    median min pow prod query random range reduce relu rename round sigmoid sign sin sinh softmax sqrt square
    sum tan tanh tensor true false xw_plus_b
"""
_RESERVED = frozenset(_WORDS.split())
"""Words of ranking expressions that are not used as names of features (RankingExpressionParser.jj)."""

_TERM = re.compile(r"\((\S+) \* (.+?)\)(?: \+ |$)")
_LINEAR_RULE = Rule(
    "A ranking expression is computed in float64, from left to right.",
    "documentation of ranking expressions, docs.vespa.ai; the source code was not read",
)


@dataclass
class VespaTarget(Target):
    """Vespa, which imports the model and evaluates it on its content nodes."""

    name: ClassVar[str] = "vespa"

    form: Literal["lightgbm", "xgboost"] = "lightgbm"
    """Format of trees: LightGBM's dump, or XGBoost's, whose numbers are float32."""

    def __post_init__(self) -> None:
        require_choice("form", self.form, ("lightgbm", "xgboost"))

    def export(self, model: ShippedModel) -> Export:
        _check(model)
        names = vespa_names(model.feature_names)
        if isinstance(model.scorer, Linear):
            expression = _linear_expression(model.scorer, names)
            profile = _profile(model, names, expression)
            return Export(
                {f"{model.name}.profile": profile},
                self._request(model, with_file=False),
                notes=self._notes(model, names),
                limits={MISSING_VALUES: "A missing value has no score in a linear model."},
            )
        file = f"{model.name}.json"
        if self.form == "lightgbm":
            content = write_lightgbm_dump(model.scorer, names)
        else:
            content = write_xgboost_dump(base_score_as_tree(without_zero_missing(model.scorer)), names)
        return Export(
            {file: content, f"{model.name}.profile": _profile(model, names, f'{self.form}("{file}")')},
            self._request(model, with_file=True),
            notes=self._notes(model, names),
            limits=limits_of_infinity(model.scorer),
        )

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        names = vespa_names(model.feature_names)
        if isinstance(model.scorer, Linear):
            weights = _parsed_weights(export.files[f"{model.name}.profile"].decode(), names)
            return Engine(lambda features: _weighted_sum(weights, features), "Vespa", rules=(_LINEAR_RULE,))
        forest = parse_vespa(export.files[f"{model.name}.json"], self.form, names)
        dtype = "float32" if self.form == "xgboost" or forest.is_forest else "float64"
        return Engine(forest.scores, "Vespa", rules=VESPA_RULES[self.form], score_dtype=dtype)

    def _request(self, model: ShippedModel, *, with_file: bool) -> str:
        profile = f"cp {model.name}.profile $APPLICATION/schemas/$SCHEMA/"
        copied = [f"cp {model.name}.json $APPLICATION/models/"] if with_file else []
        return "\n".join([*copied, profile, "vespa deploy $APPLICATION"])

    def _notes(self, model: ShippedModel, names: Sequence[str]) -> tuple[str, ...]:
        renamed = sum(given != name for given, name in zip(model.feature_names, names, strict=True))
        notes = [
            f"Write the rank feature of each function in {model.name}.profile before the upload: the value "
            "that the feature had in the training data.",
            "A missing value is NaN. The rank feature must be NaN for it; query(name) is 0 by default.",
            f"Rank with ranking.profile={model.name}; the scores are the relevance of the hits. The second "
            "phase scores 100 documents of each content node; rerank-count changes this.",
        ]
        if isinstance(model.scorer, Ensemble) and self.form == "lightgbm":
            notes.append(
                "The thresholds are those of `<`, which Vespa uses for this format. Do not load the file "
                "with another program."
            )
        if renamed:
            notes.append(
                f"{renamed} names of features cannot be names in ranking expressions. They are feature_1, "
                "feature_2, ... in the order of the training data."
            )
        return tuple(notes)


def vespa_names(names: Sequence[str]) -> list[str]:
    """Returns the names of features in ranking expressions, (F,): a name that Vespa cannot read is its place.

    >>> vespa_names(["price", "bm25(title)", "3", "max"])
    ['price', 'bm25(title)', 'feature_3', 'feature_4']
    """
    return [
        name if _RANK_FEATURE.fullmatch(name) and name not in _RESERVED else f"feature_{number}"
        for number, name in enumerate(names, start=1)
    ]


def _check(model: ShippedModel) -> None:
    names = vespa_names(model.feature_names)
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(
            f"the feature name '{twice}' is given twice in Vespa, but names must be unique. Rename one of "
            "the features."
        )
    if not _IDENTIFIER.fullmatch(model.name):
        raise ConfigError(
            f"the model's name is '{model.name}', but it becomes the name of a rank profile. Use letters, "
            "digits and '_' only, as with --name my_model."
        )


def _profile(model: ShippedModel, names: Sequence[str], expression: str) -> bytes:
    """Returns the rank profile: a function for each feature that is read, unless it is a rank feature."""
    used = features_read(model.scorer) or [0]  # a model without splits has a split on feature 0
    functions = [
        f"    function {names[place]}() {{\n"
        f"        expression: attribute({names[place]})  # write the rank feature here\n"
        "    }\n"
        for place in used
        if _IDENTIFIER.fullmatch(names[place])
    ]
    return (
        f"rank-profile {model.name} inherits default {{\n{''.join(functions)}"
        f"    second-phase {{\n        expression: {expression}\n    }}\n}}\n"
    ).encode()


def _linear_expression(scorer: Linear, names: Sequence[str]) -> str:
    used = features_read(scorer) or [0]
    return " + ".join(f"({float(scorer.weights[place])!r} * {names[place]})" for place in used)


def _parsed_weights(profile: str, names: Sequence[str]) -> list[tuple[int, float]]:
    """Returns feature and weight of each term in the expression of a rank profile."""
    (line,) = re.findall(r"^ {8}expression: (\(.+)$", profile, re.MULTILINE)
    numbers = {name: number for number, name in enumerate(names)}
    return [(numbers[name], float(json.loads(weight))) for weight, name in _TERM.findall(line)]


def _weighted_sum(weights: Sequence[tuple[int, float]], features: Features) -> NDArray[np.floating[Any]]:
    scores = np.zeros(len(features))
    for number, (feature, weight) in enumerate(weights):
        term = weight * features[:, feature].astype(np.float64)
        scores = term if number == 0 else scores + term
    return scores

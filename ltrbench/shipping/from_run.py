"""The shipped model of a finished run."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from ltrbench.errors import ConfigError, ResultError
from ltrbench.rankers import Ranker
from ltrbench.rankers.capabilities import SupportsTrees, exact_trees_of
from ltrbench.rankers.models.trees import Ensemble
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.results import MODEL_FOLDER, RESULT_FILE, Run
from ltrbench.shipping.certificate.limits import features_read
from ltrbench.shipping.model import Linear, ShippedModel

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")


def shipped_model(run: Run, ranker: Ranker, name: str | None = None) -> ShippedModel:
    """Returns the model of a run under a name.

    Args:
        ranker: the loaded model of the run.
        name: name in the engine; None: the name of the model in the run.

    Raises:
        ConfigError: The model has neither trees nor weights, or the name is not possible in every engine.
        ResultError: The model uses a feature that the run does not name.
    """
    scorer = _scorer(run, ranker)
    num_features = int(run.result.data["train"]["features"])
    highest = max(features_read(scorer), default=-1)
    if highest >= num_features:
        raise ResultError(
            f"{run.path / MODEL_FOLDER}: the model uses feature {highest + 1}, but {run.path / RESULT_FILE} "
            f"has {num_features} features. Copy the run folder again from its source."
        )
    names = run.result.feature_names or [str(number + 1) for number in range(num_features)]
    return ShippedModel(_checked_name(name, run.result.model), tuple(names), scorer)


def _checked_name(name: str | None, of_run: str) -> str:
    if name is None:
        cleaned = re.sub(r"[^A-Za-z0-9_.-]", "_", of_run)[:100]
        return cleaned if _NAME.fullmatch(cleaned) else "ltrbench"
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"--name {name!r}: begin with a letter and use letters, digits, '_', '.' and '-', at most 100 "
            "characters, which every engine accepts."
        )
    return name


def _scorer(run: Run, ranker: Ranker) -> Ensemble | Linear:
    if isinstance(ranker, SingleFeatureRanker):
        return Linear(ranker.weights)
    if not isinstance(ranker, SupportsTrees):
        raise ConfigError(
            f"{run.path}: {run.result.model} ({type(ranker).__name__}) has no trees and cannot be shipped. "
            "Choose a run of model=native, lightgbm, xgboost, catboost or single_feature."
        )
    return exact_trees_of(ranker)


def run_record(run: Run, ranker: Ranker, reason: str = "") -> dict[str, Any]:
    """Returns the JSON record of a run in a certificate.

    Args:
        reason: why the run was chosen; empty if the user named it.
    """
    folder = run.path / MODEL_FOLDER
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        "path": str(run.path),
        "model": run.result.model,
        "class": f"{type(ranker).__module__}.{type(ranker).__qualname__}",
        "files": {path.relative_to(folder).as_posix(): file_digest(path.read_bytes()) for path in files},
        "chosen": reason or None,
    }


def file_digest(content: bytes) -> str:
    """Returns the SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()

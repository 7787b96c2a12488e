"""Converts the model of a run for a target, certifies it, and writes it to a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, ResultError
from ltrbench.measure.provenance import plain, versions
from ltrbench.metrics import DEFAULT, PRESETS
from ltrbench.rankers import Ranker
from ltrbench.results import Run
from ltrbench.shipping.certificate.certifying import certify, scores_of
from ltrbench.shipping.certificate.check_rows import checked_rows, chosen_features
from ltrbench.shipping.certificate.record import REFUSED, Certificate, certificate_record, finite_json
from ltrbench.shipping.folder import (
    CERTIFICATE_FILE,
    CHECK_FILE,
    README_FILE,
    UPLOAD_FILE,
    check_free,
    json_bytes,
    write_folder,
)
from ltrbench.shipping.from_run import file_digest, run_record, shipped_model
from ltrbench.shipping.model import ShippedModel
from ltrbench.shipping.readme import readme
from ltrbench.shipping.target import Engine, Export, Target


class RefusedModelError(ResultError):
    """A converted model that does not rank as the original; only its certificate was written."""


@dataclass(frozen=True)
class ShippedData:
    """Documents that the models are compared on.

    Attributes:
        name: name of the data set, or the file.
        split: "test" or "valid" of the run; None for a file.
    """

    name: str
    split: str | None
    dataset: RankingDataset


def ship(
    run: Run,
    ranker: Ranker,
    target: Target,
    data: ShippedData,
    folder: Path,
    *,
    name: str | None = None,
    tolerance: int = 0,
    reason: str = "",
) -> Certificate:
    """Writes the converted model of a run with its certificate to a folder.

    Args:
        ranker: the loaded model of the run.
        name: name of the model in the engine; None: as in the run.
        tolerance: largest number of queries whose ranking may change.
        reason: why the run was chosen; empty if the user named it.

    Raises:
        RefusedModelError: The converted model ranks otherwise; the folder has only certificate.json.
        ConfigError: The folder is not free, the format cannot hold the model, or a package is missing.
    """
    check_free(folder)
    model = shipped_model(run, ranker, name)
    if data.dataset.num_features != model.num_features:
        raise ConfigError(
            f"{data.name} has {data.dataset.num_features} features, but the model has {model.num_features}; "
            "name data with the features of the training set."
        )
    export = target.export(model)
    engine = _engine(target, model, export)
    convention = PRESETS.get(str(run.result.convention.get("name")), DEFAULT)
    certificate = certify(model, ranker.predict, data.dataset, export, engine, convention, tolerance)
    is_refused = certificate.status == REFUSED
    files = {} if is_refused else _files(model, ranker, target, export, engine, certificate, data)
    about = {
        "target": {"name": target.name, "options": _options(target)},
        "model": model.name,
        "run": run_record(run, ranker, reason),
        "data": {
            "name": data.name,
            "split": data.split,
            "fingerprint": data.dataset.fingerprint,
            "documents": data.dataset.num_documents,
            "queries": data.dataset.num_queries,
        },
        "convention": convention.name,
        "files": {name: file_digest(content) for name, content in files.items()},
        "versions": versions(ranker.packages),
    }
    record = json_bytes({**certificate_record(certificate), **finite_json(about)})
    write_folder(folder, {**files, CERTIFICATE_FILE: record})
    if is_refused:
        raise RefusedModelError(
            f"{model.name} was not shipped to {target.name}. {certificate.reason} Details: "
            f"{folder / CERTIFICATE_FILE}."
        )
    return certificate


def _engine(target: Target, model: ShippedModel, export: Export) -> Engine | None:
    try:
        return target.engine(model, export)
    except ImportError as error:
        raise ConfigError(f"--to {target.name}: {error}") from error


def _options(target: Target) -> dict[str, Any]:
    options: dict[str, Any] = plain(asdict(target)) if is_dataclass(target) else {}
    return options


def _files(
    model: ShippedModel,
    ranker: Ranker,
    target: Target,
    export: Export,
    engine: Engine | None,
    certificate: Certificate,
    data: ShippedData,
) -> Mapping[str, bytes]:
    """Returns all files but the certificate."""
    original = np.empty(0)
    if engine is None:
        features = chosen_features(model, export, data.dataset)
        original = scores_of(ranker.predict, features, "the model")
    rows, requests = checked_rows(model, target, export, engine, original, data.dataset)
    check_files = {} if requests is None else requests.files
    ours = (UPLOAD_FILE, README_FILE, CHECK_FILE, CERTIFICATE_FILE)
    names = (*export.files, *check_files)
    taken = [name for name in names if name in ours or names.count(name) > 1 or Path(name).name != name]
    if taken:
        raise ConfigError(f"the target {target.name} writes {taken[0]!r}, a name that it may not use.")
    return {
        **export.files,
        UPLOAD_FILE: f"{export.request.rstrip()}\n".encode(),
        README_FILE: readme(model, target.name, export, certificate, requests),
        CHECK_FILE: json_bytes(finite_json(rows)),
        **check_files,
    }

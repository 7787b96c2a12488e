"""Converts the model of a run for a target, certifies it, and writes it to a folder."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import math
import pkgutil
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_origin

from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, ResultError, did_you_mean
from ltrbench.folders import DISK_REMEDIES
from ltrbench.measure import plain, versions
from ltrbench.metrics import DEFAULT, PRESETS
from ltrbench.models.trees import Ensemble
from ltrbench.rankers import Ranker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.runs import MODEL_FOLDER, RESULT_FILE, Run
from ltrbench.shipping import targets
from ltrbench.shipping.certificate import (
    REFUSED,
    Certificate,
    certificate_record,
    certify,
    finite_json,
)
from ltrbench.shipping.probes import checked_rows, features_read
from ltrbench.shipping.target import CheckRequests, Export, Linear, ShippedModel, Target
from ltrbench.untrusted import read_json, types_of, validation_error, visible

# ---- Writes and reads the folder of a shipped model.
#
#     the files of the target     the first is the model
#     upload.txt                  the request, command or code that loads it
#     README.md                   how to upload and check it, names of features, limits
#     check_rows.json             documents with expected scores
#     check_...                   the same rows as requests of a server, named in README.md
#     certificate.json            what was compared, and the verdict
#
# The folder of a refused model has certificate.json only.

CERTIFICATE_FILE = "certificate.json"
CHECK_FILE = "check_rows.json"
README_FILE = "README.md"
UPLOAD_FILE = "upload.txt"

_REMEDY = "Copy the folder again from its source, or ship the model again"


def json_bytes(value: Any) -> bytes:
    """Returns JSON without NaN, with a line for each value and a newline at the end."""
    return (json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()


def check_free(folder: Path) -> None:
    """Checks before anything is computed that the folder can be written.

    Raises:
        ConfigError: It exists and is not empty; the certificate of a refused model may be replaced.
    """
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir():
        raise ConfigError(f"--output {folder} is a file; name a new folder.")
    names = sorted(path.name for path in folder.iterdir())
    if names and not (names == [CERTIFICATE_FILE] and _is_refused(folder)):
        raise ConfigError(
            f"--output {folder} already contains {', '.join(names[:3])}; name a new folder, or delete it."
        )


def _is_refused(folder: Path) -> bool:
    try:
        content = read_json(folder / CERTIFICATE_FILE)
    except ResultError:
        return False
    return isinstance(content, dict) and content.get("status") == REFUSED


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes all files to a folder that `check_free` accepts; it appears when it is complete.

    Raises:
        ConfigError: The folder is not free.
        ResultError: The disk does not allow it.
    """
    check_free(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.partial-") as parent:
            staging = Path(parent) / folder.name
            staging.mkdir()
            for name, content in files.items():
                (staging / name).write_bytes(content)
            (folder / CERTIFICATE_FILE).unlink(missing_ok=True)  # of a refused model
            staging.rename(folder)
    except OSError as error:
        remedy = DISK_REMEDIES.get(error.errno or 0, "Choose another folder")
        raise ResultError(f"{folder} cannot be written: {error.strerror}. {remedy}.") from error


def read_shipped(folder: Path, name: str) -> dict[str, Any]:
    """Reads certificate.json or check_rows.json of a shipped model.

    Raises:
        ResultError: The folder has no such file, or it is not JSON.
    """
    path = folder / name
    if not path.exists():
        raise ResultError(f"{folder} is not the folder of a shipped model: it has no {name}. {_REMEDY}.")
    content: dict[str, Any] = read_json(path, _REMEDY)
    return content


# ---- The shipped model of a finished run.

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
    train = run.result.data["train"]
    num_features = int(train["features"])
    highest = max(features_read(scorer), default=-1)
    if highest >= num_features:
        raise ResultError(
            f"{run.path / MODEL_FOLDER}: the model uses feature {highest + 1}, but {run.path / RESULT_FILE} "
            f"has {num_features} features. Copy the run folder again from its source."
        )
    names = run.result.feature_names or [str(number + 1) for number in range(num_features)]
    checked = _checked_name(name, run.result.model)
    return ShippedModel(checked, tuple(names), scorer, train.get("has_missing_values"))


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
    return ranker.trees()


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


# ---- Finds and builds the target of a name: the class in the file of that name in `targets`.


def target_names() -> list[str]:
    """Returns the names of all targets, sorted; no target is imported."""
    return sorted(module.name for module in pkgutil.iter_modules(targets.__path__))


def find_target(name: str) -> type[Target]:
    """Returns the class of a target.

    Raises:
        ConfigError: There is no target of that name, or the package that it needs is not installed.
    """
    names = target_names()
    if name not in names:
        raise ConfigError(
            f"--to {name}: unknown target{did_you_mean(name, names)} Targets: {', '.join(names)}."
        )
    try:
        module = importlib.import_module(f"{targets.__name__}.{name}")
    except ImportError as error:
        if (error.name or "").startswith("ltrbench"):  # an error in the package, not a missing extra
            raise
        raise ConfigError(f"--to {name}: {error}") from error
    classes = [
        item
        for item in vars(module).values()
        if inspect.isclass(item)
        and issubclass(item, Target)
        and item.__module__ == module.__name__
        and not inspect.isabstract(item)
    ]
    if len(classes) != 1:
        raise ConfigError(
            f"--to {name}: {module.__name__} has {len(classes)} classes that derive from Target; a file in "
            "targets has exactly one."
        )
    return classes[0]


def takes_text(target_class: type[Target], option: str) -> bool:
    """Returns whether the values of an option are texts, also those that look like numbers."""
    declared = types_of(target_class).get(option)
    return declared is str or get_origin(declared) is Literal


def build_target(name: str, options: Mapping[str, Any]) -> Target:
    """Returns a target with options: fields of its class.

    Raises:
        ConfigError: There is no such target or option, or a value has the wrong type.
    """
    target_class = find_target(name)
    declared: Any = target_class  # a dataclass, by the contract
    types = {item.name: types_of(target_class)[item.name] for item in fields(declared) if item.init}
    for option, value in options.items():
        if option not in types:
            known = ", ".join(types) or "none"
            raise ConfigError(
                f"--set {option}: {name} has no such option{did_you_mean(option, types)} Options: {known}."
            )
        reason = validation_error(value, types[option], option)
        if reason:
            raise ConfigError(f"--set {reason}.")
    built: Target = declared(**options)
    return built


# ---- The README of the folder of a shipped model.

_MOST_NAMES = 200


def readme(
    model: ShippedModel,
    target: Target,
    export: Export,
    certificate: Certificate,
    requests: CheckRequests | None = None,
) -> bytes:
    """Returns the text of README.md.

    Args:
        requests: how the deployed engine scores the rows with expected scores; None: a library does.
    """
    return ("\n\n".join(_paragraphs(model, target, export, certificate, requests)) + "\n").encode()


def _paragraphs(
    model: ShippedModel,
    target: Target,
    export: Export,
    certificate: Certificate,
    requests: CheckRequests | None,
) -> Iterator[str]:
    yield f"# {model.name} for {target.name}"
    first = next(iter(export.files))
    yield f"`{first}` is the model. {_verdict(certificate)} `{CERTIFICATE_FILE}` has the details."
    yield f"## Upload\n\nRun this in the folder; it is also in `{UPLOAD_FILE}`."
    yield f"```\n{export.request.rstrip()}\n```"
    yield "\n".join(f"- {note}" for note in export.notes)
    plus = f" plus {certificate.offset!r}" if certificate.offset else ""
    reordered = certificate.comparison.describe_reordered() if certificate.comparison else ""
    yield f"## Scores\n\nScores are those of the original model{plus}, but for rounding{reordered}."
    if certificate.limits:
        yield "Values that the engine cannot treat as the model does:"
        yield "\n".join(f"- {kind}: {limit.sentence}" for kind, limit in certificate.limits.items())
    yield f"Verified against: {target.verified_against}."
    yield from _check(requests)
    names = ", ".join(f"`{visible(name).replace('`', '')}`" for name in model.feature_names[:_MOST_NAMES])
    rest = model.num_features - _MOST_NAMES
    yield f"## Features\n\n{names}{f' and {rest} more' if rest > 0 else ''}."


def _check(requests: CheckRequests | None) -> Iterator[str]:
    """Yields how rows with expected scores are scored, and how the answer is compared."""
    answers = "answers.json"
    if requests is not None and requests.files:
        answers = requests.answers
        yield (
            f"## Check\n\n`{CHECK_FILE}` has rows with expected scores. After the upload, these commands "
            f"score the same rows with the deployed engine and write its answer to `{answers}`:"
        )
        yield f"```\n{requests.commands}\n```"
        reasons = Counter(requests.left_out.values())
        left_out = [f"Rows left out: {count}, which have {reason}." for reason, count in reasons.items()]
        yield "\n".join(f"- {note}" for note in (*requests.notes, *left_out))
    else:
        yield (
            f"## Check\n\nScore the rows of `{CHECK_FILE}` with the deployed model, and write a JSON object "
            'with the score of each id, such as `{"q1-d1": 0.25, "q1-d2": -0.5}`, to `answers.json`.'
        )
    yield "This names each row without an answer or with another score; the exit code is 0 if there is none:"
    yield f"```\npython -m ltrbench ship . --check {answers}\n```"
    if requests is not None and requests.cleanup:
        yield f"Remove what the commands created:\n\n```\n{requests.cleanup}\n```"


def _verdict(certificate: Certificate) -> str:
    comparison = certificate.comparison
    if comparison is None or certificate.engine is None:
        return "It was not verified: there is no evaluator of this engine in Python."
    how = "a simulator of " if certificate.engine.is_simulated else ""
    return (
        f"Checked with {how}{certificate.engine.name}: the rankings of {len(comparison.changed_queries)} of "
        f"{comparison.num_queries} queries changed beyond ties, and {certificate.coverage.tested} of "
        f"{certificate.coverage.splits} splits were tested at their thresholds."
    )


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
    try:
        engine = target.engine(model, export)
    except ImportError as error:
        raise ConfigError(f"--to {target.name}: {error}") from error
    convention = PRESETS.get(str(run.result.convention.get("name")), DEFAULT)
    certificate = certify(model, ranker.predict, data.dataset, export, engine, convention, tolerance)
    files: Mapping[str, bytes] = {}
    if certificate.status != REFUSED:
        rows, requests = checked_rows(model, target, export, engine, ranker.predict, data.dataset)
        files = {
            **export.files,
            UPLOAD_FILE: f"{export.request.rstrip()}\n".encode(),
            README_FILE: readme(model, target, export, certificate, requests),
            CHECK_FILE: json_bytes(finite_json(rows)),
            **(requests.files if requests else {}),
        }
    about = {
        "target": {
            "name": target.name,
            "options": plain(asdict(target)) if is_dataclass(target) else {},
            "verified_against": target.verified_against,
        },
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
    if certificate.status == REFUSED:
        raise RefusedModelError(
            f"{model.name} was not shipped to {target.name}. {certificate.reason} Details: "
            f"{folder / CERTIFICATE_FILE}."
        )
    return certificate


# ---- Compares what a deployed engine answered with the expected scores in check_rows.json. n rows.


@dataclass(frozen=True)
class ExpectedRow:
    """A row of check_rows.json.

    Attributes:
        rounding: largest difference that rounding can make.
    """

    id: str
    query: str | None
    score: float
    rounding: float


@dataclass(frozen=True)
class WrongAnswer:
    """A row with another score."""

    row: ExpectedRow
    answered: float


@dataclass(frozen=True)
class AnswerCheck:
    """Answered scores against expected scores.

    Attributes:
        num_rows: number of expected rows.
        missing: ids without an answer.
        unknown: answered ids that are no row.
        largest_difference: largest absolute difference.
        wrong: rows whose scores differ by more than rounding, the largest difference first.
        changed: queries whose order changed, each with the two rows, the first of which was higher.
    """

    num_rows: int
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    largest_difference: float
    wrong: tuple[WrongAnswer, ...]
    changed: Mapping[str, tuple[str, str]]

    def is_passed(self, tolerance: int = 0) -> bool:
        """Returns whether all rows were answered, and at most `tolerance` queries changed their order; with
        a tolerance of 0 also whether all scores are equal but for rounding."""
        if self.missing or len(self.changed) > tolerance:
            return False
        return tolerance > 0 or not self.wrong


def read_expected(folder: Path) -> list[ExpectedRow]:
    """Reads the expected rows of a shipped model.

    Raises:
        ResultError: check_rows.json is missing or damaged.
    """
    try:
        return [
            ExpectedRow(row["id"], row["query"], float(row["score"]), float(row["rounding"]))
            for row in read_shipped(folder, CHECK_FILE)["rows"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ResultError(f"{folder / CHECK_FILE} has no complete rows: {error!r}. {_REMEDY}.") from error


def check_answers(expected: Sequence[ExpectedRow], answered: Mapping[str, float]) -> AnswerCheck:
    """Compares answered scores, by id, with the expected rows."""
    known = {row.id for row in expected}
    rows = [row for row in expected if row.id in answered]
    differences = {row.id: _difference(row.score, answered[row.id]) for row in rows}
    wrong = [WrongAnswer(row, answered[row.id]) for row in rows if differences[row.id] > row.rounding]
    return AnswerCheck(
        num_rows=len(expected),
        missing=tuple(row.id for row in expected if row.id not in answered),
        unknown=tuple(name for name in answered if name not in known),
        largest_difference=max(differences.values(), default=0.0),
        wrong=tuple(sorted(wrong, key=lambda answer: -differences[answer.row.id])),
        changed=_changed_orders(rows, answered),
    )


def _difference(expected: float, answered: float) -> float:
    difference = abs(answered - expected)
    return math.inf if math.isnan(difference) else difference


def _changed_orders(rows: Sequence[ExpectedRow], answered: Mapping[str, float]) -> dict[str, tuple[str, str]]:
    """Returns query -> the first pair whose expected scores differ by more than rounding, and whose answers
    are equal or in the other order."""
    changed: dict[str, tuple[str, str]] = {}
    for first in rows:
        for second in rows:
            if first.query is None or first.query != second.query or first.query in changed:
                continue
            is_ordered = first.score - second.score > first.rounding + second.rounding
            if is_ordered and not answered[first.id] > answered[second.id]:
                changed[first.query] = (first.id, second.id)
    return changed

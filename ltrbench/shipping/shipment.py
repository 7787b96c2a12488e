"""Converts the model of a run for a target, certifies it, and writes it to a folder."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import Judgments, RankingDataset
from ltrbench.data.features import gather_rows
from ltrbench.data.tables import encoded_names
from ltrbench.errors import ConfigError, ResultError
from ltrbench.folders import DISK_REMEDIES
from ltrbench.measure import plain, versions
from ltrbench.metrics import DEFAULT, PRESETS
from ltrbench.models.networks import Network
from ltrbench.models.trees import Ensemble, categorical_features
from ltrbench.rankers import Ranker
from ltrbench.rankers.estimator import COLUMNS_FILE
from ltrbench.rankers.importance import MOST_LISTED
from ltrbench.rankers.linear import LinearRanker
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.runs.record import MODEL_FOLDER, Run
from ltrbench.shapes import Features, Scores
from ltrbench.shipping.certificate import (
    REFUSED,
    Certificate,
    certificate_record,
    certify,
    compare_scores,
    difference_of,
    finite_json,
    is_exact,
    make_probes,
    rounding_bounds,
)
from ltrbench.shipping.target import (
    CheckRequests,
    CheckRows,
    Engine,
    Export,
    Linear,
    ScoreFunction,
    ShippedModel,
    Target,
    features_read,
)
from ltrbench.statistics.checks import AT_MOST, Check
from ltrbench.untrusted import read_json, visible

# ---- Writes and reads the folder of a shipped model.
#
#     the files of the target     the first is the model
#     upload.txt                  the request, command or code that loads it
#     README.md                   how to upload and check it, names of features, limits
#     check_rows.json             documents with expected scores
#     columns.json                names and categories of the features, if some are categorical
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
    return (
        json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    ).encode()


def check_free(folder: Path) -> None:
    """Checks before anything is computed that the folder can be written.

    Raises:
        ConfigError: It exists, and has more than the certificate of a refused model.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ConfigError(f"--output {folder} is a file; name a new folder.")
    names = sorted(path.name for path in folder.iterdir())
    if names and names != [CERTIFICATE_FILE]:
        raise ConfigError(
            f"--output {folder} already contains {', '.join(names[:3])}; name a new folder, or delete it."
        )


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes all files to a folder that `check_free` accepts; it appears when it is complete.

    Raises:
        ConfigError: The folder is not free.
        ResultError: The disk does not allow it.
    """
    check_free(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=folder.parent, prefix=f".{folder.name}.partial-"
        ) as parent:
            staging = Path(parent) / folder.name
            staging.mkdir()
            for name, content in files.items():
                (staging / name).write_bytes(content)
            (folder / CERTIFICATE_FILE).unlink(missing_ok=True)  # of a refused model
            staging.rename(folder)
    except OSError as error:
        remedy = DISK_REMEDIES.get(error.errno or 0, "Choose another folder")
        raise ResultError(
            f"{folder} cannot be written: {error.strerror}. {remedy}."
        ) from error


def read_shipped(folder: Path, name: str, key: str) -> Any:
    """Reads an entry of certificate.json or check_rows.json of a shipped model.

    Raises:
        ResultError: The folder has no such file, or the file no such entry; or the model was refused.
    """
    path = folder / name
    certificate = folder / CERTIFICATE_FILE
    if not path.exists() and certificate.exists():
        raise ResultError(
            f"{folder} has no {name}: its model was refused, and {CERTIFICATE_FILE} has the reason."
        )
    if not path.exists():
        raise ResultError(
            f"{folder} is not the folder of a shipped model: it has no {name}. {_REMEDY}."
        )
    content = read_json(path, _REMEDY)
    if not isinstance(content, dict) or key not in content:
        raise ResultError(f"{path} has no entry '{key}'. {_REMEDY}.")
    return content[key]


# ---- The shipped model of a finished run.


def shipped_model(run: Run, ranker: Ranker) -> ShippedModel:
    """Returns the loaded model of a run.

    Raises:
        ConfigError: The model has neither trees nor weights.
    """
    train = run.result.data["train"]
    numbers = range(1, int(train["features"]) + 1)
    names = run.result.feature_names or list(map(str, numbers))
    # A letter first, then what every engine accepts in a name.
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", run.result.model)[:100]
    if not name[:1].isalpha():
        name = "ltrbench"
    scorer: Ensemble | Linear | Network | None = ranker.network()
    if scorer is None and isinstance(ranker, SingleFeatureRanker | LinearRanker):
        scorer = Linear(ranker.weights)
    elif scorer is None:
        scorer = ranker.trees()
    return ShippedModel(
        name,
        tuple(names),
        scorer,
        has_missing_values=train.get("has_missing_values"),
        categories=ranker.categories,
        dates=ranker.dates,
        encoded=ranker.encoded,
        refuses_missing=isinstance(ranker, LinearRanker) and ranker.refuses_missing,
    )


def check_categories(model: ShippedModel, target: Target) -> None:
    """Raises ConfigError if a target cannot hold the splits of a model by sets of categories."""
    categorical = (
        categorical_features(model.scorer) if isinstance(model.scorer, Ensemble) else ()
    )
    if categorical and not target.holds_categories:
        names = ", ".join(model.feature_names[feature] for feature in categorical)
        raise ConfigError(
            f"--to {target.name} cannot hold the splits of {names} by sets of categories. Choose --to c, "
            "lightgbm, treelite or xgboost, use the verb serve, or train without these features."
        )


def file_digest(content: bytes) -> str:
    """Returns the SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


# ---- The README of the folder of a shipped model.

_MOST_NAMES = 200


def _quoted(name: str) -> str:
    """Returns the name of a feature as code of Markdown."""
    return f"`{visible(name).replace('`', '')}`"


def readme(
    model: ShippedModel,
    target: Target,
    export: Export,
    certificate: Certificate,
    requests: CheckRequests | None,
) -> Iterator[str]:
    """Yields the paragraphs of README.md.

    Args:
        requests: how the deployed engine scores the rows with expected scores; None: a library does.
    """
    yield f"# {model.name} for {target.name}"
    first = next(iter(export.files))
    yield f"`{first}` is the model. {_verdict(certificate)} `{CERTIFICATE_FILE}` has the details."
    yield f"## Upload\n\nRun this in the folder; it is also in `{UPLOAD_FILE}`."
    yield f"```\n{export.request.rstrip()}\n```"
    yield "\n".join(f"- {note}" for note in export.notes)
    yield f"## Scores\n\n{_scores_in_words(certificate)}"
    if certificate.rounded is not None:
        yield certificate.rounding_of_features()
    if certificate.limits:
        yield "Values that the engine cannot treat as the model does:"
        yield "\n".join(
            f"- {kind}: {limit}" for kind, limit in certificate.limits.items()
        )
    if certificate.engine is not None:
        yield f"Verified against: {target.verified_against}."
    yield from _check(requests, model.is_listwise)
    yield from _features_in_words(model)


def _features_in_words(model: ShippedModel) -> Iterator[str]:
    """Yields the paragraphs on the features, and on the values of those that are no plain numbers."""
    names = ", ".join(map(_quoted, model.feature_names[:_MOST_NAMES]))
    rest = model.num_features - _MOST_NAMES
    if rest > 0:
        names += f" and {rest} more"
    yield f"## Features\n\n{names}."
    if model.categories:
        categorical = ", ".join(map(_quoted, model.categories))
        yield (
            f"## Categories\n\nThe value of {categorical} is a code: the position of the category in "
            f"`categories` of `{COLUMNS_FILE}`, from 0. Any other category is a missing value."
        )
    if model.dates:
        first_days = [
            f"{_quoted(name)} since {day}" for name, day in model.dates.items()
        ]
        yield f"## Dates\n\nThe value of a date is a number of days (UTC): {', '.join(first_days)}."
    if model.encoded:
        yield (
            "## One-hot encoded columns\n\nA feature is 1 if the column has its category, otherwise 0. A "
            "missing or another category is 0 in all features of the column."
        )
        yield "\n".join(encoded_columns(model))


def encoded_columns(model: ShippedModel) -> Iterator[str]:
    """Yields a Markdown table of the features of one-hot encoded columns."""
    yield "| column | category | feature |"
    yield "|---|---|---|"
    for column, categories in model.encoded.items():
        names = encoded_names(column, categories)
        for category, name in zip(categories, names, strict=True):
            cells = [f"`{_in_cell(text)}`" for text in (column, category, name)]
            yield f"| {' | '.join(cells)} |"


def _in_cell(text: str) -> str:
    return visible(text).replace("`", "").replace("|", r"\|")


def _check(requests: CheckRequests | None, is_listwise: bool) -> Iterator[str]:
    """Yields how rows with expected scores are scored, and how the answer is compared."""
    answers = "answers.json"
    if requests is not None and requests.files:
        answers = requests.answers
        yield (
            f"## Check\n\n`{CHECK_FILE}` has rows with expected scores. After the upload, these commands "
            f"score the same rows with the deployed engine and write its answer to `{answers}`:"
        )
        yield "\n".join(["```", *requests.commands, "```"])
        reasons = Counter(requests.left_out.values())
        notes = list(requests.notes)
        for reason, count in reasons.items():
            notes.append(f"Rows left out: {count}, which have {reason}.")
        yield "\n".join(f"- {note}" for note in notes)
    else:
        calls = ""
        if is_listwise:
            calls = " Rows with the same query are one call; a row without a query is a call of its own."
        yield (
            f"## Check\n\nScore the rows of `{CHECK_FILE}` with the deployed model, and write a JSON object "
            'with the score of each id, such as `{"q1-d1": 0.25, "q1-d2": -0.5}`, to `answers.json`.'
            f"{calls}"
        )
    yield "This names each row without an answer or with another score; the exit code is 0 if there is none:"
    yield f"```\npython -m ltrbench ship . --check {answers}\n```"
    if requests is not None and requests.cleanup:
        yield "\n".join(
            ["Remove what the commands created:", "", "```", *requests.cleanup, "```"]
        )


def _scores_in_words(certificate: Certificate) -> str:
    """Returns how the scores of the shipped model differ from those of the original one."""
    plus = ""
    if certificate.offset:
        plus = f" plus {certificate.offset!r}"
    comparison = certificate.comparison
    if comparison is None:
        return f"Scores should be those of the original model{plus}; they were not compared."
    reordered = comparison.describe_reordered()
    num_changed = len(comparison.changed_queries)
    if num_changed:
        changed = f"{num_changed} of {comparison.queries} rankings have changed"
        largest = f"by up to {comparison.largest_difference:.3g}"
        return f"Scores differ from those of the original model{plus} {largest}: {changed}{reordered}."
    return f"Scores are those of the original model{plus}, but for rounding{reordered}."


def _verdict(certificate: Certificate) -> str:
    comparison = certificate.comparison
    if comparison is None or certificate.engine is None:
        return "It was not verified: no evaluator of this engine is available here."
    how = "a simulator of " if certificate.engine.is_simulated else ""
    tested = ""
    if certificate.num_splits > 0:
        tested = (
            f", and {certificate.num_tested} of {certificate.num_splits} splits were tested at "
            "their thresholds"
        )
    changed = f"{len(comparison.changed_queries)} of {comparison.queries} queries"
    return (
        f"Checked with {how}{certificate.engine.name}: the rankings of {changed} changed beyond "
        f"ties{tested}."
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

    def record(self) -> dict[str, Any]:
        """Returns the entry of certificate.json."""
        return {
            "name": self.name,
            "split": self.split,
            "fingerprint": self.dataset.fingerprint,
            "documents": self.dataset.num_documents,
            "queries": self.dataset.num_queries,
        }


def ship(
    run: Run,
    ranker: Ranker,
    target: Target,
    data: ShippedData,
    folder: Path,
    *,
    tolerance: int = 0,
    reason: str = "",
) -> Certificate:
    """Writes the converted model of a run with its certificate to a folder.

    Args:
        ranker: the loaded model of the run.
        tolerance: largest number of queries whose ranking may change.
        reason: why the run was chosen; empty if the user named it.

    Raises:
        RefusedModelError: The converted model ranks otherwise; the folder has only certificate.json.
        ConfigError: The format cannot hold the model, or a package is missing.
    """
    model = shipped_model(run, ranker)
    check_categories(model, target)
    if data.dataset.num_features != model.num_features:
        numbers = f"{data.dataset.num_features} features, but the model has {model.num_features}"
        raise ConfigError(
            f"{data.name} has {numbers}; name data with the features of the training set."
        )
    export = target.export(model)
    try:
        engine = target.engine(model, export)
    except ImportError as error:
        raise ConfigError(f"--to {target.name}: {error}") from error
    convention = PRESETS.get(str(run.result.convention.get("name")), DEFAULT)
    converted = _Converted(
        run=run,
        ranker=ranker,
        target=target,
        data=data,
        model=model,
        export=export,
        engine=engine,
    )
    certificate = certify(
        model,
        ranker.predict,
        data.dataset,
        export,
        engine,
        convention=convention,
        tolerance=tolerance,
    )
    files: dict[str, bytes] = {}
    if certificate.status != REFUSED:
        files = converted.files(certificate)
    about = {
        **converted.record(reason),
        "convention": convention.name,
        "files": {name: file_digest(content) for name, content in files.items()},
        "versions": versions(ranker.packages),
    }
    record = json_bytes({**certificate_record(certificate), **finite_json(about)})
    write_folder(folder, {**files, CERTIFICATE_FILE: record})
    if certificate.status == REFUSED:
        details = folder / CERTIFICATE_FILE
        raise RefusedModelError(
            f"{model.name} was not shipped to {target.name}. {certificate.reason} Details: "
            f"{details}."
        )
    return certificate


@dataclass(frozen=True, kw_only=True)
class _Converted:
    """A converted model with its run and its data.

    Attributes:
        ranker: the loaded model of the run.
        engine: scores the export; None if the target has no engine here.
    """

    run: Run
    ranker: Ranker
    target: Target
    data: ShippedData
    model: ShippedModel
    export: Export
    engine: Engine | None

    def files(self, certificate: Certificate) -> dict[str, bytes]:
        """Returns name -> content of the files of the folder, except certificate.json."""
        model = self.model
        export = self.export
        rows, requests = checked_rows(
            model,
            self.target,
            export,
            self.engine,
            self.ranker.predict,
            self.data.dataset,
        )
        paragraphs = readme(model, self.target, export, certificate, requests)
        text = "\n\n".join(paragraphs)
        files = {
            **export.files,
            UPLOAD_FILE: f"{export.request.rstrip()}\n".encode(),
            README_FILE: f"{text}\n".encode(),
            CHECK_FILE: json_bytes(finite_json(rows)),
        }
        if requests:
            files |= requests.files
        if model.categories:
            columns = self.run.path / MODEL_FOLDER / COLUMNS_FILE
            files[COLUMNS_FILE] = columns.read_bytes()
        return files

    def record(self, reason: str) -> dict[str, Any]:
        """Returns target, model, run and data in certificate.json."""
        return {
            "target": {
                "name": self.target.name,
                "options": plain(asdict(cast(Any, self.target))),
                "verified_against": self.target.verified_against,
            },
            "model": self.model.name,
            "run": _run_record(self.run, self.ranker, reason),
            "data": self.data.record(),
        }


def _run_record(run: Run, ranker: Ranker, reason: str) -> dict[str, Any]:
    """Returns the run in certificate.json, with the digests of the files of its model."""
    saved = run.path / MODEL_FOLDER
    digests = {}
    for path in sorted(filter(Path.is_file, saved.rglob("*"))):
        digests[path.relative_to(saved).as_posix()] = file_digest(path.read_bytes())
    return {
        "path": str(run.path),
        "model": run.result.model,
        "class": f"{type(ranker).__module__}.{type(ranker).__qualname__}",
        "files": digests,
        "chosen": reason or None,
    }


# ---- Documents with expected scores, to check a deployed engine: check_rows.json.

CHECK_FORMAT = 1
"""Version of the format of check_rows.json."""
DOCUMENT = "document"
"""Kind of a row that is a document of the data."""

_NUM_QUERIES = 5
_MOST_CHECKED_DOCUMENTS = 20
_PROBES_OF_KIND = 3


def checked_rows(
    model: ShippedModel,
    target: Target,
    export: Export,
    engine: Engine | None,
    predict: ScoreFunction,
    data: RankingDataset,
) -> tuple[dict[str, Any], CheckRequests | None]:
    """Returns the content of check_rows.json, and the requests that score its rows with the deployed engine.

    The rows are documents of a few queries, and probe rows without infinities. The expected score is that of
    the engine, with its offset; without an engine, of the original model plus the offset. Kinds that are
    limits of the target are left out, and rows that the requests leave out. If the engine can hold no row,
    the requests have no files, and no row is left out.

    Args:
        predict: scores of the original model.
    """
    chosen, features = _chosen(model, export, data)
    queries = [record["query"] for record in chosen]
    lists = [features]
    if model.is_listwise:
        lists = np.split(features, _starts_of_lists(queries))

    scores = _expected_scores(export, engine, predict, lists)
    columns = _columns_of_rows(model)
    ids = tuple(record["id"] for record in chosen)
    all_rows = CheckRows(ids, features, columns, np.asarray(scores, dtype=np.float64))
    rows = all_rows.where(np.isfinite(scores))  # JSON has no other numbers
    requests = target.check_requests(model, export, rows)
    if requests is not None and len(requests.left_out) == len(rows.ids):
        requests = replace(requests, files={})
    left_out = requests.left_out if requests is not None and requests.files else {}
    bounds = _bounds_of_answers(model, export, engine, scores, lists)
    records = []
    of_rows = zip(chosen, features, scores, bounds, strict=True)
    for record, values, score, bound in of_rows:
        if not np.isfinite(score) or record["id"] in left_out:
            continue
        numbers = {"score": float(score), "rounding": float(bound)}
        by_name = _values_by_name(model, columns, values)
        records.append({**record, "features": by_name, **numbers})
    content = {
        "format": CHECK_FORMAT,
        "target": target.name,
        "model": model.name,
        "rows": records,
    }
    return content, requests


def _expected_scores(
    export: Export,
    engine: Engine | None,
    predict: ScoreFunction,
    lists: Sequence[Features],
) -> Scores:
    """Returns the (n,) scores of the engine, or, without one, of the original model plus the offset."""
    if engine is None:
        return np.concatenate([predict(rows) + export.offset for rows in lists])
    return np.concatenate([engine.scores(engine.received(rows)) for rows in lists])


def _columns_of_rows(model: ShippedModel) -> tuple[int, ...]:
    """Returns the features in check_rows.json: of very many features, those that the model reads."""
    if model.num_features > MOST_LISTED:
        return tuple(features_read(model.scorer))
    return tuple(range(model.num_features))


def _values_by_name(
    model: ShippedModel, columns: Sequence[int], values: NDArray[Any]
) -> dict[str, float | None]:
    """Returns feature -> value; None: missing."""
    by_name: dict[str, float | None] = {}
    for column in columns:
        value = float(values[column])
        by_name[model.feature_names[column]] = None if math.isnan(value) else value
    return by_name


def _bounds_of_answers(
    model: ShippedModel,
    export: Export,
    engine: Engine | None,
    scores: NDArray[Any],
    lists: Sequence[Features],
) -> NDArray[np.floating[Any]]:
    """Returns the (n,) largest differences by rounding between expected and answered scores.

    Args:
        scores: (n,), expected scores.
        lists: the rows that are scored together.
    """
    if engine is not None and is_exact(model, engine):
        # An ulp, for the decimal numbers of the answer.
        sizes = np.abs(scores).astype(engine.score_dtype)
        steps: NDArray[np.floating[Any]] = np.spacing(sizes)
        return steps
    dtype = "float32"
    if engine is not None:
        dtype = engine.leaf_dtype or engine.score_dtype
    dtypes = (getattr(model.scorer, "score_dtype", "float64"), dtype)
    bounds = [rounding_bounds(model, rows, dtypes, export.offset) for rows in lists]
    return np.concatenate(bounds)


def _starts_of_lists(queries: Sequence[str | None]) -> list[int]:
    """Returns where another query begins, except at 0; a row without a query is a list of its own."""
    starts = []
    for row, (before, query) in enumerate(itertools.pairwise(queries), start=1):
        if query is None or query != before:
            starts.append(row)
    return starts


def _chosen(
    model: ShippedModel, export: Export, data: RankingDataset
) -> tuple[list[dict[str, Any]], Features]:
    """Returns id, query, document and kind of the rows, and their (n, F) features."""
    documents, of_documents = _chosen_documents(data)
    probes, of_probes = _chosen_probes(model, export, data)
    return [*documents, *probes], np.concatenate([*of_documents, *of_probes])


def _chosen_documents(
    data: RankingDataset,
) -> tuple[list[dict[str, Any]], list[Features]]:
    """Returns the first documents of queries that are spread over the data."""
    records = []
    parts = []
    numbers = np.linspace(0, data.num_queries - 1, _NUM_QUERIES)
    queries = np.unique(numbers.astype(np.int64))
    for query in queries.tolist():
        start, stop = data.query_start[query : query + 2].tolist()
        rows = np.arange(start, min(stop, start + _MOST_CHECKED_DOCUMENTS))
        parts.append(gather_rows(data.features, rows))
        for number, row in enumerate(rows.tolist()):
            document = None
            if data.document_ids is not None:
                document = str(data.document_ids[row])
            record = {
                "id": f"q{query + 1}-d{number + 1}",
                "query": str(data.query_ids[query]),
                "document": document,
                "kind": DOCUMENT,
            }
            records.append(record)
    return records, parts


def _chosen_probes(
    model: ShippedModel, export: Export, data: RankingDataset
) -> tuple[list[dict[str, Any]], list[Features]]:
    """Returns the first probe rows of each kind, without those that are limits of the target."""
    records = []
    parts = []
    probes = make_probes(model, data.features)
    is_infinite = np.isinf(probes.features).any(axis=1)
    usable = ~is_infinite & ~np.isin(probes.kinds, list(export.limits))
    for kind in dict.fromkeys(probes.kinds[usable].tolist()):
        of_kind = np.flatnonzero(usable & (probes.kinds == kind))[:_PROBES_OF_KIND]
        parts.append(probes.features[of_kind])
        name = f"probe-{kind.replace(' ', '-')}"
        for number in range(1, len(of_kind) + 1):
            record = {"id": f"{name}-{number}", "query": None, "document": None}
            records.append({**record, "kind": kind})
    return records, parts


# ---- Compares what a deployed engine answered with the expected scores in check_rows.json. n rows.


@dataclass(frozen=True)
class AnswerCheck:
    """Answered scores against expected scores.

    Attributes:
        num_rows: number of expected rows.
        missing: ids without an answer.
        unknown: answered ids that are no row.
        largest_difference: largest absolute difference.
        wrong: id -> expected and answered score that differ by more than rounding, the largest difference
            first.
        changed: queries whose order changed, each with the ids of two rows, the first of which was higher.
    """

    num_rows: int
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    largest_difference: float
    wrong: Mapping[str, tuple[float, float]]
    changed: Mapping[str, tuple[str, str]]

    def checks(self, tolerance: int = 0) -> list[Check]:
        """Returns the checks that all rows were answered, and at most `tolerance` queries changed their
        order; with a tolerance of 0 also that all scores are equal but for rounding."""
        checks = [
            Check("rows without an answer", len(self.missing), limit=0, sense=AT_MOST),
            Check("changed queries", len(self.changed), limit=tolerance, sense=AT_MOST),
        ]
        if tolerance == 0:
            wrong = Check(
                "rows beyond rounding", len(self.wrong), limit=0, sense=AT_MOST
            )
            checks.append(wrong)
        return checks


def check_answers(
    rows: Sequence[Mapping[str, Any]], answered: Mapping[str, float]
) -> AnswerCheck:
    """Compares answered scores, by id, with the expected rows, which have "id", "query", "score" and
    "rounding"."""
    ids = [row["id"] for row in rows]
    known = [row for row in rows if row["id"] in answered]
    scores, answers, bounds = _columns_of(known, answered)
    differences = difference_of(scores, answers)
    order = np.argsort(-differences, kind="stable").tolist()
    wrong = {}
    for row in order:
        if differences[row] > bounds[row]:
            wrong[known[row]["id"]] = (float(scores[row]), float(answers[row]))
    with_query = [row for row in known if row["query"] is not None]
    return AnswerCheck(
        num_rows=len(rows),
        missing=tuple(name for name in ids if name not in answered),
        unknown=tuple(name for name in answered if name not in ids),
        largest_difference=float(differences.max(initial=0)),
        wrong=wrong,
        changed=_changed_orders(with_query, answered),
    )


def _columns_of(
    rows: Sequence[Mapping[str, Any]], answered: Mapping[str, float]
) -> NDArray[np.float64]:
    """Returns the (3, n) expected scores, answered scores, and largest differences by rounding."""
    scores = [row["score"] for row in rows]
    answers = [answered[row["id"]] for row in rows]
    bounds = [row["rounding"] for row in rows]
    return np.array([scores, answers, bounds], dtype=np.float64)


def _changed_orders(
    rows: Sequence[Mapping[str, Any]], answered: Mapping[str, float]
) -> dict[str, tuple[str, str]]:
    """Returns query -> the first and second row of a pair that was answered in another order."""
    if not rows:
        return {}
    by_query = itertools.groupby(rows, key=lambda row: row["query"])
    sizes = [len(list(of_query)) for _, of_query in by_query]
    query_start = np.cumsum([0, *sizes])
    judgments = Judgments(labels=np.zeros(len(rows)), query_start=query_start)
    comparison = compare_scores(judgments, *_columns_of(rows, answered))
    changed = {}
    for first, second in comparison.changed_queries.values():
        changed[rows[first]["query"]] = (rows[first]["id"], rows[second]["id"])
    return changed

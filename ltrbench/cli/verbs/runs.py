"""Verbs on a run: `export`, `import`, `predict`, `show`, `trees`, `ui`.

The verb `export`: the scores and metrics of a run in the file formats of TREC and RankLib.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import click
import numpy as np

from ltrbench.cli.console import (
    PATH,
    PLUGIN_OPTION,
    PROGRAM,
    READ_OPTION,
    echo,
    echo_json,
    terminal_width,
    typed_options,
    write_output,
)
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import trees_of
from ltrbench.runs import (
    RESULT_FILE,
    Run,
    class_and_folder_of_model,
    find_runs_and_trials,
    naming,
    read_run,
)
from ltrbench.tables import Table, TableColumn, TableRow, assignments, figure, paragraph
from ltrbench.tables.numbers import DASH

if TYPE_CHECKING:
    from ltrbench.data import RankingDataset, Splits
    from ltrbench.rankers.importance import Importances
    from ltrbench.runs import RunResult, ScoredSplit


@click.command("export")
@click.argument("run", type=PATH)
@click.option(
    "--format",
    "kind",
    required=True,
    type=click.Choice(["trec-run", "qrels", "ranklib-idv", "scores"]),
    help="Format of the lines, see above.",
)
@click.option(
    "--split",
    type=click.Choice(["test", "valid"]),
    default="test",
    show_default=True,
    help="Split to export.",
)
@click.option("--metric", default="ndcg@10", show_default=True, metavar="NAME", help="Metric of ranklib-idv.")
@click.option(
    "--convention",
    default="ranklib",
    show_default=True,
    metavar="NAME",
    help="Convention of the metric of ranklib-idv.",
)
@click.option(
    "--output",
    type=PATH,
    help="Write to this file instead of standard output; .gz, .bz2, .xz and .zst files are compressed.",
)
def export_verb(run: Path, kind: str, split: str, metric: str, convention: str, output: Path | None) -> None:
    """Writes the scores of the finished RUN in the format of another tool.

    \b
        trec-run     query Q0 document rank score tag: read by trec_eval, pytrec_eval and ir_measures
        qrels        query 0 document label: the judgments for a trec-run
        ranklib-idv  NDCG@10   query   value: one metric per query, as written by RankLib's -idv
        scores       one score per line, in the order of the data rows

    Documents are named by their ids; if the data has no ids, by their row, counted from 1, with a note on
    standard error. Scores are written with full precision.

    \b
        python -m ltrbench export outputs/2026-01-31/12-00-00 --format trec-run --output run.trec
    """
    export = _Export(read_run(run), split, metric, convention)
    with naming(export.run):
        text = "".join(_WRITERS[kind](export, export.run.scored(split)))
    write_output(text, output)


@dataclass(frozen=True)
class _Export:
    run: Run
    split: str
    metric: str
    convention: str


def _trec_run(export: _Export, scored: ScoredSplit) -> Iterator[str]:
    from ltrbench.data.score_files import document_names, trec_run_lines

    names, reason = document_names(scored.judgments, scored.file_rows)
    _say_of_names(reason)
    _say_of_ties(scored)
    return trec_run_lines(scored.judgments, scored.scores, names, export.run.result.model)


def _qrels(export: _Export, scored: ScoredSplit) -> Iterator[str]:
    from ltrbench.data.score_files import document_names, qrels_lines

    names, reason = document_names(scored.judgments, scored.file_rows)
    _say_of_names(reason)
    return qrels_lines(scored.judgments, names)


def _ranklib_idv(export: _Export, scored: ScoredSplit) -> Iterator[str]:
    from ltrbench.data.score_files import idv_lines
    from ltrbench.metrics import evaluate, preset

    evaluation = evaluate(scored.judgments, scored.scores, [export.metric], preset(export.convention))
    values = evaluation.per_query[export.metric]
    counted = ~np.isnan(values)
    if not counted.all():
        left_out = f"{(~counted).sum()} of {len(counted)} queries"
        _say(f"{left_out} do not count under the convention {export.convention}, so they have no line.")
    queries = scored.judgments.query_ids[counted].tolist()
    pairs = zip(queries, values[counted].tolist(), strict=True)
    return idv_lines(export.metric, pairs, evaluation.means[export.metric])


def _scores(export: _Export, scored: ScoredSplit) -> Iterator[str]:
    in_file = scored.scores if scored.file_rows is None else scored.scores[np.argsort(scored.file_rows)]
    return (f"{score!r}\n" for score in in_file.tolist())


_WRITERS: dict[str, Callable[[_Export, ScoredSplit], Iterator[str]]] = {
    "trec-run": _trec_run,
    "qrels": _qrels,
    "ranklib-idv": _ranklib_idv,
    "scores": _scores,
}


def _say_of_names(reason: str) -> None:
    if reason:
        _say(f"{reason[0].upper()}{reason[1:]}: documents are named by their row, counted from 1.")


def _say_of_ties(scored: ScoredSplit) -> None:
    """Prints a note about ties in trec_eval, which stores scores in float32."""
    from ltrbench.metrics import rank

    with np.errstate(over="ignore"):
        sizes = rank(scored.judgments, scored.scores.astype(np.float32)).tie_size
    tied = int(sizes[sizes > 1].sum())
    if tied:
        _say(
            f"{tied} of {scored.judgments.num_documents} documents have the same float32 score as another "
            "document of their query: trec_eval orders them by document id, descending."
        )


def _say(sentence: str) -> None:
    echo(sentence, err=True)


# ---- Loads the model and the data of a finished run, for the verbs that use them.

RANKER_OPTION = click.option(
    "--ranker", help="Class of the model if it is not part of ltrbench: my_module.MyRanker."
)

_FOR_TABLES_ONLY = ("published", "fetch")

SOURCE_OPTION = click.option(
    "--source", metavar="CLASS", help="Class of RUN's data if it is not part of ltrbench: my_module.MyData."
)


def load_model(run: Run, named: str | None) -> Ranker:
    """Loads the model of a run. The class of the model must be part of ltrbench, or be given in `named`.

    Raises:
        ResultError: The run failed, or has no model because its scores were imported or it is a trial.
        ConfigError: The class is not part of ltrbench and `named` is None.
    """
    from ltrbench.config import find_class

    recorded, folder = class_and_folder_of_model(run)
    target = named or recorded
    if named is None and not target.startswith("ltrbench.rankers."):
        raise ConfigError(
            f"the model of {run.path} has the class '{target}', which is not part of ltrbench. Code named in "
            f"a run folder is not executed by default; if you trust the class, add --ranker {target}."
        )
    ranker: type[Ranker] = find_class(target, Ranker, "--ranker" if named else "model")
    return ranker.load(folder)


def load_splits(run: Run, named: str | None) -> Splits:
    """Loads the data of a run with its settings. The class of the data source must be part of ltrbench, or be
    given in `named`.

    Relative paths begin in the folder in which the run was started, if it still exists.

    Raises:
        ResultError: The run was made from data in memory, or with settings that this version does not know.
        ConfigError: The class is not part of ltrbench and `named` is None.
        DataError: The files are absent or invalid.
    """
    from ltrbench.config import build, find_class
    from ltrbench.data.sources import DataSource
    from ltrbench.experiment.loading import load_once

    settings = run.result.settings.get("data", {})
    target = named or str(settings.get("_target_"))
    if named is None and not target.startswith("ltrbench.data."):
        raise ConfigError(
            f"the data of {run.path} have the class '{target}', which is not part of ltrbench. Code named in "
            f"a run folder is not executed by default; if you trust the class, add --source {target}."
        )
    types = get_type_hints(find_class(target, DataSource, "--source" if named else "data"))
    # A result records NaN as null.
    kept = {
        name: float("nan") if value is None and types.get(name) is float else value
        for name, value in settings.items()
        if name not in _FOR_TABLES_ONLY
    }
    try:
        source = build({"data": {**kept, "_target_": target}}, "data", DataSource)
    except (ConfigError, TypeError) as error:  # TypeError: a setting without default is missing
        reason = str(error).rstrip(".")
        raise ResultError(
            f"the data of {run.path} cannot be loaded again from its settings: {reason}. Name a run whose "
            "data are in files."
        ) from None
    folder = Path(run.result.started_in)
    with contextlib.chdir(folder) if folder.is_dir() else contextlib.nullcontext():
        splits, _ = load_once(source)
    return splits


def split_of_run(run: Run, split: str, named: str | None) -> RankingDataset:
    """Returns "test" or "valid" of the data of a run; `named` as in `load_splits`.

    Raises:
        ConfigError: The class of the data source is not part of ltrbench and `named` is None.
        DataError: The data cannot be read, the run has no such split, or it is not the split of the run.
    """
    try:
        splits = load_splits(run, named)
    except ConfigError as error:
        raise ConfigError(f"{error} Or name a data file with --data FILE.") from error
    except (DataError, ResultError) as error:
        raise DataError(
            f"{run.path}: its data cannot be read again. {error} Or name a data file with --data FILE."
        ) from error
    dataset: RankingDataset | None = getattr(splits, split)
    if dataset is None:
        raise DataError(f"{run.path} has no {split} split; choose --split test, or name a file with --data.")
    recorded = run.result.data.get(split, {}).get("fingerprint")
    if dataset.fingerprint != recorded:
        raise DataError(
            f"{run.path}: the {split} split of its data has the fingerprint {dataset.fingerprint}, but the "
            f"run recorded {recorded}. The data have changed since the run: restore the files, run again, or "
            "name a data file with --data FILE."
        )
    return dataset


# ---- The verb `import`: writes the scores of any system, or a model of another library, as a run folder.


@click.command("import")
@click.argument("name")
@click.argument("file")
@click.option("--like", type=PATH, required=True, metavar="RUN", help="Run on the same data.")
@click.option("--output", type=PATH, required=True, metavar="DIR", help="Folder of the new run.")
@click.option(
    "--features",
    "way",
    type=click.Choice(["names", "numbers", "positions"]),
    help="How the features of a model are matched with the data. Default: names if the model and the data "
    "have them, else RankLib's numbers, else positions.",
)
@SOURCE_OPTION
@PLUGIN_OPTION
def import_verb(name: str, file: str, like: Path, output: Path, way: str | None, source: str | None) -> None:
    """Writes the scores or the model in FILE as a run of the system NAME.

    The run can be compared and tracked like any other run. Scores: FILE has one score per line in the order
    of the data rows, the query, index and score of RankLib's -score, or a TREC run; the format is detected
    from the content. {data}, {fold} and {seed} in the file name are filled in from RUN; with {split} in it,
    the scores of test and valid are read.

    A model: FILE is LightGBM's model.txt, XGBoost's model.json or model.ubj, or a tree ensemble of RankLib.
    The data of RUN are loaded again and scored. The run has the model, for predict, trees and ship.

    \b
        python -m ltrbench import ranklib scores.txt --like outputs/2026-01-31/12-00-00 --output ranklib
        python -m ltrbench import production model.txt --like outputs/2026-01-31/12-00-00 --output production
    """
    from ltrbench.compare.imported import Import, ModelImport, check_like, import_like, import_model
    from ltrbench.models.reading import is_model_file

    system, run_on_data = Import(name, file), read_run(like)
    path = system.file(run_on_data.result, "test")
    if is_model_file(path):
        check_like(run_on_data)
        splits = load_splits(run_on_data, source)
        _report(output, import_model(ModelImport(name, path, way), run_on_data, splits, output))
        return
    for option, value in (("--features", way), ("--source", source)):
        if value is not None:
            raise ConfigError(
                f"{option} applies to model files only, but {path} is not one; remove {option}."
            )
    _report(output, import_like(system, run_on_data, output))


def _report(output: Path, run: Run) -> None:
    """Prints the metrics and the notes of a run."""
    figures = [
        f"{key} {figure(value, '.4f')}"
        for key, value in run.result.metrics.items()
        if key.startswith("test/")
    ]
    echo(f"{output}: {run.result.model}, {', '.join(figures)}")
    for note in run.result.notes:
        echo(f"- {note}")


# ---- The verb `predict`: scores a data file with the model of a finished run.


@click.command("predict")
@click.argument("run", type=PATH)
@click.argument("data", type=PATH)
@click.option("--output", type=PATH, help="Write the scores to this file instead of standard output.")
@RANKER_OPTION
@READ_OPTION
def predict_verb(
    run: Path, data: Path, output: Path | None, ranker: str | None, reading: tuple[str, ...]
) -> None:
    """Scores the documents of DATA with the model of the finished RUN, one score per line.

    DATA has the format of the training files; columns of a table are matched by name. Labels and queries are
    not needed: a LETOR line may begin with qid:ID or with its first feature, and a table may lack these
    columns. Scores are in the order of the file and have full precision.

    \b
        python -m ltrbench predict outputs/2026-01-31/12-00-00 test.txt --output scores.txt
    """
    from ltrbench.data.reading import read_features, reading_options

    finished = read_run(run)
    model = load_model(finished, ranker)
    train = finished.result.data["train"]
    # As in training, except that the columns of a table may be in another order; a LETOR file has no names.
    as_trained = {"num_features": int(train["features"]), "feature_names": finished.result.feature_names}
    options = reading_options(data, finished.result.settings.get("data", {}))
    scores = model.predict(read_features(data, **{**as_trained, **options, **typed_options(reading)}))
    write_output("".join(f"{score!s}\n" for score in scores), output)


# ---- The verb `show`: prints one run from its folder.

NUM_FEATURES = 10
"""Maximum number of features in the table; --json has all."""

_LINE = 100  # width of a paragraph in columns if standard output is not a terminal


@click.command("show")
@click.argument("run", type=PATH)
@click.option(
    "--json", "as_object", is_flag=True, help="Print one JSON object: result.json, path, and all importances."
)
def show_verb(run: Path, as_object: bool) -> None:
    """Prints the run in the folder RUN: settings, command, and metrics or error.

    \b
        python -m ltrbench show outputs/2026-01-31/12-00-00
    """
    run_of_folder = _read(run)
    if as_object:
        echo_json(_record(run_of_folder))
    else:
        echo("\n\n".join(_parts(run_of_folder, terminal_width())))


def _read(folder: Path) -> Run:
    from ltrbench.sweep.job import PLAN_FOLDER

    try:
        return read_run(folder)
    except ResultError as error:
        if (folder / RESULT_FILE).exists() or not (folder / PLAN_FOLDER).is_dir():
            raise
        status = f"{PROGRAM} status {shlex.quote(str(folder))}"
        raise ResultError(f"{error} {folder} is the folder of a sweep; {status} shows its jobs.") from error


def _record(run: Run) -> dict[str, Any]:
    importances = run.importances()
    columns = [values.tolist() for values in importances.values.values()]
    table = Table.of(["feature", *importances.values], zip(importances.feature_names, *columns, strict=True))
    return {**asdict(run.result), "path": str(run.path), "importances": table.records()}


def _parts(run: Run, width: int | None) -> Iterator[str]:
    """Yields the paragraphs and tables, fitted to a width in columns; None: standard output is no
    terminal."""
    result, columns = run.result, width or _LINE
    fold = result.data.get("fold")
    of_fold = "" if fold is None else f", fold {fold}"
    of_search = ", a trial of a search" if result.trial else ""
    yield f"{result.model} on {result.data['name']}{of_fold}: {result.status}{of_search}\n{run.path}"
    if result.error is not None:
        reason, _, trace = result.error.partition("\n")
        # A traceback is not wrapped.
        yield "\n\n".join([paragraph(f"error: {reason}", columns), *([trace.strip()] if trace else [])])
    yield _origin(result, width)
    yield _facts([*_making(result), *costs(result)], columns)
    if result.metrics:
        yield _metrics_table(result).markdown(width)
        yield paragraph(_convention(result), columns)
    importances = run.importances()
    if importances.kinds:
        from ltrbench.rankers.importance import MORE_KINDS

        yield paragraph(_importances_title(result, importances), columns)
        yield _importances_table(importances).markdown(width)
        if importances.only_of_training:
            yield paragraph(MORE_KINDS, columns)
    if "train" in result.data:
        yield _data_table(result).markdown(width)
    # A run of imported scores has no machine.
    if result.machine:
        yield _facts(list(_surroundings(result)), columns)
    sentences = [*result.unmatched, *result.notes]
    if sentences:
        yield "\n".join(paragraph(f"- {sentence}", columns, "  ") for sentence in sentences)


def _facts(facts: list[tuple[str, str]], columns: int) -> str:
    margin = max(len(name) for name, _ in facts) + 2
    return "\n".join(paragraph(f"{name:{margin}}{fact}", columns, " " * margin) for name, fact in facts)


def _origin(result: RunResult, width: int | None) -> str:
    """Returns the folder in which the run was started, and the command that repeats it."""
    place = f"run in {result.started_in or DASH}"
    if result.command is None:
        return paragraph(f"{place} from Python; there is no command that repeats it.", width or _LINE)
    return f"{place} with\n{_command(result, width)}"


def _command(result: RunResult, width: int | None) -> str:
    """Returns the command that repeats the run, quoted for a shell; a line that continues ends in a
    backslash."""
    lines = ["  python -m ltrbench"]
    for word in map(shlex.quote, (result.command or ())[3:]):
        if width is not None and len(f"{lines[-1]} {word} \\") > width:
            lines[-1] += " \\"
            lines.append(f"    {word}")
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)


def _making(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yields the sweep, time, class, parameters, search and seed of the run."""
    if result.sweep is not None:
        yield "sweep", result.sweep
    yield "when", _when(result)
    model = result.settings.get("model", {})
    if "_target_" in model:
        yield "class", str(model["_target_"])
    settings = _settings(model)
    yield "params", f"{result.params}{': ' if settings else ''}{settings}"
    if result.search:
        yield "search", _search(result.search)
    yield "seed", str(result.seed)


def _search(search: Mapping[str, Any]) -> str:
    """Returns the search and its cost, the settings that it chose, and those of the default trial."""
    cost = f"{search['trials']} trials, {search['iterations']:,} iterations, fits {search['seconds']:.1f} s"
    return (
        f"{search['name']}, seed {search['seed']}, {cost}; chosen {search['choose']} by {search['metric']} "
        f"on validation: trial {search['chosen']}, {assignments(search['settings']) or 'no setting varied'}; "
        f"default: {assignments(search['default'])}"
    )


def _when(result: RunResult) -> str:
    if not (result.started and result.finished):
        return DASH
    started, finished = (datetime.fromisoformat(text) for text in (result.started, result.finished))
    seconds = (finished - started).total_seconds()
    return f"{started:%Y-%m-%d %H:%M:%S} {started.tzname() or ''}, {seconds:.1f} s in total"


def _settings(settings: Mapping[str, Any], prefix: str = "") -> str:
    """Returns the settings of the model as `key=value`, without nulls and without those on other lines."""
    words = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            words.append(_settings(value, f"{prefix}{key}."))
        elif value is not None and key not in ("_target_", "seed", "num_threads"):
            words.append(f"{prefix}{key}={value}")
    return ", ".join(word for word in words if word)


def costs(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yields the name and value of each cost of the run: seconds, memory and trees."""
    from ltrbench.runs import TIMES

    if result.seconds:
        known = [
            f"{words} {result.seconds[kind]:.3f}" for kind, words in TIMES.items() if kind in result.seconds
        ]
        remark = " (several jobs ran at a time)" if result.shared_machine else ""
        yield "seconds", f"{', '.join(known)}{remark}"
    if result.peak_memory_mb is not None:
        yield "memory", f"{result.peak_memory_mb:.0f} MB more during the fit"
    if result.best_iteration is not None:
        most = result.settings.get("model", {}).get("num_trees")
        yield "trees", f"{result.best_iteration}{'' if most is None else f' of at most {most}'}"


def _metrics_table(result: RunResult) -> Table:
    splits = [split for split in ("valid", "test") if any(key.startswith(split) for key in result.metrics)]
    names = dict.fromkeys(key.partition("/")[2] for key in result.metrics)
    rows = [[name, *(result.metrics.get(f"{split}/{name}") for split in splits)] for name in names]
    return Table.of(["metric", *splits], rows, ".4f")


_TIES = {"expected": "with their expected value", "row_order": "in row order"}
_NO_RELEVANT = {"skip": "is left out", "0": "counts 0", "1": "counts 1"}


def _convention(result: RunResult) -> str:
    fields = result.convention
    ties, absent = str(fields.get("ties")), str(fields.get("no_relevant"))
    shares = [
        f"{data['queries_without_relevant_document']:.1%} of {split}"
        for split, data in result.data.items()
        if split in ("valid", "test") and "queries_without_relevant_document" in data
    ]
    return (
        f"Convention {fields['name']}: {str(fields['gain']).replace('_', ' ')}, tied scores count "
        f"{_TIES.get(ties, ties)}, and a query without a relevant document "
        f"{_NO_RELEVANT.get(absent, absent)} ({', '.join(shares)})."
    )


def _importances_title(result: RunResult, importances: Importances) -> str:
    """Returns the title of the table of importances, with the criterion that sorts the features."""
    count = min(NUM_FEATURES, len(importances.feature_names))
    total = result.data["train"]["features"] if importances.is_part else len(importances.feature_names)
    _, meaning = _KINDS_OF_IMPORTANCE[importances.kinds[0]]
    meaning = meaning.format(metric=result.importance_metric or "the metric")
    return f"{count} of {total} features, by {meaning}"


_KINDS_OF_IMPORTANCE = {
    "permutation_within": ("within", "drop of {metric} on test when shuffled within each query"),
    "permutation_across": ("across", "drop of {metric} on test when shuffled across all queries"),
    "shap": ("SHAP", "share of the mean |SHAP|, the contribution to the scores"),
    "gain": ("gain", "share of the gain of all splits"),
    "split": ("splits", "share of all splits"),
    "drop_column": ("dropped", "drop of {metric} on test in a fit without the feature"),
}
"""Kind -> (column head, definition)."""


def _importances_table(importances: Importances) -> Table:
    """Returns the table of the most important features by the first kind."""
    from ltrbench.rankers.importance import FALLS, HIGH, LOW

    first, *_ = importances.kinds
    values = importances.values
    # NaN sorts last.
    order = sorted(
        range(len(values[first])),
        key=lambda row: math.inf if math.isnan(values[first][row]) else -values[first][row],
    )[:NUM_FEATURES]
    columns = [TableColumn("feature", left=True)]
    cells: list[TableRow] = [[importances.feature_names[row] for row in order]]
    for kind in importances.kinds:
        form = "+.4f" if kind in FALLS else ".1%"
        columns.append(TableColumn(_KINDS_OF_IMPORTANCE[kind][0], form))
        cells.append([float(values[kind][row]) for row in order])
        if kind == first and kind + LOW in values:
            columns.append(TableColumn("95 %"))
            ends = [(float(values[kind + LOW][row]), float(values[kind + HIGH][row])) for row in order]
            cells.append([f"{figure(low, form)} to {figure(high, form)}" for low, high in ends])
    return Table(columns, list(zip(*cells, strict=True)))


def _data_table(result: RunResult) -> Table:
    sizes = ("queries", "documents", "features")
    columns = [
        TableColumn("split", left=True),
        *map(TableColumn, sizes),
        TableColumn("no relevant", ".1%"),
        TableColumn("fingerprint"),
    ]
    keys = (*sizes, "queries_without_relevant_document", "fingerprint")
    rows = [
        [split, *(facts.get(key) for key in keys)]
        for split, facts in result.data.items()
        if split in ("train", "valid", "test")
    ]
    return Table(columns, rows)


def _surroundings(result: RunResult) -> Iterator[tuple[str, str]]:
    machine = result.machine
    yield "machine", f"{machine.get('cpu')}, {machine.get('cores')} cores, {machine.get('system')}"
    yield "threads", str(result.threads)
    yield "versions", ", ".join(f"{name} {version}" for name, version in result.versions.items())
    yield "commit", result.commit or DASH
    if result.drift:
        yield "drift", _drift(result.drift)
    chosen = result.search.get("space", {})
    fixed = {name: value for name, value in result.own_settings.items() if name not in chosen}
    if fixed:
        yield "own", f"set instead of the shared parameters: {assignments(fixed)}"
    if result.unmatched:
        yield "unmatched", "differences between this backend and the shared parameters:"
    elif not fixed and result.params not in ("own", "none"):
        yield "unmatched", "none: every shared parameter has its common meaning in this backend"


def _drift(drift: Mapping[str, Any]) -> str:
    convention = drift["convention"]
    if "error" in drift:
        return f"the metrics of {convention} could not be checked: {drift['error']}"
    figures = {name: (drift["own"][name], ours) for name, ours in drift.get("ours", {}).items()}
    pairs = {name: pair for name, pair in figures.items() if None not in pair}
    if not pairs:
        return f"not checked: {convention} has none of these metrics"
    name = max(pairs, key=lambda name: abs(pairs[name][0] - pairs[name][1]))
    theirs, ours = pairs[name]
    verdict = "DRIFT, do not rely on either value: " if drift.get("drifted") else "none: "
    return (
        f"{verdict}{len(pairs)} metrics computed by {convention} and by ltrbench under the same convention; "
        f"largest difference in {name}, {theirs:.9f} by {convention} and {ours:.9f} by ltrbench"
    )


# ---- The verb `trees`: prints and draws the trees of the model of a run.

DRAWN = 3
"""Number of trees in a picture without --first."""


@click.command("trees")
@click.argument("run", type=PATH)
@click.option("--first", type=click.IntRange(min=1), metavar="N", help="Only the first N trees.")
@click.option("--json", "as_list", is_flag=True, help="Print a JSON list of nested nodes instead of text.")
@click.option(
    "--output",
    type=PATH,
    metavar="FILE.png",
    help=f"Also draw the first {DRAWN} trees, or the first N of --first.",
)
@RANKER_OPTION
def trees_verb(run: Path, first: int | None, as_list: bool, output: Path | None, ranker: str | None) -> None:
    """Prints the trees of the model of the finished RUN, for every backend with trees.

    The score of a document is the sum of its leaf values, each multiplied by the weight of its tree, which is
    the learning rate in most models. Values up to the threshold go left. In JSON a tree is its root node and
    a "weight"; a node is {"feature", "threshold", "missing", "left", "right"}, or {"value"} if it is a leaf.
    Features are counted from 0, and "missing" is the direction of missing values; with "zero": "missing" the
    value 0 counts as missing. An initial score of all documents is shown as a last tree with one leaf.

    \b
        python -m ltrbench trees outputs/2026-01-31/12-00-00 --first 3 --output trees.png
    """
    from ltrbench.plots.tree_views import as_lines, as_nested, draw_trees

    finished = read_run(run)
    ensemble = trees_of(load_model(finished, ranker))
    shown = replace(ensemble, trees=ensemble.trees[:first])
    train = finished.result.data["train"]
    names = finished.result.feature_names or [str(number + 1) for number in range(train["features"])]
    if output is not None:
        if output.suffix.lower() != ".png":
            raise ConfigError(f"--output {output}: only PNG pictures are supported; name it FILE.png.")
        drawn = replace(ensemble, trees=ensemble.trees[: first or DRAWN])
        draw_trees(drawn, names, _title(finished, len(drawn.trees), len(ensemble.trees)), output)
    echo(json.dumps(as_nested(shown), allow_nan=False) if as_list else "\n".join(as_lines(shown, names)))


def _title(run: Run, num_drawn: int, num_trees: int) -> str:
    result = run.result
    of_fold = "" if result.data.get("fold") is None else f", fold {result.data['fold']}"
    which = f"the first {num_drawn} of " if num_drawn < num_trees else ""
    return f"{result.model} on {result.data['name']}{of_fold}: {which}{num_trees} trees"


# ---- The verb `ui`: opens the MLflow UI on the tracking store of the runs.


@click.command("ui")
@click.argument("folder", type=PATH, default=Path())
@click.option("--uri", help="Tracking store; default: the store of the newest run below FOLDER.")
@click.option("--experiment", default="ltrbench", help="MLflow experiment; only with --uri.")
@click.option("--port", type=int, default=5000, show_default=True, help="Port to listen on.")
def ui_verb(folder: Path, uri: str | None, experiment: str, port: int) -> int:
    """Opens the MLflow UI on the tracking store of the runs in FOLDER.

    FOLDER is the current folder by default. Prints the address of the run list, with columns for NDCG and the
    fit time.

    \b
        python -m ltrbench ui --port 5001
    """
    from ltrbench.tracking.mlflow import run_list_of

    store, experiment = (uri, experiment) if uri else _newest_store(folder)
    if store.startswith(("http://", "https://")):
        click.echo(f"The runs are on a server: open {store.rstrip('/')}{run_list_of(store, experiment)}")
        return 0
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", store]
    command += ["--port", str(port), "--workers", "1"]
    # Without MLflow's job runner, which would take seconds and many processes; ltrbench schedules no jobs.
    environment = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", **os.environ}
    # In a separate process group, ended as a whole, because the workers of MLflow's server outlive it.
    server = subprocess.Popen(command, env=environment, start_new_session=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        address = f"http://127.0.0.1:{port}{run_list_of(store, experiment)}"
        click.echo(f"MLflow UI on {store}: {address} (Ctrl-C to stop)", err=True)
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def _newest_store(folder: Path) -> tuple[str, str]:
    """Returns the store and the experiment of the newest tracked run, resolved from any current folder.

    Raises:
        ResultError: There is no tracked run, or its store does not exist.
    """
    from ltrbench.cli.session import recorded_store

    store = recorded_store(find_runs_and_trials([folder]))
    if store is None or (store.database is not None and not store.database.exists()):
        raise ResultError(
            f"no run below {folder} was tracked in a store that exists; start one with tracking=mlflow, or "
            "give a store with --uri."
        )
    return store

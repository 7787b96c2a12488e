"""Verbs on a run: `export`, `import`, `predict`, `show`, `ui`."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import click
import numpy as np

from ltrbench.cli.console import (
    PATH,
    PLUGIN_OPTION,
    PROGRAM,
    READ_OPTION,
    check_output,
    echo,
    echo_json,
    facts_as_lines,
    refuse_ineffective,
    terminal_width,
    typed_options,
    wrapped,
    write_output,
)
from ltrbench.cli.verbs.data import rules
from ltrbench.data.dataset import joined_columns
from ltrbench.data.tables import write_frame
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.folders import find_class
from ltrbench.metrics import evaluate, preset
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import trees_of
from ltrbench.runs.origin import Ensemble, Final, Trial
from ltrbench.runs.record import (
    FINISHED,
    RESULT_FILE,
    TIMES,
    Run,
    class_and_folder_of_model,
    find_runs,
    find_runs_and_trials,
    mean_importances,
    naming,
    read_run,
)
from ltrbench.tables import (
    DASH,
    Table,
    assignments,
    columns_of,
    format_interval,
    format_number,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from ltrbench.cli.session import Store
    from ltrbench.data import RankingDataset, Splits
    from ltrbench.data.sources import DataSource
    from ltrbench.rankers.estimator import Columns
    from ltrbench.rankers.importance import Importances
    from ltrbench.runs import RunResult
    from ltrbench.runs.record import ScoredSplit


@click.command("export")
@click.argument("run", type=PATH)
@click.option(
    "--format",
    "kind",
    required=True,
    type=click.Choice(["trec-run", "qrels", "ranklib-idv", "scores", "csv"]),
    help="Format of the lines, see above.",
)
@click.option(
    "--metric",
    default="ndcg@10",
    show_default=True,
    metavar="NAME",
    help="Metric of ranklib-idv.",
)
@click.option(
    "--output",
    type=PATH,
    help="Write to this file instead of standard output; .gz, .bz2, .xz and .zst files are compressed.",
)
def export_verb(run: Path, kind: str, metric: str, output: Path | None) -> None:
    """Writes the test scores of the finished RUN in the format of another tool.

    \b
        trec-run     query Q0 document rank score tag: read by trec_eval, pytrec_eval and ir_measures
        qrels        query 0 document label: the judgments for a trec-run
        ranklib-idv  NDCG@10   query   value: one metric per query, as written by RankLib's -idv
        scores       one score per line, in the order of the data rows
        csv          a table with ids, kept columns, label and score: read by compare; an --output that ends
                     in .parquet is Parquet

    Documents are named by their ids; if the data has no ids, by their row, counted from 1, with a note on
    standard error. Scores are written with full precision.

    \b
        python -m ltrbench export outputs/2026-01-31/12-00-00 --format trec-run --output run.trec
    """
    if kind != "ranklib-idv":
        refuse_ineffective("--metric", without="--format ranklib-idv")
    check_output("--output", output, [])
    finished = read_run(run)
    with naming(finished):
        if kind == "csv" and output is not None:
            write_frame(_frame(finished.scored("test")), output)
            return
        if kind == "ranklib-idv":
            write_output("".join(_lines_of_metric(finished, metric)), output)
            return
        write_output("".join(_lines(finished, kind)), output)


def _lines(run: Run, kind: str) -> Iterable[str]:
    from ltrbench.data.score_files import document_names, qrels_lines, trec_run_lines

    scored = run.scored("test")
    if kind == "scores":
        in_file = scored.scores
        if scored.file_rows is not None:
            in_file = in_file[np.argsort(scored.file_rows)]
        return (f"{score!r}\n" for score in in_file.tolist())
    if kind == "csv":
        return [_frame(scored).to_csv(index=False)]
    names, reason = document_names(scored.judgments, scored.file_rows)
    if reason:
        echo(f"documents are named by their row, counted from 1: {reason}.", err=True)
    if kind == "qrels":
        return qrels_lines(scored.judgments, names)
    return trec_run_lines(scored.judgments, scored.scores, names, run.result.model)


def _frame(scored: ScoredSplit) -> pd.DataFrame:
    labels = {"label": scored.judgments.labels}
    frame = as_frame(joined_columns(scored.judgments.beside, labels), scored.scores)
    if scored.file_rows is None:
        return frame
    return frame.iloc[np.argsort(scored.file_rows)]


def _lines_of_metric(run: Run, metric: str) -> Iterable[str]:
    from ltrbench.data.score_files import idv_lines

    scored = run.scored("test")
    evaluation = evaluate(scored.judgments, scored.scores, [metric], preset("ranklib"))
    values = evaluation.per_query[metric]
    counted = ~np.isnan(values)
    queries = scored.judgments.query_ids[counted].tolist()
    return idv_lines(
        metric,
        zip(queries, values[counted].tolist(), strict=True),
        evaluation.means[metric],
    )


def as_frame(columns: Mapping[str, NDArray[Any]], scores: NDArray[Any]) -> pd.DataFrame:
    """Returns columns, and the scores as float64, whose text restores a float32.

    Raises:
        DataError: A kept column is called score.
    """
    import pandas as pd

    of_scores = {"score": scores.astype(np.float64)}
    return pd.DataFrame(joined_columns(columns, of_scores))


# ---- Loads the model and the data of a finished run, for the verbs that use them.

RANKER_OPTION = click.option(
    "--ranker",
    help="Class of the model if it is not part of ltrbench: my_module.MyRanker.",
)

ANYWAY_OPTION = click.option(
    "--anyway",
    is_flag=True,
    help="Also take a model that was trained on a resample or a fold.",
)

_FOR_TABLES_ONLY = ("fetch",)

_MODULES_OF_DATA = ("ltrbench.data.", "ltrbench.clicks.")
"""Modules with the sources of data that a run folder may name; other code is not executed."""

_OF_THE_MODEL = ("features", "categorical", "categories", "dates", "encode", "exact")
"""Reader options that decide what a feature of a model is; the run fixes them."""


def load_model(run: Run, named: str | None) -> Ranker:
    """Loads the model of a run. The class of the model must be part of ltrbench, or be given in `named`.

    Raises:
        ResultError: The run failed, or has no model because its scores were imported or it is a trial.
        ConfigError: The class is not part of ltrbench and `named` is None.
    """

    recorded, folder = class_and_folder_of_model(run)
    target = named or recorded
    if named is None and not target.startswith("ltrbench.rankers."):
        raise ConfigError(
            f"the model of {run.path} has the class '{target}', which is not part of ltrbench. Code named in "
            f"a run folder is not executed by default; if you trust the class, add --ranker {target}."
        )
    ranker: type[Ranker] = find_class(target, Ranker, "--ranker" if named else "model")
    return ranker.load(folder)


def unfitted(run: Run, named: str | None = None) -> Ranker:
    """Returns an unfitted ranker with the settings and the seed of a run.

    Raises:
        ConfigError: As `load_model`; or the model was not trained here, or its objective is in a module of
            the user that is not imported.
    """
    from ltrbench.config import build
    from ltrbench.native.objectives.base import UnknownObjective
    from ltrbench.rankers.imported import ImportedRanker

    loaded = load_model(run, named)  # refuses a class that the user does not name
    if isinstance(loaded, ImportedRanker):
        raise ConfigError(f"{run.path} was imported, not trained.")
    if isinstance(objective := getattr(loaded, "objective", None), UnknownObjective):
        module = objective.recorded["_target_"].rpartition(".")[0]
        raise ConfigError(
            f"the objective of {run.path} is in the module {module}. Code named in a run folder is not "
            f"executed by default; if you trust the module, add --plugin {module}."
        )
    result = run.result
    seed = int(result.config.get("seed", result.seed))
    return replace(build(result.settings, "model", Ranker), seed=seed)


def load_splits(run: Run, all_queries: bool = False, *, exact: bool = False) -> Splits:
    """Loads the data of a run with its settings: of a final model all queries, as in `Splits.whole`.

    Args:
        all_queries: whether to load all queries for any other model too.
        exact: whether features are float64, for models that compare in float64.

    Raises:
        DataError: The files are absent or invalid; or as `source_of`.
    """
    from ltrbench.experiment.loading import load_with

    has_all_queries = all_queries or isinstance(run.result.origin, Final)
    source = source_of(run)
    if has_all_queries:
        source = source.with_all_queries()
    with in_its_folder(run):
        splits = load_with(source, exact)
    if has_all_queries:
        return splits.whole().in_memory(keep_sparse=True)
    return splits


def in_its_folder(run: Run) -> AbstractContextManager[None]:
    """Returns a context in the folder in which a run was started, if it still exists: relative paths of its
    data begin there."""
    folder = Path(run.result.started_in)
    if folder.is_dir():
        return contextlib.chdir(folder)
    return contextlib.nullcontext()


def source_of(run: Run) -> DataSource:
    """Returns the data source of a run. Its class must be part of ltrbench.

    Raises:
        DataError: The run was made from data in memory or with settings that this version does not know, or
            the class is not part of ltrbench.
    """
    from ltrbench.config import build
    from ltrbench.data.sources import DataSource

    settings = run.result.settings.get("data", {})
    target = str(settings.get("_target_"))
    try:
        if not target.startswith(_MODULES_OF_DATA):
            raise ConfigError(
                f"their class is '{target}', and code named in a run folder is not executed."
            )
        types = get_type_hints(find_class(target, DataSource, "data"))
        kept = {
            name: value
            for name, value in settings.items()
            if name not in _FOR_TABLES_ONLY
        }
        for name, value in kept.items():
            if value is None and types.get(name) is float:
                # A result records NaN as null.
                kept[name] = float("nan")
        return build({"data": kept}, "data", DataSource)
    except (
        ConfigError,
        TypeError,
    ) as error:  # TypeError: a setting without default is missing
        raise DataError(
            f"the data of {run.path} cannot be loaded again from its settings: {error}"
        ) from error


def source_with(files: Sequence[Path], run: Run) -> DataSource:
    """Returns a source that reads all queries of files with the data settings and the features of a run.

    The features of tables keep their kinds. Encoded columns also keep the categories of the run, of which a
    new one is 0 in each of their features, and dates their first days.

    Raises:
        ConfigError: The data of the run have no files.
        DataError: As `source_of`.
        ResultError: The data of the run are tables, and it has no model.
    """
    from ltrbench.data.sources import (
        ColumnSource,
        FileSource,
        LetorFiles,
        StoreFiles,
        TableFiles,
    )
    from ltrbench.data.store import check_reading, json_options, read_manifest
    from ltrbench.data.tables import columns_of_features

    source = source_of(run)
    if not isinstance(source, FileSource):
        raise ConfigError(
            f"--data names files, but data={source.name} of {run.path} are not read from files; leave it out."
        )
    whole: dict[str, Any] = {
        "train": [str(file.absolute()) for file in files],
        "valid": None,
        "test": None,
        "cv": None,
        "cv_split": "test",
        "fold": None,
        "num_folds": None,
        "subset": 1.0,
    }
    if isinstance(source, ColumnSource):
        whole |= {"split_by": None, "gap": None, "group_by": None}
    if isinstance(source, TableFiles):
        # No patterns, which would match other columns of the files.
        known = _columns_of(run)
        encoded = {column: [*known.encoded[column]] for column in known.encoded}
        names = columns_of_features(known.feature_names, encoded, encoded)
        whole |= {
            "features": [*names],
            "categorical": [*known.categories],
            "dates": dict(known.dates),
            "encode": encoded,
        }
    elif isinstance(source, StoreFiles):
        of_run = json_options(run.result.reading)
        for file in files:
            check_reading(file, read_manifest(file), of_run, str(run.path))
    elif isinstance(source, LetorFiles):
        whole["num_features"] = int(run.result.data["train"]["features"])
    return replace(source, **whole)


def _columns_of(run: Run) -> Columns:
    from ltrbench.rankers.estimator import read_columns

    _, folder = class_and_folder_of_model(run)
    return read_columns(folder)


def check_columns(data: RankingDataset, files: Sequence[Path], run: Run) -> None:
    """Raises DataError unless files have the features of the model of a run, of the same kinds.

    Args:
        data: what was read from the files.
    """
    kinds = _kinds_of_features(data)
    kinds_of_run = _kinds_of_features(_columns_of(run))
    names = ", ".join(map(str, files))
    for name in {**kinds_of_run, **kinds}:
        kind = kinds.get(name, _NO_FEATURE)
        kind_of_run = kinds_of_run.get(name, _NO_FEATURE)
        if kind == kind_of_run:
            continue
        remedy = "Change the type of the column; a store needs other --read categorical or dates."
        if kind_of_run == _NO_FEATURE:
            remedy = f"Build the store again with --read 'ignore=[{name}]'."
        elif kind == _NO_FEATURE:
            remedy = "Add it to the data."
        raise DataError(
            f"{names}: '{name}' is {kind}, but {kind_of_run} in {run.path}. {remedy}"
        )


_NO_FEATURE = "no feature"


def _kinds_of_features(columns: Columns | RankingDataset) -> dict[str, str]:
    """Returns feature -> its kind in words; a feature of an encoded column is a number."""
    kinds = dict.fromkeys(columns.feature_names, "a feature of numbers")
    kinds |= dict.fromkeys(columns.categories, "a feature of categories")
    return kinds | dict.fromkeys(columns.dates, "a feature of dates")


def data_of(run: Run, model: Ranker, split: str, option: str) -> RankingDataset:
    """Returns the "train" or "test" split of the data of a run; of a final model all queries.

    Args:
        model: the model of the run, which may need float64 features.
        option: option that names a file instead, for messages.

    Raises:
        DataError: The data cannot be read, or have changed since the run.
    """
    try:
        splits = load_splits(run, exact=model.reads_float64)
        dataset: RankingDataset | None = getattr(splits, split)
    except DataError as error:
        raise DataError(f"{error} Or name a data file with {option} FILE.") from error
    is_final = isinstance(run.result.origin, Final)
    recorded = run.result.fingerprint("train" if is_final else split)
    if dataset is None or dataset.fingerprint != recorded:
        raise DataError(
            f"{run.path}: the {split} data have changed since the run, which recorded the fingerprint "
            f"{recorded}. Restore the files, run again, or name a data file with {option} FILE."
        )
    return dataset


# ---- The verb `import`: writes the scores of any system, or a model of another library, as a run folder.


@click.command("import")
@click.argument("name")
@click.argument("file")
@click.option(
    "--like", type=PATH, required=True, metavar="RUN", help="Run on the same data."
)
@click.option(
    "--output", type=PATH, required=True, metavar="DIR", help="Folder of the new run."
)
@click.option(
    "--features",
    "way",
    type=click.Choice(["names", "numbers", "positions"]),
    help="How the features of a model are matched with the data. Default: names if the model and the data "
    "have them, else RankLib's numbers, else positions.",
)
@PLUGIN_OPTION
def import_verb(
    name: str, file: str, like: Path, output: Path, way: str | None
) -> None:
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
    from ltrbench.compare.derived import Import, import_like

    run = import_like(Import(name, file, way), read_run(like), output, load_splits)
    metrics = [
        f"{key} {format_number(value, '.4f')}"
        for key, value in run.result.metrics.items()
        if key.startswith("test/")
    ]
    echo(f"{output}: {name}, {', '.join(metrics)}")
    for note in run.result.notes:
        echo(f"- {note}")


# ---- The verb `predict`: scores a data file with the model of a finished run.


@click.command("predict")
@click.argument("run", type=PATH)
@click.argument("data", type=PATH)
@click.option(
    "--output",
    type=PATH,
    help="File instead of standard output; .csv and .parquet files have ids and kept columns, too.",
)
@RANKER_OPTION
@READ_OPTION
def predict_verb(
    run: Path,
    data: Path,
    output: Path | None,
    ranker: str | None,
    reading: tuple[str, ...],
) -> None:
    """Scores the documents of DATA with the model of the finished RUN, one score per line.

    DATA has the format of the training files, for data=table with any extension; columns of a table are
    matched by name. Labels and queries are not needed: a LETOR line may begin with qid:ID or with its first
    feature, and a table may lack these columns. Scores are in the order of the file and have full precision.
    An --output that ends in .csv or .parquet is a table with query_id, document_id, kept columns and score,
    as far as DATA has them; LETOR text needs labels and qid:ID for it.

    \b
        python -m ltrbench predict outputs/2026-01-31/12-00-00 test.txt --output scores.txt
    """
    from ltrbench.data.blocks import without_compression_ending
    from ltrbench.data.sources import read_features, read_ids

    check_output("--output", output, [data])
    finished = read_run(run)
    model = load_model(finished, ranker)
    options = options_as_trained(finished, model, data, reading)
    features = read_features(data, **options)
    scores = (
        _scores_of_lists(model, features, read_ids(data, **options))
        if model.is_listwise
        else model.predict(features)
    )
    if output is not None and without_compression_ending(output).suffix.lower() in (
        ".csv",
        ".parquet",
    ):
        write_frame(as_frame(read_ids(data, **options), scores), output)
        return
    write_output("".join(f"{score!s}\n" for score in scores), output)


def _scores_of_lists(
    model: Ranker, features: Any, ids: Mapping[str, NDArray[Any]]
) -> NDArray[Any]:
    """Returns the scores of a list-wise model in file order; the rows of a query may be scattered."""
    if "query_id" not in ids:
        raise DataError(
            f"{type(model).__name__} scores all documents of a query together, but the data have no "
            "column of queries. Name it with --read query=COLUMN."
        )
    _, queries = np.unique(ids["query_id"], return_inverse=True)
    order = np.argsort(queries, kind="stable")
    scores = np.empty(len(order), dtype=model.score_dtype)
    query_start = np.searchsorted(
        queries[order], np.arange(queries.max(initial=-1) + 2)
    )
    scores[order] = model.predict_lists(np.asarray(features)[order], query_start)
    return scores


def options_as_trained(
    run: Run, model: Ranker, file: Path, reading: Iterable[str]
) -> dict[str, Any]:
    """Returns the options that read a file like the training data of a run; `--read` overrides those of the
    format of the file.

    The columns of a table may be in another order, and its categories get the codes of training; a LETOR file
    has neither.

    Raises:
        ConfigError: `--read` has an option that the run fixes.
        DataError: A file of feature names has other names than the run.
    """
    from ltrbench.data.sources import reading_options

    given = typed_options(list(reading))
    as_table = given.get("as_table", _was_read_as_table(run))
    train = {
        "num_features": int(run.result.data["train"]["features"]),
        "feature_names": run.result.feature_names,
        "categories": model.categories,
        "exact": model.reads_float64,
        "as_table": as_table,
    }
    reading_of_run = run.result.reading
    of_model = {"dates": model.dates, "encode": model.encoded}
    config = {**reading_of_run, **of_model, "reading": reading_of_run}
    options = reading_options(file, config, as_table)
    for name in _OF_THE_MODEL:
        if name in given:
            raise ConfigError(
                f"--read {name} changes the features, which the model of {run.path} fixes. Leave it out; a "
                "file with other features needs another run."
            )
    options = {**train, **options, **given}
    if "feature_names" in given:
        _check_names(run, file, options)
    return options


def _was_read_as_table(run: Run) -> bool:
    """Returns whether the data of a run are tables, whatever the extension of the files, as of data=table."""
    from ltrbench.data.sources import DataSource, TableFiles

    reading = run.result.reading
    target = str(reading.get("_target_"))
    if not target.startswith(_MODULES_OF_DATA):
        return False
    kind = find_class(target, DataSource, "data")
    return issubclass(kind, TableFiles) or reading.get("as_table", False)


def _check_names(run: Run, file: Path, options: Mapping[str, Any]) -> None:
    """Raises an error unless `--read feature_names=FILE` has the names of the run: features of LETOR text are
    read by their numbers."""
    from ltrbench.data.letor import read_feature_names
    from ltrbench.data.sources import is_letor

    path = options["feature_names"]
    has_names = isinstance(path, str)
    if not (has_names and is_letor(file, options["as_table"])):
        raise ConfigError(
            f"--read feature_names is {path!r}, but {file} is matched with the names of {run.path}. Leave it "
            "out; only for LETOR text it may be the path of a file of names."
        )
    names = read_feature_names(Path(path), options.get("first_index", 1))
    of_run = tuple(run.result.feature_names or ())
    if names == of_run:
        return
    pairs = zip_longest(names, of_run)
    differing = (pair for pair in pairs if pair[0] != pair[1])
    here, there = next(differing)
    raise DataError(
        f"{path} has the feature {here!r} where {run.path} has {there!r}, and LETOR text is read by the "
        f"numbers of its features. Give {file} the numbers of the run, or make a store, which is matched by "
        f"name: {PROGRAM} data build {file} --output NEW.store --read feature_names={path}."
    )


# ---- The verb `show`: prints one run from its folder.

NUM_FEATURES = 10
"""Maximum number of features in the table; --json has all."""

_UNLIMITED = 1_000_000
"""Width of the tables in a file or a pipe, which are text, not Markdown."""


@click.command("show")
@click.argument("run", type=PATH)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object: result.json, path, and all importances; with --trees a list of nodes.",
)
@click.option(
    "--trees",
    "trees_instead",
    is_flag=True,
    help="Print the trees of the model instead, for every backend with trees.",
)
@click.option(
    "--first",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --trees: only the first N trees.",
)
@RANKER_OPTION
def show_verb(
    run: Path,
    as_json: bool,
    trees_instead: bool,
    first: int | None,
    ranker: str | None,
) -> None:
    """Prints the run in the folder RUN: settings, command, and metrics or error.

    With --trees: the score of a document is the sum of its leaf values, each multiplied by the weight of its
    tree, which is the learning rate in most models. Values up to the threshold go left. In JSON a tree is its
    root node and a "weight"; a node is {"feature", "threshold", "missing", "left", "right"}, or {"value"} if
    it is a leaf. Features are counted from 0, and "missing" is the direction of missing values; with "zero":
    "missing" the value 0 counts as missing. A split on a categorical feature has "categories" instead of a
    threshold: the codes that go left. An initial score of all documents is a last tree with one leaf.

    \b
        python -m ltrbench show outputs/2026-01-31/12-00-00
        python -m ltrbench show outputs/2026-01-31/12-00-00 --trees --first 3
    """
    from ltrbench.sweep.plan import PLAN_FOLDER

    if not trees_instead:
        refuse_ineffective("--first", "--ranker", without="--trees")
    if (run / PLAN_FOLDER).is_dir() and not (run / RESULT_FILE).exists():
        status = f"{PROGRAM} status {shlex.quote(str(run))}"
        raise ResultError(f"{run} is the folder of a sweep; {status} shows its jobs.")
    shown = read_run(run)
    if trees_instead:
        _show_trees(shown, first, ranker, as_json)
    elif as_json:
        echo_json(
            {
                **asdict(shown.result),
                "path": str(shown.path),
                "importances": _all_importances(shown.importances()).records(),
            }
        )
    else:
        echo("\n\n".join(_parts(shown, terminal_width() or _UNLIMITED)))


def _all_importances(importances: Importances) -> Table:
    columns = [values.tolist() for values in importances.values.values()]
    rows = zip(importances.feature_names, *columns, strict=True)
    return Table.of(["feature", *importances.values], rows)


def _show_trees(run: Run, first: int | None, ranker: str | None, as_json: bool) -> None:
    """Prints the first trees of the model of a run, as text or as JSON."""
    from ltrbench.models.trees import as_lines, as_nested

    model = load_model(run, ranker)
    ensemble = trees_of(model)
    shown = replace(ensemble, trees=ensemble.trees[:first])
    if as_json:
        echo(json.dumps(as_nested(shown), allow_nan=False))
        return
    num_features = run.result.data["train"]["features"]
    numbers = [str(number + 1) for number in range(num_features)]
    names = run.result.feature_names or numbers
    echo("\n".join(as_lines(shown, names, model.categories)))


def _parts(run: Run, width: int) -> Iterator[str]:
    """Yields the paragraphs and tables, fitted to a width in columns."""
    result = run.result
    yield f"{_title(result)}\n{run.path}"
    if result.error is not None:
        yield f"error: {result.error.strip()}"
    again = "from Python"
    if result.command is not None:
        again = f"with\n  {shlex.join(result.command)}"
    yield f"run in {result.started_in or DASH} {again}"
    yield facts_as_lines(_settings(result))
    if result.metrics:
        yield _metrics_table(result).markdown(width)
        yield wrapped(
            f"Convention {result.convention['name']}: {rules(result.convention)}."
        )
    importances = run.importances()
    if importances.kinds:
        yield f"The most important features by {importances.kinds[0].replace('_', ' ')}:"
        yield _importances_table(run, importances).markdown(width)
    if "train" in result.data:
        yield _data_table(result).markdown(width)
    # A run of imported scores has no machine.
    if result.machine:
        yield facts_as_lines(_surroundings(result))
    if sentences := [*result.unmatched, *result.notes]:
        yield "\n".join(wrapped(f"- {sentence}", "  ") for sentence in sentences)


def _title(result: RunResult) -> str:
    data = result.data["name"]
    if result.data.get("fold") is not None:
        data = f"{data}, fold {result.data['fold']}"
    status = result.status
    if isinstance(result.origin, Trial):
        status = f"{status}, a trial of a search"
    return f"{result.model} on {data}: {status}"


def _metrics_table(result: RunResult) -> Table:
    keys = [key.partition("/") for key in result.metrics]
    known = {split for split, _, _ in keys}
    splits = [split for split in ("valid", "test") if split in known]
    rows = []
    for name in dict.fromkeys(name for _, _, name in keys):
        means = [result.metrics.get(f"{split}/{name}") for split in splits]
        rows.append([name, *means])
    return Table.of(["metric", *splits], rows, ".4f")


def _settings(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yields the sweep, times, class, parameters, search, seed and costs of the run."""
    model = result.settings.get("model", {})
    if result.sweep is not None:
        yield "sweep", result.sweep
    yield "when", f"{result.started or DASH} to {result.finished or DASH}"
    yield "class", str(model.get("_target_", DASH))
    kind = result.params if result.origin.was_fitted else result.origin.kind
    yield "params", f"{kind}: {', '.join(_settings_of_model(model))}"
    if result.search:
        yield "search", _search_in_words(result.search)
    yield "seed", str(result.seed)
    if result.seconds:
        yield "seconds", _seconds_in_words(result)
    if result.peak_memory_mb is not None:
        yield "memory", f"{result.peak_memory_mb:.0f} MB more during the fit"
    if isinstance(result.origin, Ensemble):
        weights = result.origin.weights.items()
        members = [f"{label} {weight:.2f}" for label, weight in weights if weight]
        yield "members", ", ".join(members)
    if result.best_iteration is not None:
        unit = result.unit_of_iterations
        kept = result.best_iteration
        yield unit, f"{kept} of at most {model.get(f'num_{unit}', kept)}"


def _search_in_words(search: Mapping[str, Any]) -> str:
    method = f"{search['name']}, seed {search['seed']}"
    cost = f"{search['trials']} trials, {search['iterations']:,} iterations"
    settings = assignments(search["settings"]) or "no setting varied"
    return f"{method}, {cost}: trial {search['chosen']}, {settings}"


def _seconds_in_words(result: RunResult) -> str:
    known = []
    for kind, name in TIMES.items():
        if kind in result.seconds:
            known.append(f"{name} {result.seconds[kind]:.3f}")
    shared = " (several jobs ran at a time)" if result.shared_machine else ""
    return f"{', '.join(known)}{shared}"


def _settings_of_model(model: Mapping[str, Any]) -> list[str]:
    """Returns NAME=VALUE of each setting, with the class of the objective as its name."""
    from ltrbench.compare.cells import flatten

    hidden = ("_target_", "seed", "num_threads")
    texts = []
    for name, value in flatten(model).items():
        is_shown = value is not None and name.rpartition(".")[2] not in hidden
        if is_shown or name == "objective._target_":
            texts.append(f"{name.removesuffix('._target_')}={value}")
    return texts


def _importances_table(run: Run, importances: Importances) -> Table:
    """Returns the most important features by the first kind; coefficients with their intervals over the
    trainings of the sweep with the same settings."""
    from ltrbench.rankers.importance import by_size

    kinds = importances.kinds
    by_importance = by_size(kinds[0], importances.values[kinds[0]])
    features = by_importance[:NUM_FEATURES].tolist()
    forms: dict[str, str | None] = {"feature": None}
    for kind in kinds:
        forms[kind.replace("_", " ")] = _form_of(kind)
    rows: list[list[Any]] = []
    for feature in features:
        values = [float(importances.values[kind][feature]) for kind in kinds]
        rows.append([importances.feature_names[feature], *values])
    for header, intervals in _intervals_over_trainings(run, importances):
        forms[header] = ""
        for row, feature in zip(rows, features, strict=True):
            row.append(intervals[feature])
    return Table(columns_of(forms), rows)


def _form_of(kind: str) -> str:
    from ltrbench.rankers.importance import FALLS, OF_LINEAR

    if kind in OF_LINEAR:
        return "+.4g"
    return "+.4f" if kind in FALLS else ".1%"


def _intervals_over_trainings(
    run: Run, importances: Importances
) -> Iterator[tuple[str, list[str]]]:
    """Yields the header of a column, and the interval of each feature, for each kind of coefficient."""
    from ltrbench.rankers.importance import HIGH, LOW, OF_LINEAR, in_common

    if run.result.sweep is None or run.result.status != FINISHED:
        return
    if not any(kind in OF_LINEAR for kind in importances.kinds):
        # The other runs are not read.
        return
    trainings = _with_same_settings(run)
    _, means = in_common([importances, mean_importances(trainings)])
    if means.feature_names != importances.feature_names:
        return
    for kind in means.kinds:
        if kind not in OF_LINEAR or kind + LOW not in means.values:
            continue
        lows = means.values[kind + LOW]
        highs = means.values[kind + HIGH]
        intervals = [
            format_interval(low, high, "+.4g")
            for low, high in zip(lows, highs, strict=True)
        ]
        yield f"{kind}: 95 % interval over {len(trainings)} trainings", intervals


def _with_same_settings(run: Run) -> list[Run]:
    """Returns the finished runs of the sweep of a run that are in its row of the comparison."""
    from ltrbench.compare.cells import runs_by_label, runs_by_table

    path = run.path.resolve()
    runs = find_runs([path.parent])
    finished = [each for each in runs if each.result.status == FINISHED]
    for of_table in runs_by_table(finished).values():
        for of_row in runs_by_label(of_table).values():
            if path in [each.path for each in of_row]:
                return of_row
    return [run]


def _data_table(result: RunResult) -> Table:
    forms = {
        "split": None,
        "queries": "",
        "documents": "",
        "features": "",
        "no relevant": ".1%",
        "fingerprint": "",
    }
    rows = []
    for split in ("train", "valid", "test"):
        if split in result.data:
            data = result.data[split]
            row = [
                split,
                data.get("queries"),
                data.get("documents"),
                data.get("features"),
                data.get("queries_without_relevant_document"),
                data.get("fingerprint"),
            ]
            rows.append(row)
    return Table(columns_of(forms), rows)


def _surroundings(result: RunResult) -> Iterator[tuple[str, str]]:
    machine = result.machine
    yield (
        "machine",
        f"{machine.get('cpu')}, {machine.get('cores')} cores, {machine.get('system')}",
    )
    yield "threads", str(result.threads)
    versions = [f"{name} {version}" for name, version in result.versions.items()]
    yield "versions", ", ".join(versions)
    yield "commit", result.commit or DASH
    chosen = result.search.get("space", {})
    fixed = {
        name: value for name, value in result.own_settings.items() if name not in chosen
    }
    if fixed:
        yield "own", f"set instead of the shared parameters: {assignments(fixed)}"


# ---- The verb `ui`: opens the MLflow UI on the tracking store of the runs.


def _existing_store(folder: Path) -> Store:
    """Returns the store of the newest run below a folder.

    Raises:
        ResultError: No run was tracked, or the database does not exist.
        TrackingError: The address needs a password.
    """
    from ltrbench.cli.session import recorded_store

    recorded = recorded_store(find_runs_and_trials([folder]))
    database = None if recorded is None else recorded.database
    if recorded is None or (database is not None and not database.exists()):
        raise ResultError(
            f"no run below {folder} was tracked in a store that exists; start one with tracking=mlflow, "
            "or give a store with --uri."
        )
    if database is None:
        recorded.check_password()
    return recorded


@click.command("ui")
@click.argument("folder", type=PATH, default=Path())
@click.option(
    "--uri", help="Tracking store; default: the store of the newest run below FOLDER."
)
@click.option(
    "--experiment", default="ltrbench", help="MLflow experiment; only with --uri."
)
@click.option(
    "--port", type=int, default=5000, show_default=True, help="Port to listen on."
)
def ui_verb(folder: Path, uri: str | None, experiment: str, port: int) -> int:
    """Opens the MLflow UI on the tracking store of the runs in FOLDER.

    FOLDER is the current folder by default. Prints the address of the run list, with columns for NDCG and the
    fit time.

    \b
        python -m ltrbench ui --port 5001
    """
    from ltrbench.tracking.mlflow.store import run_list_of

    store = uri
    if store is None:
        refuse_ineffective("--experiment", without="--uri URI")
        store, experiment = _existing_store(folder)
    if store.startswith(("http://", "https://")):
        click.echo(
            f"The runs are on a server: open {store.rstrip('/')}{run_list_of(store, experiment)}"
        )
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

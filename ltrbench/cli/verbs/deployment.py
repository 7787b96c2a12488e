"""Verbs on models in production: `final`, `monitor`, `serve`, `ship`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltrbench.cli.console import (
    OK,
    PAST_THRESHOLD,
    PATH,
    PLUGIN_OPTION,
    READ_OPTION,
    RUN_FAILED,
    echo,
    options_as_words,
    parse_value,
    refuse_ineffective,
    showing,
    split_settings,
    terminal_width,
    wrapped,
    write_output,
)
from ltrbench.cli.verbs.runs import (
    ANYWAY_OPTION,
    RANKER_OPTION,
    check_columns,
    data_of,
    in_its_folder,
    load_model,
    load_splits,
    options_as_trained,
    source_of,
    source_with,
    unfitted,
)
from ltrbench.errors import ConfigError, DataError, ResultError, require_choice
from ltrbench.runs.origin import Final
from ltrbench.runs.record import Run, find_runs, holds_runs, read_run
from ltrbench.tables import listed

if TYPE_CHECKING:
    from ltrbench.compare.comparison import Comparison
    from ltrbench.compare.final import FinalFit
    from ltrbench.compare.views import Chapter
    from ltrbench.data import RankingDataset, Splits
    from ltrbench.data.sources import DataSource
    from ltrbench.experiment import Experiment
    from ltrbench.rankers import Ranker
    from ltrbench.shipping.certificate import Certificate
    from ltrbench.shipping.destination import Destination
    from ltrbench.shipping.shipment import AnswerCheck, ShippedData
    from ltrbench.shipping.target import Target

SET_OPTION = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of the target; may be repeated.",
)

# ---- The verb `final`: trains the model that is deployed.

_OF_A_PART = (
    "cv",
    "cv_repeats",
    "replicates",
    "search",
    "executor",
    "distributed",
    "register",
)
"""Settings of a command that do not apply to a final model."""

_SPLITS = ("train", "valid", "test")


@click.command("final")
@click.argument("folders", metavar="DIR...", type=PATH, nargs=-1, required=True)
@click.option(
    "--model",
    "name",
    metavar="NAME",
    help="Model or row. Default: the best by validation.",
)
@click.option(
    "--table",
    metavar="DATA",
    help="Data set, as in the title of its table. Needed if DIR has several.",
)
@click.option(
    "--data",
    "files",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Train on all queries of this file instead of the data of the runs; may be repeated.",
)
@click.option(
    "--metric", help="Metric of the choice and of the estimate. Default: as in compare."
)
@click.option(
    "--scale-trees",
    is_flag=True,
    help="Multiply the number of trees by the ratio of all queries to the training queries of the runs.",
)
@click.option(
    "--output",
    type=PATH,
    metavar="OUT",
    help="Folder of the final run. Default: DIR/final.",
)
@RANKER_OPTION
@PLUGIN_OPTION
def final_verb(
    folders: tuple[Path, ...],
    *,
    name: str | None,
    table: str | None,
    files: tuple[Path, ...],
    metric: str | None,
    scale_trees: bool,
    output: Path | None,
    ranker: str | None,
) -> None:
    """Trains the model to deploy: the best settings of the runs in DIR..., on all labelled queries.

    The settings are those of the best model by validation, or of --model. The fit has the queries of train,
    valid and test, and no early stopping: the number of trees is the median over the runs of these settings
    (folds, resamples, seeds), rounded up. The final run has no test score; its record has the estimate of the
    comparison. It is a run for show, predict, ship, serve and sync, and no comparison contains it.

    Data that have changed since the runs are refused. --data FILE trains on other data, such as newer ones.

    \b
        python -m ltrbench final multirun/2026-01-31/12-00-00
        python -m ltrbench final multirun/2026-01-31/12-00-00 --model lightgbm --output chosen
        python -m ltrbench final multirun/2026-01-31/12-00-00 --data this_week.parquet --output this_week
    """
    from ltrbench.cli.session import mirror_beside
    from ltrbench.compare.final import final_fit
    from ltrbench.experiment import run as run_experiment

    for file in files:
        if not file.exists():
            raise DataError(f"--data {file} does not exist. Check the path.")
    # The data are read in the folder of the run.
    files = tuple(file.absolute() for file in files)
    folder = folders[0] / "final" if output is None else output
    if holds_runs(folder):
        raise ConfigError(
            f"{folder} already has a run; name another folder with --output, or delete it."
        )
    runs = find_runs(folders)
    num_queries = partial(_num_queries, files) if scale_trees else None
    fit = final_fit(_comparisons(runs, metric, table), name, num_queries)
    if not files:
        _refuse_changed([read_run(Path(path)) for path in fit.origin.runs])
    options = {
        "--model": name,
        "--table": table,
        "--metric": metric,
        "--output": output,
        "--ranker": ranker,
        "--data": files,
    }
    command = ["final", *(str(each.absolute()) for each in folders)]
    command += options_as_words(options)
    if scale_trees:
        command.append("--scale-trees")
    # Reads the data, before the folder is made.
    destination = _destination_of(fit.run)
    experiment = _final_experiment(fit, files, ranker, destination, command)
    absolute = folder.absolute()
    with in_its_folder(fit.run), showing("auto", experiment.model) as on_progress:
        final = run_experiment(experiment, absolute, on_progress=on_progress)
    for note in experiment.notes:
        echo(wrapped(f"- {note}", "  "))
    to = "--to TARGET" if destination is None else destination.words
    echo(
        f"Ship it: python -m ltrbench ship {shlex.quote(str(folder))} {to} --output shipped"
    )
    mirror_beside(runs, [final])


def _comparisons(
    runs: Sequence[Run], metric: str | None, table: str | None
) -> list[Comparison]:
    """Returns the comparisons of the runs; with a table only that of its data set."""
    from ltrbench.compare import Settings
    from ltrbench.sweep.ledger import compare_sweeps

    # The looks stay as they are.
    comparisons = compare_sweeps(runs, Settings(metric=metric), declared=0)
    require_choice("table", table, [item.data for item in comparisons])
    return [item for item in comparisons if table in (None, item.data)]


def _final_experiment(
    fit: FinalFit,
    files: Sequence[Path],
    ranker: str | None,
    destination: Destination | None,
    command: list[str],
) -> Experiment:
    """Returns the experiment that trains the final model; its data are read, and suit its destination.

    Args:
        files: files of `--data`.
        ranker: value of `--ranker`.
        command: the command line, which is recorded.
    """
    from ltrbench.experiment import Experiment
    from ltrbench.rankers.importance import ImportanceSettings
    from ltrbench.runs.spec import RunSpec

    # The experiment reads the same source again, from memory.
    source, splits = _final_data(files, fit.run)
    result = fit.run.result
    fitted = unfitted(fit.run, ranker)
    if fit.num_trees is not None:
        fitted = fitted.with_iterations(fit.num_trees)
    if destination is not None:
        destination.check_data(fitted, splits.whole().train)
    settings = {
        key: value for key, value in result.config.items() if key not in _OF_A_PART
    }
    return Experiment(
        model=result.model,
        ranker=fitted,
        source=source,
        metrics=(fit.origin.metric,),
        params=result.params,
        importance=ImportanceSettings(),
        spec=RunSpec(settings=settings, overrides=command),
        origin=fit.origin,
        notes=[*fit.notes, *_notes_on_data(files)],
        destination=destination,
        debias=result.data.get("debias"),
    )


def _destination_of(run: Run) -> Destination | None:
    """Returns what the models of the run were trained for; None without a target."""
    from ltrbench.shipping.destination import Destination

    target = run.result.config.get("target")
    return None if target is None else Destination.of(target)


def _final_data(files: Sequence[Path], run: Run) -> tuple[DataSource, Splits]:
    """Returns the source and the data of the final model: the files, if there are any, or else the data of
    the run; their paths begin in the folder where the run was started.

    Raises:
        DataError: The files have other features than the run, or features of other kinds.
    """
    from ltrbench.experiment.loading import load_once

    source = source_with(files, run) if files else source_of(run).with_all_queries()
    with in_its_folder(run):
        splits, _ = load_once(source)
    if files:
        check_columns(splits.train, files, run)
    return source, splits


def _num_queries(files: Sequence[Path], run: Run) -> int:
    """Returns the number of all labelled queries of the data of the final model."""
    _, splits = _final_data(files, run)
    return splits.whole().train.num_queries


def _refuse_changed(runs: Sequence[Run]) -> None:
    """Raises DataError if the data have changed since the runs with the chosen settings.

    Only one run is checked, because every fold has all queries; of windows of time the last one has most.
    """
    from ltrbench.compare.derived import check_fingerprints

    def num_documents(run: Run) -> int:
        parts = (run.result.data.get(name, {}) for name in _SPLITS)
        return sum(part.get("documents", 0) for part in parts)

    widest = max(runs, key=num_documents)
    otherwise = "train on other data with --data FILE"
    check_fingerprints(widest, load_splits(widest), _SPLITS, otherwise)


def _notes_on_data(files: Sequence[Path]) -> list[str]:
    if not files:
        return []
    names = listed([str(file) for file in files])
    return [
        f"Trained on {names} (--data). The settings, the number of trees and the estimate are from the "
        "comparison, on its data."
    ]


# ---- The verb `ship`: converts the model of a run for an engine.

_SHOWN_ROWS = 5


_OF_CONVERSION = (
    "--to",
    "--output",
    "--best",
    "--data",
    "--set",
    "--anyway",
    "--ranker",
    "--read",
)
"""Options of `ship` that have no effect with --check."""


@click.command("ship")
@click.argument("folder", type=PATH, metavar="RUN")
@click.option(
    "--to",
    "to",
    metavar="TARGET",
    help="Engine or library: elasticsearch, opensearch, solr, vespa, lightgbm, xgboost, ranklib, onnx, "
    "treelite or c.",
)
@click.option(
    "--output", type=PATH, metavar="DIR", help="New folder of the converted model."
)
@click.option(
    "--best",
    is_flag=True,
    help="RUN is a folder of runs: ship the best one by validation.",
)
@click.option(
    "--data",
    type=PATH,
    metavar="FILE",
    help="Compare on this file with labels and queries instead.",
)
@click.option(
    "--tolerance",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Number of queries whose ranking may change, or that may have a negative score where the engine "
    "allows none. From 1 on, other differences of scores are listed, not refused.",
)
@SET_OPTION
@click.option(
    "--check",
    "answers",
    type=PATH,
    metavar="ANSWERS",
    help="RUN is a shipped folder: compare this answer of a deployed engine with the expected scores.",
)
@ANYWAY_OPTION
@RANKER_OPTION
@READ_OPTION
def ship_verb(
    folder: Path,
    *,
    to: str | None,
    output: Path | None,
    best: bool,
    data: Path | None,
    tolerance: int,
    settings: Sequence[str],
    answers: Path | None,
    anyway: bool,
    ranker: str | None,
    reading: Sequence[str],
) -> int:
    """Converts the model of the finished RUN for an engine, and certifies that it ranks as before.

    The folder of --output gets the model, how to upload it, rows with expected scores, and a certificate:
    scores and rankings of the engine, or of a simulator of its rules, on the test queries and on values where
    conversions break. If a ranking changes beyond ties, the folder has only the certificate, and the exit
    code is 1.

    \b
        python -m ltrbench ship outputs/2026-01-31/12-00-00 --to solr --output shipped
        python -m ltrbench ship multirun/2026-01-31/12-00-00 --best --to elasticsearch --output shipped
        python -m ltrbench ship shipped --check answers.json
    """
    if answers is not None:
        refuse_ineffective(*_OF_CONVERSION, beside="--check ANSWERS")
        return _check(folder, answers, tolerance)
    if to is None or output is None:
        missing = "--to TARGET" if to is None else "--output DIR"
        raise ConfigError(
            f"{missing} is missing; as in ship RUN --to elasticsearch --output shipped."
        )
    if data is None:
        refuse_ineffective("--read", without="--data FILE")
    from ltrbench.compare.final import refuse_part
    from ltrbench.shipping.shipment import RefusedModelError, check_free, ship

    check_free(output)
    target = _target(to, settings)
    reason = ""
    if best:
        run, reason = _best_run(folder)
        echo(f"{run.path}: {reason}")
    else:
        run = read_run(folder)
    refuse_part(run, "shipped", anyway)
    model = load_model(run, ranker)
    compared = _data(run, model, data, reading)
    try:
        certificate = ship(
            run, model, target, compared, output, tolerance=tolerance, reason=reason
        )
    except RefusedModelError as error:
        echo(f"refused: {error}", err=True)
        return RUN_FAILED
    lines = _summary(certificate, output)
    if isinstance(run.result.origin, Final) and data is None:
        lines.append(
            "These are the training queries: their NDCG@10 is no estimate for new queries."
        )
    lines.append(wrapped(f"Verified against: {target.verified_against}.", "  "))
    echo("\n".join(lines))
    return OK


def _target(name: str, settings: Sequence[str]) -> Target:
    from ltrbench.shipping.target import build_target

    texts = split_settings("--set", settings)
    return build_target(name, options_of_target(name, texts))


def options_of_target(name: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Returns the options of a target, of their texts on the command line."""
    from ltrbench.shipping.target import find_target, takes_text

    target_class = find_target(name)
    options: dict[str, Any] = {}
    for key, text in texts.items():
        is_text = takes_text(target_class, key)
        options[key] = text if is_text else parse_value(text)
    return options


def _best_run(folder: Path) -> tuple[Run, str]:
    """Returns the best run by validation, and the reason.

    Raises:
        ResultError: The runs have no data set or no validation set in common.
    """
    from ltrbench.cli.session import best_of
    from ltrbench.compare import compare

    best = best_of(compare(find_runs([folder])))
    if best is None:
        raise ResultError(
            f"--best chooses by validation on one data set, but the runs in {folder} have no data set or no "
            "validation set in common. Name one run instead."
        )
    return best.run, best.reason


def _data(
    run: Run, model: Ranker, file: Path | None, reading: Sequence[str]
) -> ShippedData:
    from ltrbench.data.sources import read_data
    from ltrbench.shipping.shipment import ShippedData

    if file is not None:
        of_file = read_data(file, **options_as_trained(run, model, file, reading))
        return ShippedData(str(file), None, of_file)
    split = "train" if isinstance(run.result.origin, Final) else "test"
    of_run = data_of(run, model, "test", "--data")
    return ShippedData(str(run.result.data["name"]), split, of_run)


def _summary(certificate: Certificate, output: Path) -> list[str]:
    """Returns the lines that are printed about a shipped model."""
    comparison = certificate.comparison
    engine = certificate.engine
    if comparison is None or engine is None:
        return [
            wrapped(
                f"{output}: not verified, because no evaluator of this engine is available here."
            )
        ]
    how = "the simulator of " if engine.is_simulated else ""
    verdict = f"{output}: {certificate.status} with {how}{engine.name} {engine.version}"
    lines = [
        # An engine without a version leaves a space at the end.
        f"{' '.join(verdict.split())}.",
        f"Rankings changed: {len(comparison.changed_queries)} of {comparison.queries} queries. Largest "
        f"difference of scores: {comparison.largest_difference:.3g}{comparison.describe_reordered()}.",
    ]
    metric = comparison.metric
    if metric is not None:
        lines.append(f"NDCG@10 {metric.original:.4f}, loss {metric.loss:.4g}.")
    if certificate.rounded:
        lines.append(certificate.rounding_of_features())
    for kind, limit in certificate.limits.items():
        lines.append(f"Limit ({kind}): {limit}")
    for kind, rows in certificate.probes.items():
        if rows.differing:
            lines.append(f"Difference: {rows.sentence(kind, engine.name)}.")
    return [wrapped(line, "  ") for line in lines]


def _check(folder: Path, answers: Path, tolerance: int) -> int:
    from ltrbench.shipping.shipment import (
        CERTIFICATE_FILE,
        CHECK_FILE,
        check_answers,
        read_shipped,
    )
    from ltrbench.shipping.target import build_target
    from ltrbench.statistics.checks import HOLDS, worst

    about = read_shipped(folder, CERTIFICATE_FILE, "target")
    rows = read_shipped(folder, CHECK_FILE, "rows")
    target = build_target(about["name"], about["options"])
    try:
        scores = target.answered_scores(target.read_answers(answers))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ResultError(
            f"{answers} is no answer of {target.name}: {error}."
        ) from error
    check = check_answers(rows, scores)
    is_equal = worst(check.checks(tolerance)) == HOLDS
    lines = [wrapped(line, "  ") for line in _outcome(check, is_equal)]
    echo("\n".join(lines))
    return OK if is_equal else RUN_FAILED


def _outcome(check: AnswerCheck, is_equal: bool) -> list[str]:
    num_answered = check.num_rows - len(check.missing)
    verdict = "equal" if is_equal else "different"
    lines = [
        f"{verdict}: {num_answered} of {check.num_rows} rows answered, largest difference of scores "
        f"{check.largest_difference:.3g}, {len(check.wrong)} rows beyond rounding, {len(check.changed)} "
        "queries in another order."
    ]
    if check.missing:
        missing = ", ".join(check.missing[:_SHOWN_ROWS])
        lines.append(f"No answer: {missing}.")
    if check.unknown:
        unknown = ", ".join(check.unknown[:_SHOWN_ROWS])
        lines.append(f"Not in check_rows.json: {unknown}.")
    for name, (expected, answered) in islice(check.wrong.items(), _SHOWN_ROWS):
        lines.append(f"{name}: expected {expected!r}, answered {answered!r}.")
    for query, (first, second) in islice(check.changed.items(), _SHOWN_ROWS):
        lines.append(f"Query {query}: {first} should rank before {second}.")
    return lines


# ---- The verb `serve`: answers requests to rank documents with the model of a finished run.


@click.command("serve")
@click.argument("run", type=PATH)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to listen on; 0: any free port.",
)
@click.option(
    "--max-documents",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Maximum number of documents of one request.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    default=16 * 2**20,
    show_default=True,
    help="Maximum size of one request, bytes.",
)
@ANYWAY_OPTION
@RANKER_OPTION
def serve_verb(
    run: Path,
    *,
    host: str,
    port: int,
    max_documents: int,
    max_bytes: int,
    anyway: bool,
    ranker: str | None,
) -> None:
    """Ranks documents over HTTP with the model of the finished RUN, until Ctrl-C.

    POST /rank takes the JSON {"query": "q1", "documents": [{"id": "d1", "features": {"NAME": VALUE, ...}},
    ...]} and returns the documents with their scores, the best first. GET /model names the features, and
    GET /health tells whether the service answers. The service has no authentication; by default only
    programs on this machine can connect. It needs pip install 'ltrbench[serve]'.

    \b
        python -m ltrbench serve outputs/2026-01-31/12-00-00 --port 8000
    """
    from ltrbench.compare.final import refuse_part
    from ltrbench.runs.record import loaded_model
    from ltrbench.serve import (
        is_loopback,
        listen,
        ranking_app,
        run_service,
        url_of,
        warm_up,
    )

    finished = read_run(run)
    refuse_part(finished, "served", anyway)
    model = loaded_model(finished, load_model(finished, ranker))
    with listen(host, port) as listener:
        warm_up(model, max_documents)
        if not is_loopback(host):
            click.echo(
                f"warning: {host} may be reached from other machines, and the service has no authentication "
                "and no encryption. Put a proxy with both in front of it, or use --host 127.0.0.1.",
                err=True,
            )
        features = f"{len(model.feature_names):,} features"
        click.echo(
            f"{model.name} ({features}) on {url_of(listener)} (Ctrl-C to stop)",
            err=True,
        )
        run_service(ranking_app(model, max_documents, max_bytes), listener)


# ---- The verb `monitor`: compares new data with the training data of a run.


@click.command("monitor")
@click.argument("run", type=PATH)
@click.argument("new", type=PATH)
@click.option(
    "--against", type=PATH, metavar="RUN2", help="Second model, for the overlap."
)
@click.option(
    "--metric",
    default="ndcg@10",
    show_default=True,
    metavar="NAME",
    help="Metric, if NEW has labels.",
)
@click.option(
    "--reference",
    type=PATH,
    metavar="FILE",
    help="Training data, if RUN cannot load them again.",
)
@click.option(
    "--output",
    type=PATH,
    metavar="DIR",
    help="Folder of monitor.html and monitor.json.",
)
@RANKER_OPTION
@READ_OPTION
def monitor_verb(
    run: Path,
    new: Path,
    *,
    against: Path | None,
    metric: str,
    reference: Path | None,
    output: Path | None,
    ranker: str | None,
    reading: tuple[str, ...],
    **limits: float | None,
) -> int:
    """Compares the documents of NEW with the training data of the finished RUN.

    NEW has the format of the training files, with query ids; a table needs no labels. Each feature has the
    population stability index (tenths of the training data, or categories; missing values and a number that
    fills a tenth have a bin of their own), the Kolmogorov-Smirnov distance, and the shares of missing values
    and unseen categories; a one-hot encoded column is one feature. The model has the share of documents in
    leaves that training hardly reached, with --against an overlap, and with labels a metric. The exit code
    is 3 if the whole interval of a measure is past a threshold.

    \b
        python -m ltrbench monitor outputs/2026-01-31/12-00-00 week.parquet --max-psi 0.2 --output monitor
    """
    from ltrbench.compare.monitor import as_chapter, monitor

    if output is not None and output.exists() and not output.is_dir():
        raise ConfigError(f"--output {output} is a file; name a folder.")
    runs = [read_run(run)]
    if against is not None:
        runs.append(read_run(against))
    rankers = [load_model(each, ranker) for each in runs]
    if reference:
        train = _read(runs[0], rankers[0], reference, reading=reading)
    else:
        train = data_of(runs[0], rankers[0], "train", "--reference")
    # Of the columns that are encoded in the data of a run, but not in those of --reference.
    categories = {**rankers[0].encoded, **train.categories}
    models = _new_documents(runs, rankers, new, reading, categories)
    thresholds = {name: limit for name, limit in limits.items() if limit is not None}
    test = None
    if not isinstance(runs[0].result.origin, Final):
        test = runs[0].scored("test")
    measures = monitor(train, models, thresholds, metric, test)
    _, new_data = models[0]
    chapter = as_chapter(str(new), new_data, measures, metric)
    echo(_chapter_as_text(chapter))
    if output is not None:
        record = {
            "run": str(run),
            "new": str(new),
            "queries": new_data.num_queries,
            "answer": [chapter.headline, *chapter.answer],
            "measures": list(map(asdict, measures)),
        }
        _write_chapter(output, chapter, f"{run}: {new}", record)
    if any(item.is_past for item in measures):
        return PAST_THRESHOLD
    return OK


def _new_documents(
    runs: Sequence[Run],
    rankers: Sequence[Ranker],
    new: Path,
    reading: tuple[str, ...],
    categories: Mapping[str, Sequence[str]],
) -> list[tuple[Ranker, RankingDataset]]:
    """Returns each model with the documents as it reads them.

    Args:
        categories: those of the first model and of the data that the documents are compared with.
    """
    known = [categories, *(None for _ in runs[1:])]
    models = []
    for run, model, of_model in zip(runs, rankers, known, strict=True):
        dataset = _read(run, model, new, reading=reading, known=of_model)
        models.append((model, dataset))
    return models


def _chapter_as_text(chapter: Chapter) -> str:
    from ltrbench.compare.views import Prose, as_text, joined, section_text

    width = terminal_width()
    answer = [chapter.headline, *chapter.answer]
    texts = [as_text(Prose(text), width) for text in answer]
    sections = [section_text(section, width) for section in chapter.sections]
    return joined([*texts, *sections])


def _write_chapter(
    folder: Path, chapter: Chapter, title: str, record: Mapping[str, object]
) -> None:
    """Writes monitor.html and monitor.json."""
    from ltrbench.compare.report import as_page

    page = as_page([], [chapter], title)
    text = json.dumps(record, indent=2, allow_nan=False)
    folder.mkdir(parents=True, exist_ok=True)
    write_output(page, folder / "monitor.html")
    write_output(f"{text}\n", folder / "monitor.json")


for _option, _text in {
    "--max-psi": "the population stability index of a feature",
    "--max-ks": "the Kolmogorov-Smirnov distance of a feature of numbers",
    "--max-missing": "the share of missing values of a feature",
    "--max-unseen": "the share of documents with an unseen category of a feature",
    "--max-rare": "the share of documents in leaves that training hardly reached",
    "--min-overlap": "the overlap of the first 10 documents with RUN2",
    "--max-fall": "the fall of the metric below its value on test",
}.items():
    _limit = click.Option(
        [_option, _option[6:]],
        type=click.FloatRange(0),
        metavar="X",
        help=f"Threshold of {_text}.",
    )
    monitor_verb.params.append(_limit)


def _read(
    run: Run,
    model: Ranker,
    file: Path,
    *,
    reading: tuple[str, ...],
    known: Mapping[str, Sequence[str]] | None = None,
) -> RankingDataset:
    """Reads a file like the training data, but without labels if it has none, and with new categories after
    the known ones. A one-hot encoded column of a table is one feature with categories, whose new categories
    are not missing values.

    Args:
        known: categories of each feature, which begin with those of the model; None: only those.
    """
    from ltrbench.data.sources import is_letor, read_data
    from ltrbench.data.store import is_store
    from ltrbench.data.tables import OpenCategories, columns_of_features, open_table

    options = options_as_trained(run, model, file, reading)
    if is_store(file) or is_letor(file, options["as_table"]):
        return read_data(file, **options)
    known = known or {**model.categories, **model.encoded}
    columns = model.feature_names
    if model.encoded:
        of_table = open_table(file).columns
        columns = columns_of_features(columns, model.encoded, of_table)
    categories = {}
    for column in columns:
        if column in known:
            categories[column] = OpenCategories(known[column])
    options |= {
        "feature_names": columns,
        "num_features": None,
        "categories": categories,
        "encode": None,
        "labelled": False,
    }
    return read_data(file, **options)

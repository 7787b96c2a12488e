"""Verbs on comparisons: `compare`, `ensemble`, `reproduce`."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import click

from ltrbench.cli.console import (
    JSON_OPTION,
    OK,
    PATH,
    PLUGIN_OPTION,
    RUN_FAILED,
    echo,
    echo_json,
    options_as_words,
    refuse_ineffective,
    split_settings,
    width_of_text,
    wrapped,
)
from ltrbench.cli.verbs.data import CONVENTION_OPTION, SETTINGS_OPTION
from ltrbench.cli.verbs.runs import load_splits
from ltrbench.errors import ConfigError
from ltrbench.metrics import preset, with_settings
from ltrbench.runs.origin import Ensemble
from ltrbench.runs.record import Run, find_runs

# ---- The verb `compare`: the table of finished runs, computed from their stored scores.


@click.command("compare")
@click.argument("sources", metavar="DIR... [NAME=FILE]...", nargs=-1, required=True)
@click.option(
    "--metric",
    "--primary",
    "metric",
    help="Metric of the claims; may be a metric that the runs did not compute. Default: the ndcg with the "
    "largest cutoff.",
)
@click.option(
    "--guard",
    "guards",
    metavar="NAME=LIMIT",
    multiple=True,
    help="Condition on a model that replaces the baseline: ndcg@10=-0.005, latency=2ms or memory=200MB.",
)
@click.option(
    "--family",
    metavar="METRICS",
    default="",
    help="Metrics that all carry claims, as in ndcg@10,map; corrected for multiple testing.",
)
@PLUGIN_OPTION
@click.option(
    "--baseline",
    metavar="MODEL",
    help="Model or row that all others are compared with, such as the one in production. Default: best, the "
    "one with the highest metric, with claims about all pairs.",
)
@CONVENTION_OPTION
@SETTINGS_OPTION
@click.option(
    "--slice",
    "sliced",
    metavar="NAMES",
    default="",
    help="Add results per group of queries: query_size, num_relevant, label_entropy, a kept column or a "
    "categorical feature of a table, or a column of --attributes.",
)
@click.option(
    "--attributes",
    type=PATH,
    metavar="FILE",
    help="With --slice: CSV table with the column query_id and one column per attribute.",
)
@click.option(
    "--fuse",
    metavar="METHODS",
    default="",
    help="Add rows that fuse the models: rrf, zscore, minmax, greedy (weights from valid).",
)
@click.option(
    "--fuse-of",
    metavar="MODELS",
    default="",
    help="With --fuse: models to fuse; default: all.",
)
@click.option(
    "--rrf-k",
    type=float,
    default=60.0,
    show_default=True,
    help="With --fuse rrf: constant k of the sum of 1 / (k + rank).",
)
@click.option(
    "--detect",
    type=float,
    metavar="D",
    help="Difference to plan queries for. Default: the width of the region of equivalence.",
)
@click.option(
    "--rope",
    type=float,
    metavar="D",
    help="Region of practical equivalence: differences from -D to D. Default: that of the metric, 0.005 for "
    "metrics between 0 and 1.",
)
@click.option(
    "--looks",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="With the first comparison: declare N looks, with claims at 5 %/N.",
)
@click.option(
    "--selected",
    metavar="REASON",
    default="",
    help="Make claims although planned trainings are left out.",
)
@click.option(
    "--allow-mismatch",
    is_flag=True,
    help="Also compare runs on different data or splits; the table has a note.",
)
@click.option(
    "--columns",
    type=click.Choice(["main", "all"]),
    default="main",
    show_default=True,
    help="Columns of the printed table; files have all of them.",
)
@JSON_OPTION
@click.option(
    "--output",
    type=PATH,
    metavar="OUT",
    help="Also write report.html, tables, pictures and JSON to this folder.",
)
def compare_verb(
    sources: tuple[str, ...],
    guards: tuple[str, ...],
    family: str,
    preset_name: str,
    settings: tuple[str, ...],
    sliced: str,
    attributes: Path | None,
    fuse: str,
    fuse_of: str,
    rrf_k: float,
    looks: int,
    columns: str,
    as_object: bool,
    output: Path | None,
    **chosen: Any,
) -> None:
    """Compares the finished runs in and below the folders DIR..., from their stored scores.

    NAME=FILE adds another system, evaluated like the runs. FILE is a CSV or Parquet table with the columns
    query_id, document_id and score; or it has one score per line in the order of the data rows, the output of
    RankLib's -score, or a TREC run; or it is a model of LightGBM, XGBoost or RankLib as in the verb import.
    {fold}, {split_seed}, {seed}, {data} and {split} in its name are filled in.

    \b
        python -m ltrbench compare multirun --metric ndcg@5
        python -m ltrbench compare multirun 'ranklib=scores/fold{fold}.txt' --fuse rrf,zscore
        python -m ltrbench compare multirun --baseline lightgbm --slice query_size,num_relevant --output OUT
    """
    from ltrbench.compare import Guard, Settings, read_attributes, slices
    from ltrbench.compare.decision import latency_of_row
    from ltrbench.compare.derived import RRF, Fusing, default_metric
    from ltrbench.compare.derived import fuse as fuse_runs
    from ltrbench.compare.leaderboard import comparisons_as_json
    from ltrbench.compare.publish import publish
    from ltrbench.compare.report import render_all
    from ltrbench.sweep.ledger import compare_sweeps

    methods = _names(fuse)
    if not methods:
        refuse_ineffective("--fuse-of", without="--fuse METHODS")
    if RRF not in methods:
        refuse_ineffective("--rrf-k", without="--fuse rrf")
    if not _names(sliced):
        refuse_ineffective("--attributes", without="--slice NAMES")
    if as_object:
        refuse_ineffective("--columns", beside="--json")
    convention = with_settings(preset(preset_name), split_settings("--set", settings))
    compare_settings = Settings(
        family=tuple(_names(family)),
        guards=tuple(map(Guard.parse, guards)),
        latency=cache(partial(latency_of_row, load_splits=load_splits)),
        convention=convention,
        **chosen,  # the options that have the name of a field
    )
    given = {} if attributes is None else read_attributes(attributes)
    runs = _find(sources)
    finished = [run for run in runs if run.result.is_compared]
    if methods and finished:
        fusing = Fusing(
            tuple(methods),
            tuple(_names(fuse_of)),
            rrf_k,
            compare_settings.claimed_metrics[0] or default_metric(finished),
            convention,
        )
        runs += fuse_runs(runs, fusing)
    comparisons = compare_sweeps(runs, compare_settings, declared=looks)
    names_of_slices = _names(sliced)
    comparisons = [
        replace(item, slices=slices(item, names_of_slices, given))
        for item in comparisons
    ]
    if as_object:
        echo_json(comparisons_as_json(comparisons))
    else:
        echo(render_all(comparisons, width_of_text(), columns))
    # After the table is printed, so that a full disk does not cost the table.
    if output is not None:
        command = ["python", "-m", "ltrbench", *sys.argv[1:]]
        publish(comparisons, output, shlex.join(command))
    elif not as_object:
        click.echo("\nNotes, pictures and all values: add --output FOLDER.", err=True)


def _find(sources: Sequence[str]) -> list[Run]:
    """Returns the runs in the folders, and the runs made from each NAME=FILE.

    Raises:
        ConfigError: No folder of runs is given, or two files have one name.
    """
    from ltrbench.compare.derived import Import, import_runs

    imports = [source for source in sources if _is_import(source)]
    folders = [Path(source) for source in sources if source not in imports]
    if not folders:
        raise ConfigError(
            f"{imports[0]} has scores but no judgments to evaluate them; also name a folder of runs on the "
            "same data."
        )
    names = [source.partition("=")[0] for source in imports]
    for name, source in zip(names, imports, strict=True):
        if names.count(name) > 1:
            raise ConfigError(
                f"{source}: the name {name} is given to {names.count(name)} files; give each system a name "
                f"of its own, as in {name}2=FILE. Files of several folds are one: {name}='fold{{fold}}.txt'."
            )
    runs = find_runs(folders)
    imported: list[Run] = []
    for source in imports:
        name, _, file = source.partition("=")
        imported += import_runs(Import(name, file), runs, load_splits)
    return [*runs, *imported]


def _is_import(source: str) -> bool:
    # Hydra names the folders of a sweep by their overrides, such as multirun/model=native.
    name, equals, _ = source.partition("=")
    return bool(equals) and "/" not in name and not Path(source).is_dir()


def _names(text: str) -> list[str]:
    """Splits a list at its commas outside of brackets.

    >>> _names("linear, native data.ignore=[price,stock]")
    ['linear', 'native data.ignore=[price,stock]']
    """
    names = [""]
    depth = 0
    for character in text:
        if character in "[({":
            depth += 1
        elif character in "])}":
            depth -= 1
        if character == "," and depth <= 0:
            names.append("")
        else:
            names[-1] += character
    return [name.strip() for name in names if name.strip()]


# ---- The verb `ensemble`: members and weights selected on validation, written as runs.


@click.command("ensemble")
@click.argument("folder", metavar="DIR", type=PATH)
@click.option(
    "--models",
    default="",
    help="Models or rows to draw from. Default: all but yardsticks.",
)
@click.option(
    "--size",
    type=click.IntRange(1),
    default=25,
    show_default=True,
    help="Number of draws.",
)
@click.option(
    "--metric",
    help="Metric of the selection. Default: the ndcg with the largest cutoff.",
)
@click.option(
    "--name",
    default="ensemble",
    show_default=True,
    help="Name of the row and of its folder.",
)
@PLUGIN_OPTION
def ensemble_verb(
    folder: Path, models: str, size: int, metric: str | None, name: str
) -> None:
    """Adds an ensemble of the finished runs in DIR to its comparison.

    In each fold, split seed, resample and seed, members are drawn with replacement, each time the one with
    which the mean of the scores, standardised per query, has the highest metric on validation (Caruana and
    others, 2004). Test is evaluated once, after the selection. The runs are written to DIR/NAME; they have
    scores, members and weights (see show), and no model to ship or serve.

    \b
        python -m ltrbench ensemble multirun/2026-01-31/12-00-00
        python -m ltrbench ensemble multirun/2026-01-31/12-00-00 --models native,lightgbm --name pair
    """
    from ltrbench.cli.session import mirror_beside
    from ltrbench.compare.derived import GREEDY, Fusing, default_metric, write_ensembles

    if Path(name).name != name:
        raise ConfigError(
            f"--name is '{name}'; give the name of a new folder in {folder}, such as ensemble."
        )
    finished = [run for run in find_runs([folder]) if run.result.is_compared]
    runs = finished
    if not models:
        runs = [run for run in finished if not run.result.is_yardstick]
    if not runs:
        raise ConfigError(
            f"{folder} has no finished run to draw from; run at least two models first."
        )
    fusing = Fusing(
        (GREEDY,),
        tuple(_names(models)),
        metric=metric or default_metric(runs),
        size=size,
    )
    options = {
        "--models": models or None,
        "--size": size,
        "--metric": metric or None,
        "--name": name or None,
    }
    command = ["ensemble", str(folder), *options_as_words(options)]
    made = write_ensembles(runs, folder / name, fusing, command)
    for run in made:
        assert isinstance(run.result.origin, Ensemble)  # for the type checker
        members = run.result.origin.weights.items()
        shares = [f"{label} {weight:.2f}" for label, weight in members if weight]
        echo(wrapped(f"{run.path}: {', '.join(shares)}", "  "))
    echo(f"Compare: python -m ltrbench compare {shlex.quote(str(folder))}")
    mirror_beside(finished, made)


# ---- The verb `reproduce`: checks that a rerun gives the committed values.


@click.command("reproduce")
@click.argument("committed", type=PATH)
@click.argument("runs", type=PATH)
@PLUGIN_OPTION
def reproduce_verb(committed: Path, runs: Path) -> int:
    """Compares the runs below RUNS with the committed results in the folder COMMITTED.

    The exit code is 1 if they differ.
    With the machine type and the versions of the committed results, every value must be bit-identical;
    otherwise it must agree within 0.001. The rerun is compared in the metric and the convention of the
    committed results. Runs whose fit is not repeatable, such as those of LightGBM and
    XGBoost on several workers, must agree within 0.02. Runs are matched by their commands: runs that were
    started from Python are not compared, and it is an error if no metric is compared.

    \b
        python -m ltrbench reproduce results/mq2008 build/reproduce/mq2008
    """
    from ltrbench.compare import compare
    from ltrbench.compare.publish import (
        TOLERANCE,
        TOLERANCE_NOT_REPEATABLE,
        publish,
        settings_to_rerun,
    )
    from ltrbench.compare.publish import reproduce as compare_with

    with tempfile.TemporaryDirectory() as folder:
        rerun = Path(folder, committed.name)
        settings = settings_to_rerun(committed)
        publish(compare(find_runs([runs]), settings=settings), rerun)
        reproduction = compare_with(committed, rerun)
    demand = "be bit-identical" if reproduction.exact else f"agree within {TOLERANCE}"
    echo(
        f"{committed}: {reproduction.num_values} values, which must {demand} ({reproduction.reason}); "
        f"largest difference {reproduction.largest:.3g}."
    )
    if reproduction.num_not_repeatable:
        echo(
            f"{reproduction.num_not_repeatable} of the runs are not repeatable (distributed.deterministic is "
            f"false in result.json): their values must agree within {TOLERANCE_NOT_REPEATABLE}."
        )
    for sentence in reproduction.not_compared:
        echo(f"Not compared: {sentence}.")
    for difference in reproduction.differences:
        echo(f"- {difference}")
    if reproduction.differences:
        echo(f"{len(reproduction.differences)} values differ.")
        return RUN_FAILED
    echo("Reproduced.")
    return OK

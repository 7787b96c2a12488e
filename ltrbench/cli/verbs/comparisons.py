"""Verbs on comparisons: `aa`, `compare`, `ensemble`, `leaderboard`, `published`, `reproduce`."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltrbench.cli.console import (
    JSON_OPTION,
    OK,
    PATH,
    PLUGIN_OPTION,
    RUN_FAILED,
    echo,
    echo_json,
    split_settings,
    terminal_width,
    width_of_text,
    wrapped,
)
from ltrbench.cli.verbs.data import CONVENTION_OPTION, SETTINGS_OPTION, sources_in_yaml
from ltrbench.cli.verbs.runs import load_exact, load_splits
from ltrbench.errors import ConfigError, ResultError, require_choice
from ltrbench.metrics import preset, with_settings
from ltrbench.runs.record import FUSED, NO_PARAMETERS, Run, find_runs
from ltrbench.tables import Table, TableRow, columns_of

if TYPE_CHECKING:
    from ltrbench.compare.slicing import AgainstItself


@click.command("aa")
@click.argument("folders", metavar="DIR...", type=PATH, nargs=-1, required=True)
@click.option(
    "--metric", help="Metric of the claims. Default: the ndcg with the largest cutoff."
)
@PLUGIN_OPTION
def aa_verb(folders: tuple[Path, ...], metric: str | None) -> None:
    """Compares each model with itself, to measure the rate of false claims.

    Reads the finished runs in and below DIR... The replicates of a model (its seeds or resamples) are split
    into two halves, which are compared like two models. A model needs at least eight replicates.

    \b
        python -m ltrbench aa multirun --metric map
    """
    from ltrbench.compare import Settings
    from ltrbench.compare.slicing import each_against_itself

    rows = each_against_itself(find_runs(folders), Settings(metric=metric))
    if all(row.halved is None for row in rows):
        raise ResultError(
            "\n".join(
                ["no model has enough replicates for two halves.", *_reasons(rows)]
            )
        )
    echo(_render(rows))


def _render(rows: Sequence[AgainstItself]) -> str:
    from ltrbench.compare.slicing import OF_RESAMPLES, READING

    shares = (
        "interval excludes 0",
        "better or worse",
        "equivalent",
        "by queries alone",
    )
    names = dict.fromkeys(("replicates", "halvings", *shares), "")
    columns = columns_of({"data": None, "model": None, **names})
    table = Table(columns, [_cells(row) for row in rows]).markdown(
        terminal_width() or 100_000
    )
    parts = [f"Models against themselves, {rows[0].metric}", table, wrapped(READING)]
    if any(row.kind == "resamples" for row in rows):
        parts.append(wrapped(OF_RESAMPLES))
    return "\n\n".join([*parts, *_reasons(rows)])


def _cells(row: AgainstItself) -> TableRow:
    kind = row.kind if row.num_replicates != 1 else row.kind.removesuffix("s")
    folds = f"{row.num_folds} folds x " if row.num_folds > 1 else ""
    replicates = f"{folds}{row.num_replicates} {kind}"
    halved = row.halved
    if halved is None:
        return [row.data, row.label, replicates, *[None] * 5]
    of_all = (
        ""
        if halved.num_halvings == halved.num_distinct
        else f" of {halved.num_distinct:,}"
    )
    counts = (
        halved.num_intervals,
        halved.num_different,
        halved.num_equivalent,
        halved.num_by_queries,
    )
    shares = [
        f"{count} ({100 * count / halved.num_halvings:.1f} %)" for count in counts
    ]
    return [
        row.data,
        row.label,
        replicates,
        f"{halved.num_halvings:,}{of_all}",
        *shares,
    ]


def _reasons(rows: Sequence[AgainstItself]) -> list[str]:
    """Returns one line for each row without a result."""
    return [
        f"{row.data}, {row.label}: {row.reason}." for row in rows if row.halved is None
    ]


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
    help="CSV table with the column query_id and one column per attribute.",
)
@click.option(
    "--fuse",
    metavar="METHODS",
    default="",
    help="Add rows that fuse the models: rrf, zscore, minmax, greedy (weights from valid).",
)
@click.option(
    "--fuse-of", metavar="MODELS", default="", help="Models to fuse; default: all."
)
@click.option(
    "--rrf-k",
    type=float,
    default=60.0,
    show_default=True,
    help="Constant k of rrf, which sums 1 / (k + rank).",
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
    help="Declare N looks, with claims at 5 %/N.",
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
    "--published",
    is_flag=True,
    help="Also show comparable figures of others; the verb published has all.",
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
    from ltrbench.compare.derived import Fusing, default_metric
    from ltrbench.compare.derived import fuse as fuse_runs
    from ltrbench.compare.leaderboard import comparisons_as_json
    from ltrbench.compare.publish import publish
    from ltrbench.compare.report import render_all
    from ltrbench.sweep.ledger import compare_sweeps

    compare_settings = Settings(
        family=tuple(_names(family)),
        guards=tuple(map(Guard.parse, guards)),
        latency=cache(partial(latency_of_row, load_splits=load_splits)),
        convention=with_settings(
            preset(preset_name), split_settings("--set", settings)
        ),
        **chosen,  # the options that have the name of a field
    )
    given = {} if attributes is None else read_attributes(attributes)
    runs = _find(sources)
    if fuse and any(run.result.is_compared for run in runs):
        metric = compare_settings.claimed_metrics[0] or default_metric(runs)
        of, convention = tuple(_names(fuse_of)), compare_settings.convention
        runs += fuse_runs(
            runs, Fusing(tuple(_names(fuse)), of, rrf_k, metric, convention)
        )
    comparisons = compare_sweeps(runs, compare_settings, declared=looks)
    comparisons = [
        replace(item, slices=slices(item, _names(sliced), given))
        for item in comparisons
    ]
    if as_object:
        echo_json(comparisons_as_json(comparisons))
    else:
        echo(
            render_all(
                comparisons,
                width_of_text(),
                columns,
            )
        )
    if output is None and not as_object:
        click.echo("\nNotes, pictures and all values: add --output FOLDER.", err=True)
    # After the table is printed, so that a full disk does not cost the table.
    if output is not None:
        publish(
            comparisons, output, shlex.join(["python", "-m", "ltrbench", *sys.argv[1:]])
        )


def _find(sources: Sequence[str]) -> list[Run]:
    """Returns the runs in the folders, and the runs made from each NAME=FILE.

    Raises:
        ConfigError: No folder of runs is given.
    """
    from ltrbench.compare.derived import Import, import_runs

    imports = [source for source in sources if _is_import(source)]
    folders = [Path(source) for source in sources if source not in imports]
    if not folders:
        raise ConfigError(
            f"{imports[0]} has scores but no judgments to evaluate them; also name a folder of runs on the "
            "same data."
        )
    runs = find_runs(folders)
    wanted = [
        Import(name, file)
        for name, _, file in (source.partition("=") for source in imports)
    ]
    return [
        *runs,
        *(
            run
            for each in wanted
            for run in import_runs(each, runs, load_splits, load_exact)
        ),
    ]


def _is_import(source: str) -> bool:
    # Hydra names the folders of a sweep by their overrides, such as multirun/model=native.
    name, equals, _ = source.partition("=")
    return bool(equals) and "/" not in name and not Path(source).is_dir()


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


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
    runs = [
        run
        for run in finished
        if models or run.result.params not in (NO_PARAMETERS, FUSED)
    ]
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
    given = {
        "--models": models,
        "--size": str(size),
        "--metric": metric,
        "--name": name,
    }
    words = [
        word for option, value in given.items() if value for word in (option, value)
    ]
    made = write_ensembles(
        runs, folder / name, fusing, ["ensemble", str(folder), *words]
    )
    for run in made:
        members = run.result.ensemble["weights"].items()
        shares = ", ".join(
            f"{label} {weight:.2f}" for label, weight in members if weight
        )
        echo(wrapped(f"{run.path}: {shares}", "  "))
    echo(f"Compare: python -m ltrbench compare {shlex.quote(str(folder))}")
    mirror_beside(finished, made)


# ---- The verb `published`: figures of papers and repositories under a convention.


@click.command("published")
@click.argument("data")
@click.option(
    "--fold",
    type=click.IntRange(1),
    metavar="N",
    help="Test set; default: that of each figure.",
)
@click.option(
    "--metric", default="ndcg@10", show_default=True, help="Metric of the figures."
)
@click.option(
    "--as",
    "name",
    default="default",
    show_default=True,
    help="Convention of the values.",
)
@SETTINGS_OPTION
@JSON_OPTION
def published_verb(
    data: str,
    fold: int | None,
    metric: str,
    name: str,
    settings: tuple[str, ...],
    as_object: bool,
) -> None:
    """Shows published figures on the data set DATA, with their values under one convention.

    A value is exact, a range, or not comparable; the last column refers to the reasons. --json also has the
    quotation and address of each figure, and the evidence of each of its fields.

    \b
        python -m ltrbench published mslr_web30k --fold 1
        python -m ltrbench published mslr_web30k --metric ndcg@5 --as lightgbm --json
    """
    from ltrbench.compare.published import as_table, catalogue, under

    require_choice("data", data, sorted({item.data for item in catalogue()}))
    figures = [item for item in catalogue() if item.data == data]
    require_choice(
        "metric", metric, list(dict.fromkeys(item.metric for item in figures))
    )
    known = {
        number
        for item in figures
        for number in item.value("folds") or []
        if isinstance(number, int)
    }
    require_choice(
        "fold", str(fold) if fold and known else None, [*map(str, sorted(known))]
    )
    folds = [fold] if fold else []
    convention = with_settings(preset(name), split_settings("--set", settings))
    items = [
        under(item, metric, convention, folds)
        for item in figures
        if item.metric == metric
    ]
    if as_object:
        echo_json({"data": data, "figures": [asdict(item) for item in items]})
        return
    table, reasons = as_table(items, convention.name)
    echo(
        f"Published figures on {data}, {metric}\n\n{table.markdown(terminal_width())}\n"
    )
    echo("\n".join(wrapped(reason, "   ") for reason in reasons))


# ---- The verb `reproduce`: checks that a rerun gives the committed values.


@click.command("reproduce")
@click.argument("committed", type=PATH)
@click.argument("runs", type=PATH)
@PLUGIN_OPTION
def reproduce_verb(committed: Path, runs: Path) -> int:
    """Compares the runs below RUNS with the committed results in the folder COMMITTED.

    The exit code is 1 if they differ.
    With the machine type and the versions of the committed results, every value must be bit-identical;
    otherwise it must agree within 0.001. Runs whose fit is not repeatable, such as those of LightGBM and
    XGBoost on several workers, must agree within 0.02.

    \b
        python -m ltrbench reproduce results/mq2008 build/reproduce/mq2008
    """
    from ltrbench.compare import compare
    from ltrbench.compare.publish import TOLERANCE, TOLERANCE_NOT_REPEATABLE, publish
    from ltrbench.compare.publish import reproduce as compare_with

    with tempfile.TemporaryDirectory() as folder:
        rerun = Path(folder, committed.name)
        publish(compare(find_runs([runs])), rerun)
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
    for difference in reproduction.differences:
        echo(f"- {difference}")
    echo(
        "Reproduced."
        if not reproduction.differences
        else f"{len(reproduction.differences)} values differ."
    )
    return RUN_FAILED if reproduction.differences else OK


# ---- The verb `leaderboard`: score files of any system on the published data sets.

_DATA_OPTION = click.option(
    "--data", required=True, metavar="DATA", help="Data set: a YAML of conf/data."
)
_OUTPUT_OPTION = click.option(
    "--output",
    type=PATH,
    default=Path("results/leaderboard"),
    help="Folder; default: results/leaderboard.",
)


@click.group("leaderboard")
def leaderboard_verb() -> None:
    """Compares score files of any system on published data sets."""


@leaderboard_verb.command("add")
@click.argument("scores")
@_DATA_OPTION
@click.option(
    "--name", required=True, help="Name of the entry; of runs in a folder, the model."
)
@click.option(
    "--division",
    type=click.Choice(["closed", "open"]),
    default="open",
    help="Default: open.",
)
@click.option("--code", default="", metavar="ADDRESS", help="Address of the code.")
@click.option(
    "--settings", default="", metavar="TEXT", help="Settings, and how they were chosen."
)
@_OUTPUT_OPTION
def add_verb(scores: str, data: str, name: str, output: Path, **declared: str) -> None:
    """Checks SCORES and adds them as an entry.

    SCORES is one score file for each fold, with {fold} in its name, in a format of the verb import; or a
    folder with finished runs of the model NAME. Scores that lack a fold or a document, are constant, rank
    worse than at random or with the labels, or repeat another entry are refused. Division closed: features
    and splits as published, settings chosen on validation only, and code given.

    \b
        python -m ltrbench leaderboard add 'scores/fold{fold}.txt' --data mq2008 --name mine
    """
    from ltrbench.compare.derived import Import
    from ltrbench.compare.entries import add_entry

    sources = list(sources_in_yaml(data, None, None))
    table, remarks = add_entry(Import(name, scores), sources, output, **declared)
    echo("\n".join([table, *(wrapped(remark) for remark in remarks)]))


@leaderboard_verb.command("table")
@_DATA_OPTION
@_OUTPUT_OPTION
def table_verb(data: str, output: Path) -> None:
    """Writes the table of all entries again.

    For example after a merge of entries, which are all evaluated again.

    \b
        python -m ltrbench leaderboard table --data mq2008
    """
    from ltrbench.compare.entries import folds_of, write_table

    echo(write_table(folds_of(list(sources_in_yaml(data, None, None))), output / data))

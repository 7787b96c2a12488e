"""The verb `compare`: the table of finished runs, computed from their stored scores."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltrbench.cli.files import (
    JSON_OPTION,
    PATH,
    PLUGIN_OPTION,
    echo,
    echo_json,
    split_settings,
    terminal_width,
)
from ltrbench.cli.verbs.data.evaluate import CONVENTION_OPTION, ROPE_OPTION, SETTINGS_OPTION
from ltrbench.cli.verbs.runs.models import load_splits
from ltrbench.errors import ConfigError

if TYPE_CHECKING:
    from ltrbench.compare import Comparison, Settings
    from ltrbench.compare.output.publish import Slices
    from ltrbench.compare.scores.imported import Import
    from ltrbench.results import Run


@click.command("compare")
@click.argument("sources", metavar="DIR... [NAME=FILE]...", nargs=-1, required=True)
@click.option(
    "--metric",
    help="Metric of the claims; may be a metric that the runs did not compute. Default: the ndcg with the "
    "largest cutoff.",
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
    help="Model or row that all others are compared with, or best, the one with the highest metric. Default: "
    "the first row, with claims about all pairs.",
)
@CONVENTION_OPTION
@SETTINGS_OPTION
@click.option(
    "--slice",
    "sliced",
    metavar="NAMES",
    default="",
    help="Add results per group of queries: query_size, num_relevant, label_entropy, or a column of "
    "--attributes.",
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
    help="Add rows that fuse the models: rrf, zscore, minmax, learned (weights from valid).",
)
@click.option("--fuse-of", metavar="MODELS", default="", help="Models to fuse; default: all.")
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
    help="Report the queries, seeds or folds needed to detect a difference D.",
)
@ROPE_OPTION
@click.option(
    "--draws",
    type=int,
    default=10_000,
    show_default=True,
    help="Number of draws of the bootstrap and the randomization test.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the bootstrap and the randomization test."
)
@click.option(
    "--allow-mismatch",
    is_flag=True,
    help="Also compare runs on different data or splits; the table has a note.",
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
    metric: str | None,
    family: str,
    baseline: str | None,
    preset_name: str,
    settings: tuple[str, ...],
    sliced: str,
    attributes: Path | None,
    fuse: str,
    fuse_of: str,
    rrf_k: float,
    detect: float | None,
    rope: float,
    draws: int,
    seed: int,
    allow_mismatch: bool,
    as_object: bool,
    output: Path | None,
) -> None:
    """Compares the finished runs in and below the folders DIR..., from their stored scores.

    NAME=FILE adds another system, evaluated like the runs. FILE has one score per line in the order of the
    data rows, the output of RankLib's -score, or a TREC run; or it is a model of LightGBM,
    XGBoost or RankLib as in the verb import. {fold}, {seed}, {data} and {split} in its name are filled in.

    \b
        python -m ltrbench compare multirun --metric ndcg@5
        python -m ltrbench compare multirun 'ranklib=scores/fold{fold}.txt' --fuse rrf,zscore
        python -m ltrbench compare multirun --baseline lightgbm --slice query_size,num_relevant --output OUT
    """
    from ltrbench.compare import Settings, compare, read_attributes, slices
    from ltrbench.compare.output.publish import publish
    from ltrbench.compare.output.record import comparisons_as_json
    from ltrbench.metrics import preset, with_settings

    compare_settings = Settings(
        metric=metric,
        family=tuple(_names(family)),
        baseline=baseline,
        convention=with_settings(preset(preset_name), split_settings("--set", settings)),
        allow_mismatch=allow_mismatch,
        rope=rope,
        detect=detect,
        num_draws=draws,
        seed=seed,
    )
    _refuse_without("--fuse", fuse, "--fuse-of", fuse_of)
    _refuse_without("--slice", sliced, "--attributes", attributes)
    if output is not None:
        _make(output)
    given = {} if attributes is None else read_attributes(attributes)
    runs = _find(sources)
    runs += _fused(runs, compare_settings, _names(fuse), _names(fuse_of), rrf_k)
    comparisons = compare(runs, compare_settings)
    by_kind = {item.data: slices(item, _names(sliced), given) for item in comparisons}
    if as_object:
        echo_json(comparisons_as_json(comparisons, by_kind))
    else:
        _print(comparisons, by_kind)
    # After the table is printed, so that a full disk does not cost the table.
    if output is not None:
        publish(comparisons, output, by_kind, shlex.join(["python", "-m", "ltrbench", *sys.argv[1:]]))


def _print(comparisons: Sequence[Comparison], by_kind: Slices) -> None:
    """Prints the tables and the summary over data sets, fitted to the width of the terminal."""
    from ltrbench.compare import render
    from ltrbench.compare.analysis.across import across, across_in_words

    width = terminal_width()
    tables = [render(item, width, by_kind[item.data]).rstrip() for item in comparisons]
    over = across_in_words(across(comparisons))
    echo("\n\n".join([*tables, over] if over else tables))


def _refuse_without(needed: str, there: str, option: str, value: object) -> None:
    """Raises ConfigError if an option is given without another one that it requires."""
    if value and not there:
        raise ConfigError(
            f"{option} is {value}, which has no effect without {needed}; add {needed}, or leave out {option}."
        )


def _make(output: Path) -> None:
    """Creates the output folder before anything is computed.

    Raises:
        ConfigError: The folder cannot be created.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"--output {output}: the folder cannot be created ({error.strerror}); choose another one."
        ) from None


def _find(sources: Sequence[str]) -> list[Run]:
    """Returns the runs in the folders, and the runs made from each NAME=FILE.

    Raises:
        ConfigError: No folder of runs is given, or a NAME is used twice.
    """
    from ltrbench.compare.scores.imported import Import
    from ltrbench.results import find_runs

    imports = [source for source in sources if _is_import(source)]
    folders = [Path(source) for source in sources if source not in imports]
    if not folders:
        raise ConfigError(
            f"{imports[0]} has scores but no judgments to evaluate them; also name a folder of runs on the "
            "same data."
        )
    names = [source.partition("=")[0] for source in imports]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"'{name}' is the name of several score files; give each system its own name.")
    runs = find_runs(folders)
    wanted = [Import(name, file) for name, _, file in (source.partition("=") for source in imports)]
    return [*runs, *(run for each in wanted for run in _imported(each, runs))]


def _imported(system: Import, runs: Sequence[Run]) -> list[Run]:
    """Returns the runs of a system: its scores are read, or its model is applied to the data of the runs."""
    from ltrbench.compare.scores.imported import first_runs_of_cells, import_scores
    from ltrbench.compare.scores.imported_models import ModelImport, apply_model
    from ltrbench.rankers.models.formats.reading import is_model_file

    files = [(like, system.file(like.result, "test")) for like in first_runs_of_cells(runs, by_seed=False)]
    models = [(like, file) for like, file in files if is_model_file(file)]
    if not models:
        return import_scores(system, runs)
    return [
        apply_model(ModelImport(system.name, file), like, load_splits(like, named=None))
        for like, file in models
    ]


def _is_import(source: str) -> bool:
    # Hydra names the folders of a sweep by their overrides, such as multirun/model=native.
    name, equals, _ = source.partition("=")
    return bool(equals) and "/" not in name and not Path(source).is_dir()


def _fused(
    runs: Sequence[Run], settings: Settings, methods: Sequence[str], of: Sequence[str], rrf_k: float
) -> list[Run]:
    from ltrbench.compare.comparison import default_metric
    from ltrbench.compare.scores.fusion import Fusing, fuse
    from ltrbench.results import FINISHED

    finished = [run for run in runs if run.result.status == FINISHED]
    if not methods or not finished:
        return []
    metric = settings.claimed_metrics[0] or default_metric(finished)
    return fuse(
        finished, Fusing(tuple(methods), tuple(of), rrf_k, metric, settings.convention, settings.seed)
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]

"""The verb `compare`: finished runs side by side, from the scores that they hold."""

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
from ltrbench.errors import ConfigError

if TYPE_CHECKING:
    from ltrbench.compare import Comparison, Settings
    from ltrbench.compare.output.publish import Slices
    from ltrbench.results import Run


@click.command("compare")
@click.argument("sources", metavar="DIR... [NAME=SCORES]...", nargs=-1, required=True)
@click.option(
    "--metric",
    help="The primary metric, which carries the claims, such as ndcg@10; any metric, also one not asked for "
    "before.",
)
@click.option(
    "--family",
    metavar="METRICS",
    default="",
    help="Metrics that carry claims together, as in ndcg@10,map; corrected for their number.",
)
@PLUGIN_OPTION
@click.option(
    "--baseline",
    metavar="MODEL",
    help="What the others are compared to: a model, a row, or best (by simultaneous intervals). By default "
    "the first, with claims over all pairs.",
)
@CONVENTION_OPTION
@SETTINGS_OPTION
@click.option(
    "--slice",
    "sliced",
    metavar="NAMES",
    default="",
    help="Also by kinds of queries: query_size, num_relevant, label_entropy, or a column of --attributes.",
)
@click.option(
    "--attributes", type=PATH, metavar="FILE", help="A CSV table: query_id, and a column an attribute."
)
@click.option(
    "--fuse",
    metavar="METHODS",
    default="",
    help="Also rows that fuse the others: rrf, zscore, minmax, learned (weights from valid).",
)
@click.option("--fuse-of", metavar="MODELS", default="", help="What is fused; by default every model.")
@click.option(
    "--rrf-k", type=float, default=60.0, show_default=True, help="k of rrf, which adds 1 / (k + rank)."
)
@click.option("--detect", type=float, metavar="D", help="How many queries, seeds or folds detect D?")
@ROPE_OPTION
@click.option(
    "--draws", type=int, default=10_000, show_default=True, help="Of bootstrap and randomisation test."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of both.")
@click.option(
    "--allow-mismatch",
    is_flag=True,
    help="Show runs on different data or splits too, and say so in the table.",
)
@JSON_OPTION
@click.option(
    "--output", type=PATH, metavar="OUT", help="Also write report.html, tables, pictures and JSON here."
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
    """The table of the finished runs in and below the folders DIR..., from the scores that they hold.

    NAME=SCORES adds the scores of another system, judged as the runs are: a file of one score a line in the
    order of the data's rows, of RankLib's -score, or a TREC run. {fold}, {seed}, {data} and {split} in its
    name are filled in.

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
    # Behind the table, which a full disk must not cost.
    if output is not None:
        publish(comparisons, output, by_kind, shlex.join(["python", "-m", "ltrbench", *sys.argv[1:]]))


def _print(comparisons: Sequence[Comparison], by_kind: Slices) -> None:
    """The tables, and what is seen over data sets, in the width of the terminal."""
    from ltrbench.compare import render
    from ltrbench.compare.analysis.across import across, across_in_words

    width = terminal_width()
    tables = [render(item, width, by_kind[item.data]).rstrip() for item in comparisons]
    over = across_in_words(across(comparisons))
    echo("\n\n".join([*tables, over] if over else tables))


def _refuse_without(needed: str, there: str, option: str, value: object) -> None:
    """Raises ConfigError on an option that has no effect without another."""
    if value and not there:
        raise ConfigError(
            f"{option} is {value}, which has no effect without {needed}; add that, or leave it out."
        )


def _make(output: Path) -> None:
    """The folder to write to, before anything is computed."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--output {output} cannot be a folder: {error.strerror}; name another.") from None


def _find(sources: Sequence[str]) -> list[Run]:
    """The runs in folders, and those that NAME=SCORES makes in their places."""
    from ltrbench.compare.scores.imported import Import, import_scores
    from ltrbench.results import find_runs

    imports = [source for source in sources if _is_import(source)]
    folders = [Path(source) for source in sources if source not in imports]
    if not folders:
        raise ConfigError(
            f"{imports[0]} alone has no judgments to be held to; name a folder of runs on the same data too."
        )
    names = [source.partition("=")[0] for source in imports]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"'{name}' stands for several files; give each system a name of its own.")
    runs = find_runs(folders)
    wanted = [Import(name, file) for name, _, file in (source.partition("=") for source in imports)]
    return [*runs, *(run for each in wanted for run in import_scores(each, runs))]


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

"""The verb `compare`: finished runs side by side, from the scores that they hold."""

from __future__ import annotations

from pathlib import Path

import click

from ltrbench.cli.evaluating import CONVENTION_OPTION, SETTINGS_OPTION
from ltrbench.cli.files import JSON_OPTION, PATH, echo_json, split_settings
from ltrbench.cli.progress import terminal_width


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=PATH)
@click.option(
    "--metric",
    help="What differences are taken in, such as ndcg@10; any metric, also one not asked for before.",
)
@click.option(
    "--baseline",
    metavar="MODEL",
    help="What the others are compared to: a model, a row, or best (by simultaneous intervals). By default "
    "the first, with p-values adjusted over all pairs.",
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
@click.option("--detect", type=float, metavar="D", help="How many queries would show a difference of D?")
@click.option(
    "--rope",
    type=float,
    default=0.005,
    show_default=True,
    metavar="D",
    help="Differences of at most D either way are practically none.",
)
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
def compare(
    folders: tuple[Path, ...],
    metric: str | None,
    baseline: str | None,
    preset_name: str,
    settings: tuple[str, ...],
    sliced: str,
    attributes: Path | None,
    detect: float | None,
    rope: float,
    draws: int,
    seed: int,
    allow_mismatch: bool,
    as_object: bool,
    output: Path | None,
) -> None:
    """The table of the finished runs in and below the folders DIR..., from the scores that they hold.

    \b
      python -m ltrbench compare multirun --metric ndcg@5
      python -m ltrbench compare multirun --baseline lightgbm --slice query_size,num_relevant --output OUT
    """
    from ltrbench.compare import Settings, read_attributes, render, slices
    from ltrbench.compare import compare as compare_runs
    from ltrbench.compare.publish import publish
    from ltrbench.compare.record import as_json
    from ltrbench.metrics import preset, with_settings
    from ltrbench.results import find_runs

    asked = Settings(
        metric=metric,
        baseline=baseline,
        convention=with_settings(preset(preset_name), split_settings("--set", settings)),
        allow_mismatch=allow_mismatch,
        rope=rope,
        detect=detect,
        num_draws=draws,
        seed=seed,
    )
    given = {} if attributes is None else read_attributes(attributes)
    comparisons = compare_runs(find_runs(folders), asked)
    names = [name.strip() for name in sliced.split(",") if name.strip()]
    by_kind = {item.data: slices(item, names, given) for item in comparisons}
    if output is not None:
        publish(comparisons, output, by_kind)
    if as_object:
        echo_json(as_json(comparisons, by_kind))
    else:
        width = terminal_width()
        tables = [render(item, width, by_kind[item.data]) for item in comparisons]
        click.echo("\n".join(tables), nl=False)

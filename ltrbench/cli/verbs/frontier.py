"""The verb `frontier`: what models and cheaper variants cost, and the cheapest to ship."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltrbench.cli.console import (
    JSON_OPTION,
    PATH,
    PLUGIN_OPTION,
    echo,
    echo_json,
    terminal_width,
    write_output,
)
from ltrbench.cli.session import mirror_beside
from ltrbench.cli.verbs.runs import load_splits, unfitted
from ltrbench.errors import ConfigError
from ltrbench.runs.record import find_runs, holds_runs, writing_to

if TYPE_CHECKING:
    from ltrbench.rankers import Ranker


@click.command("frontier")
@click.argument("folder", metavar="DIR", type=PATH)
@click.option(
    "--metric", help="Metric of the quality. Default: the ndcg with the largest cutoff."
)
@click.option(
    "--guard",
    "guards",
    metavar="NAME=LIMIT",
    multiple=True,
    help="As in compare: ndcg@10=-0.005 against the best row, latency=2ms (median of a list of 100 documents "
    "in the service), memory=200MB (of loading). Default: the region of equivalence of the metric.",
)
@click.option(
    "--refit",
    is_flag=True,
    help="Also train the best again with its 50, 25 and 10 % most important features, and with half and a "
    "quarter of the leaves.",
)
@click.option(
    "--distil",
    metavar="MODEL",
    multiple=True,
    help="Also fit MODEL to the scores of the best on train, by default with a quarter of its trees: linear, "
    "or with settings 'lightgbm params.num_trees=50 params.num_leaves=15'.",
)
@click.option(
    "--output",
    type=PATH,
    metavar="OUT",
    help="Folder of the variants. Default: DIR-frontier.",
)
@PLUGIN_OPTION
@JSON_OPTION
def frontier_verb(
    folder: Path,
    metric: str | None,
    guards: tuple[str, ...],
    refit: bool,
    distil: tuple[str, ...],
    output: Path | None,
    as_object: bool,
) -> None:
    """Shows what the models of the runs in DIR cost, and the cheapest that is equivalent to the best.

    Lists of 20, 100 and 1,000 documents are timed on one thread, from the request to the answer of the
    service; the trained models and the chosen one also in their library, as C, in treelite and in ONNX.
    Variants of the best row, its first 10 %, 20 %, ... of the trees, are written to OUT as runs for compare,
    ship and serve, beside frontier.html, frontier.json and pictures of the Pareto fronts. All choices are by
    validation: the best row, and the row of lowest latency that is not lower by more than the guards allow,
    tested on validation. Test is evaluated once, for these two rows.

    \b
        python -m ltrbench frontier multirun/2026-01-31/12-00-00
        python -m ltrbench frontier multirun/2026-01-31/12-00-00 --guard latency=2ms --refit --distil linear
    """
    on_step = partial(echo, err=True)
    on_step(f"reading the runs of {folder}")  # the imports take seconds
    from ltrbench.compare import Guard, Settings
    from ltrbench.compare.report import as_page
    from ltrbench.compare.views import Prose, as_text, joined, section_text
    from ltrbench.frontier import VariantSettings, as_chapter, frontier
    from ltrbench.plots import PAPER, write_figures

    variants = _beside(folder) if output is None else output
    if holds_runs(variants):
        raise ConfigError(
            f"{variants} already has runs; name another folder with --output, or delete it."
        )
    runs = find_runs([folder])
    with writing_to(variants):
        variants.mkdir(parents=True, exist_ok=True)
    settings = Settings(metric=metric, guards=tuple(map(Guard.parse, guards)))
    students = {words: partial(_student, words) for words in distil}
    for student in students.values():
        student(None)  # refuses a wrong setting before anything is trained
    of_variants = VariantSettings(
        folder=variants,
        overrides=["frontier", *sys.argv[2:]],
        load_splits=load_splits,
        refit=unfitted if refit else None,
        distil=students,
    )
    done, made = frontier(runs, settings, of_variants, on_step)
    chapter = as_chapter(done, str(folder))
    width = terminal_width()
    if as_object:
        echo_json(asdict(done))
    else:
        texts = [section_text(section, width) for section in chapter.sections]
        echo(joined([as_text(Prose(done.sentence), width), *texts]))
    figures = chapter.sections[0].figures
    write_figures(variants, {each.file: each.draw(PAPER) for each in figures})
    page = as_page([], [chapter], f"{folder}: frontier")
    write_output(page, variants / "frontier.html")
    record = json.dumps(asdict(done), indent=2, allow_nan=False)
    write_output(f"{record}\n", variants / "frontier.json")
    mirror_beside(runs, made)


def _beside(folder: Path) -> Path:
    """Returns the folder of the variants: not in the folder of the runs, whose comparisons would have the
    variants as rows, and wider intervals."""
    whole = folder.resolve()
    return Path(os.path.relpath(whole.with_name(f"{whole.name}-frontier")))


def _student(words: str, num_trees: int | None) -> Ranker:
    """Returns the unfitted ranker of `--distil`, which learns by the squared error up to a constant of the
    query; CatBoost and coordinate ascent by their own loss.

    Args:
        words: A model, and settings as in a command that trains.
        num_trees: Number of trees of the model to learn from; None: not known.

    Raises:
        ConfigError: There is no such model or setting.
    """
    from ltrbench.config import build_experiment, composed, resolved
    from ltrbench.runs.spec import RunSpec

    name, *settings = shlex.split(words)
    model = composed(f"model={name}").model
    takes_loss = "objective" in model and model.get("method") != "coordinate_ascent"
    objective = "query_rmse" if takes_loss else "none"
    given = [f"model={name}", f"model/objective={objective}"]
    if num_trees is not None:
        given.append(f"params.num_trees={math.ceil(num_trees / 4)}")
    given += settings  # last, because the last value of a setting applies
    choices: dict[str, str | None] = {
        "model": name,
        "data": "synthetic",
        "params": "matched",
        "model/objective": objective,
    }
    spec = RunSpec(
        settings=resolved(composed(*given)), choices=choices, overrides=given
    )
    return build_experiment(spec).ranker

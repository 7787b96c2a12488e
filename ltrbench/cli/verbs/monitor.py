"""The verb `monitor`: compares new data with the training data of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ltrbench.cli.console import (
    OK,
    PAST_THRESHOLD,
    PATH,
    PLUGIN_OPTION,
    READ_OPTION,
    echo,
    terminal_width,
    write_output,
)
from ltrbench.cli.verbs.runs import RANKER_OPTION, data_of, load_model, options_as_trained
from ltrbench.errors import ConfigError
from ltrbench.runs.record import Run, read_run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ltrbench.data import RankingDataset
    from ltrbench.rankers import Ranker

_LIMITS = {
    "--max-psi": "the population stability index of a feature",
    "--max-ks": "the Kolmogorov-Smirnov distance of a feature",
    "--max-missing": "the share of missing values of a feature",
    "--max-unseen": "the share of documents with an unseen category of a feature",
    "--max-rare": "the share of documents in leaves that training hardly reached",
    "--min-overlap": "the overlap of the first 10 documents with RUN2",
    "--max-fall": "the fall of the metric below its value on test",
}


def _limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option, text in reversed(_LIMITS.items()):
        add = click.option(option, option[6:], type=float, metavar="X", help=f"Threshold of {text}.")
        command = add(command)
    return command


@click.command("monitor")
@click.argument("run", type=PATH)
@click.argument("new", type=PATH)
@_limit_options
@click.option("--against", type=PATH, metavar="RUN2", help="Second model, for the overlap.")
@click.option(
    "--metric", default="ndcg@10", show_default=True, metavar="NAME", help="Metric, if NEW has labels."
)
@click.option("--reference", type=PATH, metavar="FILE", help="Training data, if RUN cannot load them again.")
@click.option("--seed", default=0, show_default=True, help="Random seed of the intervals.")
@click.option("--output", type=PATH, metavar="DIR", help="Folder of monitor.html and monitor.json.")
@RANKER_OPTION
@READ_OPTION
@PLUGIN_OPTION
def monitor_verb(
    run: Path,
    new: Path,
    against: Path | None,
    metric: str,
    reference: Path | None,
    seed: int,
    output: Path | None,
    ranker: str | None,
    reading: tuple[str, ...],
    **limits: float | None,
) -> int:
    """Compares the documents of NEW with the training data of the finished RUN.

    NEW has the format of the training files, with query ids; a table needs no labels. Each feature has the
    population stability index (tenths of the training data, or categories; missing values have a bin of their
    own), the Kolmogorov-Smirnov distance, and the shares of missing values and unseen categories. The model
    has the share of documents in leaves that training hardly reached, with --against an overlap, and with
    labels a metric. The exit code is 3 if the whole interval of a measure is past a threshold.

    \b
        python -m ltrbench monitor outputs/2026-01-31/12-00-00 week.parquet --max-psi 0.2 --output monitor
    """
    from ltrbench.compare.monitor import as_chapter, monitor, without_unseen
    from ltrbench.compare.report import as_page
    from ltrbench.compare.views import Prose, as_text, joined, section_text
    from ltrbench.rankers.base import trees_of

    finished = read_run(run)
    model = load_model(finished, ranker)
    if reference is None:
        train = data_of(finished, "train", "--reference")
    else:
        train = _read(finished, model, reference, reading)
    data = _read(finished, model, new, reading)

    def scores_of(scored: Run, ranker_of_run: Ranker) -> NDArray[Any]:
        read = _read(scored, ranker_of_run, new, reading)
        return ranker_of_run.predict(without_unseen(read, ranker_of_run.categories))

    second = None if against is None else read_run(against)
    test = None if finished.result.final else finished.scored("test")
    try:
        trees = trees_of(model)
    except ConfigError:
        trees = None
    measures = monitor(
        train,
        data,
        scores_of(finished, model),
        {name: limit for name, limit in limits.items() if limit is not None},
        trees=trees,
        other=None if second is None else scores_of(second, load_model(second, ranker)),
        metric=metric,
        tested=None if test is None else (test.judgments, test.scores),
        seed=seed,
    )
    chapter = as_chapter(str(new), data, measures)
    width = terminal_width()
    texts = [as_text(Prose(text), width) for text in chapter.answer]
    echo(joined([*texts, *(section_text(section, width) for section in chapter.sections)]))
    if output is not None:
        record = {"run": str(run), "new": str(new), "answer": chapter.answer, "facts": dict(chapter.facts)}
        output.mkdir(parents=True, exist_ok=True)
        write_output(as_page([], [chapter], f"{run}: {new}"), output / "monitor.html")
        text = json.dumps({**record, "measures": [*map(asdict, measures)]}, indent=2, allow_nan=False)
        write_output(f"{text}\n", output / "monitor.json")
    return PAST_THRESHOLD if any(item.is_past for item in measures) else OK


def _read(run: Run, model: Ranker, file: Path, reading: tuple[str, ...]) -> RankingDataset:
    """Reads a file like the training data, but without labels if it has none, and with the categories that
    training does not have after those that it has."""
    from ltrbench.data.blocks import without_compression_ending
    from ltrbench.data.sources import read_data

    options = options_as_trained(run, model, file, reading)
    if without_compression_ending(file).suffix.lower() not in (".csv", ".parquet"):
        return read_data(file, **options)
    of_file = {"categories": None, "categorical": [*model.categories], "labelled": False}
    data = read_data(file, **{**options, **of_file})
    features, categories = np.array(data.features), {}
    for name, found in data.categories.items():
        column = features[:, data.feature_names.index(name)]
        categories[name] = (*model.categories[name], *sorted({*found} - {*model.categories[name]}))
        codes = [categories[name].index(text) for text in found]
        column[:] = np.array([*codes, np.nan])[np.where(np.isnan(column), -1, column).astype(np.int64)]
    return data.with_fields(features=features, categories=categories)

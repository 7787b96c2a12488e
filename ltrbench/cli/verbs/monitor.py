"""The verb `monitor`: compares new data with the training data of a run."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from ltrbench.cli.console import OK, PAST_THRESHOLD, PATH, READ_OPTION, echo, terminal_width, write_output
from ltrbench.cli.verbs.runs import RANKER_OPTION, data_of, load_model, options_as_trained
from ltrbench.runs.record import Run, read_run

if TYPE_CHECKING:
    from ltrbench.data import RankingDataset
    from ltrbench.rankers import Ranker


@click.command("monitor")
@click.argument("run", type=PATH)
@click.argument("new", type=PATH)
@click.option("--against", type=PATH, metavar="RUN2", help="Second model, for the overlap.")
@click.option(
    "--metric", default="ndcg@10", show_default=True, metavar="NAME", help="Metric, if NEW has labels."
)
@click.option("--reference", type=PATH, metavar="FILE", help="Training data, if RUN cannot load them again.")
@click.option("--output", type=PATH, metavar="DIR", help="Folder of monitor.html and monitor.json.")
@RANKER_OPTION
@READ_OPTION
def monitor_verb(
    run: Path,
    new: Path,
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
    population stability index (tenths of the training data, or categories; missing values have a bin of their
    own), the Kolmogorov-Smirnov distance, and the shares of missing values and unseen categories. The model
    has the share of documents in leaves that training hardly reached, with --against an overlap, and with
    labels a metric. The exit code is 3 if the whole interval of a measure is past a threshold.

    \b
        python -m ltrbench monitor outputs/2026-01-31/12-00-00 week.parquet --max-psi 0.2 --output monitor
    """
    from ltrbench.compare.monitor import as_chapter, monitor
    from ltrbench.compare.report import as_page
    from ltrbench.compare.views import Prose, as_text, joined, section_text

    runs = [read_run(folder) for folder in (run, against) if folder is not None]
    rankers = [load_model(each, ranker) for each in runs]
    read = partial(_read, reading=reading)
    train = read(runs[0], rankers[0], reference) if reference else data_of(runs[0], "train", "--reference")
    models = [(each, read(of_run, each, new)) for of_run, each in zip(runs, rankers, strict=True)]
    given = {name: limit for name, limit in limits.items() if limit is not None}
    test = None if runs[0].result.final else runs[0].scored("test")
    measures = monitor(train, models, given, metric, test)
    chapter, width = as_chapter(str(new), models[0][1], measures), terminal_width()
    texts = [as_text(Prose(text), width) for text in chapter.answer]
    echo(joined([*texts, *(section_text(section, width) for section in chapter.sections)]))
    if output is not None:
        record: dict[str, object] = {"run": str(run), "new": str(new), "queries": models[0][1].num_queries}
        record |= {"answer": [*chapter.answer], "measures": [*map(asdict, measures)]}
        output.mkdir(parents=True, exist_ok=True)
        write_output(as_page([], [chapter], f"{run}: {new}"), output / "monitor.html")
        write_output(f"{json.dumps(record, indent=2, allow_nan=False)}\n", output / "monitor.json")
    return PAST_THRESHOLD if any(item.is_past for item in measures) else OK


for _option, _text in {
    "--max-psi": "the population stability index of a feature",
    "--max-ks": "the Kolmogorov-Smirnov distance of a feature",
    "--max-missing": "the share of missing values of a feature",
    "--max-unseen": "the share of documents with an unseen category of a feature",
    "--max-rare": "the share of documents in leaves that training hardly reached",
    "--min-overlap": "the overlap of the first 10 documents with RUN2",
    "--max-fall": "the fall of the metric below its value on test",
}.items():
    _limit = click.Option(
        [_option, _option[6:]], type=click.FloatRange(0), metavar="X", help=f"Threshold of {_text}."
    )
    monitor_verb.params.append(_limit)


def _read(run: Run, model: Ranker, file: Path, *, reading: tuple[str, ...]) -> RankingDataset:
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

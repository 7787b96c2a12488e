"""The options of the verb `auto`, and `ltrbench.auto`, the same from Python."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from ltrbench.cli.auto.order import DEFAULT_METRIC, Order
from ltrbench.cli.auto.steps import PRODUCTION, Auto
from ltrbench.cli.console import OK, PATH, RUN_INTERRUPTED, echo, split_settings
from ltrbench.cli.verbs.deployment import SET_OPTION
from ltrbench.data.blocks import check_option, without_compression_ending
from ltrbench.errors import ConfigError, DataError
from ltrbench.experiment.columns import TIME
from ltrbench.runs.origin import Trial

if TYPE_CHECKING:
    import pandas as pd

    from ltrbench.compare import Comparison
    from ltrbench.runs import LoadedModel


@click.command("auto")
@click.argument("table", type=PATH)
@click.option(
    "--valid",
    type=PATH,
    metavar="FILE",
    help="File with the queries of validation, otherwise held out of TABLE.",
)
@click.option(
    "--test",
    type=PATH,
    metavar="FILE",
    help="File with the queries of test, otherwise held out of TABLE.",
)
@click.option("--label", metavar="COLUMN", help="Column of the labels or clicks.")
@click.option("--query", metavar="COLUMN", help="Column of the queries or sessions.")
@click.option("--document", metavar="COLUMN", help="Column of the ids of documents.")
@click.option("--weight", metavar="COLUMN", help="Column of the weights of queries.")
@click.option("--position", metavar="COLUMN", help="Column of the shown positions.")
@click.option(
    "--time",
    "split_by",
    metavar="COLUMN",
    help="Column of times; the latest queries are the test set.",
)
@click.option(
    "--target", metavar="NAME", help="Engine or library to ship to, as in ship --to."
)
@SET_OPTION
@click.option(
    "--minutes",
    type=float,
    default=10.0,
    show_default=True,
    help="Time for everything; the search ends so that the rest fits.",
)
@click.option(
    "--production",
    type=PATH,
    metavar="FILE",
    help="Table with query_id, document_id and score of the ranking in use, to be beaten.",
)
@click.option(
    "--keep-feature",
    "kept",
    multiple=True,
    metavar="COLUMN",
    help="Keep a feature that would be left out; may be repeated.",
)
@click.option(
    "--missing",
    multiple=True,
    metavar="TEXT",
    help="Text of missing values beside NA, null and the like; may be repeated.",
)
@click.option("--metric", default=DEFAULT_METRIC, show_default=True, metavar="NAME")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--finish", is_flag=True, help="Search no further; decide among what was tried."
)
@click.option(
    "--anyway",
    is_flag=True,
    help="Make the model even if it is not shown to be better.",
)
@click.option(
    "--output",
    type=PATH,
    metavar="DIR",
    help="Folder of the results. Default: TABLE-auto in the current folder.",
)
def auto_verb(
    table: Path,
    *,
    valid: Path | None,
    test: Path | None,
    target: str | None,
    settings: tuple[str, ...],
    minutes: float,
    production: Path | None,
    kept: tuple[str, ...],
    missing: tuple[str, ...],
    metric: str,
    seed: int,
    finish: bool,
    anyway: bool,
    output: Path | None,
    **columns: str | None,
) -> int:
    """Makes a model from TABLE within --minutes: chooses columns, models and settings, tests the choice, and
    ships it if it is better.

    Columns that are not named are guessed, and columns that give the label away are left out. Models that are
    not clearly worse are searched for settings with equal budgets on validation. The best on validation is
    compared on test with production, or with the best single feature. The folder DIR has the model, its form
    for the target, answer.md, and commands.sh with the same work step by step. Ctrl-C loses nothing: the
    same command goes on.

    \b
        python -m ltrbench auto shop.parquet --label clicked --query session --minutes 10
        python -m ltrbench auto shop.parquet --target elasticsearch --production production.csv
    """
    order = Order(
        table=table,
        valid=valid,
        test=test,
        columns={role: column for role, column in columns.items() if column},
        kept=kept,
        missing=missing,
        target=target,
        options=split_settings("--set", settings),
        production=production,
        metric=metric,
        output=output or Path(f"{without_compression_ending(table).stem}-auto"),
        seed=seed,
    )
    auto = Auto(order, minutes)
    try:
        text = auto.run(finish, anyway)
    except KeyboardInterrupt:
        journal = auto.journal
        hint = ""
        if journal.tried and not journal.searched:
            number = journal.trials
            hint = f", and with --finish it ends the search at {number} settings of each model"
        echo(f"interrupted; the same command goes on{hint}.", err=True)
        return RUN_INTERRUPTED
    echo(text.rstrip())
    return OK


@dataclass(frozen=True)
class Result:
    """What `ltrbench.auto` returns.

    Attributes:
        folder: the folder of the results.
        answer: the page about the outcome, in Markdown.
        comparison: the models on test.
    """

    folder: Path
    answer: str
    comparison: Comparison

    @cached_property
    def model(self) -> LoadedModel:
        """The model, trained on all labelled queries.

        Raises:
            ResultError: No model was made, because none is shown to be better.
        """
        from ltrbench.runs import load

        return load(self.folder / "model")

    def _repr_markdown_(self) -> str:
        return self.answer


def auto(
    data: pd.DataFrame | str | Path,
    *,
    valid: str | Path | None = None,
    test: str | Path | None = None,
    label: str | None = None,
    query: str | None = None,
    document: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    position: str | None = None,
    target: str | None = None,
    options: Mapping[str, str] = {},
    minutes: float = 10.0,
    production: str | Path | None = None,
    keep_features: Sequence[str] = (),
    missing: Sequence[str] = (),
    metric: str = DEFAULT_METRIC,
    seed: int = 0,
    finish: bool = False,
    anyway: bool = False,
    output: str | Path = "auto",
) -> Result:
    """Makes a model from a table within a given time, as the command `python -m ltrbench auto`.

    Args:
        data: the table, or its path; a DataFrame is written to OUTPUT-DIGEST.parquet.
        valid, test: files with the queries of validation and test; None: they are held out of `data`.
        label, query, document, time, weight, position: columns; None: guessed from names and contents.
        target: name of a target of the verb `ship`; None: the model stays as it is.
        options: options of the target.
        minutes: time for everything.
        production: table with query_id, document_id and score of the ranking in use.
        keep_features: features that stay, whatever speaks against them.
        missing: texts that are missing values beside NA, null and the like.
        metric: metric of the choice and of the decision.
        seed: random seed of the split, all fits and searches.
        finish: search no further; decide among what an interrupted call has tried.
        anyway: make the model even if it is not shown to be better.
        output: folder of the results; the same call goes on with them.

    Raises:
        LtrbenchError: The table cannot be read, nothing can be learnt from it, or a step failed.
    """
    check_option("keep_features", keep_features, list)
    check_option("missing", missing, list)
    folder = Path(output)
    path = _path_of(data, folder)
    given = {
        **{"label": label, "query": query, "document": document, TIME: time},
        **{"weight": weight, "position": position},
    }
    order = Order(
        table=path,
        valid=None if valid is None else Path(valid),
        test=None if test is None else Path(test),
        columns={role: column for role, column in given.items() if column},
        kept=tuple(keep_features),
        missing=tuple(missing),
        target=target,
        options=dict(options),
        production=None if production is None else Path(production),
        metric=metric,
        output=folder,
        seed=seed,
    )
    steps = Auto(order, minutes)
    words = sys.argv
    try:
        text = steps.run(finish, anyway)
    finally:
        sys.argv = words
    return Result(folder, text, _comparison(steps))


def _comparison(steps: Auto) -> Comparison:
    """Returns the comparison of the answer."""
    from ltrbench.cli.verbs.runs import load_splits
    from ltrbench.compare import Settings
    from ltrbench.compare.derived import Import, import_runs
    from ltrbench.sweep.ledger import compare_sweeps

    order = steps.order
    runs = [run for run in steps.runs if not isinstance(run.result.origin, Trial)]
    settings = Settings(metric=order.metric, baseline=steps.baseline)
    if order.production is not None:
        production = Import(PRODUCTION, str(order.production))
        runs += import_runs(production, runs, load_splits)
    (comparison,) = compare_sweeps(runs, settings)
    return comparison


def _path_of(data: pd.DataFrame | str | Path, folder: Path) -> Path:
    """Returns the path of a table; a frame is written beside the folder of the results, with a digest of the
    file in the name."""
    import pandas as pd

    from ltrbench.data.tables import write_frame

    if isinstance(data, str | Path):
        return Path(data)
    if not folder.name:
        raise ConfigError(f"output is {str(folder)!r}; name a new folder.")
    if not isinstance(data, pd.DataFrame):
        raise DataError(
            f"the data have the type {type(data).__name__}; pass the path of a table, or a DataFrame of "
            "pandas with columns of labels and queries."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as unnamed:
        written = Path(unnamed, "table.parquet")
        write_frame(data, written)
        # Of the file: it depends on everything that is read from it, types included.
        with written.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:8]
        path = folder.with_name(f"{folder.name}-{digest}.parquet")
        if not path.exists():
            written.rename(path)
    return path

"""The leaderboard of score files: any system on a published data set, one folder an entry.

    python -m results.leaderboard.run add 'scores/fold{fold}.txt' --data mq2008 --name mine
    python -m results.leaderboard.run table --data mq2008

    DATA/NAME/entry.yaml   `Entry`: division, code, settings, test sets, metrics, versions
    DATA/NAME/ranks.npz    a fold -> the rank of each document in its query, (D,), from 0, tied ones equal
    DATA/table.md          all entries of the data set, and the claims about their differences

Ranks reproduce every metric to the bit, and need a tenth of the space of scores.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import click
import numpy as np
import yaml  # type: ignore[import-untyped]
from numpy.typing import NDArray

from ltrbench.cli.console import PATH, echo, wrapped
from ltrbench.cli.verbs.data import sources_in_yaml
from ltrbench.compare.cells import (
    cell_of,
    describe_cells,
    first_by,
)
from ltrbench.compare.comparison import Comparison, compare
from ltrbench.compare.derived import Import, derived_run, import_runs
from ltrbench.compare.leaderboard import between
from ltrbench.compare.settings import (
    Settings,
)
from ltrbench.compare.table import mean_seconds
from ltrbench.data import Judgments
from ltrbench.data.sources import DataSource
from ltrbench.errors import ConfigError, DataError, LtrbenchError, ResultError
from ltrbench.experiment import describe_data
from ltrbench.experiment.loading import load_once, load_with
from ltrbench.measure import described, versions
from ltrbench.metrics import DEFAULT, METRICS_OF_A_RUN, evaluate
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.runs import record
from ltrbench.runs.origin import Imported
from ltrbench.runs.record import Run, ScoredSplit
from ltrbench.statistics import BETTER
from ltrbench.statistics.claims import EQUIVALENT
from ltrbench.tables import QUALITY, Table, TableRow
from ltrbench.untrusted import Amount, Name, load_npz, read_bytes, type_error, types_of

ENTRY_FILE, RANKS_FILE, TABLE_FILE = "entry.yaml", "ranks.npz", "table.md"

_METRIC = "ndcg@10"
_OF_LABELS = 0.99
"""NDCG@10 above which scores are taken for labels, whose NDCG is 1."""
_REMEDY = "Copy the entry again from its source, or delete its folder"

Ranks = dict[str, NDArray[Any]]
"""Fold -> (D,), rank of each document in its query."""


@dataclass(frozen=True)
class Entry:
    """A system on one data set.

    Attributes:
        name: name of its folder.
        division: "closed": features and splits as published, settings chosen on validation only, code given;
            "open": all else.
        code: address of the code.
        settings: settings, and how they were chosen.
        tests: fold -> fingerprint of its test set.
        convention: convention of the metrics.
        metrics: metric -> mean over the folds.
        seconds: kind -> mean time of a fold, if ltrbench measured it.
    """

    name: Name
    data: Name
    division: Literal["closed", "open"]
    code: str
    settings: str
    tests: Mapping[str, Name]
    convention: Name
    metrics: Mapping[str, float]
    seconds: Mapping[str, Amount]
    versions: Mapping[str, str]


def folds_of(sources: Sequence[DataSource]) -> dict[str, Run]:
    """Returns fold -> the ranking of its test set by a single feature, as a run held in memory.

    Other systems are evaluated like these runs, which have the judgments.
    """
    about: dict[str, Any] = {
        "status": record.FINISHED,
        "params": record.NO_PARAMETERS,
        "seed": 0,
    }
    runs = {}
    for source in sources:
        splits = load_once(source)[0]
        test, ranker = splits.test, SingleFeatureRanker().fit(splits.train)
        scored = ScoredSplit(
            test, ranker.predict(test.features), test.query_keys, test.file_rows
        )
        means = evaluate(test, scored.scores, METRICS_OF_A_RUN).means
        about |= {"source": described(source), "data": describe_data(source, splits)}
        about["metrics"] = {f"test/{name}": mean for name, mean in means.items()}
        result = record.RunResult(model="single_feature", **about)
        run = Run(Path(source.name), result, {"test": scored})
        runs[f"fold{cell_of(run).fold or 1}"] = run
    return runs


def add_entry(
    system: Import, sources: Sequence[DataSource], output: Path, **declared: Any
) -> tuple[str, list[str]]:
    """Checks the scores of a system, adds its entry, and writes the table of the data set again.

    Args:
        system: name, and the score files; or a folder with runs of the model of this name.
        sources: the data set, one source for each fold.
        output: folder of the leaderboard.
        declared: division, code and settings of the `Entry`.

    Returns:
        The table of all entries, and remarks on the new one.

    Raises:
        ConfigError: The name is taken or is not the name of a folder, or the division is closed without code
            and settings.
        DataError, ResultError: The scores, or another entry, are refused.
    """
    folder = output / sources[0].name / system.name
    if folder.exists() or Path(system.name).name != system.name:
        raise ConfigError(
            f"--name is {system.name!r}; give the name of a new folder in {folder.parent}."
        )
    if declared["division"] == "closed" and not all(declared.values()):
        raise ConfigError(
            "--division closed needs --code and --settings. Add both, or choose open."
        )
    tests = folds_of(sources)
    given = _runs_of(system, tests, sources)
    ranks = {
        fold: checked_ranks(given[fold], test.scored("test").judgments)
        for fold, test in tests.items()
    }
    for other, (_, known) in _read_all(folder.parent).items():
        if all(np.array_equal(known.get(fold, ()), ranks[fold]) for fold in ranks):
            raise DataError(
                f"{system}: the entry {other} has the same ranking. Give another system."
            )
    runs = _as_runs(system.name, ranks, tests)
    remarks = _plausible(system, runs, [*tests.values()])
    trained = [run.result for run in given.values()]
    loads = (
        (next(iter(item.load), 0) or 0) > item.machine.get("cores", 1)
        for item in trained
    )
    entry = Entry(
        name=system.name,
        data=sources[0].name,
        tests=_fingerprints(tests),
        convention=DEFAULT.name,
        metrics={name: _mean(runs, name) for name in METRICS_OF_A_RUN},
        seconds={} if any(loads) else mean_seconds(trained),
        versions=versions(),
        **declared,
    )
    with record.writing_to(folder):
        folder.mkdir(parents=True)
        np.savez_compressed(folder / RANKS_FILE, **ranks)  # type: ignore[arg-type]
        text = yaml.safe_dump(
            asdict(entry), sort_keys=False, allow_unicode=True, width=100
        )
        (folder / ENTRY_FILE).write_text(text, encoding="utf-8")
    return write_table(tests, folder.parent), remarks


def write_table(tests: Mapping[str, Run], folder: Path) -> str:
    """Evaluates all entries in the folder of a data set again and writes their table, which is returned.

    Raises:
        DataError, ResultError: There is no entry, or one is damaged or has other test sets.
    """
    entries = _read_all(folder)
    other = [
        name
        for name, (entry, _) in entries.items()
        if entry.tests != _fingerprints(tests)
    ]
    if other or not entries:
        reason = (
            f"{other[0]} has other test sets. {_REMEDY}"
            if other
            else "there is no entry; add one"
        )
        raise ResultError(f"{folder}: {reason}.")
    runs = [
        run
        for name, (_, ranks) in entries.items()
        for run in _as_runs(name, ranks, tests)
    ]
    (comparison,) = compare(runs, Settings(metric=_METRIC))
    text = _as_markdown(comparison, entries)
    with record.writing_to(folder):
        (folder / TABLE_FILE).write_text(text, encoding="utf-8")
    return text


# ---- Scores of a new entry, and why they are refused.


def _runs_of(
    system: Import, tests: Mapping[str, Run], sources: Sequence[DataSource]
) -> dict[str, Run]:
    """Returns fold -> the scores of a system as a run; of several runs in a folder the first."""
    if Path(system.pattern).is_dir():
        found = record.find_runs([Path(system.pattern)])
        runs = [
            run
            for run in found
            if run.result.is_compared and run.result.model == system.name
        ]
    else:
        likes = [*tests.values()]
        runs = import_runs(
            system,
            likes,
            lambda like, *, exact=False: load_with(sources[likes.index(like)], exact),
        )
    of_cells = first_by(runs, cell_of)
    missing = [
        cell_of(test) for test in tests.values() if cell_of(test) not in of_cells
    ]
    if missing:
        raise DataError(
            f"{system}: there are no scores of {describe_cells(missing)} of {missing[0].data}. Write "
            "{fold} in the file name, or name a folder with runs of this model on every fold."
        )
    return {fold: of_cells[cell_of(test)] for fold, test in tests.items()}


def checked_ranks(run: Run, judgments: Judgments) -> NDArray[np.uint16]:
    """Returns the number of distinct higher scores in the query of each document, (D,).

    Raises:
        DataError: A document has no score, or all documents of each query are tied.
    """
    scores = run.scored("test").scores
    order = np.lexsort((-scores, judgments.query_of_document))
    number = np.cumsum(scores[order] != scores[np.roll(order, 1)])
    ranks = np.empty(len(scores), dtype=np.uint16)
    ranks[order] = number - np.repeat(
        number[judgments.query_start[:-1]], judgments.query_sizes
    )
    missing = int((~np.isfinite(scores)).sum())
    if missing or not ranks.any():
        reason = (
            f"{missing} of {len(scores)} documents have no score"
            if missing
            else "scores are constant"
        )
        raise DataError(
            f"{run.path}: {reason}. Give each document a score that ranks it."
        )
    return ranks


def _plausible(system: Import, runs: Sequence[Run], tests: Sequence[Run]) -> list[str]:
    """Returns a remark if the system is below a single feature.

    Raises:
        DataError: The scores rank like the labels, or significantly worse than at random.
    """
    reached, of_feature = _mean(runs, _METRIC), _mean(tests, _METRIC)
    differences: list[float] = []
    for item in (run.scored("test") for run in runs):
        # Tied documents count with the mean over all of their orders: the mean of a random ranking.
        given, tied = (
            evaluate(item.judgments, each, [_METRIC])
            for each in (item.scores, 0 * item.scores)
        )
        differences.extend(given.per_query[_METRIC] - tied.per_query[_METRIC])
    place = f"{system}: {_METRIC} is {reached:.4f}"
    if reached > _OF_LABELS:
        raise DataError(
            f"{place}; above {_OF_LABELS} the scores rank with the labels. Give other scores."
        )
    if np.nanmean(differences) < -3 * np.nanstd(differences) / np.sqrt(
        np.isfinite(differences).sum()
    ):
        raise DataError(
            f"{place}, below a random ranking. Check the sign of the scores and the line order."
        )
    remark = f"{place}, below the best single feature, {of_feature:.4f}. Check the line order."
    return [remark] if reached < of_feature else []


def _mean(runs: Sequence[Run], metric: str) -> float:
    return fmean(run.result.metrics[f"test/{metric}"] or 0.0 for run in runs)


# ---- Entries on disk, and their table.


def _read_all(folder: Path) -> dict[str, tuple[Entry, Ranks]]:
    """Returns name -> entry and ranks, for the entries of a data set."""
    entries = {}
    for path in sorted(folder.glob(f"*/{ENTRY_FILE}")):
        try:
            entry = Entry(
                **yaml.safe_load(read_bytes(path, _REMEDY)) | {"name": path.parent.name}
            )
            reason = type_error(vars(entry), types_of(Entry))
        except (yaml.YAMLError, TypeError) as error:
            reason = str(error)
        if reason:
            raise ResultError(f"{path}: {reason}. {_REMEDY}.")
        entries[entry.name] = (
            entry,
            load_npz(path.with_name(RANKS_FILE), remedy=_REMEDY),
        )
    return entries


def _fingerprints(tests: Mapping[str, Run]) -> dict[str, str]:
    return {
        fold: test.result.data["test"]["fingerprint"] for fold, test in tests.items()
    }


def _as_runs(name: str, ranks: Ranks, tests: Mapping[str, Run]) -> list[Run]:
    """Returns an entry as one run for each test set."""
    about: dict[str, Any] = {
        "model": name,
        "origin": Imported(file=name, has_model=False),
        "notes": (),
        "overrides": (),
    }
    scores = {fold: -ranks.get(fold, np.empty(0)).astype(np.float64) for fold in tests}
    return [
        derived_run(
            Path(name),
            test,
            {"test": replace(test.scored("test"), scores=scores[fold])},
            **about,
        )
        for fold, test in tests.items()
    ]


def _as_markdown(
    comparison: Comparison, entries: Mapping[str, tuple[Entry, Ranks]]
) -> str:
    """Returns the table of all entries, the highest metric first, below what the claims are about."""
    # The label of an imported model says that it is imported.
    names = {row.label: row.runs[0].result.model for row in comparison.rows}
    pairs = (*comparison.pairs, *(pair.turned() for pair in comparison.pairs))
    rows: list[TableRow] = []
    for row in sorted(comparison.rows, key=lambda row: row.rank_by(_METRIC)):
        entry = entries[names[row.label]][0]
        claims = (
            ", ".join(
                sorted(
                    names[pair.b]
                    for pair in pairs
                    if (pair.a, pair.models.state) == (row.label, claim)
                )
            )
            for claim in (BETTER, EQUIVALENT)
        )
        numbers = (
            *map(row.metrics.get, METRICS_OF_A_RUN),
            *map(entry.seconds.get, ("fit", "predict")),
        )
        cells = [
            between(comparison.intervals.get(row.label), QUALITY),
            *claims,
            *numbers,
        ]
        rows.append([entry.name, *cells, entry.division, entry.settings, entry.code])
    confidence = comparison.settings.confidence
    header = [
        "entry",
        f"{_METRIC}, {confidence} interval",
        "better than",
        "equivalent to",
        *METRICS_OF_A_RUN,
    ]
    table = Table.of(
        [*header, "fit s", "predict s", "division", "settings", "code"], rows, QUALITY
    )
    about_claims = (
        f"Mean over the folds, under the convention {DEFAULT.name}. Claims are about {_METRIC}, with "
        f"{confidence} confidence over all {len(comparison.pairs)} pairs together, and about these trained "
        "models. Other pairs are undecided."
    )
    return f"# {comparison.data}\n\n{about_claims}\n\n{table.markdown()}\n"


# ---- The command line.

_DATA_OPTION = click.option(
    "--data", required=True, metavar="DATA", help="Data set: a YAML of conf/data."
)
_OUTPUT_OPTION = click.option(
    "--output",
    type=PATH,
    default=Path(__file__).parent,
    help="Folder; default: that of this script.",
)


@click.group()
def leaderboard() -> None:
    """Compares score files of any system on published data sets."""


@leaderboard.command("add")
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
def add_command(
    scores: str, data: str, name: str, output: Path, **declared: str
) -> None:
    """Checks SCORES and adds them as an entry.

    SCORES is one score file for each fold, with {fold} in its name, in a format of the verb import; or a
    folder with finished runs of the model NAME. Scores that lack a fold or a document, are constant, rank
    worse than at random or with the labels, or repeat another entry are refused. Division closed: features
    and splits as published, settings chosen on validation only, and code given.

    \b
        python -m results.leaderboard.run add 'scores/fold{fold}.txt' --data mq2008 --name mine
    """
    sources = list(sources_in_yaml(data, None, None))
    table, remarks = add_entry(Import(name, scores), sources, output, **declared)
    echo("\n".join([table, *(wrapped(remark) for remark in remarks)]))


@leaderboard.command("table")
@_DATA_OPTION
@_OUTPUT_OPTION
def table_command(data: str, output: Path) -> None:
    """Writes the table of all entries again.

    For example after a merge of entries, which are all evaluated again.

    \b
        python -m results.leaderboard.run table --data mq2008
    """
    echo(write_table(folds_of(list(sources_in_yaml(data, None, None))), output / data))


def main() -> None:
    """Runs the command line of the script."""
    try:
        leaderboard()
    except LtrbenchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

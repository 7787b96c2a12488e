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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import click
import numpy as np
import yaml  # type: ignore[import-untyped]
from numpy.typing import NDArray

from ltrbench.cli.console import PATH, echo, wrapped
from ltrbench.cli.verbs.data import sources_in_yaml
from ltrbench.compare.cells import cell_of, describe_cells, first_by
from ltrbench.compare.comparison import Comparison, compare
from ltrbench.compare.derived import Import, derived_run, import_runs
from ltrbench.compare.leaderboard import between
from ltrbench.compare.settings import Settings
from ltrbench.compare.table import ModelRow, mean_seconds
from ltrbench.data import Judgments, Splits
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

ENTRY_FILE = "entry.yaml"
RANKS_FILE = "ranks.npz"
TABLE_FILE = "table.md"

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

    _: KW_ONLY
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
    runs = {}
    for source in sources:
        run = _ranked_by_feature(source)
        runs[f"fold{cell_of(run).fold or 1}"] = run
    return runs


def _ranked_by_feature(source: DataSource) -> Run:
    splits = load_once(source)[0]
    test = splits.test
    ranker = SingleFeatureRanker().fit(splits.train)
    scores = ranker.predict(test.features)
    scored = ScoredSplit(test, scores, test.query_keys, test.file_rows)
    means = evaluate(test, scored.scores, METRICS_OF_A_RUN).means
    result = record.RunResult(
        model="single_feature",
        status=record.FINISHED,
        params=record.NO_PARAMETERS,
        seed=0,
        source=described(source),
        data=describe_data(source, splits),
        metrics={f"test/{name}": mean for name, mean in means.items()},
    )
    return Run(Path(source.name), result, {"test": scored})


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
    _check_declaration(system, folder, declared)
    tests = folds_of(sources)
    given = _runs_of(system, tests, sources)
    ranks = {}
    for fold, test in tests.items():
        ranks[fold] = checked_ranks(given[fold], test.scored("test").judgments)
    _check_is_new(system, ranks, folder.parent)
    runs = _as_runs(system.name, ranks, tests)
    remarks = _plausible(system, runs, list(tests.values()))
    entry = Entry(
        name=system.name,
        data=sources[0].name,
        tests=_fingerprints(tests),
        convention=DEFAULT.name,
        metrics={name: _mean(runs, name) for name in METRICS_OF_A_RUN},
        seconds=_seconds_of(given.values()),
        versions=versions(),
        **declared,
    )
    _write_entry(entry, ranks, folder)
    return write_table(tests, folder.parent), remarks


def _check_declaration(
    system: Import, folder: Path, declared: Mapping[str, str]
) -> None:
    if folder.exists() or Path(system.name).name != system.name:
        raise ConfigError(
            f"--name is {system.name!r}; give the name of a new folder in {folder.parent}."
        )
    if declared["division"] == "closed" and not all(declared.values()):
        raise ConfigError(
            "--division closed needs --code and --settings. Add both, or choose open."
        )


def _seconds_of(runs: Iterable[Run]) -> dict[str, float]:
    """Returns the mean times of runs; nothing if one of them shared its cores with other processes."""
    results = [run.result for run in runs]
    for result in results:
        load_at_start = next(iter(result.load), None) or 0
        if load_at_start > result.machine.get("cores", 1):
            return {}
    return mean_seconds(results)


def write_table(tests: Mapping[str, Run], folder: Path) -> str:
    """Evaluates all entries in the folder of a data set again and writes their table, which is returned.

    Raises:
        DataError, ResultError: There is no entry, or one is damaged or has other test sets.
    """
    entries = _read_all(folder)
    if not entries:
        raise ResultError(f"{folder}: there is no entry; add one.")
    fingerprints = _fingerprints(tests)
    runs = []
    for name, (entry, ranks) in entries.items():
        if entry.tests != fingerprints:
            raise ResultError(f"{folder}: {name} has other test sets. {_REMEDY}.")
        runs.extend(_as_runs(name, ranks, tests))
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
        runs = _trained_runs(system)
    else:
        runs = _imported_runs(system, list(tests.values()), sources)
    run_of_cell = first_by(runs, cell_of)
    cells = {fold: cell_of(test) for fold, test in tests.items()}
    missing = [cell for cell in cells.values() if cell not in run_of_cell]
    if missing:
        raise DataError(
            f"{system}: there are no scores of {describe_cells(missing)} of {missing[0].data}. Write "
            "{fold} in the file name, or name a folder with runs of this model on every fold."
        )
    return {fold: run_of_cell[cell] for fold, cell in cells.items()}


def _trained_runs(system: Import) -> list[Run]:
    runs = record.find_runs([Path(system.pattern)])
    compared = [run for run in runs if run.result.is_compared]
    return [run for run in compared if run.result.model == system.name]


def _imported_runs(
    system: Import, tests: list[Run], sources: Sequence[DataSource]
) -> list[Run]:
    def load(like: Run, *, exact: bool = False) -> Splits:
        return load_with(sources[tests.index(like)], exact)

    return import_runs(system, tests, load)


def checked_ranks(run: Run, judgments: Judgments) -> NDArray[np.uint16]:
    """Returns the number of distinct higher scores in the query of each document, (D,).

    Raises:
        DataError: A document has no score, or all documents of each query are tied.
    """
    scores = run.scored("test").scores
    num_missing = np.count_nonzero(~np.isfinite(scores))
    if num_missing:
        lack = f"{num_missing} of {len(scores)} documents have no score"
        raise _no_ranking(run, lack)
    order = np.lexsort((-scores, judgments.query_of_document))
    in_order = scores[order]
    is_lower = in_order != np.roll(in_order, 1)
    num_distinct = np.cumsum(is_lower)
    of_first_document = num_distinct[judgments.query_start[:-1]]
    ranks = np.empty(len(scores), dtype=np.uint16)
    ranks[order] = num_distinct - np.repeat(of_first_document, judgments.query_sizes)
    if not ranks.any():
        raise _no_ranking(run, "scores are constant")
    return ranks


def _no_ranking(run: Run, reason: str) -> DataError:
    return DataError(f"{run.path}: {reason}. Give each document a score that ranks it.")


def _check_is_new(system: Import, ranks: Ranks, folder: Path) -> None:
    """Raises DataError if an entry of the data set has the same ranks."""
    for other, (_, ranks_of_other) in _read_all(folder).items():
        is_equal = [
            np.array_equal(ranks_of_other.get(fold, ()), ranks[fold]) for fold in ranks
        ]
        if all(is_equal):
            raise DataError(
                f"{system}: the entry {other} has the same ranking. Give another system."
            )


def _plausible(system: Import, runs: Sequence[Run], tests: Sequence[Run]) -> list[str]:
    """Returns a remark if the system is below a single feature.

    Raises:
        DataError: The scores rank like the labels, or significantly worse than at random.
    """
    reached = _mean(runs, _METRIC)
    place = f"{system}: {_METRIC} is {reached:.4f}"
    if reached > _OF_LABELS:
        raise DataError(
            f"{place}; above {_OF_LABELS} the scores rank with the labels. Give other scores."
        )
    if _are_worse_than_random(runs):
        raise DataError(
            f"{place}, below a random ranking. Check the sign of the scores and the line order."
        )
    of_feature = _mean(tests, _METRIC)
    if reached >= of_feature:
        return []
    return [
        f"{place}, below the best single feature, {of_feature:.4f}. Check the line order."
    ]


def _are_worse_than_random(runs: Sequence[Run]) -> bool:
    """Returns whether the mean is more than three standard errors below that of a random ranking."""
    differences: list[float] = []
    for run in runs:
        scored = run.scored("test")
        reached = evaluate(scored.judgments, scored.scores, [_METRIC])
        # Tied documents count with the mean over all of their orders: the mean of a random ranking.
        all_tied = np.zeros_like(scored.scores)
        at_random = evaluate(scored.judgments, all_tied, [_METRIC])
        differences.extend(reached.per_query[_METRIC] - at_random.per_query[_METRIC])
    num_queries = np.count_nonzero(np.isfinite(differences))
    standard_error = np.nanstd(differences) / np.sqrt(num_queries)
    return bool(np.nanmean(differences) < -3 * standard_error)


def _mean(runs: Sequence[Run], metric: str) -> float:
    return fmean(run.result.metrics[f"test/{metric}"] or 0.0 for run in runs)


# ---- Entries on disk, and their table.


def _read_all(folder: Path) -> dict[str, tuple[Entry, Ranks]]:
    """Returns name -> entry and ranks, for the entries of a data set."""
    entries = {}
    for path in sorted(folder.glob(f"*/{ENTRY_FILE}")):
        entry = _read_entry(path)
        ranks = load_npz(path.with_name(RANKS_FILE), remedy=_REMEDY)
        entries[entry.name] = entry, ranks
    return entries


def _read_entry(path: Path) -> Entry:
    try:
        content = yaml.safe_load(read_bytes(path, _REMEDY))
        entry = Entry(**content | {"name": path.parent.name})
    except (yaml.YAMLError, TypeError) as error:
        raise ResultError(f"{path}: {error}. {_REMEDY}.") from error
    reason = type_error(vars(entry), types_of(Entry))
    if reason:
        raise ResultError(f"{path}: {reason}. {_REMEDY}.")
    return entry


def _write_entry(entry: Entry, ranks: Ranks, folder: Path) -> None:
    text = yaml.safe_dump(asdict(entry), sort_keys=False, allow_unicode=True, width=100)
    with record.writing_to(folder):
        folder.mkdir(parents=True)
        np.savez_compressed(folder / RANKS_FILE, **ranks)  # type: ignore[arg-type]
        (folder / ENTRY_FILE).write_text(text, encoding="utf-8")


def _fingerprints(tests: Mapping[str, Run]) -> dict[str, str]:
    return {
        fold: test.result.data["test"]["fingerprint"] for fold, test in tests.items()
    }


def _as_runs(name: str, ranks: Ranks, tests: Mapping[str, Run]) -> list[Run]:
    """Returns an entry as one run for each test set."""
    runs = []
    for fold, test in tests.items():
        ranks_of_fold = ranks.get(fold, np.empty(0))
        scores = -ranks_of_fold.astype(np.float64)
        run = derived_run(
            Path(name),
            test,
            {"test": replace(test.scored("test"), scores=scores)},
            model=name,
            origin=Imported(file=name, has_model=False),
            notes=(),
            overrides=(),
        )
        runs.append(run)
    return runs


def _as_markdown(
    comparison: Comparison, entries: Mapping[str, tuple[Entry, Ranks]]
) -> str:
    """Returns the table of all entries, the highest metric first, below what the claims are about."""
    rows = []
    for row in sorted(comparison.rows, key=lambda row: row.rank_by(_METRIC)):
        entry, _ = entries[_name_of(row)]
        rows.append(_cells(comparison, row, entry))
    confidence = comparison.settings.confidence
    header = [
        "entry",
        f"{_METRIC}, {confidence} interval",
        "better than",
        "equivalent to",
        *METRICS_OF_A_RUN,
        "fit s",
        "predict s",
        "division",
        "settings",
        "code",
    ]
    table = Table.of(header, rows, QUALITY)
    about_claims = (
        f"Mean over the folds, under the convention {DEFAULT.name}. Claims are about {_METRIC}, with "
        f"{confidence} confidence over all {len(comparison.pairs)} pairs together, and about these trained "
        "models. Other pairs are undecided."
    )
    return f"# {comparison.data}\n\n{about_claims}\n\n{table.markdown()}\n"


def _name_of(row: ModelRow) -> str:
    """Returns the name of an entry; the label of its row says in addition that it is imported."""
    return row.runs[0].result.model


def _cells(comparison: Comparison, row: ModelRow, entry: Entry) -> TableRow:
    interval = comparison.intervals.get(row.label)
    return [
        entry.name,
        between(interval, QUALITY),
        _claimed_in_words(comparison, row, BETTER),
        _claimed_in_words(comparison, row, EQUIVALENT),
        *map(row.metrics.get, METRICS_OF_A_RUN),
        entry.seconds.get("fit"),
        entry.seconds.get("predict"),
        entry.division,
        entry.settings,
        entry.code,
    ]


def _claimed_in_words(comparison: Comparison, row: ModelRow, claim: str) -> str:
    """Returns the names of the entries to which a claim compares the entry of a row."""
    turned = [pair.turned() for pair in comparison.pairs]
    pairs = [*comparison.pairs, *turned]
    of_claim = [pair for pair in pairs if pair.models.state == claim]
    others = [pair.b for pair in of_claim if pair.a == row.label]
    names = [_name_of(comparison.row(label)) for label in others]
    return ", ".join(sorted(names))


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
    echo("\n".join([table, *map(wrapped, remarks)]))


@leaderboard.command("table")
@_DATA_OPTION
@_OUTPUT_OPTION
def table_command(data: str, output: Path) -> None:
    """Writes the table of all entries again.

    For example after a merge of entries, which are all evaluated again.

    \b
        python -m results.leaderboard.run table --data mq2008
    """
    sources = list(sources_in_yaml(data, None, None))
    echo(write_table(folds_of(sources), output / data))


def main() -> None:
    """Runs the command line of the script."""
    try:
        leaderboard()
    except LtrbenchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

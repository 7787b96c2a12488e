"""The leaderboard of score files: any system on a published data set, one folder an entry.

    DATA/NAME/entry.yaml   `Entry`: division, code, settings, test sets, metrics, versions
    DATA/NAME/ranks.npz    a fold -> the rank of each document in its query, (D,), from 0, tied ones equal
    DATA/table.md          all entries of the data set, and the claims about their differences

Ranks reproduce every metric to the bit, and need a tenth of the space of scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
import yaml  # type: ignore[import-untyped]
from numpy.typing import NDArray

from ltrbench.compare.cells import Settings, cell_of, describe_cells, first_by
from ltrbench.compare.comparison import Comparison, compare
from ltrbench.compare.derived import Import, derived_run, import_runs
from ltrbench.compare.leaderboard import between
from ltrbench.data import Judgments
from ltrbench.data.sources import DataSource
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.experiment import describe_data
from ltrbench.experiment.loading import load_once
from ltrbench.measure import described, versions
from ltrbench.metrics import DEFAULT, METRICS_OF_A_RUN, evaluate
from ltrbench.rankers.single_feature import SingleFeatureRanker
from ltrbench.runs.record import (
    FINISHED,
    IMPORTED,
    NO_PARAMETERS,
    Run,
    RunResult,
    ScoredSplit,
    find_runs,
    writing_to,
)
from ltrbench.shapes import Scores
from ltrbench.statistics import BETTER, SCOPES, WORSE
from ltrbench.statistics.claims import EQUIVALENT
from ltrbench.tables import QUALITY, Table, TableRow, columns_of
from ltrbench.untrusted import Amount, Name, load_npz, read_bytes, type_error, types_of

ENTRY_FILE, RANKS_FILE, TABLE_FILE = "entry.yaml", "ranks.npz", "table.md"

_METRIC = "ndcg@10"
_OF_LABELS = 0.99
"""NDCG@10 above which scores are taken for labels, whose NDCG is 1."""
_REMEDY = "Copy the entry again from its source, or delete its folder"


@dataclass(frozen=True)
class Entry:
    """A system on one data set.

    Attributes:
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


def test_sets(sources: Sequence[DataSource]) -> list[Run]:
    """Returns the ranking by a single feature as a run held in memory, one for each source.

    Other systems are evaluated like these runs, which have the judgments.
    """
    runs = []
    for source in sources:
        splits = load_once(source)[0]
        test = splits.test
        scores = SingleFeatureRanker().fit(splits.train).predict(test.features)
        result = RunResult(
            status=FINISHED,
            model="single_feature",
            params=NO_PARAMETERS,
            seed=0,
            source=described(source),
            data=describe_data(source, splits),
            metrics={
                f"test/{name}": mean for name, mean in evaluate(test, scores, METRICS_OF_A_RUN).means.items()
            },
        )
        scored = ScoredSplit(test, scores, test.query_keys, test.file_rows)
        runs.append(Run(Path(source.name), result, {"test": scored}))
    return runs


def add_entry(
    system: Import, sources: Sequence[DataSource], output: Path, **declared: Any
) -> tuple[Entry, list[str]]:
    """Checks the scores of a system, adds its entry, and writes the table of the data set again.

    Args:
        system: name, and the score files; or a folder with runs of the model of this name.
        sources: the data set, one source for each fold.
        output: folder of the leaderboard.
        declared: division, code and settings of the `Entry`.

    Returns:
        The entry, and remarks on it.

    Raises:
        ConfigError: The name is taken or is not the name of a folder, or the division is closed without code
            and settings.
        DataError, ResultError: The scores, or another entry, are refused.
    """
    folder = output / sources[0].name / system.name
    if folder.exists() or Path(system.name).name != system.name or system.name.startswith("."):
        raise ConfigError(f"--name is {system.name!r}; give the name of a new folder in {folder.parent}.")
    if declared["division"] == "closed" and not (declared["code"] and declared["settings"]):
        raise ConfigError(
            "--division closed needs --code ADDRESS and --settings TEXT, which says how validation chose the "
            "settings. Add both, or choose --division open."
        )
    tests = test_sets(sources)
    runs = _runs_of(system, tests, sources)
    ranks = {_fold(test): _checked_ranks(run, test) for run, test in zip(runs, tests, strict=True)}
    remarks = _plausible(system, runs, tests)
    for other, _, known in _read_all(folder.parent):
        if known.keys() == ranks.keys() and all(np.array_equal(known[fold], ranks[fold]) for fold in known):
            raise DataError(
                f"{system}: its ranking of every document is that of the entry {other.name}. Give the scores "
                "of another system."
            )
    entry = Entry(
        name=system.name,
        data=sources[0].name,
        tests={_fold(test): test.result.data["test"]["fingerprint"] for test in tests},
        convention=DEFAULT.name,
        metrics=_means(runs),
        seconds=_seconds(runs),
        versions=versions(),
        **declared,
    )
    with writing_to(folder):
        folder.mkdir(parents=True)
        np.savez_compressed(folder / RANKS_FILE, **ranks)  # type: ignore[arg-type]
        text = yaml.safe_dump(asdict(entry), sort_keys=False, allow_unicode=True, width=100)
        (folder / ENTRY_FILE).write_text(text, encoding="utf-8")
    write_table(tests, output)
    return entry, remarks


def write_table(tests: Sequence[Run], output: Path) -> str:
    """Evaluates all entries of a data set again, and writes their table, which is returned.

    Raises:
        DataError: There is no entry.
        ResultError: An entry is damaged, or has other test sets.
    """
    folder = output / str(tests[0].result.data["name"])
    read = _read_all(folder)
    if not read:
        raise DataError(f"{folder} has no entry; `python -m ltrbench leaderboard add` writes one.")
    runs = [run for entry, path, ranks in read for run in _entry_runs(entry, path, ranks, tests)]
    (comparison,) = compare(runs, Settings(metric=_METRIC))
    text = _as_markdown(comparison, {entry.name: entry for entry, _, _ in read})
    with writing_to(folder):
        (folder / TABLE_FILE).write_text(text, encoding="utf-8")
    return text


# ---- Scores of a new entry, and why they are refused.


def _fold(run: Run) -> str:
    fold = cell_of(run).fold
    return "test" if fold is None else f"fold{fold}"


def _runs_of(system: Import, tests: Sequence[Run], sources: Sequence[DataSource]) -> list[Run]:
    """Returns the scores of a system as one run for each test set; of several runs in a folder the first."""
    if Path(system.pattern).is_dir():
        runs = [run for run in find_runs([Path(system.pattern)]) if run.result.is_compared]
        runs = [run for run in runs if run.result.model == system.name]
    else:
        runs = import_runs(system, tests, lambda test: load_once(sources[tests.index(test)])[0])
    of_cells = first_by(runs, cell_of)
    missing = [cell_of(test) for test in tests if cell_of(test) not in of_cells]
    if missing:
        raise DataError(
            f"{system}: there are no scores of {describe_cells(missing)} of {missing[0].data}. Give one file "
            "for each fold, with {fold} in its name, or a folder with runs of this model on every fold."
        )
    return [of_cells[cell_of(test)] for test in tests]


def _checked_ranks(run: Run, test: Run) -> NDArray[np.uint16]:
    """Raises DataError if a document has no score, or all documents of each query are tied."""
    scores, where = run.scored("test").scores, f"{run.path}, {_fold(test)}"
    missing = int((~np.isfinite(scores)).sum())
    if missing:
        raise DataError(
            f"{where}: {missing} of {len(scores)} documents have no finite score. Score every document."
        )
    ranks = ranks_in_queries(test.scored("test").judgments, scores)
    if not ranks.any():
        raise DataError(f"{where}: the scores are constant in every query. Give scores that rank documents.")
    return ranks


def ranks_in_queries(judgments: Judgments, scores: Scores) -> NDArray[np.uint16]:
    """Returns the number of distinct higher scores in the query of each document, (D,).

    >>> ranks_in_queries(Judgments(labels=[0, 1, 0, 2], query_start=[0, 3, 4]), np.array([1.5, 2, 1.5, 0]))
    array([1, 0, 1, 0], dtype=uint16)
    """
    order = np.lexsort((-scores, judgments.query_of_document))
    number = np.cumsum(np.ediff1d(scores[order], to_begin=0) != 0)
    ranks = np.empty(len(scores), dtype=np.uint16)
    ranks[order] = number - np.repeat(number[judgments.query_start[:-1]], judgments.query_sizes)
    return ranks


def _plausible(system: Import, runs: Sequence[Run], tests: Sequence[Run]) -> list[str]:
    """Returns a remark if the system is below a single feature.

    Raises:
        DataError: The scores rank like the labels, or significantly worse than at random.
    """
    reached, of_feature = (_means(items)[_METRIC] for items in (runs, tests))
    if reached > _OF_LABELS:
        raise DataError(
            f"{system}: {_METRIC} is {reached:.4f}; above {_OF_LABELS} the scores rank with the labels. Give "
            "the scores of a system that does not read them."
        )
    judgments = [test.scored("test").judgments for test in tests]
    scores = [run.scored("test").scores for run in runs]
    # Tied documents count with the mean over all of their orders: the mean of a random ranking.
    values, at_random = (
        np.concatenate(
            [evaluate(*pair, [_METRIC]).per_query[_METRIC] for pair in zip(judgments, of, strict=True)]
        )
        for of in (scores, [np.zeros(len(each)) for each in scores])
    )
    difference = (values - at_random)[~np.isnan(values)]
    if difference.mean() < -3 * difference.std() / np.sqrt(len(difference)):
        raise DataError(
            f"{system}: {_METRIC} is {reached:.4f}, below a random ranking ({np.nanmean(at_random):.4f}). "
            "Check the sign of the scores and the order of the lines."
        )
    remark = f"{_METRIC} {reached:.4f} is below the best single feature, {of_feature:.4f}: check the lines."
    return [remark] if reached < of_feature else []


def _means(runs: Sequence[Run]) -> dict[str, float]:
    of_runs = [
        evaluate(run.scored("test").judgments, run.scored("test").scores, METRICS_OF_A_RUN).means
        for run in runs
    ]
    return {name: fmean(means[name] for means in of_runs) for name in METRICS_OF_A_RUN}


def _seconds(runs: Sequence[Run]) -> dict[str, float]:
    """Returns the mean times of a fold; empty for imported scores, and if other work slowed a run down."""
    for result in (run.result for run in runs):
        before = (result.load[0] if result.load else None) or 0.0
        if result.shared_machine or before > result.machine.get("cores", 1):
            return {}
    kinds = [kind for kind in ("fit", "predict") if all(kind in run.result.seconds for run in runs)]
    return {kind: round(fmean(run.result.seconds[kind] for run in runs), 4) for kind in kinds}


# ---- Entries on disk, and their table.

_Read = tuple[Entry, Path, dict[str, NDArray[Any]]]


def _read_all(folder: Path) -> list[_Read]:
    """Returns the entries of a data set: record, folder and ranks."""
    return [_read(path.parent) for path in sorted(folder.glob(f"*/{ENTRY_FILE}"))]


def _read(folder: Path) -> _Read:
    path = folder / ENTRY_FILE
    try:
        values = yaml.safe_load(read_bytes(path, _REMEDY))
        error = type_error(values, types_of(Entry))
        entry = Entry(**values)
    except (yaml.YAMLError, TypeError, AttributeError) as problem:
        raise ResultError(f"{path} cannot be read: {problem}. {_REMEDY}.") from None
    if error or entry.name != folder.name:
        raise ResultError(f"{path}: {error or f'its name is {entry.name!r}'}. {_REMEDY}.")
    return entry, folder, load_npz(folder / RANKS_FILE, remedy=_REMEDY)


def _entry_runs(
    entry: Entry, folder: Path, ranks: Mapping[str, NDArray[Any]], tests: Sequence[Run]
) -> Iterable[Run]:
    """Yields the entry as one run for each test set."""
    for test in tests:
        fold, scored = _fold(test), test.scored("test")
        expected, shape = test.result.data["test"]["fingerprint"], scored.scores.shape
        if entry.tests.get(fold) != expected or ranks.get(fold, np.empty(0)).shape != shape:
            raise ResultError(
                f"{folder}: its {fold} has the fingerprint {entry.tests.get(fold)}, and the data {expected}; "
                f"or its ranks are of other documents. {_REMEDY}."
            )
        of_entry = replace(scored, scores=-ranks[fold].astype(np.float64))
        run = derived_run(
            folder, test, {"test": of_entry}, model=entry.name, params=IMPORTED, notes=(), overrides=()
        )
        yield replace(run, result=replace(run.result, seconds=entry.seconds))


def _as_markdown(comparison: Comparison, entries: Mapping[str, Entry]) -> str:
    """Returns the table of all entries, the highest metric first, below what the claims are about."""
    # The label of an imported model says that it is imported.
    names = {row.label: row.runs[0].result.model for row in comparison.rows}
    claims: dict[tuple[str, str], list[str]] = {}
    for pair in (*comparison.pairs, *(pair.turned() for pair in comparison.pairs)):
        claims.setdefault((pair.a, pair.claim), []).append(names[pair.b])
    rows: list[TableRow] = []
    for row in sorted(comparison.rows, key=lambda row: -(row.metrics[_METRIC] or 0)):
        entry = entries[names[row.label]]
        cells = [entry.name, entry.division, row.metrics[_METRIC], between(row.interval, QUALITY)]
        cells += [", ".join(claims.get((row.label, claim), [])) for claim in (BETTER, EQUIVALENT, WORSE)]
        cells += [row.metrics[name] for name in METRICS_OF_A_RUN if name != _METRIC]
        cells += [row.seconds.get("fit"), row.seconds.get("predict"), entry.code, entry.settings]
        rows.append(cells)
    confidence = comparison.settings.confidence
    text, number = None, QUALITY
    forms = {"entry": text, "division": text, _METRIC: number, f"{confidence} interval": text}
    forms |= dict.fromkeys(("better than", "equivalent to", "worse than"), text)
    forms |= {name: number for name in METRICS_OF_A_RUN if name != _METRIC}
    forms |= {"fit s": ".2f", "predict s": ".3f", "code": text, "settings": text}
    scopes = ", ".join(dict.fromkeys(SCOPES[pair.scope] for pair in comparison.pairs))
    about = (
        f"Mean over the folds, under the convention {DEFAULT.name}. Claims are about {_METRIC}, with "
        f"{confidence} confidence over all {len(comparison.pairs)} pairs together"
        f"{f'; scope: {scopes}' if scopes else ''}. All other pairs are undecided."
    )
    return f"# {comparison.data}\n\n{about}\n\n{Table(columns_of(forms), rows).markdown()}\n"

"""A comparison as files, in the folder of a sweep and in results/ (`make results`).

    table.md                 tables with recommendation and notes
    glossary.md              the entries of the glossary that table.md links to
    table.tex                tables for a paper (booktabs)
    table.csv                one row per model, numbers in full precision
    per_query.csv            one row per test query, one column per run: primary metric, empty if skipped;
                             before these the weight of the query, if queries have weights
    comparison.json          rows, pairs with their tests, slices; the output of `compare --json`
    environment.json         versions; command, commit, machine, metrics, fingerprints and search of each run
    importances.csv          importances of every kind for each model, one row per feature
    importances.md           most important features, rank correlations, features that single models ignore
    report.html              the whole comparison as one page without references to other files
    differences.png          the difference of each row to the baseline, with its simultaneous interval
    learning_curves.png      the validation metric by iteration, with the iteration each run kept; train above
    importances.png          feature importances per model: permutation, drop-column, SHAP, share of gain
    time_against_ndcg.png    the test metric against the fit time in seconds, with the Pareto front
    search.png               best value on validation by number of trials; chosen settings on test
    setting_importances.png  importance of the settings of searches
    examination.png          probability of examination by position, of a log of clicks

Pictures are in one folder per data set if there are several. A file without content is not written, and
that of an earlier comparison in the folder is removed.
None of the files holds documents of the data: no features, labels or document ids.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ltrbench.compare.cells import (
    DATA_SPLITS,
    DataCell,
    replicate_of,
)
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.fairness import machine_in_words
from ltrbench.compare.importances import (
    compare_importances,
    importances_csv,
    importances_markdown,
)
from ltrbench.compare.leaderboard import comparisons_as_json, in_full
from ltrbench.compare.report import (
    as_latex,
    as_page,
    chapters_of,
    render,
    terms_of,
    text_over_data_sets,
)
from ltrbench.compare.settings import Settings
from ltrbench.compare.table import EvaluatedRun, ModelRow
from ltrbench.compare.views import Picture, joined
from ltrbench.errors import ResultError
from ltrbench.metrics.conventions import described_as
from ltrbench.plots import PAPER, write_figures
from ltrbench.runs import Run
from ltrbench.runs.record import RESULT_FILE
from ltrbench.runs.spec import of_job
from ltrbench.statistics.checks import AT_MOST, FAILS, Check
from ltrbench.tables import (
    GLOSSARY_FILE,
    Table,
    TableRow,
    extract,
    format_number,
    listed,
)
from ltrbench.untrusted import RunTable, in_markdown, read_json, read_run_table

RECORD_FILE = "comparison.json"
REPORT_FILE = "report.html"
ENVIRONMENT_FILE = "environment.json"
_OF_COMPARISON = "made_by_comparison"
"""Field of a run that is in no folder: `compare` fused or imported its scores."""
PER_QUERY_TABLE = "per_query.csv"
_IMPORTANCES_TABLE = "importances.csv"
_IMPORTANCES_TEXT = "importances.md"
_LONGEST_FOLDER_NAME = 60
"""Number of characters; with four bytes each they are below the limit of file systems."""


def publish(comparisons: Sequence[Comparison], folder: Path, command: str = "") -> None:
    """Writes the files of the comparisons into a folder.

    Files of an earlier comparison in the folder are replaced or removed; other files stay. comparison.json is
    written last, so that a folder without it is incomplete.

    Args:
        folder: Created if it does not exist.
        command: Command that writes the files again, for the report; empty to leave it out.

    Raises:
        ResultError: The folder is that of a run, whose files have the same names; or the files cannot be
            written, for example on a full disk.
    """
    if (folder / RESULT_FILE).exists():
        raise ResultError(
            f"{folder} is the folder of a run, whose files the comparison would replace. Choose another "
            "folder, as in --output comparison."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        earlier = _optional_files(folder)
        (folder / RECORD_FILE).unlink(missing_ok=True)
        chapters = chapters_of(comparisons, command)
        files = _files(comparisons, folder.name)
        files[REPORT_FILE] = as_page(comparisons, chapters)
        written = {folder / name for name in files}
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        names = _folder_names([comparison.data for comparison in comparisons])
        # A chapter over all data sets follows those of the data sets, without pictures in files.
        for name, chapter in zip(names, chapters, strict=False):
            pictures = folder
            if len(comparisons) > 1:
                pictures = folder / name
            figures = itertools.chain.from_iterable(
                section.figures for section in chapter.sections
            )
            drawn = {each.file: each.draw(PAPER) for each in figures if each.file}
            written |= {*write_figures(pictures, drawn)}
        for path in earlier - written:
            _remove(path, folder)
        (folder / RECORD_FILE).write_text(_record(comparisons))
    except OSError as error:
        raise ResultError(
            f"{folder} cannot be written: {error.strerror or error}. Free some space, or choose another "
            "folder: `python -m ltrbench compare DIR --output FOLDER` writes the comparison of runs in DIR."
        ) from error


def _optional_files(folder: Path) -> set[Path]:
    """Returns the files in a folder of an earlier comparison that another comparison may not have."""
    if not (folder / ENVIRONMENT_FILE).exists():
        return set()
    names = {_IMPORTANCES_TABLE, _IMPORTANCES_TEXT, *Picture}
    files = {folder / name for name in names}
    for name in _folders_of_pictures(folder):
        files |= {folder / name / picture for picture in Picture}
    return {path for path in files if path.is_file()}


def _remove(path: Path, folder: Path) -> None:
    """Removes a file, and its folder if it is then an empty one inside `folder`."""
    path.unlink(missing_ok=True)
    if path.parent != folder and not any(path.parent.iterdir()):
        path.parent.rmdir()


def _folders_of_pictures(folder: Path) -> list[str]:
    """Returns the names of the folders of the pictures of an earlier comparison, by its comparison.json."""
    try:
        record = read_json(folder / RECORD_FILE)
        data = [str(comparison["data"]) for comparison in record["comparisons"]]
    except (ResultError, KeyError, TypeError):
        return []
    return _folder_names(data)


def is_published(comparisons: Sequence[Comparison], folder: Path) -> bool:
    """Returns whether a folder has the files of these comparisons, as `publish` wrote them."""
    try:
        return (folder / RECORD_FILE).read_text() == _record(comparisons)
    except (OSError, UnicodeDecodeError):
        return False


def _record(comparisons: Sequence[Comparison]) -> str:
    return (
        f"{json.dumps(comparisons_as_json(comparisons), indent=2, allow_nan=False)}\n"
    )


def as_markdown(
    comparisons: Sequence[Comparison], title: str, glossary_file: str | None = None
) -> str:
    """Returns the tables of all data sets under a title, and what made them; `render` has the arguments."""
    tables = "\n".join(
        f"## {render(item, None, glossary_file)}" for item in comparisons
    )
    made_by = _made_by(_runs_of(comparisons))
    parts = [
        f"# {in_markdown(title)}",
        tables.rstrip(),
        text_over_data_sets(comparisons, None),
        in_markdown(made_by),
    ]
    return f"{joined(parts)}\n"


def _runs_of(comparisons: Sequence[Comparison]) -> list[Run]:
    rows = itertools.chain.from_iterable(item.rows for item in comparisons)
    return list(itertools.chain.from_iterable(row.runs for row in rows))


def _files(comparisons: Sequence[Comparison], title: str) -> dict[str, str]:
    """Returns file name -> content, without the report; the importances only if a run recorded some."""
    terms = itertools.chain.from_iterable(map(terms_of, comparisons))
    environment = _environment(_runs_of(comparisons))
    in_latex = map(as_latex, comparisons)
    files = {
        "table.md": as_markdown(comparisons, title, GLOSSARY_FILE),
        GLOSSARY_FILE: extract(terms),
        "table.tex": "\n".join(in_latex),
        "table.csv": in_full(comparisons).csv(),
        ENVIRONMENT_FILE: f"{json.dumps(environment, indent=2)}\n",
        PER_QUERY_TABLE: _per_query(comparisons).csv(),
    }
    recorded = {}
    for item in comparisons:
        importances = compare_importances({row.label: row.runs for row in item.rows})
        if importances.rows:
            recorded[item.data] = importances
    if recorded:
        text = "\n".join(
            importances_markdown(data, each) for data, each in recorded.items()
        )
        files[_IMPORTANCES_TABLE] = importances_csv(recorded)
        files[_IMPORTANCES_TEXT] = f"# Feature importances\n\n{text}"
    return files


def _folder_name(data: str) -> str:
    """Returns the name of a data set as a folder name without path separators.

    >>> _folder_name("MQ2008 fold=1"), _folder_name(".."), _folder_name("../x")
    ('MQ2008_fold_1', 'data', '_x')
    """
    name = re.sub(r"[^\w.-]+", "_", data).lstrip(".")
    return name[:_LONGEST_FOLDER_NAME] or "data"


def _folder_names(data: Sequence[str]) -> list[str]:
    """Returns a folder name for each data set, with a number if another one has it, whatever its case.

    >>> _folder_names(["shop A/B", "shop A?B", "other"])
    ['shop_A_B', 'shop_A_B_2', 'other']
    """
    names: list[str] = []
    taken = set[str]()
    for each in data:
        name = _folder_name(each)
        numbered = (f"{name}_{number}" for number in itertools.count(2))
        candidates = itertools.chain([name], numbered)
        unique = next(each for each in candidates if each.casefold() not in taken)
        taken.add(unique.casefold())
        names.append(unique)
    return names


def _made_by(runs: Sequence[Run]) -> str:
    # Imported scores have no machine.
    results = [run.result for run in runs if run.result.machine]
    machines = list(dict.fromkeys(map(machine_in_words, results)))
    if not machines:
        return (
            "Made of imported scores. environment.json lists the command of each run."
        )
    of_packages = [f"{name} {version}" for name, version in _versions(runs).items()]
    versions = ", ".join(of_packages)
    number = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    commits = _commits(runs)
    commit = ""
    if commits:
        noun = "commit" if len(commits) == 1 else "commits"
        commit = f"{noun} {listed(commits)}, "
    return (
        f"Made by {number}, {commit}on {listed(machines)}: {versions}. "
        "environment.json lists the command of each run."
    )


def _commits(runs: Sequence[Run]) -> list[str]:
    # Runs outside git have no commit.
    commits = [run.result.commit for run in runs if run.result.commit]
    return list(dict.fromkeys(commits))


def _environment(runs: Sequence[Run]) -> dict[str, object]:
    first = runs[0].result
    commits = ", ".join(_commits(runs))
    threads = {run.result.threads for run in runs}
    return {
        "commit": commits or None,
        "versions": _versions(runs),
        "machine": _machine(runs),
        "threads": sorted(threads),
        # Convention of the metrics below; comparison.json holds the convention of the comparison.
        "convention": dict(first.convention),
        "runs": list(map(_run_record, runs)),
    }


def _machine(runs: Sequence[Run]) -> dict[str, object]:
    """Returns fact -> its value; all values if they differ between runs."""
    machines = [run.result.machine for run in runs]
    names = dict.fromkeys(itertools.chain.from_iterable(machines))
    facts = {}
    for name in names:
        values = [machine[name] for machine in machines if name in machine]
        distinct = list(dict.fromkeys(map(str, values)))
        facts[name] = values[0]
        if len(distinct) > 1:
            facts[name] = listed(distinct)
    return facts


def _run_record(run: Run) -> dict[str, object]:
    """Returns what environment.json has on a run."""
    result = run.result
    command = None
    if result.command is not None:
        command = shlex.join(result.command)
    fingerprints = {}
    for split in DATA_SPLITS:
        if split in result.data:
            fingerprints[split] = result.data[split].get("fingerprint")
    record: dict[str, object] = {
        "command": command,
        "seed": result.seed,
        "commit": result.commit,
        "machine": dict(result.machine),
        "metrics": dict(result.metrics),
        "fingerprints": fingerprints,
    }
    if result.search:
        record["search"] = dict(result.search)
    if not result.distributed.get("deterministic", True):
        record["deterministic"] = False
    if not (run.path / RESULT_FILE).exists():
        record[_OF_COMPARISON] = True
    return record


def _versions(runs: Sequence[Run]) -> dict[str, str]:
    """Returns package or plug-in -> its version; all versions if they differ between runs."""
    versions = [run.result.versions for run in runs]
    names = dict.fromkeys(itertools.chain.from_iterable(versions))
    in_words = {}
    for name in names:
        of_package = {of_run[name] for of_run in versions if name in of_run}
        in_words[name] = listed(sorted(of_package))
    return in_words


_Query = tuple[str, DataCell, str]
"""Name of the data set, cell, and id of a query."""


@dataclass
class _ValuesOfQuery:
    """The values of a query, and its weight in their means.

    Attributes:
        weight: 1 without weights.
        values: column of a run -> its value.
    """

    weight: float
    values: dict[str, float]


def _per_query(comparisons: Sequence[Comparison]) -> Table:
    """Returns the values by query; a query that a run was not evaluated on, or that is skipped, is empty."""
    metric = comparisons[0].metric
    columns: dict[str, None] = {}
    queries: dict[_Query, _ValuesOfQuery] = {}
    for comparison in comparisons:
        for row in comparison.rows:
            for item in row.evaluated:
                column = _column(row, item.run)
                columns[column] = None
                _add_values(queries, column, comparison, item)
    are_repeated = len({cell.repeat for _, cell, _ in queries}) > 1
    have_weights = any(query.weight != 1 for query in queries.values())
    rows: list[TableRow] = []
    for (data, cell, query_id), query in queries.items():
        key_cells = [data, cell.fold]
        if are_repeated:
            key_cells.append(cell.repeat)
        key_cells.append(query_id)
        if have_weights:
            key_cells.append(f"{query.weight:.9g}")
        values = map(query.values.get, columns)
        texts = (format_number(value, ".6f", missing="") for value in values)
        rows.append([*key_cells, *texts])
    header = ["data", "fold"]
    if are_repeated:
        header.append("split_seed")
    header.append("query_id")
    if have_weights:
        header.append("weight")
    header += [f"{name} {metric}" for name in columns]
    return Table.of(header, rows)


def _add_values(
    queries: dict[_Query, _ValuesOfQuery],
    column: str,
    comparison: Comparison,
    item: EvaluatedRun,
) -> None:
    """Adds the values of a run to those of its queries."""
    judgments = item.judgments
    weights = judgments.query_weights
    if weights is None:
        weights = np.ones(judgments.num_queries)
    per_query = item.evaluation.per_query[comparison.metric]
    of_queries = zip(
        judgments.query_ids.tolist(),
        weights.tolist(),
        per_query.tolist(),
        strict=True,
    )
    for query_id, weight, value in of_queries:
        key = (comparison.data, item.cell, query_id)
        query = queries.setdefault(key, _ValuesOfQuery(weight, {}))
        query.values[column] = value


def _column(row: ModelRow, run: Run) -> str:
    """Returns the column of a run; folds share a column, because a query is in one fold of a repeat."""
    resample, seed = replicate_of(run)
    words = [row.label]
    if resample is not None:
        words.append(f"resample={resample}")
    # The seed is named only if a resample has several: resamples alone have different seeds, too
    # (`TrainingResample.seed_of_ranker`).
    replicates = {replicate_of(item) for item in row.runs}
    if len(replicates) > len({replicate.resample for replicate in replicates}):
        words.append(f"seed={seed}")
    return " ".join(words)


# ---- Comparison of a rerun with the committed results, for `make reproduce`.
#
# On the same type of machine with the same versions all values must be identical. Otherwise floating-point
# sums, and with them splits, can differ, and values may differ by `TOLERANCE`. The values of a run that is
# not repeatable (`distributed.deterministic` is false) may differ by `TOLERANCE_NOT_REPEATABLE` on any
# machine.

TOLERANCE = 1e-3
"""Maximum difference from the committed value of a metric on another type of machine."""

TOLERANCE_NOT_REPEATABLE = 2e-2
"""Maximum difference from the committed value of a metric of a run whose fit is not repeatable [two fits of
LightGBM on two workers differed by 0.013 in NDCG@10 on 80 test queries]."""

_REMEDY = "Name a folder with the results of a study; `make results` writes them"


@dataclass(frozen=True)
class Reproduction:
    """Result of the comparison of a rerun with the committed results.

    Attributes:
        exact: Whether the values have to be identical.
        reason: Why, or why not.
        num_values: Number of compared metrics.
        largest: Largest difference of two values.
        differences: One sentence for each value with too large a difference; empty if all agree.
        num_not_repeatable: Number of runs whose metrics may differ by `TOLERANCE_NOT_REPEATABLE`.
        not_compared: One sentence for each folder with runs that have no command to match them by, or that
            the comparison made, and for columns of queries without a rerun.
    """

    exact: bool
    reason: str
    num_values: int
    largest: float
    differences: tuple[str, ...]
    num_not_repeatable: int = 0
    not_compared: tuple[str, ...] = ()


def reproduce(committed: Path, rerun: Path) -> Reproduction:
    """Compares the files that `publish` wrote for a rerun with the committed ones.

    Raises:
        ResultError: A folder does not have these files, or there is no value to compare.
    """
    before = _read(committed)
    after = _read(rerun)
    reason = _why_not_exact(before, after)
    old_runs = _runs_by_command(before)
    new_runs = _runs_by_command(after)
    loose = _not_repeatable(old_runs) | _not_repeatable(new_runs)
    checks = []
    differences = []
    for command in sorted(old_runs.keys() & new_runs.keys()):
        allowed = TOLERANCE if reason else 0.0
        if command in loose:
            allowed = TOLERANCE_NOT_REPEATABLE
        for name, old in old_runs[command]["metrics"].items():
            new = new_runs[command]["metrics"].get(name)
            distance = _distance(old, new)
            check = Check(f"{command}: {name}", distance, limit=allowed, sense=AT_MOST)
            checks.append(check)
            if check.state == FAILS:
                differences.append(f"{check.name}: committed {old}, rerun {new}")
    missing = old_runs.keys() ^ new_runs.keys()
    differences += [f"{command}: only in one of the two" for command in sorted(missing)]
    not_compared = []
    for name, content in {"committed": before, "rerun": after}.items():
        not_compared += _not_compared(name, content)
    if not reason and not loose:
        lacking, are_equal = _same_queries(committed, rerun)
        if not are_equal:
            differences.append(f"{PER_QUERY_TABLE}: the values of some queries differ")
        if lacking:
            not_compared.append(f"{PER_QUERY_TABLE}: the rerun lacks {listed(lacking)}")
    if not checks and not differences:
        _refuse_empty(committed, not_compared)
    largest = max((check.value or 0.0 for check in checks), default=0.0)
    return Reproduction(
        exact=not reason,
        reason=reason or "same machine type and versions",
        num_values=len(checks),
        largest=largest,
        differences=tuple(differences),
        num_not_repeatable=len(loose),
        not_compared=tuple(not_compared),
    )


def settings_to_rerun(committed: Path) -> Settings:
    """Returns the metric and the convention of committed results, for the comparison of a rerun.

    Raises:
        ResultError: This version cannot compute their convention.
    """
    path = committed / RECORD_FILE
    if not path.exists():
        # Our repository has no large files; its results have the default settings.
        return Settings()
    record = read_json(path, _REMEDY)
    convention = described_as(record.get("convention_fields", {}))
    if convention is None:
        raise ResultError(
            f"{path}: this version cannot compute the convention {record.get('convention')}. {_REMEDY}."
        )
    return Settings(metric=record.get("metric"), convention=convention)


def _same_queries(committed: Path, rerun: Path) -> tuple[list[str], bool]:
    """Returns the columns of the committed queries that a rerun lacks, and whether the others are equal.

    A rerun lacks the systems that the comparison fused or imported.
    """
    old = read_run_table(committed / PER_QUERY_TABLE, (), _REMEDY)
    new = read_run_table(rerun / PER_QUERY_TABLE, (), _REMEDY)
    lacking = [name for name in old.header if name not in new.header]
    common = [name for name in old.header if name in new.header]
    return lacking, _columns(old, common) == _columns(new, common)


def _columns(table: RunTable, names: Sequence[str]) -> list[tuple[str, ...]]:
    numbers = map(table.header.index, names)
    return list(map(table.texts, numbers))


def _without_command(content: Mapping[str, Any]) -> list[str]:
    """Returns the numbers, from 1, of the runs that cannot be matched by their command."""
    return [
        str(number)
        for number, run in enumerate(content["runs"], start=1)
        if run["command"] is None
    ]


def _not_compared(name: str, content: Mapping[str, Any]) -> list[str]:
    """Returns why some runs of a folder are not compared, as sentences."""
    sentences = []
    num_runs = len(content["runs"])
    numbers = _without_command(content)
    if numbers:
        sentences.append(
            f"{name}: {len(numbers)} of {num_runs} runs were started from Python and have no command "
            f"to match them by (numbers {listed(numbers)} in {ENVIRONMENT_FILE})"
        )
    made = sum(_OF_COMPARISON in run for run in content["runs"])
    if made:
        sentences.append(
            f"{name}: {made} of {num_runs} runs were fused or imported by compare, from scores of others"
        )
    return sentences


def _refuse_empty(committed: Path, not_compared: Sequence[str]) -> NoReturn:
    """Raises the error that no metric could be compared."""
    reasons = "; ".join(not_compared) or "no run has a metric"
    raise ResultError(
        f"{committed} cannot be reproduced, because no metric can be compared. {reasons}. Train the runs of "
        "both folders with `python -m ltrbench`, which records the command of each run."
    )


def _not_repeatable(runs: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Returns the commands of the runs whose fit is not repeatable."""
    return {
        command for command, run in runs.items() if not run.get("deterministic", True)
    }


def _distance(old: float | None, new: float | None) -> float:
    """Returns the distance of two values of a metric, of which none or one may be missing."""
    if old is not None and new is not None:
        return abs(old - new)
    return 0.0 if old is new else math.inf


def _read(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = read_json(folder / ENVIRONMENT_FILE, _REMEDY)
    if any("metrics" not in run for run in content.get("runs", [{}])):
        raise ResultError(
            f"{folder / ENVIRONMENT_FILE} has no metrics of runs. {_REMEDY}."
        )
    return content


def _why_not_exact(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Returns the first difference of machine or versions; empty if they are equal."""
    old_facts = _facts(before)
    new_facts = _facts(after)
    for fact in old_facts | new_facts:
        old = old_facts.get(fact)
        new = new_facts.get(fact)
        if old != new:
            return f"committed {fact} {old}, rerun {fact} {new}"
    return ""


def _facts(content: Mapping[str, Any]) -> dict[str, object]:
    """Returns "on cpu", "with numpy" and others -> the value in environment.json."""
    machine = content["machine"]
    facts = {f"on {key}": machine.get(key) for key in ("cpu", "cores")}
    for package, version in sorted(content["versions"].items()):
        facts[f"with {package}"] = version
    return facts


_Record = dict[str, Any]
"""Record of a run in environment.json."""


def _runs_by_command(content: Mapping[str, Any]) -> dict[str, _Record]:
    """Returns command -> run, without what cannot change a metric, such as the executor and a -m at the end.

    Runs made from Python have no command to match them by. A command that made several runs, as `ensemble`
    does, is followed by the number of the run.
    """
    by_command: dict[str, _Record] = {}
    num_runs: Counter[str] = Counter()
    for run in content["runs"]:
        if run["command"] is None or _OF_COMPARISON in run:
            continue
        words = shlex.split(run["command"].removesuffix(" -m"))
        command = shlex.join(of_job(words))
        num_runs[command] += 1
        key = command
        if num_runs[command] > 1:
            key = f"{command} (run {num_runs[command]})"
        by_command[key] = run
    return by_command

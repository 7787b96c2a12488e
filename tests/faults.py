"""Seeded faults: counts how many deliberate mistakes in the package the tests find, 4 in each room.

    python tests/faults.py check
    python tests/faults.py run [ROOM ...] > FILE.csv

On a busy machine, FAULTS_TIMEOUT=900 raises the limit of 300 seconds for the tests of one fault.

A fault replaces a text that occurs exactly once in all files of ltrbench/, in whichever file, so that the
same faults compare two test suites or two arrangements of the modules. `run` first runs the tests of a room
without a fault; tests that fail then are deselected, so that a failure with another cause finds no fault.
Each fault gets a new copy of the repository with the compiled kernels of all unchanged files. Slow tests run
only for a fault that the others do not find.

To add a fault, add three lines to TABLE: what is wrong, the text, and its replacement. The text must not
contain names of modules, so that it stays valid when code moves. The fault must change what a user sees.
"""

from __future__ import annotations

import ast
import csv
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

FAULTS_OF_ROOM = 4

NOT_COPIED = (
    ".git",
    ".venv",
    "data",
    "build",
    "mlruns",
    ".hypothesis",
    ".pytest_cache",
    ".mypy_cache",
)

SHORT = "not slow and not browser and not installation"
SLOW = "slow and not browser and not installation"

TIMEOUT = float(os.environ.get("FAULTS_TIMEOUT", "300"))
"""Seconds of the tests of one fault."""

# Room -> folders of its tests, and folders or modules of its doctests.
ROOMS: dict[str, tuple[str, ...]] = {
    "metrics": ("tests/metrics", "ltrbench/metrics"),
    "statistics": ("tests/statistics", "ltrbench/statistics"),
    "runs": (
        "tests/results",
        "tests/experiment",
        "ltrbench/runs",
        "ltrbench/experiment",
    ),
    "search": ("tests/search", "ltrbench/search.py"),
    "reading": ("tests/data", "ltrbench/data"),
    "store and splits": ("tests/data", "ltrbench/data"),
    "formats": ("tests/rankers/formats", "ltrbench/models"),
    "objectives": ("tests/native", "ltrbench/native"),
    "growing": ("tests/native", "ltrbench/native"),
    "output": (
        "tests/compare",
        "tests/plots",
        "tests/tables",
        "ltrbench/plots.py",
        "ltrbench/tables.py",
    ),
    "analysis": (
        "tests/compare",
        "tests/cli/verbs/test_verb_ensemble.py",
        "ltrbench/compare",
    ),
    "clicks": ("tests/clicks", "ltrbench/clicks"),
    "rankers": ("tests/rankers", "ltrbench/rankers"),
    "shipping": ("tests/shipping", "ltrbench/shipping"),
    "tracking": ("tests/tracking", "ltrbench/tracking"),
    "distributed": ("tests/distributed", "ltrbench/distributed"),
}

TABLE = r"""
[metrics]
precision divides by the larger of k and the number of documents
- return np.minimum(sizes, k)
+ return np.maximum(sizes, k)
ERR divides by 2^l_max - 1
- stop = exponential_gains / 2.0**convention.highest_grade
+ stop = exponential_gains / (2.0**convention.highest_grade - 1.0)
average precision of tied documents divides by t instead of t - 1
- num_others = np.maximum(run_size - 1, 1)
+ num_others = np.maximum(run_size, 1)
AUC does not count labels at the threshold as relevant
- relevant = ranking.judgments.labels >= convention.relevance_threshold
+ relevant = ranking.judgments.labels > convention.relevance_threshold

[statistics]
Holm's factor of the smallest p-value is m - 1
- num_left = len(given) - np.arange(len(given))
+ num_left = len(given) - np.arange(1, len(given) + 1)
Student's interval has the one-sided quantile
- quantile = scipy.special.stdtrit(degrees, 1 - level / 2)
+ quantile = scipy.special.stdtrit(degrees, 1 - level)
the variance over trainings, also of the corrected t test, has n instead of n - 1
- return float(values.var(ddof=1))
+ return float(values.var())
the randomisation test does not count the observed difference
- return (reached + 1) / (num_draws + 1)
+ return reached / num_draws

[runs]
the total time contains the evaluation
- if kind not in ("warm_up", "monitor")
+ if kind not in ("warm_up",)
numbered feature names start one too late
- range(first, first + train["features"])
+ range(first + 1, first + 1 + train["features"])
two processes work in one folder at the same time
- lock.acquire(timeout=max(wait, _LEAST_WAIT), poll_interval=_POLL_SECONDS)
+ path.touch()
a trial of a search has scores of a test set
- result = _finished(fitted, _evaluated(scored, experiment.metrics))
+ scored |= {"test": scored["valid"]}; result = _finished(fitted, _evaluated(scored, experiment.metrics))

[search]
successive halving keeps the floor instead of the ceiling
- num_kept = math.ceil(len(settings) / self.eta)
+ num_kept = len(settings) // self.eta
the last of equally good trials is chosen
- key=lambda trial: (trial.value, -trial.proposal.number)
+ key=lambda trial: (trial.value, trial.proposal.number)
the median rule compares the values after the checkpoint
- for number, value in trial.curve.items() if number <= trees]
+ for number, value in trial.curve.items() if number >= trees]
the grid spaces logarithmic ranges linearly
- np.geomspace(low, high, number)
+ np.linspace(low, high, number)

[reading]
a repeated feature index is accepted
- if indices and index <= indices[-1]:
+ if indices and index < indices[-1]:
ranks of a TREC run start at 0
- Q0 {document} {rank + 1} {text} {tag}
+ Q0 {document} {rank} {text} {tag}
tied documents of a TREC run are in ascending order of id
- keys = (-number_of_name, -scores.astype(np.float64), judgments.query_of_document)
+ keys = (number_of_name, -scores.astype(np.float64), judgments.query_of_document)
an infinite weight is accepted
- if not 0 <= weight < math.inf:
+ if not 0 <= weight <= math.inf:

[store and splits]
features of a store are predicted in the order of queries instead of the file
- rows = dataset.to_file_order(np.arange(dataset.num_documents))
+ rows = np.arange(dataset.num_documents)
splits with fewer features than train are accepted
- if len(names) != len(expected):
+ if len(names) > len(expected):
a group is as old as its oldest query
- time_of_unit[unit] = max(time, time_of_unit.get(unit, time))
+ time_of_unit[unit] = min(time, time_of_unit.get(unit, time))
a held-out share may take all queries
- num_taken = min(num_taken, len(units) - 1)
+ num_taken = min(num_taken, len(units))

[formats]
a missing value that has no side of its own goes right at the threshold 0
- np.where(has_kind, default_left, threshold >= 0)
+ np.where(has_kind, default_left, threshold > 0)
missing values go to the other side in a written XGBoost model
- "default_left": tree.missing_left[order].astype(int)
+ "default_left": (~tree.missing_left[order]).astype(int)
features of a written RankLib model are numbered from 0
- <feature> {features[node] + 1} </feature>
+ <feature> {features[node]} </feature>
a threshold of 0 in LightGBM becomes one below all zeros
- sided = np.where(threshold < 0, below, LARGEST_ZERO)
+ sided = np.where(threshold <= 0, below, LARGEST_ZERO)

[objectives]
the two cases of a lambda are swapped
- pushed = delta * (e if delta > 0.0 else 1.0)
+ pushed = delta * (e if delta < 0.0 else 1.0)
the ideal DCG has one document too many
- depth = truncation if k is None else k
+ depth = (truncation or 30) + 1 if k is None else k + 1
the draws of XE-NDCG are added instead of subtracted
- labels=np.exp2(data.labels) - drawn
+ labels=np.exp2(data.labels) + drawn
a value equal to a threshold is in the next bin
- values[d] > thresholds[bins[d] + half - np.uint64(1)]
+ values[d] >= thresholds[bins[d] + half - np.uint64(1)]

[growing]
trees are one level too deep
- nodes.depth[node] < limits.max_depth
+ nodes.depth[node] <= limits.max_depth
leaf values are not regularised
- divisor = hessians + settings.l2 + more_l2
+ divisor = hessians + more_l2
DART rescales the dropped trees by k + 1
- return Rescaling(learning_rate / divisor, num_dropped / divisor)
+ return Rescaling(learning_rate / divisor, num_dropped / (num_dropped + 1))
GOSS amplifies the gradients of the sample too much
- factors[others] = (num_documents - num_top) / max(1, num_other)
+ factors[others] = num_documents / max(1, num_other)

[output]
a claim that is turned around stays better or worse
- state=opposite.get(self.state, self.state),
+ state=self.state,
the lower end of the difference is the upper end
- values[f"{kind}_low"] = interval.low
+ values[f"{kind}_low"] = interval.high
the Pareto front has the worse points
- if not front or value > front[-1][1]:
+ if not front or value < front[-1][1]:
wins and losses are swapped
- {statistics.wins}/{statistics.ties}/{statistics.losses}
+ {statistics.losses}/{statistics.ties}/{statistics.wins}

[analysis]
a model uses a feature without splits
- return row.values[SPLIT] > 0
+ return row.values[SPLIT] >= 0
the least important feature is first
- return np.argsort(-sizes, kind="stable")
+ return np.argsort(sizes, kind="stable")
reciprocal-rank fusion counts ranks from 0
- ranks_from_1 = ranking.ranks.astype(np.float64) + 1.0
+ ranks_from_1 = ranking.ranks.astype(np.float64)
the overlap of two models counts queries that have only the documents of the overlap
- is_longer = new.query_sizes > FIRST
+ is_longer = new.query_sizes >= FIRST

[clicks]
randomised lists do not count on a day with one ranker
- is_compared = (num_of_day > 1)[days] | log.is_randomised
+ is_compared = (num_of_day > 1)[days]
the error of the examination counts once instead of once for each list
- return _centred(own * (num_lists / weights.sum()), weights)
+ return _centred(own, weights)
all clicks on a document together have at most the clipped weight of one
- weights = np.minimum(self.weights, tau * self.impressions.clicks)
+ weights = np.minimum(self.weights, tau)
balanced interleaving counts clicks down to the highest click instead of the lowest
- order = np.lexsort((positions, sessions))
+ order = np.lexsort((-positions, sessions))

[rankers]
early stopping waits for one iteration too many
- iteration - self.best_iteration >= self.rule.patience
+ iteration - self.best_iteration > self.rule.patience
LightGBM refuses the highest grade
- (train.labels % 1 == 0) & (train.labels <= highest)
+ (train.labels % 1 == 0) & (train.labels < highest)
LightGBM keeps the trees after the best iteration
- kept = monitor.best_iteration or booster.current_iteration()
+ kept = booster.current_iteration()
the interval of an importance has one degree of freedom too many
- quantile = stdtrit(sample.num_queries - 1, (1 + CONFIDENCE) / 2)
+ quantile = stdtrit(sample.num_queries, (1 + CONFIDENCE) / 2)

[shipping]
pairs with a difference within rounding count as ordered
- is_ordered = gap > bounds[rows, None] + bounds
+ is_ordered = gap > bounds[rows, None] - bounds
a pair that the converted model ties does not change a query
- is_wrong = pairs.is_ordered & ~(pairs.sign > 0)
+ is_wrong = pairs.is_ordered & ~(pairs.sign >= 0)
the limit of missing values applies to the wrong splits
- if not split.zero_missing and split.missing_left != zero_left:
+ if not split.zero_missing and split.missing_left == zero_left:
one changed query more than tolerated is accepted
- Check(name, number, limit=limit, sense=AT_MOST)
+ Check(name, number, limit=limit + 1, sense=AT_MOST)

[tracking]
failed runs are stored as killed, and interrupted ones as failed
- result.status == FAILED and result.error == INTERRUPTED
+ result.status == FAILED and result.error != INTERRUPTED
metrics of valid instead of test belong to the logged model
- if model_id and name.startswith("test/")
+ if model_id and name.startswith("valid/")
the message about a missing score names the row before
- the score of row {missing[0] + 1} is NaN
+ the score of row {missing[0]} is NaN
scores are not in the order of the sorted queries
- evaluate(judged, scores[judged.positions], metrics
+ evaluate(judged, scores, metrics

[distributed]
shards are cut at the farther of two queries
- cuts = after + (ends[after] - wanted <= missing_before)
+ cuts = after + (ends[after] - wanted >= missing_before)
the largest gradients of members are summed
- return self._reduced(values + 0.0, collective.Op.MAX)
+ return self._reduced(values + 0.0, collective.Op.SUM)
as many workers as queries are refused
- if dataset.num_queries < num_shards:
+ if dataset.num_queries <= num_shards:
the histogram of the smaller child is added to the parent's
- parent -= histogram
+ parent += histogram
"""


@dataclass(frozen=True)
class Fault:
    """A mistake in the package.

    Attributes:
        room: a name in ROOMS.
        name: what is wrong.
        old: text that occurs exactly once in the package.
        new: text that takes its place.
    """

    room: str
    name: str
    old: str
    new: str


@dataclass(frozen=True)
class Outcome:
    """Whether tests failed (yes, no or timeout), which ones, and the time."""

    found: str
    failed: tuple[str, ...]
    seconds: float


def faults() -> list[Fault]:
    """Returns the faults of TABLE."""
    made, room = [], ""
    lines = [line for line in TABLE.splitlines() if line]
    for line, second, third in itertools.zip_longest(
        lines, lines[1:], lines[2:], fillvalue=""
    ):
        if line.startswith("["):
            room = line.strip("[]")
        elif second.startswith("- ") and third.startswith("+ "):
            made.append(Fault(room, line, second[2:], third[2:]))
    return made


def place_of(fault: Fault, root: Path) -> Path:
    """Returns the file that has the text of a fault.

    Raises:
        SystemExit: If the text does not occur exactly once, or the changed file does not parse.
    """
    texts = {path: path.read_text() for path in sorted(root.glob("ltrbench/**/*.py"))}
    places = [
        path for path, text in texts.items() for _ in range(text.count(fault.old))
    ]
    if len(places) != 1:
        where = ", ".join(str(path.relative_to(root)) for path in places) or "no file"
        raise SystemExit(
            f"{fault.room}: {fault.old!r} occurs {len(places)} times ({where}), not once."
        )
    try:
        ast.parse(texts[places[0]].replace(fault.old, fault.new))
    except SyntaxError as error:
        raise SystemExit(
            f"{fault.room}, {fault.name}: the changed file does not parse: {error}"
        ) from None
    return places[0]


def check() -> None:
    """Checks every fault against the package."""
    counts = Counter(fault.room for fault in faults())
    if counts != dict.fromkeys(ROOMS, FAULTS_OF_ROOM):
        raise SystemExit(
            f"Each room needs {FAULTS_OF_ROOM} faults; there are {dict(counts)}."
        )
    for fault in faults():
        place_of(fault, ROOT)
    for room, places in ROOMS.items():
        for place in places:
            if not (ROOT / place).exists():
                raise SystemExit(f"{room}: {place} does not exist; correct ROOMS.")
    print(
        f"{len(faults())} faults in {len(ROOMS)} rooms: each text occurs once.",
        file=sys.stderr,
    )


def copied(source: Path, target: Path) -> Path:
    """Copies a repository with its compiled kernels, which numba recognises by the files' times."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        return set(NOT_COPIED if Path(folder) == source else ()) & set(names)

    shutil.copytree(source, target, ignore=left_out, symlinks=True)
    (target / ".venv").symlink_to((ROOT / ".venv").resolve())
    return target


def environment_of(root: Path) -> Mapping[str, str]:
    shared = {
        "LTRBENCH_DATA": ROOT / "data",
        "LTRBENCH_GOLDEN": ROOT.parent / "shared" / "golden",
    }
    given = {name: os.environ.get(name) or str(path) for name, path in shared.items()}
    return {
        **os.environ,
        **given,
        "PYTHONPATH": str(root),
        "OMP_WAIT_POLICY": "PASSIVE",
    }


def run_tests(
    root: Path,
    room: str,
    options: Sequence[str],
    timeout: float = TIMEOUT,
    marks: str = SHORT,
) -> Outcome:
    """Runs the tests of a room in a copy of the repository."""
    python = str(root / ".venv/bin/python")
    command = [
        python,
        "-m",
        "pytest",
        "-q",
        "-rfE",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "-m",
        marks,
    ]
    began = time.monotonic()
    try:
        done = subprocess.run(
            [*command, *options, *ROOMS[room]],
            cwd=root,
            env=environment_of(root),
            timeout=timeout,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome("timeout", (), time.monotonic() - began)
    if done.returncode not in (0, 1, 2, 4, 5):  # 5: no tests with these marks
        raise SystemExit(
            f"{room}: pytest ended with {done.returncode}:\n{done.stdout[-2000:]}"
        )
    failed = re.findall(
        r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)", done.stdout, re.MULTILINE
    )
    return Outcome(
        "no" if done.returncode in (0, 5) else "yes",
        tuple(failed),
        time.monotonic() - began,
    )


def run_room(room: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Yields the row of the table of each fault of a room; the first row is that without a fault."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        clean = copied(ROOT, Path(folder, "clean"))
        before = run_tests(clean, room, [], 10 * TIMEOUT)
        if not all("::" in test for test in before.failed):
            raise SystemExit(
                f"{room}: tests of the copy cannot be collected: {before.failed[0]}."
            )
        yield (
            room,
            "(no fault)",
            before.found,
            " ".join(before.failed),
            f"{before.seconds:.0f}",
        )
        deselected = [
            option for test in before.failed for option in ("--deselect", test)
        ]
        for fault in (fault for fault in faults() if fault.room == room):
            root = copied(clean, Path(folder, "faulty"))
            path = place_of(fault, root)
            path.write_text(path.read_text().replace(fault.old, fault.new))
            outcome = run_tests(root, room, ["-x", *deselected])
            if outcome.found == "no":
                outcome = run_tests(root, room, ["-x"], marks=SLOW)
            yield (
                room,
                fault.name,
                outcome.found,
                "".join(outcome.failed[:1]),
                f"{outcome.seconds:.0f}",
            )
            shutil.rmtree(root, ignore_errors=True)


def main(command: str, *rooms: str) -> None:
    check()
    if command == "run":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(("room", "fault", "found", "first failing test", "seconds"))
        for room in rooms or ROOMS:
            for row in run_room(room):
                writer.writerow(row)
                sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

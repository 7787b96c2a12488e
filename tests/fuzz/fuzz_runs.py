"""Mutates the files of a run folder at random and runs every verb that reads run folders.

    python tests/fuzz/fuzz_runs.py --seed 1 --count 5000 [--only 17] [--publish-every 250]

A verb may read a mutated folder, or reject it with exit code 2 and one paragraph. It fails if another
exception escapes, if it needs more than a second or 4 GB of memory, or if its process dies. The exit code is
1 if any verb failed. The same seed gives the same mutations; `--only` repeats one of them. The model folder
is not changed: `fuzz_models.py` mutates saved models.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import contextlib
import csv
import io
import json
import multiprocessing
import resource
import shutil
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.cli import main
from ltrbench.data.letor_lines import write_letor
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import LtrbenchError
from ltrbench.experiment.run import Experiment, run
from ltrbench.rankers import EarlyStopping
from ltrbench.rankers.lightgbm import LightGBMRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.runs import TrialRow

SECONDS = 1.0
"""Maximum processor time of a verb, which does not depend on the load of the machine."""
_PATIENCE = 20.0
_MEMORY = 4 * 2**30
DATA = "documents.txt"
SCORES = "scores.txt"

ODD_JSON = (
    *("null", "NaN", "-Infinity", "-1", "0", "1e308", "2.5", "1" * 400, "true", '""', '"text"', "[]", "{}"),
    *('"\\u001b[31m<script>alert(1)</script>|$x^$\\n\\u0000"', '"=1+1"', '"\\ud800"', '["a"]', '{"a": null}'),
    *("[" * 100_000 + "]" * 100_000, '{"a":' * 40 + "1" + "}" * 40, f'"{"x" * 100_000}"', "9" * 18),
)
ODD_CELLS = (
    *("", "nan", "inf", "-1", "1e999", "1e30", "text", "=1+1", "\x1b[31m<b>|$x^$", "\0", "x" * 200_000),
    *('"', "a,b", "a\nb", "1_0", "\ud83d".encode("utf-8", "surrogatepass").decode("latin-1"), "9" * 400),
)

SEARCH = {
    **{"name": "random", "seed": 0, "metric": "ndcg@10", "choose": "per_fold", "budget": {"trials": 3}},
    **{"space": {"l2": "0 to 2"}, "trials": 3, "failed": 0, "iterations": 12, "seconds": 3.0, "chosen": 1},
    **{
        "settings": {"l2": 1, "num_leaves": 4},
        "default": {"l2": 0, "num_leaves": 31},
        "importance": {"l2": 0.5},
    },
}
"""The search that chose the settings of a run; its trials vary l2."""

_OF_TWO_RUNS = ("were not made on the same data", "nothing is fused", "there is nothing to fuse")
"""Parts of the messages about runs that are readable but cannot be compared."""

Rng = np.random.Generator


def make_runs(folder: Path) -> None:
    """Writes two finished runs on a small data set, the documents of its test set, and their scores."""
    source = Synthetic(name="synthetic", num_queries=24)
    write_letor(source.load().test, folder / DATA)
    num_documents = source.load().test.num_documents
    (folder / SCORES).write_text("".join(f"{row % 7}\n" for row in range(num_documents)))
    boosted = LightGBMRanker(
        num_trees=4, num_leaves=4, early_stopping=EarlyStopping("ndcg@10", 3), num_threads=1
    )
    target = "ltrbench.rankers.lightgbm.LightGBMRanker"
    settings = {
        "model": {"_target_": target, "num_trees": 4, "early_stopping": {"metric": "ndcg@10"}},
        "data": {
            "name": "synthetic",
            "published": {
                "source": "A paper",
                "figures": {"x": {"ndcg@10": 0.5}},
                "convention": "lightgbm",
            },
        },
        "importance": {"metric": "ndcg@10"},
        "tracking": {"uri": "http://localhost:5000"},
    }
    trials = [
        TrialRow(n, "complete", 0.5, 4, 1.0, -0.1, 0.0, {"l2": str(n), "num_leaves": "4"}) for n in range(3)
    ]
    for name, ranker in (("lightgbm", boosted), ("random", RandomRanker(seed=1))):
        described = settings if name == "lightgbm" else {}
        searched: dict[str, Any] = {"search": SEARCH, "trials": trials} if described else {}
        experiment = Experiment(
            model=name,
            ranker=ranker,
            source=source,
            overrides=(f"model={name}",),
            config=described,
            **searched,
        )
        run(experiment, folder / "runs" / name)


# A mutation changes one file of a run and returns a description of the change.


def mutate(folder: Path, rng: Rng) -> str:
    kinds: dict[str, tuple[Callable[[Path, Rng], str], ...]] = {
        "result.json": (_odd_value, _odd_value, _odd_value, _lost_key),
        "scores.npz": (_odd_array, _odd_array, _forged_shape),
        **dict.fromkeys(
            ("per_query.csv", "learning_curve.csv", "importances.csv", "input_example.csv", "trials.csv"),
            (_odd_table,),
        ),
    }
    names = list(kinds)
    # The first two files contain most of the fields that readers validate.
    name = names[rng.choice(len(names), p=[0.45, 0.2, 0.05, 0.1, 0.1, 0.05, 0.05])]
    mutations = kinds[name]
    if rng.random() < 0.3:
        mutations = (_odd_bytes, _odd_bytes, _odd_place)
    return f"{name}: {mutations[rng.integers(len(mutations))](folder / name, rng)}"


def _odd_bytes(path: Path, rng: Rng) -> str:
    content = bytearray(path.read_bytes())
    start, end = sorted(rng.integers(0, len(content) + 1, 2).tolist())
    kind = ("flip", "truncate", "cut", "repeat", "empty", "noise")[rng.integers(6)]
    if kind == "flip":
        for place in rng.integers(0, len(content), rng.integers(1, 9)).tolist():
            content[place] ^= 1 << int(rng.integers(8))
    changed = {
        "flip": bytes(content),
        "truncate": bytes(content[:start]),
        "cut": bytes(content[:start] + content[end:]),
        "repeat": bytes(content[:end] + content[start:]),
        "empty": b"",
        "noise": rng.bytes(end - start),
    }[kind]
    path.write_bytes(changed)
    return f"{kind} {start}:{end}"


def _odd_place(path: Path, rng: Rng) -> str:
    """Replaces a file by something that is not a regular file."""
    path.unlink()
    kind = ("absent", "folder", "pipe", "link to itself", "link to nothing", "endless")[rng.integers(6)]
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind != "absent":
        path.symlink_to(
            {"link to itself": path.name, "link to nothing": "nothing", "endless": "/dev/zero"}[kind]
        )
    return kind


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*place, key)
        yield from _places(item, (*place, key))


def _picked(record: Any, rng: Rng) -> tuple[Any, Any, str]:
    """Returns a random place, at any depth with equal probability: its container, its key, and its name."""
    places = list(_places(record))
    depth = rng.integers(1, 1 + max(map(len, places)))
    *outer, key = [place for place in places if len(place) <= depth][
        rng.integers(sum(len(place) <= depth for place in places))
    ]
    inner = record
    for step in outer:
        inner = inner[step]
    return inner, key, ".".join(map(str, (*outer, key)))


def _odd_value(path: Path, rng: Rng) -> str:
    record = json.loads(path.read_text())
    inner, key, name = _picked(record, rng)
    odd = ODD_JSON[rng.integers(len(ODD_JSON))]
    inner[key] = "@odd@"
    path.write_text(json.dumps(record).replace('"@odd@"', odd))
    return f"{name} = {odd[:40]}"


def _lost_key(path: Path, rng: Rng) -> str:
    record = json.loads(path.read_text())
    inner, key, name = _picked(record, rng)
    value = inner.pop(key)
    if isinstance(inner, dict) and rng.random() < 0.5:
        inner[("", "\x1b[31m<i>|$_^$\n", "x" * 2000, f"{key}@0")[rng.integers(4)]] = value
        name += " renamed"
    path.write_text(json.dumps(record))
    return f"without {name}"


def _odd_table(path: Path, rng: Rng) -> str:
    rows = list(csv.reader(io.StringIO(path.read_text())))
    row, column = int(rng.integers(len(rows))), int(rng.integers(len(rows[0])))
    cell = ODD_CELLS[rng.integers(len(ODD_CELLS))]
    kind = ("cell", "cell", "cell", "short", "long", "lost", "twice", "only", "raw")[rng.integers(9)]
    if kind == "cell":
        rows[row][column] = cell
    elif kind == "short":
        rows[row].pop()
    elif kind == "long":
        rows[row].append(cell)
    elif kind == "lost":
        rows.pop(row)
    elif kind == "twice":
        rows.insert(row, rows[row])
    elif kind == "only":
        rows = rows[:1]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    path.write_text(
        cell.join((text.getvalue()[:row], text.getvalue()[row:])) if kind == "raw" else text.getvalue()
    )
    return f"{kind} {row},{column} {cell[:40]!r}"


def _odd_array(path: Path, rng: Rng) -> str:
    with np.load(path) as stored:
        arrays = dict(stored)
    name = list(arrays)[rng.integers(len(arrays))]
    array = arrays.pop(name)
    changes: dict[str, Callable[[], Any]] = {
        "absent": lambda: None,
        "empty": lambda: array[:0],
        "shorter": lambda: array[:-1],
        "longer": lambda: np.append(array, array[-1:]),
        "two dimensions": lambda: array.reshape(1, -1),
        "no dimension": lambda: array[0],
        "objects": lambda: array.astype(object),
        "text": lambda: np.array([str(item) for item in array.tolist()]),
        "odd text": lambda: np.full(array.shape, "\x1b[31m<b>|$x^$"),
        "no characters": lambda: np.full((len(array), 2), 0x7FFFFFFF, dtype=np.uint32).view("<U2")[:, 0],
        "complex": lambda: np.zeros(array.shape, dtype=np.complex128),
        "dates": lambda: np.zeros(array.shape, dtype="datetime64[s]"),
        "integers": lambda: np.arange(len(array), dtype=rng.choice(["i1", "u8", "i8"])),
        "float16": lambda: np.arange(len(array), dtype=np.float16),
        "reversed": lambda: array[::-1],
        "other endian": lambda: array.astype(array.dtype.newbyteorder()),
    }
    for value in (np.nan, np.inf, -np.inf, -1.0, 0.0, 0.5, 1e308, 5e-324):
        changes[f"one {value}"] = partial(_first_replaced, array, value)
        changes[f"all {value}"] = partial(np.full, array.shape, value)
    kind = list(changes)[rng.integers(len(changes))]
    changed = changes[kind]()
    if changed is not None:
        arrays[name] = changed
    np.savez(path, **arrays)  # object arrays are pickled
    return f"{name} {kind}"


def _first_replaced(array: NDArray[Any], value: float) -> NDArray[Any]:
    return np.append(value, np.arange(len(array) - 1.0))


def _forged_shape(path: Path, rng: Rng) -> str:
    """Writes an array whose declared size, dtype or version is wrong and whose checksum is valid."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = list(members)[rng.integers(len(members))]
    content = members[name]
    forged = (b"(1000000000000,)", b"(-1,)", b"(2, 3", b"(1e9,)", b"()", b"(0,)", b"(" + b"9" * 24 + b",)")
    shape = forged[rng.integers(len(forged))]
    end = content.index(b"\n")
    start = content.index(b"'shape': ") + 9
    header = (content[10:start] + shape + b", }").ljust(end - 10) + b"\n"
    members[name] = content[:8] + len(header).to_bytes(2, "little") + header + content[end + 1 :]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return f"{name} declares {shape.decode()}"


# Every verb that reads a run folder.


def verbs(folder: Path, number: int) -> dict[str, Callable[[], int]]:
    """Returns verb -> function that returns its exit code."""
    runs, mutated = str(folder / "runs"), str(folder / "runs" / "lightgbm")
    output = str(folder / "output")
    formats = ("trec-run", "qrels", "ranklib-idv", "scores")
    words = {
        "show": ["show", mutated],
        "show --json": ["show", mutated, "--json"],
        "compare": ["compare", runs, "--draws", "50"],
        "compare --json": ["compare", runs, "--draws", "50", "--json", "--fuse", "rrf"],
        "trees": ["trees", mutated],
        "predict": ["predict", mutated, str(folder / DATA)],
        "export": ["export", mutated, "--format", formats[number % 4]],
        "import": ["import", "other", str(folder / SCORES), "--like", mutated, "--output", output],
    }
    return {
        **{name: partial(main, arguments) for name, arguments in words.items()},
        "ui": lambda: _code(lambda: _look_for_store(Path(runs))),
        "mlflow": lambda: _code(lambda: _mirror(Path(mutated))),
    }


def _look_for_store(folder: Path) -> None:
    from ltrbench.cli.verbs.runs import _newest_store

    _newest_store(folder)


def _mirror(folder: Path) -> None:
    """Reads everything that the MLflow export needs, without sending it."""
    from ltrbench.runs import read_run
    from ltrbench.tracking.mlflow import read_all
    from ltrbench.tracking.mlflow_entities import run_inputs, run_params, run_tags

    finished = read_run(folder)
    read_all(finished)
    run_tags(finished, "parent")
    run_params(finished.result)
    run_inputs(finished.result)


def _code(call: Callable[[], None]) -> int:
    try:
        call()
    except LtrbenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _publish(folder: Path) -> int:
    """Publishes a comparison, which takes longer than a second."""
    return main(["compare", str(folder / "runs"), "--draws", "50", "--output", str(folder / "published")])


def judge(name: str, call: Callable[[], int], seconds: float, unnamed: bool = False) -> tuple[str, str]:
    """Returns "read", "refused" or "FAILED", and the reason.

    Args:
        unnamed: whether the error may omit the name of the damaged run.
    """
    output, errors = io.StringIO(), io.StringIO()
    begun = time.process_time()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            code = call()
    except BaseException as error:
        return "FAILED", f"{name}: {type(error).__name__}: {error}"
    taken = time.process_time() - begun
    message = errors.getvalue().strip()
    if taken > seconds:
        return "FAILED", f"{name}: took {taken:.1f} s"
    if "\x1b" in output.getvalue() + message:
        return "FAILED", f"{name}: printed a control character"
    if code == 0:
        return "read", ""
    if code == 2 and (unnamed or "/runs" in message or any(words in message for words in _OF_TWO_RUNS)):
        return "refused", message
    return "FAILED", f"{name}: exit code {code}: {message[-300:]}"


def work(connection: Connection, pristine: Path, seed: int, publish_every: int) -> None:
    """Runs the mutations whose numbers it receives, and sends their outcomes."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as place:
        for name, call in verbs(pristine, 0).items():  # imports and compiles
            outcome, reason = judge(name, call, 600)
            if outcome != "read":
                raise SystemExit(f"the pristine folder: {reason}")
        shutil.rmtree(pristine / "output", ignore_errors=True)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, most))
        connection.send(None)
        while (number := connection.recv()) is not None:
            folder = Path(place, str(number))
            shutil.copytree(pristine, folder)
            what = mutate(folder / "runs" / "lightgbm", np.random.default_rng([seed, number]))
            connection.send(what)
            # A folder without result.json is not a run, and is not read.
            unnamed = what == "result.json: absent"
            outcomes = [judge(name, call, SECONDS, unnamed) for name, call in verbs(folder, number).items()]
            if number % publish_every == 0:
                outcomes.append(judge("compare --output", partial(_publish, folder), 600))
            connection.send(outcomes)
            shutil.rmtree(folder)


class Worker:
    """Worker process that restarts after a mutation ended it."""

    def __init__(self, *given: Any) -> None:
        self._given = given
        self._start()

    def _start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._connection, theirs = spawn.Pipe()
        self._process = spawn.Process(target=work, args=(theirs, *self._given), daemon=True)
        self._process.start()
        theirs.close()
        self._connection.recv()

    def judge(self, number: int) -> tuple[str, list[tuple[str, str]]]:
        self._connection.send(number)
        what = self._connection.recv()
        try:
            if self._connection.poll(_PATIENCE):
                return what, self._connection.recv()
            reason = f"hangs for {_PATIENCE:.0f} s"
        except EOFError:
            reason = "its process died"
        self._process.kill()
        self._start()
        return what, [("FAILED", reason)]

    def end(self) -> None:
        self._connection.send(None)
        self._process.join()


def run_corpus(seed: int, numbers: range, publish_every: int) -> int:
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        pristine = Path(place, "pristine")
        pristine.mkdir()
        make_runs(pristine)
        worker = Worker(pristine, seed, publish_every)
        for number in numbers:
            what, outcomes = worker.judge(number)
            kinds = {outcome for outcome, _ in outcomes}
            worst = next(kind for kind in ("FAILED", "refused", "read") if kind in kinds)
            counts[worst] += 1
            for reason in sorted({reason for outcome, reason in outcomes if outcome == worst == "FAILED"}):
                print(f"{number} {what!r}\n    {reason}", flush=True)
            if len(numbers) == 1:
                print(what, *outcomes, sep="\n")
        worker.end()
    outcomes_of = ", ".join(f"{counts[kind]} {kind}" for kind in ("refused", "read", "FAILED"))
    print(f"seed {seed}: {len(numbers)} mutations, {outcomes_of}")
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--only", type=int, help="the number of one mutation")
    parser.add_argument("--publish-every", type=int, default=250, help="how often files are written as well")
    given = parser.parse_args()
    chosen = range(given.count) if given.only is None else range(given.only, given.only + 1)
    sys.exit(run_corpus(given.seed, chosen, given.publish_every))

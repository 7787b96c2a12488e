"""Mutates saved models in ltrbench's own formats: each is rejected, or predicts like a valid model.

    python tests/fuzz/fuzz_models.py [--seed 1] [--count 5000] [--backend native] [--number 17]

Half of the mutations change models of native: its arrays, and the bytes of its archive. The others change the
settings. The digest of a model file is recomputed, except in one of twenty mutations, because an attacker can
do so as well. Files of LightGBM, XGBoost and CatBoost are read by these libraries, and not mutated.

A mutation depends only on the seed and its number: `--number 17` repeats it. Separate processes load the
models in batches, so that a crash or a hang affects only one model. Prints the number of mutations that were

    refused    rejected with an error of ltrbench of one paragraph
    harmless   finite scores, importances and contributions, equal after loading twice
    failed     a crash, a hang, another exception, or scores that are not finite or differ

and every failed mutation, with exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import json
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ltrbench.data.synthetic import make_synthetic
from ltrbench.errors import LtrbenchError
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import contributions_of, importance_of, trees_of
from ltrbench.rankers.library import model_digest
from ltrbench.rankers.native import NativeRanker
from ltrbench.rankers.random import RandomRanker
from ltrbench.rankers.saved import load_ranker
from ltrbench.rankers.single_feature import SingleFeatureRanker

Rng = np.random.Generator

BATCH = 250
SECONDS = 10
"""Time limit for loading a mutated model and predicting; a valid model takes a tenth of a second."""
MEMORY = 8 * 2**30
MARK = "@ "
"""Prefix of the output lines of a worker, because libraries print lines as well."""

BACKENDS: dict[str, Callable[[], Ranker]] = {
    "native": lambda: NativeRanker(num_trees=6, num_leaves=9),
    "native_positions": lambda: NativeRanker(num_trees=3, num_leaves=5, position_bias="additive"),
    "random": RandomRanker,
    "single_feature": SingleFeatureRanker,
}
SHARES = (0.6, 0.2, 0.1, 0.1)


# Mutations


def mutate(rng: Rng, folder: Path) -> str:
    """Changes a saved model; returns a description of the change."""
    settings = next(folder.glob("*.json"))
    models = [path for path in folder.iterdir() if path != settings]
    if not models or rng.random() < 0.15:
        return f"{settings.name}: {mutate_json(rng, settings)}"
    (model,) = models
    if model.suffix == ".npz" and rng.random() < 0.8:
        change = mutate_arrays(rng, model)
    else:
        content, change = mutate_bytes(rng, model.read_bytes())
        model.write_bytes(content)
    if rng.random() < 0.05:
        return f"{model.name}: {change}, digest as before"
    content_of_settings = json.loads(settings.read_text())
    content_of_settings["model_digest"] = model_digest(model.read_bytes())
    settings.write_text(json.dumps(content_of_settings))
    return f"{model.name}: {change}"


def mutate_arrays(rng: Rng, path: Path) -> str:
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    changes = []
    for _ in range(rng.integers(1, 3, endpoint=True)):
        name = str(rng.choice(list(arrays)))
        how = MUTATIONS_OF_ARRAYS[rng.integers(len(MUTATIONS_OF_ARRAYS))]
        with contextlib.suppress(IndexError, ValueError, TypeError, OverflowError):
            # Impossible changes are skipped, such as changing an element of an empty array.
            arrays[name] = how(rng, arrays[name])
            changes.append(f"{name} {how.__name__}")
    if rng.random() < 0.05:
        changes.append(f"without {name}")
        del arrays[name]
    content = io.BytesIO()
    save = np.savez_compressed if rng.random() < 0.1 else np.savez
    save(content, **arrays)
    path.write_bytes(content.getvalue())
    return ", ".join(changes)


def element(rng: Rng, array: NDArray[Any]) -> NDArray[Any]:
    changed = array.copy()
    changed.flat[rng.integers(array.size)] = interesting(rng, array)
    return changed


def elements(rng: Rng, array: NDArray[Any]) -> NDArray[Any]:
    chosen = rng.random(array.shape) < 0.2
    changed = array.copy()
    changed[chosen] = interesting(rng, array)
    return changed


def swapped(rng: Rng, array: NDArray[Any]) -> NDArray[Any]:
    one, other = rng.integers(array.size, size=2)
    changed = array.copy()
    changed.flat[[one, other]] = array.flat[[other, one]]
    return changed


def shuffled(rng: Rng, array: NDArray[Any]) -> NDArray[Any]:
    return rng.permutation(array)


def shortened(rng: Rng, array: NDArray[Any]) -> NDArray[Any]:
    return array[: rng.integers(array.size)]


def lengthened(rng: Rng, array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, array[: rng.integers(1, array.size, endpoint=True)]])


def shifted(rng: Rng, array: NDArray[Any]) -> NDArray[Any]:
    return np.roll(array, rng.integers(1, array.size))


def of_other_dtype(rng: Rng, array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(
        str(rng.choice(["i1", "i4", "i8", "u4", "u8", "f2", "f4", "f8", "?", "U7", "O", ">i4"]))
    )


def of_other_shape(rng: Rng, array: NDArray[Any]) -> NDArray[Any]:
    shapes = (array[:, None], array[None], np.array(array[0]), np.stack([array, array]))
    return shapes[rng.integers(len(shapes))]


MUTATIONS_OF_ARRAYS = (
    element,
    element,
    element,
    elements,
    swapped,
    shuffled,
    shortened,
    lengthened,
    shifted,
    of_other_dtype,
    of_other_shape,
)


def interesting(rng: Rng, array: NDArray[Any]) -> Any:
    """Returns a value of the array's dtype: a limit of the dtype, near a value of the array, or special."""
    if array.dtype.kind == "f":
        most = np.finfo(array.dtype).max
        return rng.choice([np.nan, np.inf, -np.inf, most, -most, 1e-300, 0.0, -0.0, 1.0])
    if array.dtype.kind == "i":
        limits, near = np.iinfo(array.dtype), int(rng.choice(array.ravel()))
        return rng.choice(
            [
                limits.max,
                limits.min,
                -1,
                0,
                1,
                -7,
                45,
                100_000,
                near - 1,
                near + 1,
                array.size,
                array.size - 1,
            ]
        )
    if array.dtype.kind == "U":
        return str(rng.choice(["", "1", "\x1b[2J", "a" * 300, "\U0010ffff"]))
    return rng.choice(array.ravel())


def mutate_bytes(rng: Rng, content: bytes) -> tuple[bytes, str]:
    changed, place = bytearray(content), int(rng.integers(len(content)))
    kind = rng.integers(6)
    if kind == 0:
        for each in rng.integers(len(content), size=rng.integers(1, 4, endpoint=True)):
            changed[each] ^= 1 << int(rng.integers(8))
        return bytes(changed), "bits flipped"
    if kind == 1:
        del changed[place:]
        return bytes(changed), f"cut at {place}"
    if kind == 2:
        length = int(rng.integers(1, 64))
        del changed[place : place + length]
        return bytes(changed), f"{length} bytes removed at {place}"
    if kind == 3:
        source, length = int(rng.integers(len(content))), int(rng.integers(1, 256))
        changed[place:place] = content[source : source + length]
        return bytes(changed), f"{length} bytes from {source} inserted at {place}"
    if kind == 4:
        values = [2**31 - 1, 2**31, 2**32 - 1, 0, 1, 45, 100_000, 0x7F800000, 0x7FC00000]
        value = int(rng.choice(values))
        changed[place : place + 4] = struct.pack("<I" if rng.random() < 0.5 else ">I", value)
        return bytes(changed), f"{value} written at {place}"
    length = int(rng.integers(1, 9))
    changed[place : place + length] = rng.bytes(length)
    return bytes(changed), f"{length} random bytes at {place}"


def mutate_json(rng: Rng, path: Path) -> str:
    if rng.random() < 0.3:
        content, change = mutate_bytes(rng, path.read_bytes())
        path.write_bytes(content)
        return change
    record = json.loads(path.read_text())
    place = record
    while True:
        name = str(rng.choice(list(place)))
        if not (isinstance(place[name], dict) and place[name]) or rng.random() < 0.1:
            break
        place = place[name]
    if rng.random() < 0.15:
        del place[name]
        path.write_text(json.dumps(record))
        return f"without {name}"
    value = VALUES[rng.integers(len(VALUES))]
    place[name] = value
    path.write_text(json.dumps(record))
    return f"{name} is {json.dumps(value)[:40]}"


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**31, -(2**63), 10**400, 0.5, 1e308, float("nan"), float("inf")),
    *(
        "",
        "1",
        "\x1b[2J",
        "\ud800",
        "/etc/passwd",
        [],
        [1],
        ["a"],
        {},
        {"a": 1},
        [[]],
        nested(60),
        nested(900),
    ),
]


# Outcome of a mutation


class Workplace:
    """Saved models to mutate, and documents to predict."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.features = np.load(folder / "features.npy") if (folder / "features.npy").exists() else None

    def fill(self) -> None:
        """Fits and saves every backend."""
        train = make_synthetic(num_queries=20, seed=1)
        clicked = replace(train, positions=train.ranks_of_rows)
        rng = np.random.default_rng(0)
        features = train.features[:300].copy()
        features[rng.random(features.shape) < 0.1] = np.nan
        features[:10] = np.finfo(np.float32).max
        features[10:20] = np.finfo(np.float32).min
        np.save(self.folder / "features.npy", features)
        for name, make in BACKENDS.items():
            (self.folder / name).mkdir()
            make().fit(clicked if "positions" in name else train).save(self.folder / name)

    def mutated(self, seed: int, number: int, backend: str | None) -> tuple[str, str, Path]:
        """Returns the backend, the change, and the folder of the changed model."""
        rng = np.random.default_rng([seed, number])
        name = str(rng.choice(list(BACKENDS), p=SHARES))
        name = backend or name
        folder = self.folder / "mutated"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / name, folder)
        return name, mutate(rng, folder), folder


def judge(kind: type[Ranker], folder: Path, features: NDArray[np.float32]) -> str:
    """Returns the outcome for a mutated model."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            one, other = (use(kind, folder, features) for _ in range(2))
    except LtrbenchError as error:
        return "refused" if "\n\n" not in str(error) else f"failed: more than a paragraph: {error}"
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"
    # The feature of a single_feature model may be missing: such documents rank last.
    if not (np.isfinite(one[0]) | (kind is SingleFeatureRanker) & (one[0] == -np.inf)).all():
        return "failed: scores are not finite"
    if any(not np.array_equal(left, right, equal_nan=True) for left, right in zip(one, other, strict=True)):
        return "failed: scores differ"
    return "harmless"


def use(kind: type[Ranker], folder: Path, features: NDArray[np.float32]) -> list[NDArray[Any]]:
    """Returns scores, importances and contributions of a saved model."""
    ranker = load_ranker(f"{kind.__module__}.{kind.__name__}", folder)
    results = [ranker.predict(features), *importance_of(ranker).values()]
    explained = contributions_of(ranker, features[:20])
    if explained is not None:
        results.append(explained)
    with contextlib.suppress(LtrbenchError):  # only tree backends have trees
        trees_of(ranker)
    return results


def work(folder: Path, seed: int, backend: str | None) -> None:
    """Runs the mutations whose numbers are in a file, and prints the start and the outcome of each."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    place = Workplace(folder)
    assert place.features is not None
    for number in map(int, (folder / "numbers").read_text().split()):
        name, change, mutated = place.mutated(seed, number, backend)
        print(MARK + json.dumps([number, name, change]), flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        outcome = judge(type(BACKENDS[name]()), mutated, place.features)
        faulthandler.cancel_dump_traceback_later()
        print(MARK + json.dumps(outcome), flush=True)


def outcomes(
    folder: Path, seed: int, numbers: list[int], backend: str | None, script: str
) -> Iterator[tuple[int, str, str, str]]:
    """Yields the number, backend, change and outcome of each mutation; processes of a script run one after
    another."""
    left = numbers
    while left:
        (folder / "numbers").write_text(" ".join(map(str, left[:BATCH])))
        command = [sys.executable, script, "--seed", str(seed), "--work", str(folder)]
        done = subprocess.run(
            command + ([] if backend is None else ["--backend", backend]),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        lines = [line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK)]
        records = [json.loads(line) for line in lines]
        judged = 0
        for begun, outcome in zip(records[::2], [*records[1::2], _death(done)], strict=False):
            judged += 1
            yield *begun, outcome
        if judged == 0:
            raise RuntimeError(f"a process ran no mutation: {done.stderr}")
        left = left[judged:]


def _death(done: subprocess.CompletedProcess[str]) -> str:
    if "Timeout" in done.stderr:
        return f"failed: hangs for {SECONDS} s"
    return f"failed: the process died with {done.returncode}: {done.stderr.strip()[-300:]}"


def main() -> int:
    return fuzz(__doc__.splitlines()[0], list(BACKENDS), lambda folder: Workplace(folder).fill(), work)


def fuzz(
    description: str,
    backends: Sequence[str],
    fill: Callable[[Path], None],
    work: Callable[[Path, int, str | None], None],
    script: str = __file__,
) -> int:
    """Runs a fuzzer from its command line; returns the exit code.

    Args:
        fill: writes the models to a folder.
        work: judges the mutations whose numbers are in a folder, in a process of its own.
        script: file of the fuzzer, which that process runs.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--number", type=int, help="only this mutation")
    parser.add_argument("--backend", choices=backends, help="mutate its models only")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work is not None:
        work(given.work, given.seed, given.backend)
        return 0
    counts: dict[str, Counter[str]] = {name: Counter() for name in backends}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder)
        numbers = list(range(given.count)) if given.number is None else [given.number]
        for number, backend, change, outcome in outcomes(folder, given.seed, numbers, given.backend, script):
            kind = outcome.partition(":")[0]
            counts[backend][kind] += 1
            if kind == "failed" or given.number is not None:
                print(f"{number} {backend}, {change}: {outcome}", flush=True)
    return report(counts)


def report(counts: dict[str, Counter[str]]) -> int:
    """Prints one line per backend and the totals; returns the exit code."""
    total: Counter[str] = sum(counts.values(), Counter())
    print(f"{'mutations of':24}{'refused':>10}{'harmless':>10}{'failed':>10}")
    for name, of_backend in [*counts.items(), ("all", total)]:
        print(f"{name:24}" + "".join(f"{of_backend[kind]:10,}" for kind in ("refused", "harmless", "failed")))
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""Mutates LETOR text, and checks that each file gives the data or the error of the specification.

    python tests/fuzz/fuzz_letor.py [--seed 1] [--count 15000] [--number 17]

A case is one or two files of lines as published, with tokens repeated, bytes changed and numbers written in
many ways, sometimes a companion file, and random options of the reader. The reader parses the case by its
kernels, on two threads, in units of a few bytes to all bytes, half of the cases as sparse features; and again
as dense features with every line left to `parse_line`, the specification. A case depends only on the seed and
its number: `--number 17` repeats it. Prints the number of cases that gave data and that gave an error, and
every case whose two outcomes differ, with exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ltrbench.data import blocks
from ltrbench.data.letor import read_letor, read_letor_features
from ltrbench.errors import DataError

Rng = np.random.Generator

LINES = (
    b"0 qid:10 1:0.000000 2:0.666667 40:1.000000 #docid = GX000-24-12369390 inc = 0.6 prob = 0.1\n",
    b"2 qid:10 1:0.031310 2:0.5 46:1e-05 # docid = clueweb09-en0003-55-31884 \r\n",
    b"2 qid:1 1:3 2:3 3:0 4:-14.73 136:0\n",
    b"2 qid:11 1:3 2:3 3:0 4:-14.73 136:0\n",
    b"1 0.5 qid:q-7 1:0.25 2:nan\n",
    b"3 10:0.89 11:0.75 300:0.01\n",
    b"qid:7 1:0.5 2:0.3 # doc\n",
    b"1:0.5 2:0.3\r\n",
    b"0 qid:\xc3\xa9 1:0.30000000000000004 7:1.79769313486232e+308 #docid = \xc3\xa9t\xc3\xa9\n",
    b"# comment\n",
    b"\n",
)
NUM_THREADS = 2  # even if the machine has fewer cores
LABELLED = (0, 1, 2, 3, 8, 9, 10)  # with a qid and without a weight
BYTES = b"0123456789.:+-eE qidnaNd#=\t\r\n\v\f\x00\x1f\x7f\xff\xa0\xc3\xa9"


@dataclass(frozen=True)
class Case:
    """Contents of the files, sizes of the queries or None, bytes of a unit, and options of the reader."""

    texts: list[bytes]
    query_sizes: bytes | None
    unit_bytes: int
    options: dict[str, Any] = field(default_factory=dict)


def make_case(seed: int, number: int) -> Case:
    rng = np.random.default_rng([seed, number])
    texts = [_mutated(rng, _lines(rng)) for _ in range(1 + (rng.random() < 0.2))]
    sizes = b"".join(b"%d\n" % size for size in rng.integers(1, 4, rng.integers(1, 4)).tolist())
    return Case(
        texts=texts,
        query_sizes=sizes if rng.random() < 0.15 else None,
        unit_bytes=int(rng.choice([7, 60, 200, 1 << 22])),
        options={
            "num_features": [None, 1000, 136][rng.integers(3)],
            "first_index": int(rng.integers(2)),
            "absent": [0.0, -0.0, float("nan")][rng.integers(3)],
            "overflow": ["refuse", "cap", "missing", "missing"][rng.integers(4)],
            "sort_queries": bool(rng.random() < 0.7),
            "whole_labels": bool(rng.random() < 0.2),
            "sparse": bool(rng.random() < 0.5),
        },
    )


def _lines(rng: Rng) -> bytes:
    # Mostly lines that can be in one file.
    alike = [range(len(LINES)), LABELLED, [4], [5, 9], [6, 9]][rng.choice(5, p=[0.1, 0.6, 0.1, 0.1, 0.1])]
    kinds = sorted(rng.choice(alike, size=rng.integers(1, 9)).tolist())
    text = b"".join(LINES[kind] for kind in kinds)
    for _ in range(rng.integers(3)):
        text = text.replace(b"0.5", number_text(rng), 1)
    return text if rng.random() < 0.8 else text.rstrip(b"\r\n")


def number_text(rng: Rng) -> bytes:
    """Returns a number with 1 to 30 digits, or one at the border between two numbers of float32."""
    if rng.random() < 0.3:
        return b"%d%s" % (
            2 * rng.integers(2**23, 2**24) + 1,
            [b"", b".0", b"e0", b".00000000000000001"][rng.integers(4)],
        )
    digits = b"".join(b"%d" % digit for digit in rng.integers(10, size=rng.integers(1, 31)).tolist())
    point = int(rng.integers(len(digits) + 1))
    exponent = b"e%d" % rng.integers(-330, 330) if rng.random() < 0.5 else b""
    return [b"", b"-", b"+"][rng.integers(3)] + digits[:point] + b"." + digits[point:] + exponent


def _mutated(rng: Rng, text: bytes) -> bytes:
    if rng.random() < 0.15:
        tokens = text.split(b" ")
        place = int(rng.integers(len(tokens)))
        text = b" ".join([*tokens[: place + 1], *tokens[place:]])
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        start = int(rng.integers(len(text) + 1))
        put_in = bytes(rng.choice(list(BYTES), size=rng.integers(3)).tolist())
        text = text[:start] + put_in + text[start + int(rng.integers(3)) :]
    return text


def outcomes(case: Case, folder: Path) -> list[object]:
    """Returns the content of the data set and of the features alone, or the text of the DataError."""
    paths = [folder / f"part{number}.txt" for number in range(len(case.texts))]
    for path, text in zip(paths, case.texts, strict=True):
        path.write_bytes(text)
        companion = path.with_name(f"{path.name}.query")
        companion.unlink(missing_ok=True)
        if case.query_sizes is not None:
            companion.write_bytes(case.query_sizes)
    blocks.UNIT_BYTES = case.unit_bytes
    blocks.available_cores = lambda: NUM_THREADS  # type: ignore[attr-defined]
    alone = {
        name: case.options[name] for name in ("num_features", "first_index", "absent", "overflow", "sparse")
    }
    return [_of_dataset(paths, case.options), _of_features(paths, alone)]


def _of_dataset(paths: list[Path], options: dict[str, Any]) -> object:
    try:
        data = read_letor(paths, **options)
    except DataError as error:
        return str(error)
    arrays = (np.asarray(data.features), data.labels, data.query_start, data.query_ids, data.query_weights)
    others = (data.document_weights, data.document_ids, data.file_rows)
    contents = [None if a is None else (a.dtype.str, a.shape, a.tobytes()) for a in (*arrays, *others)]
    return contents, data.feature_names


def _of_features(paths: list[Path], options: dict[str, Any]) -> object:
    try:
        features = read_letor_features(paths, **options)
    except DataError as error:
        return str(error)
    return features.shape, np.asarray(features).tobytes()


def by_specification(case: Case, folder: Path) -> list[object]:
    """Returns the outcomes if the kernel accepts no line."""
    from ltrbench.data import letor_kernels

    parse_lines = letor_kernels.parse_lines

    def leave(text: Any, cursor: Any, *_: object) -> int:
        return letor_kernels.ODD_LINE if cursor[0] < len(text) else letor_kernels.BLOCK_END

    letor_kernels.parse_lines = leave  # type: ignore[assignment]
    try:
        return outcomes(replace(case, options={**case.options, "sparse": False}), folder)
    finally:
        letor_kernels.parse_lines = parse_lines


def main() -> int:
    faulthandler.enable()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=15_000)
    parser.add_argument("--number", type=int, help="only this case")
    arguments = parser.parse_args()
    numbers = range(arguments.count) if arguments.number is None else [arguments.number]
    kinds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        for number in numbers:
            case = make_case(arguments.seed, number)
            usual, plain = outcomes(case, Path(name)), by_specification(case, Path(name))
            kinds.update("error" if isinstance(outcome, str) else "data" for outcome in usual)
            if usual != plain:
                kinds["different"] += 1
                print(f"case {number} differs: {case}\n  kernels: {usual}\n  specification: {plain}")
    print(", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    return int(kinds["different"] > 0)


if __name__ == "__main__":
    sys.exit(main())

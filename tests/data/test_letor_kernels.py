"""Kernels of the LETOR reader: every text gives the result of the specification, or its error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ltrbench.compilation import config
from ltrbench.data import blocks, letor, letor_kernels, read_letor
from ltrbench.data.letor import OVERFLOWS, read_letor_features
from ltrbench.errors import DataError

EXAMPLES = 10 if config.DISABLE_JIT else 100

ORDINARY = st.sampled_from(b"0 0.000000 0.5 12 -3.25 +1 1e-5 2E+3 .5 5.".split())
ODD = st.sampled_from(
    [
        b"",
        *b"007 -0.0 1e38 3.5e38 1e400 -1e39 1e-60 nan inf 1_0 0x1 1.2.3 1e - 1-2 e5".split(),
    ]
)
BLANKS = st.sampled_from([b" ", b" ", b" ", b"\t", b"  "])
PLAIN_LABELS = st.sampled_from([b"0", b"2", b"1.5"])
ODD_LABELS = st.sampled_from([b"-1", b"1e999", b"-0", b"nan"])
WEIGHTS = st.sampled_from([b"", b"", b"1", b"0.5", b"0", b"-1", b"inf", b"1e999", b"w"])
QUERIES = st.sampled_from([b"1", b"10", b"A-7", b"q:1", b"10", b"\xc3\xa9"])
COMMENTS = st.sampled_from(
    [
        b"",
        b"#docid = GX1 inc = 1",
        b" # docid = a#b",
        b"#",
        b" # caf\xc3\xa9",
        b" #\xff",
    ]
)
ODD_BYTES = st.sampled_from(
    [bytes([byte]) for byte in b"0123456789.:+-eE qidn#\t\r\n\v\x00\x1f\x7f\xff\xa0"]
)
WIDTH = 40


ODD_PARTS = st.sampled_from(
    ["", "labels", "no label", "some labels", "weights", "no qid", "indices", "values"]
)


@st.composite
def letor_lines(draw: st.DrawFn, odd: str = "") -> bytes:
    """Generates realistic lines in which the part `odd` is unusual."""
    labels = PLAIN_LABELS | ODD_LABELS if odd == "labels" else PLAIN_LABELS
    values = ORDINARY | ODD if odd == "values" else ORDINARY
    ascending = st.sets(st.integers(1, WIDTH), max_size=5).map(sorted)
    indices = (
        st.lists(st.integers(0, WIDTH), max_size=3) if odd == "indices" else ascending
    )
    lines = []
    for query in draw(st.lists(QUERIES, min_size=1, max_size=5)):
        pieces = [
            draw(labels),
            draw(WEIGHTS) if odd == "weights" else b"",
            b"qid:" + query,
        ]
        if odd == "no qid" and draw(st.booleans()):
            pieces = pieces[:1]
        if odd == "no label" or (odd == "some labels" and draw(st.booleans())):
            pieces = pieces[1:]
        pieces += [b"%d:%b" % (index, draw(values)) for index in draw(indices)]
        lines.append(
            b"".join(piece + draw(BLANKS) for piece in pieces if piece) + draw(COMMENTS)
        )
    return draw(st.sampled_from([b"\n", b"\r\n"])).join(lines) + draw(
        st.sampled_from([b"", b"\n", b"\r\n"])
    )


@st.composite
def damaged_lines(draw: st.DrawFn) -> bytes:
    """Generates such lines with a few bytes replaced, inserted or removed."""
    text = draw(letor_lines(draw(ODD_PARTS)))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        text = (
            text[:start]
            + draw(ODD_BYTES | st.just(b""))
            + text[start + draw(st.integers(0, 2)) :]
        )
    return text


NUMBERS = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**24) | st.integers(0, 10**18) | st.integers(0, 999),
    st.sampled_from([".", ""]),
    st.text("0123456789", max_size=25),
    st.sampled_from(["", "e"]).flatmap(
        lambda e: st.integers(-400, 400).map(lambda n: e and f"{e}{n}")
    ),
).map(str.encode)
"""Numbers of any length, most of which no single operation on doubles can round correctly."""
MIDPOINTS = st.builds(
    lambda bits, step: b"%d" % (2 * bits + 1 + step) if step else b"%d.5" % bits,
    st.integers(2**23, 2**24 - 1),
    st.sampled_from([-1, 0, 1]),
)
"""Numbers halfway between two of float32, and their neighbours."""


@st.composite
def lines_of_numbers(draw: st.DrawFn) -> bytes:
    """Generates lines whose label, weight and values are written in many ways."""
    numbers = (
        NUMBERS
        | MIDPOINTS
        | st.floats(width=32).map(lambda value: repr(value).encode())
        | st.floats(-1e300, 1e300).map(lambda value: b"%.17e" % value)
        | st.floats(-9, 9).map(lambda value: repr(value).encode())
    )
    values = draw(st.lists(numbers, max_size=6))
    head = (
        draw(st.sampled_from([b"1 qid:1", b"1 2 qid:1"]))
        if draw(st.booleans())
        else draw(numbers) + b" qid:1"
    )
    return (
        b" ".join(
            [
                head,
                *(b"%d:%b" % (index, value) for index, value in enumerate(values, 1)),
            ]
        )
        + b"\n"
    )


@contextmanager
def by_specification() -> Iterator[None]:
    """Leaves every line to the specification."""

    def leave(text: NDArray[np.uint8], cursor: NDArray[np.int64], *_: object) -> bool:
        return bool(cursor[0] < len(text))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor_kernels, "parse_lines", leave)
        yield


def outcome(
    files: list[Path], options: dict[str, Any], sparse: bool = False
) -> list[object]:
    """Returns the data of files, and their features as read for prediction; a DataError as its text."""
    read: list[object] = []
    try:
        data = read_letor(files, sparse=sparse, **options)
        read += [data.fingerprint, data.document_ids, data.file_rows]
    except DataError as error:
        read.append(str(error))
    for_prediction = {
        name: value for name, value in options.items() if name not in OF_LABELS
    }
    try:
        read.append(
            np.asarray(
                read_letor_features(files, sparse=sparse, **for_prediction)
            ).tobytes()
        )
    except DataError as error:
        read.append(str(error))
    # Wrong counts of the first pass would end so, whoever parses the lines.
    assert not any(isinstance(part, str) and "changed while" in part for part in read)
    return [part.tolist() if isinstance(part, np.ndarray) else part for part in read]


OF_LABELS = ("sort_queries", "whole_labels")
OPTIONS = st.fixed_dictionaries(
    {
        "num_features": st.sampled_from([None, WIDTH, WIDTH // 2, 1000]),
        "first_index": st.sampled_from([1, 1, 0]),
        "absent": st.sampled_from([0.0, -0.0, math.nan]),
        "overflow": st.sampled_from(OVERFLOWS),
        "sort_queries": st.booleans(),
        "whole_labels": st.booleans(),
        "exact": st.booleans(),
    }
)
TEXTS = (
    damaged_lines()
    | lines_of_numbers()
    | st.sampled_from(["", "weights"]).flatmap(letor_lines)
)


@pytest.mark.slow
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=2),
    options=OPTIONS,
    sizes=st.none() | st.just(b"2\n1\n"),
)
@settings(deadline=None, max_examples=EXAMPLES)
def test_files_give_the_specifications_result_or_its_error(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[bytes],
    options: dict[str, Any],
    sizes: bytes | None,
) -> None:
    folder = tmp_path_factory.mktemp("letor")
    files = [folder / f"{number}.txt" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_bytes(text)
        if sizes is not None:
            file.with_name(f"{file.name}.query").write_bytes(sizes)
    usual = outcome(files, options)
    assert outcome(files, options, sparse=True) == usual
    with by_specification():
        assert outcome(files, options) == usual
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "UNIT_BYTES", 60)  # one to a few lines a unit
        assert outcome(files, options, sparse=True) == usual


def test_real_lines_are_read_by_the_kernel_as_the_specification_reads_them(
    letor_data: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = letor_data("MQ2008") / "Fold1" / "vali.txt"
    with by_specification():
        expected = outcome([file], {})
    monkeypatch.setattr(
        letor, "parse_line", lambda line, *_: pytest.fail(f"left to it: {line!r}")
    )
    assert outcome([file], {}) == expected
    assert read_letor(file).num_features == 46

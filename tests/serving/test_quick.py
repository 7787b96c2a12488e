"""The quick reader: the same requests and the same refusals as the exact reader, for any bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltrbench.serving.quick import QuickReader
from ltrbench.serving.requests import RankRequest, RefusedRequestError, RequestLimits, RequestReader

# Also names of which one begins with another one, and a name that is a field of a document.
NAMES = ("bm25", "bm", "größe", "features", "b")
EXACT = RequestReader(NAMES, RequestLimits(num_documents=4, num_bytes=100_000))
QUICK = QuickReader(EXACT)
ROW = dict.fromkeys(NAMES, 1.5)


def outcome(read: Callable[[bytes], RankRequest], body: bytes) -> Any:
    """Returns all of a request, its features by their bits, or all of its refusal."""
    try:
        request = read(body)
    except RefusedRequestError as error:
        return error.status, error.place, str(error)
    features = request.features
    # All NaN are the same missing value; +0 and -0 are different.
    bits = np.where(np.isnan(features), np.float32(np.nan), features).tobytes()
    return request.query, [(type(i), i) for i in request.ids], features.dtype, features.shape, bits


def body_of(*features: str, ids: tuple[str, ...] = ()) -> bytes:
    """Returns a body with these features, which are JSON, and by default with the ids 0, 1, ..."""
    ids = ids or tuple(map(str, range(len(features))))
    documents = [f'{{"id": {i}, "features": {row}}}' for i, row in zip(ids, features, strict=True)]
    return f'{{"query": "q", "documents": [{", ".join(documents)}]}}'.encode()


def by_name(values: dict[str, str]) -> str:
    return "{" + ", ".join(f'"{name}": {value}' for name, value in values.items()) + "}"


def with_value(value: str) -> bytes:
    """Returns a body with two documents of this value, one by name and one as a list."""
    return body_of(by_name(dict.fromkeys(NAMES, value)), f"[{', '.join([value] * len(NAMES))}]")


NUMBERS = (
    st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr)
    | st.integers(-(2**70), 2**70).map(str)
    | st.from_regex(r"\A-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?\Z")
    | st.sampled_from(["-0", "-0.0", "0e9", "-0e-9", "3.4028235677973366e38", "3.4028236e38", "1e-46"])
)
WRONG = (
    "|01|-01|00|1.|.5|1.e5|1e|1e+|1e+-5|-.5|-|+|+1|1,5|0x1|1_0|1e999|-1e999|1e39|1\x00|1\x0b|\u0661|nul|nulll|Null|"
    'NaN|Infinity|-Infinity|nan|true|false|"1"|[]|{}|[1]|{"a":1}'
)
NOT_NUMBERS = st.sampled_from(WRONG.split("|"))
SPACE = st.sampled_from(["", " ", "\n", "\t\r\n  ", "\x0b", "\x00", "\N{NO-BREAK SPACE}"])


@pytest.mark.parametrize("value", ["null", "0", "-0", "-0.0", "12", "-1.25", "1E+2", "5e-324", "1e-400"])
def test_usual_numbers_need_no_exact_reader(value: str) -> None:
    request = QUICK.read_usual(with_value(value))
    assert request is not None
    expected = np.full((2, len(NAMES)), np.float32(np.nan if value == "null" else json.loads(value)))
    assert request.features.tobytes() == expected.tobytes()


@pytest.mark.hypothesis
@given(st.lists(st.permutations(NAMES), min_size=1, max_size=4), st.booleans(), st.none() | st.integers(0, 4))
def test_usual_documents_need_no_exact_reader(
    orders: list[list[str]], is_ascii: bool, indent: int | None
) -> None:
    """Names in any order, other than in the document before; escapes only outside of the features."""
    documents = [
        {"id": f'"größe\\": {d}', "features": {name: len(name) + d for name in order}}
        for d, order in enumerate(orders)
    ]
    body = json.dumps({"documents": documents, "query": ":"}, ensure_ascii=False, indent=indent).encode()
    request = QUICK.read_usual(body)
    assert request is not None
    assert request.ids == [document["id"] for document in documents]
    expected = [[len(name) + d for name in NAMES] for d in range(len(orders))]
    np.testing.assert_array_equal(request.features, expected)
    escaped = json.dumps({"documents": documents}, ensure_ascii=is_ascii).encode()
    assert outcome(QUICK.read, escaped) == outcome(EXACT.read, escaped)


@pytest.mark.hypothesis
@given(NUMBERS)
def test_every_spelling_of_a_number_has_the_bits_of_the_exact_reader(number: str) -> None:
    body = with_value(number)
    assert outcome(QUICK.read, body) == outcome(EXACT.read, body)


@pytest.mark.hypothesis
@given(st.integers(0, 2**31 - 2**23 - 2), st.integers(-3, 3), st.integers(0, 40))
def test_numbers_next_to_the_middle_of_two_float32_are_rounded_as_by_the_exact_reader(
    bits: int, offset: int, num_zeros: int
) -> None:
    """Rounding to float64 and then to float32 differs there from rounding once."""
    low, high = struct.unpack("<ff", struct.pack("<II", bits, bits + 1))
    if not np.isfinite(high):
        return
    middle = (low + high) / 2
    for _ in range(abs(offset)):
        middle = float(np.nextafter(middle, np.inf if offset > 0 else 0.0))
    mantissa, _, exponent = f"{middle:.30e}".partition("e")
    body = with_value(f"{mantissa}{'0' * num_zeros}1e{exponent}")
    assert outcome(QUICK.read, body) == outcome(EXACT.read, body)


@pytest.mark.hypothesis
@given(NOT_NUMBERS, st.sampled_from(NAMES))
def test_values_that_are_no_numbers_are_refused_by_the_exact_reader(value: str, name: str) -> None:
    row = dict.fromkeys(NAMES, "1.5")
    listed = [value if other == name else "1.5" for other in NAMES]
    for features in (by_name({**row, name: value}), f"[{', '.join(listed)}]"):
        body = body_of(by_name(row), features)
        assert QUICK.read_usual(body) is None
        assert outcome(QUICK.read, body) == outcome(EXACT.read, body)


PARTS = st.sampled_from(
    [
        *'{}[],:"\\0-.e',
        " ",
        "\n",
        "null",
        "true",
        "NaN",
        "1.5",
        "-0",
        '"id"',
        '"id": 1',
        '"query": "features"',
        '"documents"',
        '"features"',
        '"features": [1, 2, 3, 4, 5]',
        '"features": 0',
        '"bm25"',
        '"bm": 1',
        '"b\\u006d": 1',
        '"feature\\u0073"',
        "größe",
        "\x00",
        "\ud800",
    ]
)
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6), PARTS), min_size=1, max_size=3)
VALID = [
    body_of(json.dumps(ROW, ensure_ascii=False), "[1, 2.5, null, -0.0, 1e5]"),
    body_of(json.dumps(ROW, ensure_ascii=False, separators=(",", ":")), ids=('"features\\":"',)),
    body_of(json.dumps(ROW), "[1,2,3,4,5]", "[1,2,3,4,5]"),
    body_of(),
    b'{"query": null, "documents": [{"features": [1,2,3,4,5], "id": "features"}]}',
]


@pytest.mark.hypothesis
@given(st.sampled_from(VALID), EDITS)
def test_a_changed_body_has_the_same_answer_or_the_same_refusal(
    body: bytes, edits: list[tuple[float, int, str]]
) -> None:
    for place, num_replaced, part in edits:
        at = int(place * len(body))
        body = body[:at] + part.encode("utf-8", "surrogatepass") + body[at + num_replaced :]
    assert outcome(QUICK.read, body) == outcome(EXACT.read, body)


@pytest.mark.hypothesis
@given(st.lists(SPACE, min_size=8, max_size=8))
def test_space_is_that_of_json(spaces: list[str]) -> None:
    a, b, c, d, e, f, g, h = spaces
    row = f"{a}[{b}1{c},{d}2,3,4,null{e}]{f}"
    named = f'{g}{{{h}"b"{a}:{b}1{c},"bm":1,"bm25":1,"größe":null{d},{e}"features":2{f}}}{g}'
    for body in (body_of(row), body_of(named)):
        assert outcome(QUICK.read, body) == outcome(EXACT.read, body)


@pytest.mark.parametrize(
    "body",
    [
        # A name twice, in each kind of object.
        b'{"documents": [], "documents": []}',
        b'{"documents": [{"id": 1, "id": 2, "features": [1,2,3,4,5]}]}',
        b'{"documents": [{"id": 1, "features": [1,2,3,4,5], "features": [1,2,3,4,5]}]}',
        body_of(by_name(dict.fromkeys(NAMES, "1"))[:-1] + ', "b": 2}'),
        body_of('{"bm25": 1, "bm": 1, "b": 1, "features": 1, "b": 2}'),
        # Features in another place than a document.
        b'{"features": [1,2,3,4,5], "documents": []}',
        b'{"documents": [], "query": {"features": [1,2,3,4,5]}}',
        b'{"documents": [{"id": {"features": [1,2,3,4,5]}, "features": 0}]}',
        b'{"documents": [{"id": 1, "features": 0}, {"id": 2, "features": [1,2,3,4,5]}]}',
        # Names that are no features, or are absent.
        body_of(by_name({**dict.fromkeys(NAMES, "1"), "x": "1"})),
        body_of(by_name(dict.fromkeys(NAMES[1:], "1"))),
        body_of(by_name(dict.fromkeys([*NAMES[1:], "bm2"], "1"))),
        body_of(by_name(dict.fromkeys([*NAMES[1:], "bm255"], "1"))),
        body_of("[1,2,3,4]"),
        body_of("[1,2,3,4,5,6]"),
        body_of("[1,2,3,4,5,]"),
        body_of("[1,2,3,4,5}"),
        body_of("{}"),
        body_of("[]"),
        body_of(*["[1,2,3,4,5]"] * 5),  # too many documents
        body_of("[1,2,3,4," + "9" * 5000 + "]"),
        b'\xef\xbb\xbf{"documents": []}',
        b'{"documents": [{"id": "\xff", "features": [1,2,3,4,5]}]}',
        b'{"documents": [{"id": 1, "features": [1,2,3,4,5]}]} {}',
        b'{"documents": [{"id": 1, "features": [1,2,3,4,5]}',
        b'{"documents": [{"id": 1, "features": [1,2,3,4,',
        b'{"documents": [{"id": 1, "features"',
        b'{"documents": [{"id": 1, "features": {"bm25": nul',
        b'{"documents": [{"id": "\\',
        b'"features": [1,2,3,4,5]' * 4,
        b"",
    ],
)
def test_wrong_bodies_are_refused_by_the_exact_reader(body: bytes) -> None:
    assert QUICK.read_usual(body) is None
    with pytest.raises(RefusedRequestError):
        EXACT.read(body)
    assert outcome(QUICK.read, body) == outcome(EXACT.read, body)


def test_every_beginning_of_a_body_is_refused() -> None:
    body = VALID[0]
    for length in range(len(body)):
        assert QUICK.read_usual(body[:length]) is None


@pytest.mark.parametrize("names", [['a"b'], ["a\\b"], ["a\nb"], ["\ud800"], []])
def test_names_that_json_must_escape_are_left_to_the_exact_reader(names: list[str]) -> None:
    exact = RequestReader(names, RequestLimits())
    documents = [{"id": 1, "features": dict.fromkeys(names, 1.0)}, {"id": 2, "features": [2.0] * len(names)}]
    body = json.dumps({"documents": documents}).encode()
    assert QuickReader(exact).read_usual(body) is None
    assert outcome(QuickReader(exact).read, body) == outcome(exact.read, body)


@pytest.mark.hypothesis
@given(st.data(), st.sets(st.text("abcü:{ 1", min_size=1, max_size=4), min_size=1, max_size=30))
def test_any_names_are_matched_in_any_order(data: st.DataObject, chosen: set[str]) -> None:
    names = sorted(chosen, key=lambda name: name[::-1])
    exact = RequestReader(names, RequestLimits())
    rows = [{name: f + d for f, name in enumerate(names)} for d in range(3)]
    shuffled = [dict(data.draw(st.permutations(list(row.items())))) for row in rows]
    documents = [{"id": d, "features": row} for d, row in enumerate(shuffled)]
    request = QuickReader(exact).read_usual(json.dumps({"documents": documents}, ensure_ascii=False).encode())
    assert request is not None
    np.testing.assert_array_equal(request.features, [list(row.values()) for row in rows])

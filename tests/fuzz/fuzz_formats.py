"""Mutates model files of other libraries, and checks that each is rejected or predicts like a valid model.

    python tests/fuzz/fuzz_formats.py [--seed 1] [--count 5000] [--backend ranklib] [--number 17]

The files are LightGBM's text, XGBoost's JSON and UBJSON, and RankLib's XML, each of several models; and the
JSON that a saved imported model has beside its file. Numbers, bytes, lines, values of JSON and elements of
XML change; a few files are nested deep, repeat an element, or expand entities.

A mutation depends only on the seed and its number, as in fuzz_models.py, from which the outcomes are:

    refused    rejected with an error of ltrbench of one paragraph
    harmless   finite scores, those of the specification bit for bit, and the same after saving and loading
    failed     a crash, a hang, another exception, or scores that are not finite or differ
"""

from __future__ import annotations

import faulthandler
import json
import re
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from fuzz_models import MARK, MEMORY, SECONDS, VALUES, fuzz, mutate_bytes, mutate_json
from numpy.typing import NDArray

from ltrbench.data.synthetic import make_synthetic
from ltrbench.errors import LtrbenchError
from ltrbench.models.reading import read_model_file
from ltrbench.models.trees import ensemble_scores
from ltrbench.rankers.base import importance_of, trees_of
from ltrbench.rankers.imported import SETTINGS_FILE_OF_IMPORT, ImportedRanker, used_features

Rng = np.random.Generator

NUM_FEATURES = 40
BACKENDS = ("lightgbm", "xgboost_json", "xgboost_ubjson", "ranklib", "saved")
SHARES = (0.3, 0.2, 0.2, 0.2, 0.1)
NUMBERS = (
    *("-1", "0", "1", "-7", "46", "2000000000", "-2147483648", "99999999999", "1" * 400),
    *(
        "1e308",
        "-1e308",
        "3.5e38",
        "3.4e38",
        "1e-320",
        "nan",
        "NaN",
        "inf",
        "-Infinity",
        "0x1p3",
        "1_0",
        "",
        "+",
    ),
)
BILLION_LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE e [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(9))
    + b"]>"
)


# Mutations


def changed(rng: Rng, backend: str, content: bytes) -> tuple[bytes, str]:
    """Returns the content of a changed file, and a description of the change."""
    kinds: list[Callable[[Rng, bytes], tuple[bytes, str]]] = [mutate_bytes, with_bomb]
    shares = [0.3, 0.05]
    if backend in ("lightgbm", "ranklib"):
        kinds, shares = [*kinds, other_numbers, other_lines], [0.1, 0.05, 0.55, 0.3]
    elif backend == "xgboost_json":
        kinds, shares = [*kinds, other_numbers, other_value], [0.1, 0.05, 0.35, 0.5]
    else:
        kinds, shares = [*kinds, other_number_of_ubjson], [0.45, 0.05, 0.5]
    return kinds[rng.choice(len(kinds), p=shares)](rng, content)


def other_numbers(rng: Rng, content: bytes) -> tuple[bytes, str]:
    text, changes = content.decode(), []
    for _ in range(rng.integers(1, 3, endpoint=True)):
        numbers = list(re.finditer(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", text))
        match = numbers[rng.integers(len(numbers))]
        other = str(rng.choice(NUMBERS)) if rng.random() < 0.7 else numbers[rng.integers(len(numbers))][0]
        changes.append(f"{text[max(match.start() - 20, 0) : match.start()]!r}: {match[0]} to {other[:20]}")
        text = text[: match.start()] + other + text[match.end() :]
    return text.encode(), ", ".join(changes)


def other_lines(rng: Rng, content: bytes) -> tuple[bytes, str]:
    lines = content.split(b"\n")
    one, other = rng.integers(len(lines), size=2)
    kind = rng.integers(5)
    if kind == 0:
        del lines[one]
        return b"\n".join(lines), f"without line {one}"
    if kind == 1:
        lines.insert(other, lines[one])
        return b"\n".join(lines), f"line {one} again at {other}"
    if kind == 2:
        lines[one], lines[other] = lines[other], lines[one]
        return b"\n".join(lines), f"lines {one} and {other} swapped"
    if kind == 3:
        first, end = sorted((one, other))
        lines[end:end] = lines[first:end]
        return b"\n".join(lines), f"lines {first} to {end} again"
    return content.replace(b"\n", b"\r\n"), "with carriage returns"


def other_value(rng: Rng, content: bytes) -> tuple[bytes, str]:
    """Changes a value at any depth of JSON."""
    record = json.loads(content)
    place: Any = record
    path = []
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[rng.integers(len(keys))]
        path.append(str(key))
        inner = place[key]
        if not (isinstance(inner, dict | list) and inner) or rng.random() < 0.1:
            break
        place = inner
    if rng.random() < 0.15:
        del place[key]
        return json.dumps(record).encode(), f"without {'.'.join(path)}"
    value = VALUES[rng.integers(len(VALUES))]
    if isinstance(inner, list) and rng.random() < 0.5:
        value = inner[: rng.integers(len(inner) + 1)] + inner[: rng.integers(4)]
    place[key] = value
    return json.dumps(record).encode(), f"{'.'.join(path)} is {json.dumps(value)[:40]}"


def other_number_of_ubjson(rng: Rng, content: bytes) -> tuple[bytes, str]:
    """Changes a number after a marker of its type, or a marker."""
    places = [match.end() for match in re.finditer(rb"[dlLiUI]", content)]
    place = places[rng.integers(len(places))]
    new = bytearray(content)
    if rng.random() < 0.3:
        new[place - 1] = b"dlLiUITFZNSCHD[{$#]}"[rng.integers(20)]
        return bytes(new), f"marker at {place - 1}"
    length = {"i": 1, "U": 1, "I": 2, "l": 4, "d": 4, "L": 8}[chr(content[place - 1])]
    choices = [b"\xff" * 8, b"\x7f" + b"\xff" * 7, bytes(8), b"\x7f\xc0" + bytes(6), b"\x7f\x80" + bytes(6)]
    new[place : place + length] = choices[rng.integers(len(choices))][:length]
    return bytes(new), f"number of type {chr(content[place - 1])} at {place}"


def with_bomb(rng: Rng, content: bytes) -> tuple[bytes, str]:
    bombs = {
        "nested lists": b'{"learner":' + b"[" * 200_000,
        "nested objects": b'{"learner":' * 100_000,
        "nested lists of UBJSON": b"{L\x00\x00\x00\x00\x00\x00\x00\x01a" + b"[" * 200_000,
        "an array of 2^60": b"{L\x00\x00\x00\x00\x00\x00\x00\x01a[$d#L\x10\x00\x00\x00\x00\x00\x00\x00",
        "entities": b"## LambdaMART\n\n" + BILLION_LAUGHS + b"<ensemble><tree>&j;</tree></ensemble>",
        "entities without a header": BILLION_LAUGHS + b"<ensemble><tree>&j;</tree></ensemble>",
        "nested splits": b"## LambdaMART\n\n<ensemble><tree id='1' weight='1'>" + b"<split>" * 200_000,
        "many attributes": b"<ensemble " + b" ".join(b"a%d='1'" % i for i in range(50_000)) + b"></ensemble>",
        "a long line": b"tree\n" + b"leaf_value=" + b"1 " * 1_000_000,
        "many trees": b"tree\nversion=v4\ntree_sizes=" + b"9 " * 500_000 + b"\n\nTree=0\n",
        "the file twice": content + content,
        "nothing after it": content[: rng.integers(200)],
    }
    names = list(bombs)
    name = names[rng.integers(len(names))]
    return bombs[name], name


# Outcome of a mutation


class Workplace:
    """Model files to mutate, and documents to predict."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.features: NDArray[np.float32] = with_extremes(make_synthetic(num_queries=20, seed=1).features)

    def fill(self) -> None:
        """Trains and writes two models for each format."""
        data = make_synthetic(num_queries=20, seed=1)
        matrix = xgb.DMatrix(data.features, data.labels)
        matrix.set_group(data.query_sizes)
        for variant in range(2):
            light = {
                "objective": "lambdarank",
                "num_leaves": 9,
                "verbose": -1,
                "zero_as_missing": variant == 1,
            }
            light |= {"boosting": "dart"} if variant else {}
            train = lgb.Dataset(data.features, data.labels, group=data.query_sizes)
            text = lgb.train(light, train, 6).model_to_string()
            extreme = {"objective": "rank:ndcg", "max_depth": 3, "booster": ("gbtree", "dart")[variant]}
            booster = xgb.train(extreme, matrix, 6)
            contents = {
                "lightgbm": text.encode(),
                "xgboost_json": bytes(booster.save_raw("json")),
                "xgboost_ubjson": bytes(booster.save_raw("ubj")),
                "ranklib": ranklib_text(np.random.default_rng(variant)).encode(),
            }
            for name, content in contents.items():
                (self.folder / f"{name}.{variant}").write_bytes(content)

    def mutated(self, seed: int, number: int, backend: str | None) -> tuple[str, str, Path]:
        """Returns the format, the change, and the changed file, or the folder of the changed saved model."""
        rng = np.random.default_rng([seed, number])
        name = str(rng.choice(BACKENDS, p=SHARES))
        name, variant = backend or name, int(rng.integers(2))
        place = self.folder / "mutated"
        if place.is_dir():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        if name == "saved":
            place.mkdir()
            ranker_of(self.folder / f"{rng.choice(BACKENDS[:4])}.{variant}").save(place)
            return name, mutate_json(rng, place / SETTINGS_FILE_OF_IMPORT), place
        content, change = changed(rng, name, (self.folder / f"{name}.{variant}").read_bytes())
        place.write_bytes(content)
        return name, change, place


def with_extremes(features: Any) -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    changed_features = np.array(features[:300])
    changed_features[rng.random(changed_features.shape) < 0.1] = np.nan
    changed_features[:10], changed_features[10:20] = np.finfo(np.float32).max, np.finfo(np.float32).min
    return changed_features


def ranklib_text(rng: Rng) -> str:
    """Returns a RankLib model of random trees."""
    names = ("LambdaMART", "No. of trees = 5", "No. of leaves = 8", "Learning rate = 0.1", "Stop early = 100")
    header = "".join(f"## {name}\n" for name in names)
    trees = (
        f'\t<tree id="{number}" weight="0.1">\n\t\t<split>\n{ranklib_node(rng, 3)}\t\t</split>\n\t</tree>\n'
        for number in range(1, 6)
    )
    return f"{header}\n<ensemble>\n{''.join(trees)}</ensemble>\n"


def ranklib_node(rng: Rng, depth: int) -> str:
    tabs = "\t" * (6 - depth)
    if depth == 0 or rng.random() < 0.2:
        return f"{tabs}<output>{rng.normal():.16g} </output>\n"
    feature, threshold = rng.integers(1, NUM_FEATURES, endpoint=True), float(rng.random())
    lines = f"{tabs}<feature>{feature} </feature>\n{tabs}<threshold> {threshold:.8g} </threshold>\n"
    for pos in ("left", "right"):
        lines += f'{tabs}<split pos="{pos}">\n{ranklib_node(rng, depth - 1)}{tabs}</split>\n'
    return lines


def ranker_of(path: Path) -> ImportedRanker:
    file = read_model_file(path)
    # Whatever the number of features of a mutated file.
    columns = {feature: feature % NUM_FEATURES for feature in used_features(file.model.trees)}
    return ImportedRanker.of(file, columns, NUM_FEATURES)


def judge(place: Path, features: NDArray[np.float32]) -> str:
    """Returns the outcome for a mutated file or folder."""
    try:
        ranker = ImportedRanker.load(place) if place.is_dir() else ranker_of(place)
        given = features if place.is_file() else np.resize(features, (20, ranker.num_columns))
        scores = ranker.predict(given)
        importance_of(ranker)
        trees_of(ranker)
        expected = ensemble_scores(ranker.trees(), given)
        again = saved_and_loaded(ranker).predict(given)
    except LtrbenchError as error:
        return "refused" if "\n\n" not in str(error) else f"failed: more than a paragraph: {error}"
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"
    if not np.isfinite(scores).all():
        return "failed: scores are not finite"
    if not (np.array_equal(scores, expected) and np.array_equal(scores, again)):
        return "failed: scores differ"
    return "harmless"


def saved_and_loaded(ranker: ImportedRanker) -> ImportedRanker:
    with tempfile.TemporaryDirectory() as name:
        ranker.save(Path(name))
        return ImportedRanker.load(Path(name))


def work(folder: Path, seed: int, backend: str | None) -> None:
    """Runs the mutations whose numbers are in a file, and prints the start and the outcome of each."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    place = Workplace(folder)
    for number in map(int, (folder / "numbers").read_text().split()):
        name, change, mutated = place.mutated(seed, number, backend)
        print(MARK + json.dumps([number, name, change]), flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        outcome = judge(mutated, place.features)
        faulthandler.cancel_dump_traceback_later()
        print(MARK + json.dumps(outcome), flush=True)


def main() -> int:
    return fuzz(__doc__.splitlines()[0], BACKENDS, lambda folder: Workplace(folder).fill(), work, __file__)


if __name__ == "__main__":
    sys.exit(main())

"""Benchmark of `auto`: the time used of the time asked for, and its choice against models that are not tuned.

    python tests/bench/bench_auto.py [--minutes 3] [--repetitions 20] [--first 0] [--tables shop films ...]

Each repetition has another seed (`--first` and those after it) of the fits, the search and the split. The
chosen model is compared on test with every model of a plain sweep with default settings: "worse" counts the
repetitions in which it is significantly worse than the best of these (paired, these models). The tables are
shop, films, mq2007 and example; MQ2007 and LightGBM's example are left out where their data are absent. A
table takes minutes times repetitions, and the time of the plain sweeps; each repetition is written to the
standard error when it ends, with the difference to the best of these models.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_jobs import options, run_command

TESTS = Path(__file__).parents[1]
DATA = TESTS.parent / "data"
sys.path.insert(0, str(TESTS))

from films import film_ratings  # noqa: E402
from shop_log import shop_log  # noqa: E402

MODELS = "linear,native,lightgbm,xgboost"


def shop(folder: Path) -> list[str]:
    shop_log().to_parquet(folder / "table.parquet")
    return ["table.parquet"]


def films(folder: Path) -> list[str]:
    film_ratings().to_parquet(folder / "table.parquet")
    return ["table.parquet", "--label", "rating", "--query", "user_id"]


def mq2007(folder: Path) -> list[str]:
    parts = [DATA / "MQ2007" / "Fold1" / f"{part}.txt" for part in PARTS]
    text = "".join(part.read_text() for part in parts)
    (folder / "table.txt").write_text(text)
    return ["table.txt"]


def example(folder: Path) -> list[str]:
    for name in ("rank.train", "rank.train.query"):
        shutil.copy(DATA / "lightgbm-example" / name, folder / name)
    return ["rank.train"]


PARTS = ("train", "vali", "test")
TABLES: dict[str, Callable[[Path], list[str]]] = {
    each.__name__: each for each in (shop, films, mq2007, example)
}


@dataclass(frozen=True)
class Repetition:
    """What one repetition measured.

    Attributes:
        share: time used, as a share of the time asked for.
        chosen: label of the row that `auto` chose.
        best: label of the best row with default settings.
        difference: metric on test of the first minus that of the second.
        claim: "better", "worse" or another claim about the first against the second (paired, these models).
    """

    share: float
    chosen: str
    best: str
    difference: float
    claim: str


def main() -> None:
    given = options(__doc__, minutes=3.0, repetitions=20, first=0, tables=[*TABLES])
    print("table   repetitions  time used / asked (least, median, most)  worse  better")
    for name in given.tables:
        with tempfile.TemporaryDirectory() as folder:
            try:
                words = TABLES[name](Path(folder))
            except OSError as error:
                print(f"{name}: left out, {error}", flush=True)
                continue
            measured = []
            for seed in range(given.first, given.first + given.repetitions):
                each = _measured(words, given.minutes, seed, Path(folder))
                print(f"{name}, seed {seed}: {each}", file=sys.stderr, flush=True)
                measured.append(each)
        shares = sorted(each.share for each in measured)
        states = [each.claim for each in measured]
        ends = f"{shares[0]:.2f}, {statistics.median(shares):.2f}, {shares[-1]:.2f}"
        print(
            f"{name:7} {len(measured):11} {ends:>40} {states.count('worse'):6} {states.count('better'):7}",
            flush=True,
        )


def _measured(words: list[str], minutes: float, seed: int, folder: Path) -> Repetition:
    """Returns what a run of `auto` used and chose, against the best of the models with default settings."""
    asked = ["--minutes", str(minutes), "--seed", str(seed), "--anyway"]
    output = f"auto-{seed}"
    command = ["-m", "ltrbench", "auto", *words, *asked, "--output", output]
    auto = run_command(command, folder)
    script = (folder / output / "commands.sh").read_text().splitlines()
    sweep = next(line for line in script if "hydra.sweep.dir" in line)
    kept = [word for word in sweep.split() if word.startswith(("data", "cv", "seed"))]
    plain = ["--config-dir", f"{output}/conf", *kept, f"model={MODELS}"]
    plain += ["-m", "tracking=none", f"hydra.sweep.dir=plain-{seed}"]
    run_command(["-m", "ltrbench", *plain], folder)
    chosen = json.loads((folder / output / "auto.json").read_text())["chosen"]
    compared = run_command(
        ["-m", "ltrbench", "compare", f"{output}/sweep", f"plain-{seed}", "--json"],
        folder,
    )
    share = auto.seconds / (60 * minutes)
    return _against_best(json.loads(compared.output), chosen, share)


def _against_best(record: dict[str, Any], chosen: str, share: float) -> Repetition:
    """Returns the claim about the chosen row against the best row without a search, which may be itself."""
    metric = record["metric"]
    searched = [row["label"] for row in record["rows"] if row["search"] is not None]
    plain = [row for row in record["rows"] if row["search"] is None]
    best = max(plain, key=lambda row: row["metrics"][metric])["label"]
    label = next((each for each in searched if each.split()[0] == chosen), chosen)
    if label == best:
        return Repetition(share, label, best, 0.0, "the same")
    for pair in record["pairs"]:
        if pair["metric"] != metric or {pair["a"], pair["b"]} != {label, best}:
            continue
        claim, difference = pair["models"]["claim"], pair["models"]["difference"]
        if pair["a"] != label:
            claim = {"better": "worse", "worse": "better"}.get(claim, claim)
            difference = -difference
        return Repetition(share, label, best, difference, claim)
    raise AssertionError("unreachable: all rows are paired")


if __name__ == "__main__":
    main()

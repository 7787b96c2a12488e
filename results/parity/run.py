"""Parity: whether the native engine reproduces the libraries by settings alone.

`python -m ltrbench experiment=parity` trains, measures and writes one table, with the rankers and data sets
of conf/experiment/parity.yaml. Golden files have lambdas, trees and metrics from the libraries; they are not
in the repository. If data or a golden file are missing, the row gives the reason.

To add a comparison, write a function that returns its rows and call it in `ParityStudy.run`.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np

from ltrbench.data import RankingDataset
from ltrbench.data.sources import DataSource
from ltrbench.data.splits import Splits
from ltrbench.experiment import Study
from ltrbench.measure import versions
from ltrbench.metrics import DEFAULT, Convention, evaluate, preset
from ltrbench.models.trees import Leaf, Node, WeightedTree
from ltrbench.native.bins import COLUMN_BINS, bin_features, reference_bins
from ltrbench.native.objectives.lambdas import prepare
from ltrbench.native.objectives.pairs import PairSettings
from ltrbench.rankers import BoostingRanker, Ranker
from ltrbench.rankers.base import trees_of
from ltrbench.rankers.native import NativeRanker, pairs_of
from ltrbench.shapes import Features, Scores
from ltrbench.tables import Table, TableColumn, TableRow
from results.studies import load_or_reason, publish_study

log = logging.getLogger("ltrbench")

NUM_TREES = 100
PEERS = {"LightGBM": "lightgbm", "XGBoost": "xgboost"}
"""Library -> name of its model in the study; native's preset for it has the prefix native_."""
FOLLOWED: dict[str, dict[str, Any]] = {
    "LightGBM": {"equal_cuts": "lowest", "document_counts": "exact"},
    "XGBoost": {},
}
"""Library -> settings of its preset that affect the first tree, with native's own values instead."""

FOLLOWED_LATER: dict[str, dict[str, Any]] = {
    "LightGBM": {},
    "XGBoost": {"float32_scores": False, "float32_sums": False, "float32_norm": False},
}
"""Library -> settings that affect later trees only, with native's own values instead."""


@dataclass(kw_only=True)
class ParityStudy(Study):
    """Compares native's presets with the libraries, and writes the table.

    Args:
        output: output folder.
        golden: folder of the golden files.
        peer_data: names of the data sets for the comparison with installed libraries.
    """

    output: str
    golden: str
    peer_data: list[str]

    def run(self, models: Mapping[str, Ranker], data: Mapping[str, DataSource]) -> Path:
        """Trains and measures everything; returns the path of the table.

        Args:
            models: presets and libraries by name.
            data: data sets by name; `mq2008_fold1` to `mq2008_fold5` for RankLib.
        """
        rankers = {
            name: ranker
            for name, ranker in models.items()
            if isinstance(ranker, BoostingRanker)
        }
        golden = Path(self.golden).expanduser()
        loaded = {name: load_or_reason(source) for name, source in data.items()}
        rows = lambda_rows(golden)
        rows.extend(_ranklib_first_trees(golden, rankers["native_ranklib"], loaded))
        rows.append(_ranklib_on_test(rankers["native_ranklib"], loaded))
        causes: list[str] = []
        for name in self.peer_data:
            log.info("parity: LightGBM and XGBoost on %s", name)
            splits, absent = loaded[name]
            for library, model in PEERS.items():
                if splits is None or splits.valid is None:
                    rows.extend(_peer_rows(library, name, None, absent))
                else:
                    train, valid = in_bins(splits.train, splits.valid)
                    pair = _Pair(
                        library,
                        rankers["native_" + model],
                        rankers[model],
                        train,
                        valid,
                    )
                    rows.extend(_peer_rows(library, name, pair, ""))
                    causes.extend(_causes(name, pair))
        named = "\n".join(f"- {cause}" for cause in causes) or "No data were available."
        return publish_study(
            Path(self.output),
            f"{parity_table(rows)}\n\n## Effect of single settings\n\n{named}",
            command="python -m ltrbench experiment=parity",
            packages=PEERS.values(),
            conventions=[DEFAULT, preset("ranklib")],
            data={
                key: splits for key, (splits, _) in loaded.items() if splits is not None
            },
            findings={"rows": _records(rows)},
        )


_Loaded = tuple[Splits | None, str]


@dataclass(frozen=True)
class _Pair:
    """Native's preset and a library, with data on common bins."""

    library: str
    native: BoostingRanker
    peer: BoostingRanker
    train: RankingDataset
    valid: RankingDataset

    def fitted(self, num_trees: int) -> tuple[BoostingRanker, BoostingRanker]:
        return _fit(self.native, num_trees, self.train), _fit(
            self.peer, num_trees, self.train
        )


def _fit(
    ranker: BoostingRanker, num_trees: int, train: RankingDataset
) -> BoostingRanker:
    return replace(ranker, num_trees=num_trees, early_stopping=None).fit(train)


def _peer_rows(
    library: str, data: str, pair: _Pair | None, absent: str
) -> Iterator[ParityRow]:
    version = versions([PEERS[library]])[PEERS[library]]
    claim = ParityRow(
        what=f"native_{PEERS[library]}: first tree, splits and leaf values",
        on=data,
        against=f"{library} {version}",
        tolerance=1e-6,
        reason="gradients and leaf values of the library are float32",
        difference=None,
        detail=absent,
    )
    later = replace(
        claim,
        what=f"native_{PEERS[library]}: NDCG@10 on validation after {NUM_TREES} trees",
        tolerance=0.003,
        reason="after a near tie decided by rounding, later trees differ",
    )
    if pair is None:
        yield from (claim, later)
        return
    yield _first_tree(claim, pair)
    yield _many_trees(later, pair)


def _first_tree(claim: ParityRow, pair: _Pair) -> ParityRow:
    native, peer = (trees_of(ranker).trees for ranker in pair.fitted(1))
    apart, cuts = cuts_apart(native[0].root, peer[0].root), num_cuts(peer[0].root)
    alike = (
        f"all {cuts} splits equal" if apart == 0 else f"{apart} of {cuts} splits differ"
    )
    return replace(
        claim, difference=leaves_apart(native[0].root, peer[0].root), detail=alike
    )


def _many_trees(claim: ParityRow, pair: _Pair) -> ParityRow:
    native, peer = pair.fitted(NUM_TREES)
    same = trees_alike(trees_of(native).trees, trees_of(peer).trees)
    ours, theirs = _ndcg(native, pair.valid), _ndcg(peer, pair.valid)
    return replace(
        claim,
        difference=abs(ours - theirs),
        detail=f"{ours:.4f}; the first {same} trees have equal splits",
    )


def _causes(data: str, pair: _Pair) -> Iterator[str]:
    """Yields the effect of each setting that follows the library, and of the order of features."""
    peer = trees_of(_fit(pair.peer, 1, pair.train)).trees[0].root
    for name, value in FOLLOWED[pair.library].items():
        native = _trees_with(pair, name, value, 1)[0].root
        apart = f"{cuts_apart(native, peer)} of {num_cuts(peer)} splits"
        yield f"{data}: with `{name}={value}` {apart} of the first tree differ from {pair.library}'s."
    straight = _fit(pair.peer, NUM_TREES, pair.train)
    for name, value in FOLLOWED_LATER[pair.library].items():
        trees = _trees_with(pair, name, value, NUM_TREES)
        alike = f"{trees_alike(trees, trees_of(straight).trees)} of {NUM_TREES} trees"
        yield f"{data}: with `{name}={value}` the first {alike} have the splits of {pair.library}."
    train, valid = (_reversed(split) for split in (pair.train, pair.valid))
    turned = _fit(pair.peer, NUM_TREES, train)
    noise = abs(_ndcg(straight, pair.valid) - _ndcg(turned, valid))
    yield (
        f"{data}: reversing the order of the features changes the validation NDCG@10 of {pair.library} by "
        f"{noise:.4f} after {NUM_TREES} trees."
    )


def _trees_with(
    pair: _Pair, setting: str, value: object, num_trees: int
) -> tuple[WeightedTree, ...]:
    """Returns the trees of native's preset with another value of one setting."""
    changed = with_setting(pair.native, setting, value)
    return trees_of(_fit(changed, num_trees, pair.train)).trees


def with_setting(native: BoostingRanker, setting: str, value: object) -> BoostingRanker:
    """Returns native with another value of a setting, which may be one of its objective."""
    changed: dict[str, Any] = {setting: value}
    objective = getattr(native, "objective", None)
    if objective is not None and hasattr(objective, setting):
        changed = {"objective": replace(objective, **changed)}
    return replace(native, **changed)


def _reversed(data: RankingDataset) -> RankingDataset:
    return replace(data, features=np.ascontiguousarray(data.features[:, ::-1]))


def _ndcg(
    ranker: Ranker, data: RankingDataset, convention: Convention = DEFAULT
) -> float:
    scores = ranker.predict(data.features).astype(np.float64)
    return evaluate(data, scores, ["ndcg@10"], convention=convention).means["ndcg@10"]


def _ranklib_first_trees(
    golden: Path, ranklib: BoostingRanker, loaded: Mapping[str, _Loaded]
) -> Iterator[ParityRow]:
    for fold in (1, 2):
        path = golden / f"ranklib_MQ2008_Fold{fold}_first3trees.xml"
        splits, absent = loaded[f"mq2008_fold{fold}"]
        claim = ParityRow(
            what="native_ranklib: scores of the training documents after three trees",
            on=f"mq2008, fold {fold}",
            against="RankLib 2.x",
            tolerance=1e-4,
            reason="RankLib sums the lambdas of a leaf in float32",
            difference=None,
            detail=absent or f"file {path.name} not found",
        )
        if splits is None or not path.is_file():
            yield claim
            continue
        trees, features = ranklib_trees(path), splits.train.features
        expected = np.sum([ranklib_scores(tree, features) for tree in trees], axis=0)
        got = _fit(ranklib, len(trees), splits.train).predict(features)
        yield replace(claim, difference=float(np.abs(got - expected).max()), detail="")


def _ranklib_on_test(
    ranklib: BoostingRanker, loaded: Mapping[str, _Loaded]
) -> ParityRow:
    log.info("parity: complete fit of RankLib's preset on five folds of MQ2008")
    claim = ParityRow(
        what="native_ranklib: NDCG@10 on test with early stopping, mean of folds",
        on="mq2008, five folds",
        against="RankLib 2.x",
        tolerance=0.01,
        reason="after near ties decided by rounding, later trees differ",
        difference=None,
    )
    values = []
    for fold in RANKLIB_NDCG:
        splits, absent = loaded[f"mq2008_fold{fold}"]
        if splits is None:
            return replace(claim, detail=absent)
        fitted = replace(ranklib).fit(splits.train, splits.valid)
        values.append(_ndcg(fitted, splits.test, preset("ranklib")))
    printed = list(RANKLIB_NDCG.values())
    largest = max(
        abs(value - of_fold) for value, of_fold in zip(values, printed, strict=True)
    )
    return replace(
        claim,
        difference=abs(float(np.mean(values)) - float(np.mean(printed))),
        detail=f"{np.mean(values):.4f}; the largest difference of a fold is {largest:.1g}",
    )


def _records(rows: list[ParityRow]) -> list[dict[str, object]]:
    return [{**vars(row), "verdict": row.verdict.strip("*")} for row in rows]


NOT_AVAILABLE = "not available"


@dataclass(frozen=True, kw_only=True)
class ParityRow:
    """A comparison with a library.

    Attributes:
        what: compared result.
        on: data.
        against: library, with its version.
        tolerance: largest difference that counts as agreement.
        reason: reason for the tolerance.
        difference: measured difference; None if data or a golden file are not available.
        detail: further numbers, or the reason why the difference is not available.
    """

    what: str
    on: str
    against: str
    tolerance: float
    reason: str
    difference: float | None
    detail: str = ""

    @property
    def verdict(self) -> str:
        if self.difference is None:
            return NOT_AVAILABLE
        return "agrees" if self.difference <= self.tolerance else "**differs**"


def parity_table(rows: Iterable[ParityRow]) -> str:
    """Returns the rows as a Markdown table."""
    columns = [
        *(TableColumn(header, left=True) for header in ("Result", "Data", "Reference")),
        TableColumn("Tolerance", "g"),
        TableColumn("Difference"),
        *(
            TableColumn(header, left=True)
            for header in ("Verdict", "Details", "Reason for the tolerance")
        ),
    ]
    return Table(columns, [_cells(row) for row in rows]).markdown()


def _cells(row: ParityRow) -> TableRow:
    # Infinite if the trees have different shapes, which is a valid result.
    difference = "" if row.difference is None else f"{row.difference:.2g}"
    names = (row.what, row.on, row.against)
    return [*names, row.tolerance, difference, row.verdict, row.detail, row.reason]


RANKLIB_NDCG = {1: 0.4891, 2: 0.4560, 3: 0.4821, 4: 0.5504, 5: 0.5473}
"""NDCG@10 of RankLib on the test folds of MQ2008, from its log."""

_QUERIES = "12 queries of MQ2008"
_ALL_FLOAT32 = "all computations in float32"
_OFF = {"normalize_distance": False, "normalize_query": False}
_FLOAT32 = "float32, with a resolution of 1.2e-7 between 1 and 2"
_TABLE = "LightGBM's table of p has an error of up to half a step, 1.2e-5 of the weight of a pair"


@dataclass(frozen=True)
class _Golden:
    """Lambdas in a golden file, and the settings to reproduce them."""

    file: str
    name: str
    against: str
    settings: PairSettings
    tolerance: float
    reason: str
    what: str
    keys: tuple[str, str] = ("g", "h")
    sign: float = 1.0  # -1 for pyltr, whose lambdas have the opposite sign


def _of_libraries() -> list[_Golden]:
    light, extreme = (
        pairs_of(NativeRanker.from_preset(name)) for name in ("lightgbm", "xgboost")
    )
    variants: list[tuple[str, str, PairSettings, dict[str, Any], float, str]] = [
        ("lightgbm", "LightGBM 4.7.0", light, {}, 1e-7, _FLOAT32),
        ("lightgbm", "LightGBM 4.7.0", light, {"sigmoid": "exact"}, 3e-5, _TABLE),
        ("lightgbm,norm=false", "LightGBM 4.7.0", light, _OFF, 1e-7, _FLOAT32),
        (
            "lightgbm,truncation=3",
            "LightGBM 4.7.0",
            light,
            {"truncation": 3},
            1e-7,
            _FLOAT32,
        ),
        ("lightgbm,sigma=2", "LightGBM 4.7.0", light, {"sigma": 2.0}, 1e-7, _FLOAT32),
        ("xgboost", "XGBoost 3.2.0", extreme, {}, 1e-6, _ALL_FLOAT32),
        (
            "xgboost,truncation=3",
            "XGBoost 3.2.0",
            extreme,
            {"truncation": 3},
            1e-6,
            _ALL_FLOAT32,
        ),
        (
            "xgboost,normalization=false,score_normalization=false",
            *("XGBoost 3.2.0", extreme, _OFF, 1e-6, _ALL_FLOAT32),
        ),
    ]
    return [
        _Golden(
            "lightgbm_xgboost_lambdas.json",
            *(name, against, replace(settings, **varied), tolerance, reason),
            "lambdas and hessians"
            + "".join(f", {key}={str(value).lower()}" for key, value in varied.items()),
        )
        for name, against, settings, varied, tolerance, reason in variants
    ]


def _of_pyltr() -> list[_Golden]:
    # All pairs, because pairs below rank 10 change metrics other than NDCG@10.
    pairs = replace(pairs_of(NativeRanker.from_preset("pyltr")), truncation=None)
    metrics = {"ndcg@10": "ndcg10", "ndcg@3": "ndcg3", "err@10": "err10", "map": "ap"}
    # The highest grade in the file.
    convention = replace(pairs.convention, highest_grade=2.0)
    return [
        _Golden(
            "pyltr_lambdas.json",
            *(
                name,
                "pyltr 0.2.6",
                replace(pairs, metric=metric, convention=convention),
                1e-9,
            ),
            "float64, summed in another order",
            f"lambdas and hessians of {metric}",
            ("lambdas", "weights"),
            sign=-1.0,
        )
        for metric, name in metrics.items()
    ]


def lambda_rows(folder: Path) -> list[ParityRow]:
    """Returns the rows of the lambdas of every dialect on real queries."""
    return [
        _lambda_row(folder / golden.file, golden)
        for golden in (*_of_libraries(), *_of_pyltr())
    ]


def _lambda_row(path: Path, golden: _Golden) -> ParityRow:
    claim = ParityRow(
        what=golden.what,
        on=_QUERIES,
        against=golden.against,
        tolerance=golden.tolerance,
        reason=golden.reason,
        difference=None,
        detail=f"file {path.name} not found",
    )
    if not path.is_file():
        return claim
    queries = json.loads(path.read_text())
    return replace(
        claim,
        difference=max(_difference(query, golden) for query in queries),
        detail="",
    )


def _difference(query: dict[str, Any], golden: _Golden) -> float:
    """Returns the largest difference of a gradient or a hessian."""
    labels = np.asarray(query["labels"], dtype=np.float64)
    data = RankingDataset(
        features=np.zeros((len(labels), 1), dtype=np.float32),
        labels=labels,
        query_start=np.array([0, len(labels)]),
    )
    objective = prepare(data, golden.settings)
    gradients, hessians = objective(
        np.asarray(query["scores"]), None, np.random.default_rng(0)
    )
    expected = [np.asarray(query[golden.name][key]) for key in golden.keys]
    return float(
        max(
            abs(golden.sign * gradients - expected[0]).max(),
            abs(hessians - expected[1]).max(),
        )
    )


def ranklib_trees(path: Path) -> list[ElementTree.Element]:
    """Returns the trees of a RankLib model file, which starts with a header that is not XML."""
    return ElementTree.fromstring(path.read_text().partition("\n\n")[2]).findall("tree")


def ranklib_scores(tree: ElementTree.Element, features: Features) -> Scores:
    """Returns (D,), the contribution of a RankLib tree to the scores."""
    scores = np.zeros(len(features))
    below = [(cast(ElementTree.Element, tree.find("split")), np.arange(len(features)))]
    while below:
        node, rows = below.pop()
        if node.find("output") is not None:
            scores[rows] = float(tree.get("weight", "")) * float(
                node.findtext("output", "")
            )
            continue
        feature = int(node.findtext("feature", "")) - 1  # RankLib counts from 1
        goes_left = features[rows, feature] <= np.float32(
            node.findtext("threshold", "")
        )
        below.extend(
            (child, rows[goes_left if child.get("pos") == "left" else ~goes_left])
            for child in node.findall("split")
        )
    return scores


def in_bins(train: RankingDataset, *others: RankingDataset) -> list[RankingDataset]:
    """Returns the data sets with native's bin indices, fitted on train, as features."""
    binned = bin_features(train.features, COLUMN_BINS, np.random.default_rng(0))
    return [
        replace(
            data,
            features=np.ascontiguousarray(
                reference_bins(data.features, binned).T, np.float32
            ),
        )
        for data in (train, *others)
    ]


def cuts_apart(one: Node, other: Node) -> int:
    """Returns the number of nodes at which two trees on bins start to differ: another split, or a leaf."""
    if isinstance(one, Leaf) or isinstance(other, Leaf):
        return int(type(one) is not type(other))
    # All thresholds between two bins are the same split.
    if (one.feature, math.floor(one.threshold)) != (
        other.feature,
        math.floor(other.threshold),
    ):
        return 1
    return cuts_apart(one.left, other.left) + cuts_apart(one.right, other.right)


def leaves_apart(one: Node, other: Node) -> float:
    """Returns the largest difference of leaf values, before shrinkage; infinite if the splits differ."""
    if isinstance(one, Leaf) and isinstance(other, Leaf):
        return abs(one.value - other.value)
    if isinstance(one, Leaf) or isinstance(other, Leaf) or cuts_apart(one, other):
        return math.inf
    return max(leaves_apart(one.left, other.left), leaves_apart(one.right, other.right))


def num_cuts(node: Node) -> int:
    """Returns the number of inner nodes of a tree."""
    return (
        0 if isinstance(node, Leaf) else 1 + num_cuts(node.left) + num_cuts(node.right)
    )


def trees_alike(
    first: tuple[WeightedTree, ...], second: tuple[WeightedTree, ...]
) -> int:
    """Returns the number of leading trees of two models with identical splits."""
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        if cuts_apart(one.root, other.root):
            return number
    return len(first)

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
from dataclasses import KW_ONLY, dataclass, replace
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
from ltrbench.shapes import Features, Gradients, Hessians, Scores
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
        ranklib = rankers["native_ranklib"]
        golden = Path(self.golden).expanduser()
        loaded = {name: load_or_reason(source) for name, source in data.items()}
        rows = lambda_rows(golden)
        for fold in (1, 2):
            rows.append(_ranklib_first_trees(golden, ranklib, fold, loaded))
        rows.append(_ranklib_on_test(ranklib, loaded))
        causes: list[str] = []
        for name in self.peer_data:
            log.info("parity: LightGBM and XGBoost on %s", name)
            splits, absent = loaded[name]
            for library in PEERS:
                first_tree, later_trees = _claims(library, name, absent)
                if splits is None or splits.valid is None:
                    rows += [first_tree, later_trees]
                    continue
                pair = _on_bins(library, rankers, splits.train, splits.valid)
                rows.append(_first_tree(first_tree, pair))
                rows.append(_many_trees(later_trees, pair))
                causes.extend(_causes(name, pair))
        return self._published(rows, causes, loaded)

    def _published(
        self, rows: list[ParityRow], causes: list[str], loaded: _Loaded
    ) -> Path:
        effects = "\n".join(f"- {cause}" for cause in causes)
        if not causes:
            effects = "No data were available."
        available = {}
        for name, (splits, _) in loaded.items():
            if splits is not None:
                available[name] = splits
        return publish_study(
            Path(self.output),
            f"{parity_table(rows)}\n\n## Effect of single settings\n\n{effects}",
            command="python -m ltrbench experiment=parity",
            packages=PEERS.values(),
            conventions=[DEFAULT, preset("ranklib")],
            data=available,
            findings={"rows": _records(rows)},
        )


_Loaded = Mapping[str, tuple[Splits | None, str]]
"""Data set -> its splits and an empty text, or None and the reason why it is not available."""


@dataclass(frozen=True)
class _Pair:
    """Native's preset and a library, with data on common bins."""

    _: KW_ONLY
    library: str
    native: BoostingRanker
    peer: BoostingRanker
    train: RankingDataset
    valid: RankingDataset

    def fitted(self, num_trees: int) -> tuple[BoostingRanker, BoostingRanker]:
        native = _fit(self.native, num_trees, self.train)
        peer = _fit(self.peer, num_trees, self.train)
        return native, peer


def _on_bins(
    library: str,
    rankers: Mapping[str, BoostingRanker],
    train: RankingDataset,
    valid: RankingDataset,
) -> _Pair:
    model = PEERS[library]
    binned_train, binned_valid = in_bins(train, valid)
    return _Pair(
        library=library,
        native=rankers[f"native_{model}"],
        peer=rankers[model],
        train=binned_train,
        valid=binned_valid,
    )


def _fit(
    ranker: BoostingRanker, num_trees: int, train: RankingDataset
) -> BoostingRanker:
    return replace(ranker, num_trees=num_trees, early_stopping=None).fit(train)


def _claims(library: str, data: str, absent: str) -> tuple[ParityRow, ParityRow]:
    """Returns the rows of the first tree and of later trees, without differences."""
    model = PEERS[library]
    version = versions([model])[model]
    first_tree = ParityRow(
        what=f"native_{model}: first tree, splits and leaf values",
        on=data,
        against=f"{library} {version}",
        tolerance=1e-6,
        reason="gradients and leaf values of the library are float32",
        difference=None,
        detail=absent,
    )
    later_trees = replace(
        first_tree,
        what=f"native_{model}: NDCG@10 on validation after {NUM_TREES} trees",
        tolerance=0.003,
        reason="after a near tie decided by rounding, later trees differ",
    )
    return first_tree, later_trees


def _first_tree(claim: ParityRow, pair: _Pair) -> ParityRow:
    native, peer = pair.fitted(1)
    tree = _first_root(native)
    expected = _first_root(peer)
    num_splits = num_cuts(expected)
    num_other = cuts_apart(tree, expected)
    detail = f"all {num_splits} splits equal"
    if num_other:
        detail = f"{num_other} of {num_splits} splits differ"
    return replace(claim, difference=leaves_apart(tree, expected), detail=detail)


def _first_root(ranker: BoostingRanker) -> Node:
    return trees_of(ranker).trees[0].root


def _many_trees(claim: ParityRow, pair: _Pair) -> ParityRow:
    native, peer = pair.fitted(NUM_TREES)
    num_equal = trees_alike(trees_of(native).trees, trees_of(peer).trees)
    reached = _ndcg(native, pair.valid)
    expected = _ndcg(peer, pair.valid)
    return replace(
        claim,
        difference=abs(reached - expected),
        detail=f"{reached:.4f}; the first {num_equal} trees have equal splits",
    )


def _causes(data: str, pair: _Pair) -> Iterator[str]:
    """Yields the effect of each setting that follows the library, and of the order of features."""
    library = pair.library
    expected = _first_root(_fit(pair.peer, 1, pair.train))
    for name, value in FOLLOWED[library].items():
        tree = _trees_with(pair, name, value, 1)[0].root
        other = f"{cuts_apart(tree, expected)} of {num_cuts(expected)} splits"
        yield f"{data}: with `{name}={value}` {other} of the first tree differ from {library}'s."
    peer = _fit(pair.peer, NUM_TREES, pair.train)
    for name, value in FOLLOWED_LATER[library].items():
        trees = _trees_with(pair, name, value, NUM_TREES)
        equal = f"{trees_alike(trees, trees_of(peer).trees)} of {NUM_TREES} trees"
        yield f"{data}: with `{name}={value}` the first {equal} have the splits of {library}."
    yield (
        f"{data}: reversing the order of the features changes the validation NDCG@10 of {library} by "
        f"{_effect_of_order(pair, peer):.4f} after {NUM_TREES} trees."
    )


def _effect_of_order(pair: _Pair, peer: BoostingRanker) -> float:
    """Returns by how much the validation NDCG@10 of the library changes if the features are reversed."""
    of_reversed = _fit(pair.peer, NUM_TREES, _reversed(pair.train))
    after = _ndcg(of_reversed, _reversed(pair.valid))
    return abs(_ndcg(peer, pair.valid) - after)


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
    features = np.ascontiguousarray(data.features[:, ::-1])
    return replace(data, features=features)


def _ndcg(
    ranker: Ranker, data: RankingDataset, convention: Convention = DEFAULT
) -> float:
    scores = ranker.predict(data.features).astype(np.float64)
    evaluation = evaluate(data, scores, ["ndcg@10"], convention=convention)
    return evaluation.means["ndcg@10"]


def _ranklib_first_trees(
    golden: Path, ranklib: BoostingRanker, fold: int, loaded: _Loaded
) -> ParityRow:
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
        return claim
    trees = ranklib_trees(path)
    features = splits.train.features
    expected = np.sum([ranklib_scores(tree, features) for tree in trees], axis=0)
    scores = _fit(ranklib, len(trees), splits.train).predict(features)
    largest = np.abs(scores - expected).max()
    return replace(claim, difference=float(largest), detail="")


def _ranklib_on_test(ranklib: BoostingRanker, loaded: _Loaded) -> ParityRow:
    log.info("parity: complete fit of RankLib's preset on five folds of MQ2008")
    claim = ParityRow(
        what="native_ranklib: NDCG@10 on test with early stopping, mean of folds",
        on="mq2008, five folds",
        against="RankLib 2.x",
        tolerance=0.01,
        reason="after near ties decided by rounding, later trees differ",
        difference=None,
    )
    reached = []
    differences = []
    for fold, printed in RANKLIB_NDCG.items():
        splits, absent = loaded[f"mq2008_fold{fold}"]
        if splits is None:
            return replace(claim, detail=absent)
        fitted = replace(ranklib).fit(splits.train, splits.valid)
        ndcg = _ndcg(fitted, splits.test, preset("ranklib"))
        reached.append(ndcg)
        differences.append(abs(ndcg - printed))
    mean = float(np.mean(reached))
    printed_mean = float(np.mean(list(RANKLIB_NDCG.values())))
    return replace(
        claim,
        difference=abs(mean - printed_mean),
        detail=f"{mean:.4f}; the largest difference of a fold is {max(differences):.1g}",
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
        TableColumn("Result", left=True),
        TableColumn("Data", left=True),
        TableColumn("Reference", left=True),
        TableColumn("Tolerance", "g"),
        TableColumn("Difference"),
        TableColumn("Verdict", left=True),
        TableColumn("Details", left=True),
        TableColumn("Reason for the tolerance", left=True),
    ]
    return Table(columns, [_cells(row) for row in rows]).markdown()


def _cells(row: ParityRow) -> TableRow:
    # Infinite if the trees have different shapes, which is a valid result.
    difference = "" if row.difference is None else f"{row.difference:.2g}"
    return [
        row.what,
        row.on,
        row.against,
        row.tolerance,
        difference,
        row.verdict,
        row.detail,
        row.reason,
    ]


RANKLIB_NDCG = {1: 0.4891, 2: 0.4560, 3: 0.4821, 4: 0.5504, 5: 0.5473}
"""NDCG@10 of RankLib on the test folds of MQ2008, from its log."""


@dataclass(frozen=True)
class _Golden:
    """Lambdas in a golden file, and the settings to reproduce them.

    Attributes:
        name: name of the lambdas in the file.
        keys: names of the lambdas or gradients, and of the hessians, of a query.
        sign: -1 if the file has lambdas, which have the opposite sign of gradients.
    """

    _: KW_ONLY
    file: str
    name: str
    against: str
    settings: PairSettings
    tolerance: float
    reason: str
    what: str
    keys: tuple[str, str] = ("g", "h")
    sign: float = 1.0

    def expected(self, query: Mapping[str, Any]) -> tuple[Gradients, Hessians]:
        """Returns the gradients and the hessians of a query of the file."""
        values = query[self.name]
        key_of_lambdas, key_of_hessians = self.keys
        lambdas = np.asarray(values[key_of_lambdas])
        hessians = np.asarray(values[key_of_hessians])
        return self.sign * lambdas, hessians


def _of_libraries() -> list[_Golden]:
    lightgbm = _Golden(
        file="lightgbm_xgboost_lambdas.json",
        name="lightgbm",
        against="LightGBM 4.7.0",
        settings=pairs_of(NativeRanker.from_preset("lightgbm")),
        tolerance=1e-7,
        reason="float32, with a resolution of 1.2e-7 between 1 and 2",
        what="lambdas and hessians",
    )
    xgboost = _Golden(
        file="lightgbm_xgboost_lambdas.json",
        name="xgboost",
        against="XGBoost 3.2.0",
        settings=pairs_of(NativeRanker.from_preset("xgboost")),
        tolerance=1e-6,
        reason="all computations in float32",
        what="lambdas and hessians",
    )
    exact = replace(
        _with_settings(lightgbm, "lightgbm", sigmoid="exact"),
        tolerance=3e-5,
        reason="LightGBM's table of p has an error of up to half a step, 1.2e-5 of the weight of a pair",
    )
    off = {"normalize_distance": False, "normalize_query": False}
    xgboost_off = "xgboost,normalization=false,score_normalization=false"
    return [
        lightgbm,
        exact,
        _with_settings(lightgbm, "lightgbm,norm=false", **off),
        _with_settings(lightgbm, "lightgbm,truncation=3", truncation=3),
        _with_settings(lightgbm, "lightgbm,sigma=2", sigma=2.0),
        xgboost,
        _with_settings(xgboost, "xgboost,truncation=3", truncation=3),
        _with_settings(xgboost, xgboost_off, **off),
    ]


def _with_settings(golden: _Golden, name: str, **settings: Any) -> _Golden:
    """Returns the lambdas of the same library with other settings, which have another name in the file."""
    what = golden.what
    for key, value in settings.items():
        what += f", {key}={str(value).lower()}"
    changed = replace(golden.settings, **settings)
    return replace(golden, name=name, settings=changed, what=what)


def _of_pyltr() -> list[_Golden]:
    # All pairs, because pairs below rank 10 change metrics other than NDCG@10.
    pairs = replace(pairs_of(NativeRanker.from_preset("pyltr")), truncation=None)
    # The highest grade in the file.
    convention = replace(pairs.convention, highest_grade=2.0)
    name_of_metric = {
        "ndcg@10": "ndcg10",
        "ndcg@3": "ndcg3",
        "err@10": "err10",
        "map": "ap",
    }
    return [
        _Golden(
            file="pyltr_lambdas.json",
            name=name,
            against="pyltr 0.2.6",
            settings=replace(pairs, metric=metric, convention=convention),
            tolerance=1e-9,
            reason="float64, summed in another order",
            what=f"lambdas and hessians of {metric}",
            keys=("lambdas", "weights"),
            sign=-1.0,
        )
        for metric, name in name_of_metric.items()
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
        on="12 queries of MQ2008",
        against=golden.against,
        tolerance=golden.tolerance,
        reason=golden.reason,
        difference=None,
        detail=f"file {path.name} not found",
    )
    if not path.is_file():
        return claim
    queries = json.loads(path.read_text())
    largest = max(_difference(query, golden) for query in queries)
    return replace(claim, difference=largest, detail="")


def _difference(query: dict[str, Any], golden: _Golden) -> float:
    """Returns the largest difference of a gradient or a hessian."""
    labels = np.asarray(query["labels"], dtype=np.float64)
    data = RankingDataset(
        features=np.zeros((len(labels), 1), dtype=np.float32),
        labels=labels,
        query_start=np.array([0, len(labels)]),
    )
    objective = prepare(data, golden.settings)
    scores = np.asarray(query["scores"])
    gradients, hessians = objective(scores, None, np.random.default_rng(0))
    expected_gradients, expected_hessians = golden.expected(query)
    of_gradients = np.abs(gradients - expected_gradients).max()
    of_hessians = np.abs(hessians - expected_hessians).max()
    return float(max(of_gradients, of_hessians))


def ranklib_trees(path: Path) -> list[ElementTree.Element]:
    """Returns the trees of a RankLib model file, which starts with a header that is not XML."""
    _, _, xml = path.read_text().partition("\n\n")
    return ElementTree.fromstring(xml).findall("tree")


def ranklib_scores(tree: ElementTree.Element, features: Features) -> Scores:
    """Returns (D,), the contribution of a RankLib tree to the scores."""
    scores = np.zeros(len(features))
    weight = float(tree.get("weight", ""))
    root = cast(ElementTree.Element, tree.find("split"))
    below = [(root, np.arange(len(features)))]
    while below:
        node, rows = below.pop()
        output = node.findtext("output")
        if output is not None:
            scores[rows] = weight * float(output)
            continue
        feature = int(node.findtext("feature", "")) - 1  # RankLib counts from 1
        threshold = np.float32(node.findtext("threshold", ""))
        goes_left = features[rows, feature] <= threshold
        for child in node.findall("split"):
            is_left = child.get("pos") == "left"
            rows_of_child = rows[goes_left] if is_left else rows[~goes_left]
            below.append((child, rows_of_child))
    return scores


def in_bins(train: RankingDataset, *others: RankingDataset) -> list[RankingDataset]:
    """Returns the data sets with native's bin indices, fitted on train, as features."""
    binned = bin_features(train.features, COLUMN_BINS, np.random.default_rng(0))
    in_bins_of_train = []
    for data in (train, *others):
        bins = reference_bins(data.features, binned).T
        features = np.ascontiguousarray(bins, np.float32)
        in_bins_of_train.append(replace(data, features=features))
    return in_bins_of_train


def cuts_apart(one: Node, other: Node) -> int:
    """Returns the number of nodes at which two trees on bins start to differ: another split, or a leaf."""
    if isinstance(one, Leaf) or isinstance(other, Leaf):
        return int(type(one) is not type(other))
    # All thresholds between two bins are the same split.
    bin_of_one = math.floor(one.threshold)
    bin_of_other = math.floor(other.threshold)
    if one.feature != other.feature or bin_of_one != bin_of_other:
        return 1
    on_the_left = cuts_apart(one.left, other.left)
    on_the_right = cuts_apart(one.right, other.right)
    return on_the_left + on_the_right


def leaves_apart(one: Node, other: Node) -> float:
    """Returns the largest difference of leaf values, before shrinkage; infinite if the splits differ."""
    if isinstance(one, Leaf) and isinstance(other, Leaf):
        return abs(one.value - other.value)
    if isinstance(one, Leaf) or isinstance(other, Leaf) or cuts_apart(one, other):
        return math.inf
    on_the_left = leaves_apart(one.left, other.left)
    on_the_right = leaves_apart(one.right, other.right)
    return max(on_the_left, on_the_right)


def num_cuts(node: Node) -> int:
    """Returns the number of inner nodes of a tree."""
    if isinstance(node, Leaf):
        return 0
    return 1 + num_cuts(node.left) + num_cuts(node.right)


def trees_alike(
    first: tuple[WeightedTree, ...], second: tuple[WeightedTree, ...]
) -> int:
    """Returns the number of leading trees of two models with identical splits."""
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        if cuts_apart(one.root, other.root):
            return number
    return len(first)

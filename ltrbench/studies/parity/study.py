"""The parity study, with the rankers and data sets of conf/experiment/parity.yaml.

It writes table.md and environment.json to its output folder. If data or a golden file are missing, the row
gives the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ltrbench.data import RankingDataset
from ltrbench.data.sources import DataSource
from ltrbench.data.splits import Splits
from ltrbench.measure.provenance import versions
from ltrbench.metrics import DEFAULT, Convention, evaluate, preset
from ltrbench.rankers import BoostingRanker, Ranker
from ltrbench.rankers.capabilities import trees_of
from ltrbench.rankers.models.trees import WeightedTree
from ltrbench.studies.base import Study, load_or_reason, publish_study
from ltrbench.studies.parity.goldens import RANKLIB_NDCG, lambda_rows, ranklib_scores, ranklib_trees
from ltrbench.studies.parity.peers import cuts_apart, in_bins, leaves_apart, num_cuts, trees_alike
from ltrbench.studies.parity.rows import ParityRow, parity_table

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
        rankers = {name: ranker for name, ranker in models.items() if isinstance(ranker, BoostingRanker)}
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
                    pair = _Pair(library, rankers["native_" + model], rankers[model], train, valid)
                    rows.extend(_peer_rows(library, name, pair, ""))
                    causes.extend(_causes(name, pair))
        named = "\n".join(f"- {cause}" for cause in causes) or "No data were available."
        return publish_study(
            Path(self.output),
            f"{parity_table(rows)}\n\n## Effect of single settings\n\n{named}",
            command="python -m ltrbench experiment=parity",
            packages=PEERS.values(),
            conventions=[DEFAULT, preset("ranklib")],
            data={key: splits for key, (splits, _) in loaded.items() if splits is not None},
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
        return _fit(self.native, num_trees, self.train), _fit(self.peer, num_trees, self.train)


def _fit(ranker: BoostingRanker, num_trees: int, train: RankingDataset) -> BoostingRanker:
    return replace(ranker, num_trees=num_trees, early_stopping=None).fit(train)


def _peer_rows(library: str, data: str, pair: _Pair | None, absent: str) -> Iterator[ParityRow]:
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
    alike = f"all {cuts} splits equal" if apart == 0 else f"{apart} of {cuts} splits differ"
    return replace(claim, difference=leaves_apart(native[0].root, peer[0].root), detail=alike)


def _many_trees(claim: ParityRow, pair: _Pair) -> ParityRow:
    native, peer = pair.fitted(NUM_TREES)
    same = trees_alike(trees_of(native).trees, trees_of(peer).trees)
    ours, theirs = _ndcg(native, pair.valid), _ndcg(peer, pair.valid)
    return replace(
        claim, difference=abs(ours - theirs), detail=f"{ours:.4f}; the first {same} trees have equal splits"
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


def _trees_with(pair: _Pair, setting: str, value: object, num_trees: int) -> tuple[WeightedTree, ...]:
    """Returns the trees of native's preset with another value of one setting."""
    changed: dict[str, Any] = {setting: value}
    return trees_of(_fit(replace(pair.native, **changed), num_trees, pair.train)).trees


def _reversed(data: RankingDataset) -> RankingDataset:
    return replace(data, features=np.ascontiguousarray(data.features[:, ::-1]))


def _ndcg(ranker: Ranker, data: RankingDataset, convention: Convention = DEFAULT) -> float:
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


def _ranklib_on_test(ranklib: BoostingRanker, loaded: Mapping[str, _Loaded]) -> ParityRow:
    log.info("parity: complete fit of RankLib's preset on five folds of MQ2008")
    claim = ParityRow(
        what="native_ranklib: NDCG@10 on test with early stopping, mean of folds",
        on="mq2008, five folds",
        against="RankLib 2.x",
        tolerance=0.01,
        reason="after near ties decided by rounding, later trees differ",
        difference=None,
    )
    figures = []
    for fold in RANKLIB_NDCG:
        splits, absent = loaded[f"mq2008_fold{fold}"]
        if splits is None:
            return replace(claim, detail=absent)
        fitted = replace(ranklib).fit(splits.train, splits.valid)
        figures.append(_ndcg(fitted, splits.test, preset("ranklib")))
    printed = list(RANKLIB_NDCG.values())
    largest = max(abs(figure - of_fold) for figure, of_fold in zip(figures, printed, strict=True))
    return replace(
        claim,
        difference=abs(float(np.mean(figures)) - float(np.mean(printed))),
        detail=f"{np.mean(figures):.4f}; the largest difference of a fold is {largest:.1g}",
    )


def _records(rows: list[ParityRow]) -> list[dict[str, object]]:
    return [{**vars(row), "verdict": row.verdict.strip("*")} for row in rows]

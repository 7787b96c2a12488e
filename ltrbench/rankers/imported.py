"""Models that were trained elsewhere: model files of LightGBM, XGBoost and RankLib as rankers.

The file stays as it is. The trees are read from it, and scores are computed in the arithmetic of its library:
those of LightGBM and XGBoost bit for bit, those of RankLib up to the last bits of float32. Scores of random
forests of LightGBM differ in the last bits of float64, because each tree is divided by the number of trees.
The library is not needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, cast

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import Part, in_parts, inlined_kernel, kernel, threads
from ltrbench.data import RankingDataset
from ltrbench.data.dataset import numbered
from ltrbench.data.features import row_blocks
from ltrbench.errors import ConfigError, DataError, ResultError, require_choice
from ltrbench.models.files import OF_RANKLIB, ModelFile, read_model_file
from ltrbench.models.trees import (
    LARGEST_ZERO,
    Ensemble,
    FlatTree,
    InnerNode,
    base_score_as_tree,
    bits_of,
    flat,
    splits_of,
    used_features,
    weighted_values,
    with_splits,
    words_of,
)
from ltrbench.rankers.base import (
    OF_A_FINISHED_RUN,
    FitSummary,
    Ranker,
    check_blocks,
    check_fitted,
    read_model_json,
    resolve_threads,
)
from ltrbench.rankers.estimator import read_columns
from ltrbench.rankers.library import model_digest
from ltrbench.shapes import Features

# ---- Matches the features of a model file with the columns of the data: by names, by numbers or by
# positions.
#
#     names       the model and the data have names of features: equal names
#     numbers     the number of a feature in a LETOR file, which is the name of the column: RankLib's feature
#                 5, and the feature with index 5 of LightGBM and XGBoost, which read LETOR files with indices
#                 from 0, are the column "5"
#     positions   the first feature of the model is the first column; RankLib's features are counted from 1
#
# Only features that a split uses must exist in the data.

BY_NAMES = "names"
BY_NUMBERS = "numbers"
BY_POSITIONS = "positions"
WAYS = (BY_NAMES, BY_NUMBERS, BY_POSITIONS)

_SHOWN = 10
"""Maximum number of features that a message lists."""
_PREFIXES = ("Column_", "f", "")
"""Prefix of the index, from 0, in the names of features without names: of LightGBM, of XGBoost, and of the
columns of a DataFrame, whose "1" is the second one."""


@dataclass(frozen=True)
class MatchedFeatures:
    """The columns of a model's features.

    Attributes:
        way: "names", "numbers" or "positions".
        columns: feature that a split uses -> column of the data, both from 0.
        sentence: how the features were matched.
    """

    way: str
    columns: Mapping[int, int]
    sentence: str


def match_features(
    file: ModelFile, data_names: Sequence[str], way: str | None = None
) -> MatchedFeatures:
    """Matches the features of a model with the columns of the data.

    Args:
        data_names: (F,), names of the columns; numbers if the data are LETOR files.
        way: "names", "numbers" or "positions"; None: names if both have them, else the numbers of RankLib,
            else positions if the number of features is the same, else numbers from 0. Required if positions
            and numbers from 0 are both possible.

    Raises:
        ConfigError: The way is unknown, or the model has no names.
        DataError: A feature that the model uses is not in the data; the message lists these features.
    """
    require_choice("--features", way, WAYS)
    used = used_features(file.model.trees)
    chosen = way or _way(file, data_names, used)
    if chosen == BY_NAMES and not _has_names(file):
        raise ConfigError(
            f"{file.path} has no names of features, so that --features names is not possible. Use --features "
            "numbers or --features positions."
        )
    column_of = _column_of_label(chosen, data_names)
    labels = _labels(chosen, file, used)
    missing = [labels[feature] for feature in used if labels[feature] not in column_of]
    if missing:
        others = [f"--features {other}" for other in WAYS if other != chosen]
        raise DataError(
            f"{file.path}: {len(missing)} of the {len(used)} features that the model uses are not in the "
            f"data, which has {len(data_names)} features ({_listed(list(data_names))}). Their {chosen} are "
            f"{_listed(missing)}. Name a run on data with these features, or match them in another way: "
            f"{' or '.join(others)}."
        )
    columns = {feature: column_of[labels[feature]] for feature in used}
    sentence = (
        f"{len(used)} features of the model are used, and were matched with the {len(data_names)} columns of "
        f"the data by their {chosen} (--features {chosen})."
    )
    return MatchedFeatures(chosen, columns, sentence)


def _has_names(file: ModelFile) -> bool:
    names = file.model.feature_names
    numbers = numbered(len(names), first=0)
    defaults = [[prefix + number for number in numbers] for prefix in _PREFIXES]
    return bool(names) and list(names) not in defaults


def _are_numbers(names: Sequence[str]) -> bool:
    return all(name.isdecimal() for name in names)


def _way(file: ModelFile, data_names: Sequence[str], used: Sequence[int]) -> str:
    """Returns how to match features if the user does not say it.

    Raises:
        DataError: The numbers of features differ, and the model has neither names nor RankLib's numbers; or
            positions and numbers are both possible.
    """
    has_names = _has_names(file)
    if has_names:
        names = file.model.feature_names
        names_of_used = {names[feature] for feature in used}
        if not _are_numbers(data_names) or names_of_used <= set(data_names):
            return BY_NAMES
    if file.library == OF_RANKLIB:
        return BY_NUMBERS if _are_numbers(data_names) else BY_POSITIONS
    count = file.model.num_features
    if count == len(data_names):
        if not has_names:
            _refuse_ambiguous(file, data_names, used)
        return BY_POSITIONS
    # A LETOR file that LightGBM or XGBoost has read: indices begin at 0, and 0 is in no line.
    if _are_numbers(data_names):
        is_one_more = count == int(data_names[-1]) + 1
        if is_one_more and 0 not in used:
            return BY_NUMBERS
    raise DataError(
        f"{file.path} has {count} features, but the data has {len(data_names)}, and no names of "
        f"features are in both ({_listed(list(data_names))}). Use data with the features of the "
        "model, or say how to match them: --features numbers or --features positions."
    )


def _refuse_ambiguous(
    file: ModelFile, data_names: Sequence[str], used: Sequence[int]
) -> None:
    """Raises DataError if the features of a model, as many as the data has, may also be their numbers."""
    if not {str(feature) for feature in used} <= set(data_names):
        return
    differing = [each for each in used if data_names[each] != str(each)]
    if differing:
        feature = differing[0]
        raise DataError(
            f"{file.path} has {file.model.num_features} features without names, as many as the data, which "
            "may be positions of columns or numbers of a LETOR file: its feature "
            f"{feature} is the column {data_names[feature]!r} or {str(feature)!r}. Say --features positions "
            "if it was trained on a table or an array of these columns, or --features numbers if LightGBM "
            "or XGBoost read a LETOR file."
        )


def _column_of_label(way: str, data_names: Sequence[str]) -> dict[str, int]:
    """Returns label of a feature -> column of the data."""
    if way == BY_POSITIONS:
        return {str(column): column for column in range(len(data_names))}
    column_of = {name: column for column, name in enumerate(data_names)}
    if way == BY_NAMES:
        # LightGBM replaces blanks in the names that it is given.
        for name, column in list(column_of.items()):
            column_of.setdefault(re.sub(r"\s", "_", name), column)
    return column_of


def _labels(way: str, file: ModelFile, used: Sequence[int]) -> dict[int, str]:
    """Returns feature that a split uses -> its label: name, number or position."""
    if way == BY_NAMES:
        return {feature: file.model.feature_names[feature] for feature in used}
    first = 0
    if way == BY_NUMBERS and file.library == OF_RANKLIB:
        first = 1
    return {feature: str(feature + first) for feature in used}


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    listed = ", ".join(names[:_SHOWN])
    if more > 0:
        listed += f" and {more} more"
    return listed


# ---- The scores of an `Ensemble` for many documents, in a compiled loop.
#
# `ltrbench.models.trees.ensemble_scores` is the specification: the scores have the same bits.
#
# D documents, F features, T trees, N nodes of all trees.

FEW_VISITS = 1 << 15
"""Number of documents times trees below which more threads are slower than one."""

_BLOCK = 64
"""Number of documents that go down a tree one after another, while its nodes are in the cache."""


class FlatTrees(NamedTuple):
    """The nodes of all trees as arrays; the first tree has the base score if it is not 0.

    Attributes:
        roots: (T,), index of the root of each tree.
        nodes: (N,), with thresholds rounded to the dtype of the ensemble (float64 compares float32 numbers
            alike), and values times the weights of their trees, in the dtype of the sum.
        is_strict: whether a value equal to the threshold goes right.
    """

    roots: NDArray[np.int64]
    nodes: FlatTree
    is_strict: bool


def flat_trees(ensemble: Ensemble) -> FlatTrees:
    """Returns the nodes of all trees as arrays."""
    weighted = base_score_as_tree(ensemble).trees
    categories = [split.categories or 0 for split in splits_of(ensemble)]
    num_words = len(words_of(max(categories, default=0)))
    trees = [flat(tree.root, num_words=num_words) for tree in weighted]
    sizes = [len(tree.feature) for tree in trees]
    roots = np.cumsum([0, *sizes[:-1]])
    shift = np.repeat(roots, sizes)
    values = [
        weighted_values(tree, each.weight, ensemble.score_dtype)
        for tree, each in zip(trees, weighted, strict=True)
    ]
    columns = zip(*trees, strict=True)
    nodes = FlatTree(*map(np.concatenate, columns))
    thresholds = nodes.threshold.astype(ensemble.threshold_dtype)
    nodes = nodes._replace(
        threshold=thresholds.astype(np.float64),
        left=nodes.left + shift,
        right=nodes.right + shift,
        value=np.concatenate(values),
    )
    return FlatTrees(roots, nodes, ensemble.comparison == "<")


def flat_scores(
    trees: FlatTrees, features: NDArray[np.floating[Any]]
) -> NDArray[np.floating[Any]]:
    """Returns the (D,) scores of (D, F) features, float32 or float64, in the dtype of the sum."""
    scores = np.zeros(len(features), dtype=trees.nodes.value.dtype)
    # Always read-only, so that one compilation serves read-only and writable arrays.
    given = np.ascontiguousarray(features).view()
    given.flags.writeable = False
    num_blocks = (len(scores) + _BLOCK - 1) // _BLOCK
    in_parts(_add_to_blocks, num_blocks, trees, given, scores)
    return scores


@kernel
def _add_to_blocks(
    part: Part,
    trees: FlatTrees,
    features: NDArray[np.floating[Any]],
    scores: NDArray[np.floating[Any]],
) -> None:
    for block in range(part[0], part[1]):
        documents = slice(block * _BLOCK, min((block + 1) * _BLOCK, len(scores)))
        _one_block(trees, features[documents], scores[documents])


@kernel
def _one_block(
    trees: FlatTrees,
    features: NDArray[np.floating[Any]],
    scores: NDArray[np.floating[Any]],
) -> None:
    """Adds the values of all trees to the scores of a block of documents, in the order of the trees."""
    roots, nodes, is_strict = trees
    for t in range(len(roots)):
        root = np.uint64(roots[t])
        for d in range(len(scores)):
            document = np.uint64(d)
            node = root
            while nodes.feature[node] >= 0:
                x = np.float64(features[document, np.uint64(nodes.feature[node])])
                if x != x or (nodes.zero_missing[node] and abs(x) <= LARGEST_ZERO):
                    goes_left = nodes.missing_left[node]
                elif nodes.threshold[node] != nodes.threshold[node]:
                    goes_left = _is_in(nodes.categories[node], x)
                elif is_strict:
                    goes_left = x < nodes.threshold[node]
                else:
                    goes_left = x <= nodes.threshold[node]
                node = np.uint64(nodes.left[node] if goes_left else nodes.right[node])
            scores[document] += nodes.value[node]


@inlined_kernel
def _is_in(words: NDArray[np.uint32], x: float) -> bool:
    """Returns whether a value is the code of a category of a set."""
    code = np.int64(x) if 0 <= x < 32 * len(words) else -1
    return code == x and (words[code >> 5] >> np.uint32(code & 31)) & np.uint32(1) == 1


SETTINGS_FILE_OF_IMPORT = "imported.json"

_IMPORT_AGAIN = "Copy the folder again, or import the model again"


@dataclass(frozen=True)
class _Held:
    """A model on the columns of the data.

    Attributes:
        file: the original.
        columns: feature that a split uses -> column of the data.
        num_columns: F, number of columns of the data.
        trees: the trees, with columns as features.
        flat: the same for the compiled loop.
    """

    file: ModelFile
    columns: Mapping[int, int]
    num_columns: int
    trees: Ensemble
    flat: FlatTrees


def _bits_of_data(
    node: InnerNode, of_model: Sequence[str | None], of_data: Sequence[str]
) -> int:
    """Returns the bits of the codes of the data that a split of the model sends left.

    Args:
        of_model, of_data: categories of the feature, in the order of their codes. Those that the model does
            not know are missing values.
    """
    bits = node.categories or 0
    code_of = {text: code for code, text in enumerate(of_model)}
    is_left = []
    for text in of_data:
        if text in code_of:
            is_left.append(bits >> code_of[text] & 1)
        else:
            is_left.append(node.missing_left)
    return bits_of(np.flatnonzero(is_left))


def _check_common(
    file: ModelFile,
    name: str,
    of_model: Sequence[str | None],
    of_data: Sequence[str],
) -> None:
    """Raises DataError if the model knows no category of a feature of the data."""
    if of_data and set(of_model).isdisjoint(of_data):
        raise DataError(
            f"{file.path} knows none of the categories of '{name}': the first one is {of_data[0]!r} in the "
            f"data and {of_model[0]!r} in the model. Give '{name}' in the data the categories that the model "
            "was trained on."
        )


@dataclass(kw_only=True)
class ImportedRanker(Ranker):
    """Scores documents with a model file of LightGBM, XGBoost or RankLib; it cannot be trained.

    Scores are float64, also if the library sums in float32, so that no bit of them is lost.
    """

    reads_blocks: ClassVar[bool] = True
    reads_categories: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._held: _Held | None = None

    @classmethod
    def of(
        cls,
        file: ModelFile,
        columns: Mapping[int, int],
        num_columns: int,
        feature_names: Sequence[str] = (),
        categories: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Self:
        """Returns a ranker with the model of a file.

        Args:
            columns: feature of the model -> column of the data, from 0, for all features that a split uses.
            num_columns: number of columns of the data.
            feature_names: (F,), names of the columns.
            categories: categorical column -> its categories, in the order of their codes in the data. Those
                that the model does not know are missing values.

        Raises:
            DataError: A feature has categories in the model, but not in the data, or the other way round; or
                they have none in common.
        """
        ranker = cls()
        ranker.feature_names = tuple(feature_names)
        ranker.categories = categories or {}

        def of_data(node: InnerNode) -> InnerNode:
            column = columns[node.feature]
            name = ""
            if ranker.feature_names:
                name = ranker.feature_names[column]
            if node.categories is None:
                if name in ranker.categories:
                    raise DataError(
                        f"{file.path} splits '{name}' at the number {node.threshold:g}, but it is a "
                        "categorical feature of the data, whose codes the model does not know. Name a run "
                        f"without '{name}' in data.categorical, in which it has the numbers of the model."
                    )
                return replace(node, feature=column)
            if name not in ranker.categories:
                raise DataError(
                    f"{file.path} splits '{name}' by sets of categories, but it is no categorical "
                    f"feature of the data. Name a run with data.categorical=[{name}]."
                )
            texts = file.model.categories[node.feature]
            _check_common(file, name, texts, ranker.categories[name])
            bits = _bits_of_data(node, texts, ranker.categories[name])
            return replace(node, feature=column, categories=bits)

        trees = with_splits(file.model.trees, of_data)
        ranker._held = _Held(file, dict(columns), num_columns, trees, flat_trees(trees))
        ranker.summary = FitSummary(num_trees=len(trees.trees))
        ranker.reads_float64 = file.reads_float64
        return ranker

    def fit(self, train: RankingDataset, *_: object, **__: object) -> NoReturn:
        """Refuses: the model was trained elsewhere.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            "an imported model cannot be trained. Train it with its library and import the new file with "
            "python -m ltrbench import, or choose a model of ltrbench, such as model=lightgbm."
        )

    def predict(self, features: Features) -> NDArray[np.float64]:
        held = check_fitted(self._held)
        given = check_blocks(features, held.num_columns, exact=self.reads_float64)
        scores = np.empty(given.shape[0])
        is_small = len(held.trees.trees) * given.shape[0] < FEW_VISITS
        with threads(1 if is_small else resolve_threads(self.num_threads)):
            for start, block in row_blocks(given):
                rows = slice(start, start + len(block))
                scores[rows] = flat_scores(held.flat, block)
        return scores

    def warm_up(self) -> None:
        """Compiles the loop over trees and documents."""
        held = check_fitted(self._held)
        dtype = np.float64 if self.reads_float64 else np.float32
        document = np.zeros((1, held.num_columns), dtype=dtype)
        self.predict(cast(Features, document))

    def trees(self) -> Ensemble:
        return check_fitted(self._held).trees

    def importance(self) -> dict[str, NDArray[np.float64]]:
        held = check_fitted(self._held)
        feature = held.flat.nodes.feature
        used = np.bincount(feature[feature >= 0], minlength=held.num_columns)
        return {"split": used.astype(np.float64)}

    def seed_matters(self, num_documents: int) -> bool:
        return False

    def save(self, folder: Path) -> None:
        held = check_fitted(self._held)
        name = f"model{held.file.ending}"
        (folder / name).write_bytes(held.file.content)
        columns = {}
        for feature, column in sorted(held.columns.items()):
            columns[str(feature)] = column
        content = {
            "file": name,
            "digest": model_digest(held.file.content),
            "num_columns": held.num_columns,
            "columns": columns,
        }
        text = json.dumps(content, indent=1) + "\n"
        (folder / SETTINGS_FILE_OF_IMPORT).write_text(text)

    @classmethod
    def load(cls, folder: Path) -> Self:
        path = folder / SETTINGS_FILE_OF_IMPORT
        types = {
            "file": str,
            "digest": str,
            "num_columns": int,
            "columns": dict[str, int],
        }
        content = read_model_json(path, types)
        file = read_model_file(folder / Path(content["file"]).name, OF_A_FINISHED_RUN)
        if model_digest(file.content) != content["digest"]:
            raise ResultError(
                f"{file.path} differs from the file that was imported: it was changed, or copied only in "
                f"part. {_IMPORT_AGAIN}."
            )
        columns = {
            int(feature): column for feature, column in content["columns"].items()
        }
        has_features = columns.keys() == set(used_features(file.model.trees))
        numbers = set(range(content["num_columns"]))
        if not has_features or not set(columns.values()) <= numbers:
            raise ResultError(
                f"{path} does not have a column of the data for each feature of the model. {_IMPORT_AGAIN}."
            )
        known = read_columns(folder)
        names = known.feature_names
        categories = known.categories
        return cls.of(file, columns, content["num_columns"], names, categories)

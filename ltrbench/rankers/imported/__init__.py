"""Models that were trained elsewhere: model files of LightGBM, XGBoost and RankLib as rankers.

    columns   which column of the data each feature of a model is
    scoring   the scores of many documents, in a compiled loop

The file stays as it is. The trees are read from it, and scores are computed in the arithmetic of its library:
those of LightGBM and XGBoost bit for bit, those of RankLib up to the last bits of float32. The library is not
needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import threads
from ltrbench.data import RankingDataset
from ltrbench.data.features import row_blocks
from ltrbench.errors import ConfigError, ResultError
from ltrbench.rankers.base import (
    OF_A_FINISHED_RUN,
    FitSummary,
    Ranker,
    check_blocks,
    check_fitted,
    read_model_json,
    resolve_threads,
)
from ltrbench.rankers.early_stopping import OnIteration
from ltrbench.rankers.imported.columns import used_features
from ltrbench.rankers.imported.scoring import FEW_VISITS, FlatTrees, flat_scores, flat_trees
from ltrbench.rankers.library import model_digest
from ltrbench.rankers.models.formats.reading import ModelFile, read_model_file
from ltrbench.rankers.models.trees import Ensemble, Leaf, rebuilt
from ltrbench.shapes import Features

SETTINGS_FILE_OF_IMPORT = "imported.json"

MOST_COLUMNS = 100_000_000
"""Maximum number of columns of the data."""

_IMPORT_AGAIN = "Copy the folder again, or import the model again"
_NAMES = ("model.txt", "model.json", "model.ubj")


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


@dataclass(kw_only=True)
class ImportedRanker(Ranker):
    """Scores documents with a model file of LightGBM, XGBoost or RankLib; it cannot be trained.

    Scores are float64, also if the library sums in float32, so that no bit of them is lost.
    """

    reads_blocks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._held: _Held | None = None

    @classmethod
    def of(cls, file: ModelFile, columns: Mapping[int, int], num_columns: int) -> Self:
        """Returns a ranker with the model of a file.

        Args:
            columns: feature of the model -> column of the data, from 0, for all features that a split uses.
            num_columns: number of columns of the data.
        """
        ranker = cls()
        trees = _on_columns(file.model.trees, columns)
        ranker._held = _Held(file, dict(columns), num_columns, trees, flat_trees(trees))
        ranker.summary = FitSummary(num_trees=len(trees.trees))
        return ranker

    @property
    def num_columns(self) -> int:
        """F, number of columns of the data."""
        return check_fitted(self._held).num_columns

    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> NoReturn:
        """Refuses: the model was trained elsewhere.

        Raises:
            ConfigError: always.
        """
        del train, valid, on_iteration
        raise ConfigError(
            "an imported model cannot be trained. Train it with its library and import the new file with "
            "python -m ltrbench import, or choose a model of ltrbench, such as model=lightgbm."
        )

    def predict(self, features: Features) -> NDArray[np.float64]:
        held = check_fitted(self._held)
        given = check_blocks(features, held.num_columns)
        scores = np.empty(given.shape[0])
        is_small = len(held.trees.trees) * given.shape[0] < FEW_VISITS
        with threads(1 if is_small else resolve_threads(self.num_threads)):
            for start, block in row_blocks(given):
                scores[start : start + len(block)] = flat_scores(held.flat, block)
        return scores

    def warm_up(self) -> None:
        """Compiles the loop over trees and documents."""
        held = check_fitted(self._held)
        self.predict(np.zeros((1, held.num_columns), dtype=np.float32))

    def trees(self) -> Ensemble:
        return check_fitted(self._held).trees

    def importance(self) -> dict[str, NDArray[np.float64]]:
        held = check_fitted(self._held)
        used = held.flat.feature[held.flat.feature >= 0]
        return {"split": np.bincount(used, minlength=held.num_columns).astype(np.float64)}

    def seed_matters(self, num_documents: int) -> bool:
        return False

    def save(self, folder: Path) -> None:
        held = check_fitted(self._held)
        name = f"model{held.file.ending}"
        (folder / name).write_bytes(held.file.content)
        content = {
            "file": name,
            "digest": model_digest(held.file.content),
            "num_columns": held.num_columns,
            "columns": {str(feature): column for feature, column in sorted(held.columns.items())},
        }
        (folder / SETTINGS_FILE_OF_IMPORT).write_text(json.dumps(content, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        path = folder / SETTINGS_FILE_OF_IMPORT
        types = {"file": str, "digest": str, "num_columns": int, "columns": dict[str, int]}
        content = read_model_json(path, types)
        if content["file"] not in _NAMES:
            raise _damaged(path, f"file is {content['file']!r}, not one of {', '.join(_NAMES)}")
        file = read_model_file(folder / content["file"], OF_A_FINISHED_RUN)
        if model_digest(file.content) != content["digest"]:
            raise ResultError(
                f"{file.path} differs from the file that was imported: it was changed, or copied only in "
                f"part. {_IMPORT_AGAIN}."
            )
        columns = _checked_columns(path, content, file)
        return cls.of(file, columns, content["num_columns"])


def _checked_columns(path: Path, content: Mapping[str, Any], file: ModelFile) -> dict[int, int]:
    """Returns feature -> column from the JSON of a saved ranker.

    Raises:
        ResultError: A used feature has no column, or a column is out of range.
    """
    num_columns = content["num_columns"]
    if not 1 <= num_columns <= MOST_COLUMNS:
        raise _damaged(path, f"num_columns is {num_columns}, not between 1 and {MOST_COLUMNS:,}")
    columns = {
        int(text): column
        for text, column in content["columns"].items()
        if text.isdecimal() and len(text) < 10
    }
    used = used_features(file.model.trees)
    if columns.keys() != set(used) or len(content["columns"]) != len(columns):
        raise _damaged(path, "columns does not have exactly the features that the model uses")
    wrong = next((column for column in columns.values() if not 0 <= column < num_columns), None)
    if wrong is not None:
        raise _damaged(path, f"columns has {wrong}, not a column from 0 to {num_columns - 1}")
    return columns


def _damaged(path: Path, reason: str) -> ResultError:
    return ResultError(f"{path} is not a saved ranker: {reason}. {_IMPORT_AGAIN}.")


def _on_columns(ensemble: Ensemble, columns: Mapping[int, int]) -> Ensemble:
    """Returns the trees with columns of the data as features."""
    trees = tuple(
        replace(
            tree,
            root=tree.root
            if isinstance(tree.root, Leaf)
            else rebuilt(tree.root, lambda node: {"feature": columns[node.feature]}, lambda value: value),
        )
        for tree in ensemble.trees
    )
    return replace(ensemble, trees=trees)

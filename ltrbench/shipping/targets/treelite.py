"""Checkpoints of treelite, evaluated by its library GTIL: `--to treelite`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.models.treelite_file import read_treelite, write_treelite
from ltrbench.shapes import Features
from ltrbench.shipping.target import Engine, Export, ShippedModel, Target

try:
    import treelite
except ImportError as error:
    raise ImportError("--to treelite needs treelite: pip install 'ltrbench[treelite]'") from error

_FILE = "model.treelite"
_REQUEST = f"""\
import treelite

model = treelite.Model.deserialize("{_FILE}")
scores = treelite.gtil.predict(model, features)[:, 0, 0]
"""


@dataclass
class TreeliteTarget(Target):
    """A checkpoint of treelite."""

    name: ClassVar[str] = "treelite"

    def export(self, model: ShippedModel) -> Export:
        content = write_treelite(model.trees(self.name), model.feature_names)
        notes = (
            f"Written by treelite {treelite.__version__}; treelite 4.0 and newer read it.",
            "A checkpoint holds no code, but treelite does not check its numbers: a damaged or hostile file "
            "can crash the process that reads it.",
        )
        return Export(files={_FILE: content}, request=_REQUEST, notes=notes)

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        loaded = read_treelite(export.files[_FILE])
        dtype = str(loaded.output_type)

        def scores(features: Features) -> NDArray[np.floating[Any]]:
            if not len(features):
                return np.zeros(0, dtype=dtype)
            values = np.ascontiguousarray(features, dtype=dtype)
            column: NDArray[np.floating[Any]] = treelite.gtil.predict(loaded, values, nthread=1)[:, 0, 0]
            return column

        return Engine(scores, name="treelite GTIL", version=str(treelite.__version__), score_dtype=dtype)

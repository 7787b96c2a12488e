"""ONNX models, evaluated by onnxruntime: `--to onnx`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ltrbench.errors import require_choice
from ltrbench.models.onnx_file import INPUT, OUTPUT, write_onnx
from ltrbench.shapes import Features
from ltrbench.shipping.target import Engine, Export, ShippedModel, Target

try:
    import onnxruntime
except ImportError as error:
    raise ImportError("--to onnx needs onnxruntime: pip install 'ltrbench[onnx]'") from error

_FILE = "model.onnx"
_REQUEST = f"""\
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession("{_FILE}", options, providers=["CPUExecutionProvider"])
(scores,) = session.run(["{OUTPUT}"], {{"{INPUT}": features}})  # float32 (documents, features)
"""


@dataclass
class OnnxTarget(Target):
    """An ONNX model with one TreeEnsemble operator."""

    name: ClassVar[str] = "onnx"

    form: Literal["auto", "float32", "float64"] = "auto"
    """dtype of thresholds, leaf values and scores. auto: that of the model's scores, which is exact."""

    def __post_init__(self) -> None:
        require_choice("form", self.form, ("auto", "float32", "float64"))

    def export(self, model: ShippedModel) -> Export:
        ensemble = model.trees(self.name)
        form = ensemble.score_dtype if self.form == "auto" else self.form
        notes = [
            "The operator TreeEnsemble of ai.onnx.ml opset 5 needs onnxruntime 1.21 or newer.",
            f'The input "{INPUT}" is float32, with NaN for missing values; the output "{OUTPUT}" is {form}.',
            "With one thread onnxruntime sums the trees in order. With more threads the last bits of a score "
            "depend on the number of threads and on the size of the batch.",
        ]
        if form != ensemble.score_dtype:
            notes.append(f"The model sums in {ensemble.score_dtype}, so the scores differ by rounding.")
        content = write_onnx(ensemble, model.feature_names, model.name, form)
        return Export(files={_FILE: content}, request=_REQUEST, notes=tuple(notes))

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            export.files[_FILE], options, providers=["CPUExecutionProvider"]
        )
        is_double = session.get_outputs()[0].type == "tensor(double)"

        def scores(features: Features) -> NDArray[np.floating[Any]]:
            values = np.ascontiguousarray(features, dtype=np.float32)
            column: NDArray[np.floating[Any]] = session.run([OUTPUT], {INPUT: values})[0]
            return column

        return Engine(
            scores,
            name="onnxruntime",
            version=str(onnxruntime.__version__),
            score_dtype="float64" if is_double else "float32",
        )

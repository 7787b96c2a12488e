"""A target whose engine is not installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ltrbench.shipping.target import Engine, Export, ShippedModel, Target


@dataclass(frozen=True)
class AbsentPackageTarget(Target):
    name: ClassVar[str] = "absent_package"

    def export(self, model: ShippedModel) -> Export:
        return Export({"model.bin": b"model"}, "load it")

    def engine(self, model: ShippedModel, export: Export) -> Engine | None:
        raise ImportError(
            "the evaluator is not installed: pip install 'ltrbench[evaluator]'"
        )

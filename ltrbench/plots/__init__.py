"""Pictures of finished runs: figures for the page of the report and for PNG files, readable without colors.

A picture shows one series per row of a comparison, with the runs (folds and seeds) of the row. A backend has
the same color and marker in every picture of every sweep; the rows of one backend differ in line style, fill
style and hatch. A series without data for a picture is left out, and a picture without series is not drawn.
The same runs give the same bytes.

To add a picture, write a function from series and a page to a figure or None, and show it in a section of
`ltrbench.compare.sections`. The drawing functions import matplotlib themselves, so that `--help` is fast.
pyplot is never imported, because its state is global.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ltrbench.plots.drawing import DPI, Series, curves_by_iteration, importance_bars, short_name
from ltrbench.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Series", "draw_run", "short_name", "write_figures"]


def draw_run(run: Run, folder: Path) -> list[Path]:
    """Draws learning_curve.png, with the metric of early stopping, and importances.png of one run.

    Args:
        folder: created if it does not exist.

    Returns:
        The files written; empty for a run that recorded neither.
    """
    series = [Series(run.result.model, run.result.model, (run,))]
    # A user's backend may have an `early_stopping` of another type.
    stopping = run.result.settings.get("model", {}).get("early_stopping")
    stopping = stopping if isinstance(stopping, Mapping) else {}
    figures = {
        "learning_curve.png": curves_by_iteration(series, str(stopping.get("metric", ""))),
        "importances.png": importance_bars(series),
    }
    return write_figures(folder, figures)


def write_figures(folder: Path, figures: Mapping[str, Figure | None]) -> list[Path]:
    """Writes figures by file name, without those that are None; returns the files written."""
    written = []
    for name, figure in figures.items():
        if figure is not None:
            folder.mkdir(parents=True, exist_ok=True)
            # Without a date and a version in the file, so that the same data give the same bytes.
            figure.savefig(folder / name, dpi=DPI, metadata={"Software": None})
            written.append(folder / name)
    return written

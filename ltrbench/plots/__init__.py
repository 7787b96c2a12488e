"""Pictures of finished runs, as PNG files for print: 150 dpi, and readable without colors.

    learning_curves.png     the validation metric by iteration, with the iteration each run kept; train above
    ndcg_at_k.png           NDCG@k on test against k
    importances.png         feature importances per model: permutation, SHAP, and share of gain
    time_against_ndcg.png   the test metric against the fit time in seconds, with the Pareto front

The files:

    tree_views   trees as text and JSON
    report       pictures of the report only, and of searches
    drawing      pictures of runs, and what all pictures share

A picture shows one series per row of a comparison, with the runs (folds and seeds) of the row. A backend has
the same color and marker in every picture of every sweep; the rows of one backend differ in line style, fill
style and hatch. A series without data for a picture is left out, and a picture without series is not drawn.
The same runs give the same bytes.

To add a picture, add a file with a function from series to a Figure or None, and a line in `figures_of`. The
drawing functions import matplotlib themselves, so that `--help` is fast. pyplot is never imported, because
its state is global.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ltrbench.plots.drawing import (
    DPI,
    FIT,
    Series,
    curves_by_iteration,
    importance_bars,
    metric_against_cost,
    ndcg_by_cutoff,
    short_name,
)
from ltrbench.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Series", "draw_run", "draw_series", "short_name", "write_figures"]


def draw_series(series: Sequence[Series], metric: str, folder: Path) -> list[Path]:
    """Draws every picture for which the runs have data.

    Args:
        metric: metric of the values of the series, and of the learning curves if it was recorded.
        folder: created if it does not exist.

    Returns:
        The files written.
    """
    return write_figures(folder, figures_of(series, metric))


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


def figures_of(series: Sequence[Series], metric: str) -> dict[str, Figure | None]:
    return {
        "learning_curves.png": curves_by_iteration(series, metric),
        "ndcg_at_k.png": ndcg_by_cutoff(series),
        "importances.png": importance_bars(series),
        "time_against_ndcg.png": metric_against_cost(
            series, [item.fit_seconds for item in series], FIT, metric
        ),
    }


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

"""Pictures of finished runs, as PNG files that print well: at 150 dpi, and readable without colours.

    learning_curves.png     the validation metric by iteration, the kept iterations marked, and train above
    ndcg_at_k.png           NDCG@k on test against k
    importances.png         what features are worth to each model: permutation, SHAP, and share of gain
    time_against_ndcg.png   the test metric against the seconds that a fit took, with the Pareto front

The files:

    learning_curves   metrics of validation and train by iteration
    cutoffs           NDCG@k against k
    importances       importances of features
    costs             metrics against times and sizes, with the Pareto front
    tree_views        trees as text, JSON and a picture
    report            pictures that the report alone shows
    drawing           what all pictures share

A picture shows series: one is a row of a comparison, with its runs (folds and seeds). A backend has one
colour and one marker in every picture of every sweep; the rows of one backend differ by their line, their
filling and their tint. A series without the data for a picture is left out of it, and a picture without any
series is not drawn. The same runs give the same bytes.

A new picture is a file in here with a function from series to a Figure, or None, and a line in `figures_of`.
Matplotlib is imported by the functions that draw, so that `--help` need not wait for it, and never through
pyplot, whose state is global.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ltrbench.plots.costs import FIT, fit_seconds, metric_against_cost
from ltrbench.plots.cutoffs import ndcg_by_cutoff
from ltrbench.plots.drawing.panels import DPI, short_name
from ltrbench.plots.drawing.series import Series, finished
from ltrbench.plots.importances import importance_bars
from ltrbench.plots.learning_curves import curves_by_iteration
from ltrbench.results import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Series", "draw_run", "draw_series", "short_name"]


def draw_series(series: Sequence[Series], metric: str, folder: Path) -> list[Path]:
    """Draws every picture for which the runs hold data.

    Args:
        metric: what the series' values are in, and the learning curves where it was recorded.
        folder: made where it does not exist.

    Returns:
        The files written.
    """
    return _write(folder, figures_of(finished(series), metric))


def draw_run(run: Run, folder: Path) -> list[Path]:
    """Draws learning_curve.png, of the metric that decided when to stop, and importances.png of one run.

    Args:
        folder: made where it does not exist.

    Returns:
        The files written; none for a run that recorded neither.
    """
    series = finished([Series(run.result.model, run.result.model, (run,))])
    # A user's backend may mean something else by the name than our rule.
    stopping = run.result.settings.get("model", {}).get("early_stopping")
    stopping = stopping if isinstance(stopping, Mapping) else {}
    figures = {
        "learning_curve.png": curves_by_iteration(series, str(stopping.get("metric", ""))),
        "importances.png": importance_bars(series),
    }
    return _write(folder, figures)


def figures_of(series: Sequence[Series], metric: str) -> dict[str, Figure | None]:
    return {
        "learning_curves.png": curves_by_iteration(series, metric),
        "ndcg_at_k.png": ndcg_by_cutoff(series),
        "importances.png": importance_bars(series),
        "time_against_ndcg.png": metric_against_cost(series, [*map(fit_seconds, series)], FIT, metric),
    }


def _write(folder: Path, figures: Mapping[str, Figure | None]) -> list[Path]:
    written = []
    for name, figure in figures.items():
        if figure is not None:
            folder.mkdir(parents=True, exist_ok=True)
            # Neither a date nor a version stands in the file, so that the same data give the same bytes.
            figure.savefig(folder / name, dpi=DPI, metadata={"Software": None})
            written.append(folder / name)
    return written

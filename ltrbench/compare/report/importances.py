"""What features are worth to each model, on one scale."""

from __future__ import annotations

from ltrbench.compare.report.parts import Figures, Section
from ltrbench.compare.report.shown import Shown
from ltrbench.compare.report.svg import PAGE, inlined
from ltrbench.plots.importances import importance_bars


def section(shown: Shown) -> Section | None:
    """None where no run recorded any."""
    figure = importance_bars(shown.series, PAGE)
    if figure is None:
        return None
    drawn = inlined(figure, f"{shown.name}-importances", "Features worth most")
    return Section("importances", "Importances", "", [Figures([drawn])])

"""Tables of conventions and metrics."""

from __future__ import annotations

import inspect

import numpy as np

from docs.macros.tables import code, heading, table, words
from ltrbench.data import RankingDataset
from ltrbench.metrics import DEFAULT, PRESETS, Convention, evaluate
from ltrbench.metrics.functions import ALIASES, METRICS, OF_COLUMNS


def conventions() -> str:
    """Returns the table of presets."""
    rows = [
        [
            f"[`{name}`](#convention-{name})",
            *(
                _setting(convention, field)
                for field in ("gain", "discount", "ties", "no_relevant")
            ),
            ", ".join(convention.describe()["metrics"] or ["all"]),
        ]
        for name, convention in PRESETS.items()
    ]
    return table(
        [
            "convention",
            "gain",
            "discount",
            "ties",
            "query without a relevant document",
            "metrics",
        ],
        rows,
    )


def _setting(convention: Convention, field: str) -> str:
    """Returns the value of a field, with the metrics that have another value."""
    described = convention.describe()
    departures = [
        f"{metric}: {values[field]}"
        for metric, values in described["by_metric"].items()
        if field in values
    ]
    # In the column of gains `exponential_gain` is shown as `exponential`.
    value = str(described[field]).removesuffix(f"_{field}").replace("_", " ")
    return f"{value} ({', '.join(departures)})" if departures else value


def convention_sections() -> str:
    """Returns one section per preset: its quirks and its differences from the default."""
    return "\n\n".join(
        _convention_section(name, convention) for name, convention in PRESETS.items()
    )


def _convention_section(name: str, convention: Convention) -> str:
    default, described = DEFAULT.describe(), convention.describe()
    quirks, by_metric = described.pop("quirks"), described.pop("by_metric")
    is_default = convention is DEFAULT
    shown = {
        field: value
        for field, value in described.items()
        if field not in ("name", "metrics")
        and value != (None if is_default else default[field])
    }
    rows = [[code(field), code(words(value))] for field, value in shown.items()]
    rows += [
        [f"`{field}` of {metric}", code(words(value))]
        for metric, departures in by_metric.items()
        for field, value in departures.items()
    ]
    title = "setting" if is_default else "changed setting"
    listed = "\n".join(f"- {quirk}" for quirk in quirks)
    title_of_section = heading(3, f"`{name}`", f"convention-{name}")
    return "\n\n".join(
        part
        for part in (title_of_section, listed, table([title, "value"], rows))
        if part
    )


def metrics() -> str:
    """Returns the table of metrics: name and first paragraph of the docstring."""
    rows = []
    for name, metric in {**METRICS, **OF_COLUMNS}.items():
        names = [name, *(alias for alias, meant in ALIASES.items() if meant == name)]
        formula = inspect.getdoc(metric.function) or ""
        cutoff = "@k:c" if name in OF_COLUMNS else "" if metric.no_cutoff else "@k"
        first = " ".join(formula.partition("\n\n")[0].split())
        rows.append([", ".join(code(f"{each}{cutoff}") for each in names), first])
    return table(["name", "definition"], rows)


def ndcg_by_library() -> str:
    """Returns NDCG@2 of one set of scores under every convention."""
    data = RankingDataset(
        features=[[0.0]] * 6,  # type: ignore[arg-type]
        labels=[3, 0, 1, 2, 0, 0],  # type: ignore[arg-type]
        query_start=[0, 4, 6],  # type: ignore[arg-type]
        document_ids=np.array(list("abcdef")),  # trec_eval orders ties by document id
    )
    scores = np.array([0.1, 0.2, 0.9, 0.3, 0.5, 0.5])
    values = {
        name: evaluate(data, scores, ["ndcg@2"], convention).means["ndcg@2"]
        for name, convention in PRESETS.items()
    }
    return table(list(values), [[f"{value:.4f}" for value in values.values()]])

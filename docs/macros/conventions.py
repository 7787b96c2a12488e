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
    rows = []
    for name, convention in PRESETS.items():
        defined = convention.describe()["metrics"] or ["all"]
        row = [
            f"[`{name}`](#convention-{name})",
            _setting(convention, "gain"),
            _setting(convention, "discount"),
            _setting(convention, "ties"),
            _setting(convention, "no_relevant"),
            ", ".join(defined),
        ]
        rows.append(row)
    header = [
        "convention",
        "gain",
        "discount",
        "ties",
        "query without a relevant document",
        "metrics",
    ]
    return table(header, rows)


def _setting(convention: Convention, field: str) -> str:
    """Returns the value of a field, with the metrics that have another value."""
    described = convention.describe()
    departures = [
        f"{metric}: {values[field]}"
        for metric, values in described["by_metric"].items()
        if field in values
    ]
    # In the column of gains `exponential_gain` is shown as `exponential`.
    value = str(described[field]).removesuffix(f"_{field}")
    shown = value.replace("_", " ")
    if departures:
        shown += f" ({', '.join(departures)})"
    return shown


def convention_sections() -> str:
    """Returns one section per preset: its quirks and its differences from the default."""
    return "\n\n".join(
        _convention_section(name, convention) for name, convention in PRESETS.items()
    )


def _convention_section(name: str, convention: Convention) -> str:
    described = convention.describe()
    quirks = described.pop("quirks")
    by_metric = described.pop("by_metric")
    is_default = convention is DEFAULT
    unchanged = {} if is_default else DEFAULT.describe()
    rows = []
    for field, value in described.items():
        if field not in ("name", "metrics") and value != unchanged.get(field):
            rows.append([code(field), code(words(value))])
    for metric, departures in by_metric.items():
        for field, value in departures.items():
            rows.append([f"`{field}` of {metric}", code(words(value))])
    parts = [heading(3, f"`{name}`", f"convention-{name}")]
    if quirks:
        parts.append("\n".join(f"- {quirk}" for quirk in quirks))
    title = "setting" if is_default else "changed setting"
    parts.append(table([title, "value"], rows))
    return "\n\n".join(parts)


def metrics() -> str:
    """Returns the table of metrics: name and first paragraph of the docstring."""
    rows = []
    for name, metric in {**METRICS, **OF_COLUMNS}.items():
        aliases = [alias for alias, meant in ALIASES.items() if meant == name]
        cutoff = _cutoff(name)
        names = [code(f"{each}{cutoff}") for each in (name, *aliases)]
        docstring = inspect.getdoc(metric.function) or ""
        first_paragraph, _, _ = docstring.partition("\n\n")
        definition = " ".join(first_paragraph.split())
        rows.append([", ".join(names), definition])
    return table(["name", "definition"], rows)


def _cutoff(name: str) -> str:
    """Returns what may follow the name of a metric."""
    if name in OF_COLUMNS:
        return "@k:c"
    return "" if METRICS[name].no_cutoff else "@k"


def ndcg_by_library() -> str:
    """Returns NDCG@2 of one set of scores under every convention."""
    data = RankingDataset(
        features=np.zeros((6, 1), dtype=np.float32),
        labels=[3, 0, 1, 2, 0, 0],  # type: ignore[arg-type]
        query_start=[0, 4, 6],  # type: ignore[arg-type]
        document_ids=np.array(list("abcdef")),  # trec_eval orders ties by document id
    )
    scores = np.array([0.1, 0.2, 0.9, 0.3, 0.5, 0.5])
    cells = []
    for convention in PRESETS.values():
        means = evaluate(data, scores, ["ndcg@2"], convention).means
        cells.append(f"{means['ndcg@2']:.4f}")
    return table(list(PRESETS), [cells])

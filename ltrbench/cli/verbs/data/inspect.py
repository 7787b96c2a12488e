"""The verb `inspect`: a summary of a data set, and its problems for each backend of conf/model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltrbench.cli.files import JSON_OPTION, PATH, READ_OPTION, echo, echo_json, read, wrapped

if TYPE_CHECKING:
    from ltrbench.experiment.inspection import Inspection
    from ltrbench.rankers import Ranker

_SHOWN = 12  # maximum number of names or labels in the text output; --json has all
_MOSTLY = 0.9  # share of queries sorted by label from which the order of rows is not accidental


@click.command("inspect")
@click.argument("data", metavar="DATA...", nargs=-1, required=True, type=PATH)
@READ_OPTION
@JSON_OPTION
def inspect_verb(data: tuple[Path, ...], reading: tuple[str, ...], as_object: bool) -> None:
    """Summarizes DATA, and lists what each backend would reject or ignore in it.

    Several files form one split, as in data.train=[part1.txt,part2.txt].

    \b
        python -m ltrbench inspect train.txt
        python -m ltrbench inspect train.csv --read label=grade --json
    """
    from ltrbench.experiment.inspection import inspect_data

    inspection = inspect_data(read(data, reading), _rankers())
    if as_object:
        echo_json({"data": list(map(str, data)), **dataclasses.asdict(inspection)})
    else:
        echo(_render(", ".join(map(str, data)), inspection))


def _rankers() -> dict[str, Ranker]:
    """Returns model -> the ranker that its YAML in conf/model builds with the default settings."""
    from hydra import compose, initialize_config_dir

    from ltrbench.conf_folder import conf_dir
    from ltrbench.config import build, register_schema
    from ltrbench.rankers import Ranker

    register_schema()
    models = sorted(path.stem for path in conf_dir().glob("model/*.yaml") if not path.stem.startswith("_"))
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        return {
            model: build(compose("config", overrides=[f"model={model}"]), "model", Ranker) for model in models
        }


def _render(data: str, inspection: Inspection) -> str:
    no_relevant = _of_queries(inspection.without_relevant, inspection)
    facts = [
        ("documents", str(inspection.documents)),
        ("queries", str(inspection.queries)),
        ("features", str(inspection.features)),
        ("labels", _listed([f"{label}: {count}" for label, count in inspection.labels.items()])),
        *_label_facts(inspection),
        ("query sizes", _query_sizes(inspection.query_sizes)),
        ("no relevant", f"{no_relevant} without a document of label 1 or more"),
        ("only relevant", _of_queries(inspection.only_relevant, inspection)),
        ("one document", _of_queries(inspection.single_document, inspection)),
        *_feature_facts(inspection),
        *_row_facts(inspection),
        *_weight_facts(inspection),
        ("fingerprint", inspection.fingerprint),
    ]
    width = max(len(name) for name, _ in facts) + 2
    lines = [wrapped(f"{name:{width}}{fact}", " " * width) for name, fact in facts]
    return "\n".join([data, "", *lines, "", *_concerns(inspection.concerns)])


def _label_facts(inspection: Inspection) -> Iterator[tuple[str, str]]:
    if inspection.fractional_labels:
        yield (
            "not whole",
            f"labels of {inspection.fractional_labels} documents. The gain 2^label - 1 is defined for "
            "integer grades: a run rejects other labels unless data.whole_labels=false",
        )


def _query_sizes(sizes: Mapping[str, float]) -> str:
    return (
        f"min {sizes['0']:g}, median {sizes['0.5']:g}, mean {sizes['mean']:.1f}, max {sizes['1']:g}; "
        f"5 %, 25 %, 75 %, 95 %: "
        f"{', '.join(f'{sizes[quantile]:g}' for quantile in ('0.05', '0.25', '0.75', '0.95'))}"
    )


def _of_queries(count: int, inspection: Inspection) -> str:
    return f"{count} queries ({count / inspection.queries:.1%})"


def _feature_facts(inspection: Inspection) -> Iterator[tuple[str, str]]:
    faults = inspection.feature_faults
    missing = [f"{name}: {count}" for name, count in faults.missing.items()]
    yield "missing", _counted(missing, "features have missing values")
    yield "constant", _counted(faults.constant, "features have the same value in all documents")
    yield (
        "same in query",
        _counted(
            faults.constant_within_queries,
            "features are constant within every query, so they rank no documents",
        ),
    )


def _row_facts(inspection: Inspection) -> Iterator[tuple[str, str]]:
    order = inspection.row_order
    fact = (
        f"{order.mixed} queries have different labels: {order.best_first} are sorted best label first, "
        f"{order.worst_first} worst first; query ids are "
        f"{'ascending' if order.query_ids_ascend else 'unsorted'}"
    )
    if order.mixed and order.best_first >= _MOSTLY * order.mixed:
        fact += (
            ". Ties in row order inflate the metrics of every ranker: shuffle the rows, or use ties=expected"
        )
    if order.mixed and order.worst_first >= _MOSTLY * order.mixed:
        fact += (
            ". Ties in row order deflate the metrics of every ranker: shuffle the rows, or use ties=expected"
        )
    yield "rows", fact


def _weight_facts(inspection: Inspection) -> Iterator[tuple[str, str]]:
    weights = inspection.query_weights
    if weights is not None:
        vary = "; they vary within queries" if inspection.weights_vary_within_queries else ""
        yield (
            "query weights",
            f"min {weights['min']:g}, mean {weights['mean']:g}, max {weights['max']:g}{vary}",
        )
    positions = inspection.positions
    if positions is not None:
        yield (
            "positions",
            f"{positions['min']} to {positions['max']}. They are not used in training unless a backend is "
            "set to learn position biases: see below",
        )


def _counted(names: Sequence[str], what: str) -> str:
    return f"{len(names)} {what}{': ' if names else ''}{_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    """Joins the first names of a list; --json has the others."""
    left = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {left} more (see --json)" if left > 0 else "")


def _concerns(concerns: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield "Problems for each backend, with the default settings:"
    for model, sentences in concerns.items():
        for sentence in sentences or ("none.",):
            yield wrapped(f"- {model}: {sentence}", "  ")

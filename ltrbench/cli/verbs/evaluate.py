"""Verbs on files of data and scores: `evaluate`, `conventions`, `inspect`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ltrbench.cli.console import (
    JSON_OPTION,
    PATH,
    PLUGIN_OPTION,
    READ_OPTION,
    echo,
    echo_json,
    facts_as_lines,
    read,
    split_settings,
    terminal_width,
    wrapped,
    write_output,
)
from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, DataError
from ltrbench.metrics import PRESETS, Convention, Evaluation
from ltrbench.shapes import Scores
from ltrbench.tables import Table, TableColumn, TableRow, is_available

if TYPE_CHECKING:
    from ltrbench.experiment.loading import Inspection
    from ltrbench.rankers import Ranker

METRICS_OF_A_RUN = "ndcg@1,ndcg@5,ndcg@10,map,mrr,precision@10"
"""The metrics of conf/config.yaml, which only Hydra reads; a test checks that the two agree."""

CONVENTION_OPTION = click.option(
    "--convention",
    "preset_name",
    default="default",
    metavar="NAME",
    help=f"Definition of the metrics: {', '.join(PRESETS)}.",
)
SETTINGS_OPTION = click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Setting of the convention, such as gain=linear, ties=worst or no_relevant=0; may be repeated.",
)
_METRICS_OPTION = click.option(
    "--metrics",
    "names",
    default=METRICS_OF_A_RUN,
    show_default=True,
    metavar="NAMES",
    help="Metrics, with or without a cutoff, separated by commas.",
)


@click.command("evaluate")
@click.argument("data", type=PATH)
@click.argument("scores", type=click.Path(path_type=Path, allow_dash=True))
@_METRICS_OPTION
@CONVENTION_OPTION
@SETTINGS_OPTION
@click.option("--per-query", type=PATH, metavar="FILE", help="Also write a CSV file with one row per query.")
@PLUGIN_OPTION
@READ_OPTION
@JSON_OPTION
def evaluate_verb(
    data: Path,
    scores: Path,
    names: str,
    preset_name: str,
    settings: tuple[str, ...],
    per_query: Path | None,
    reading: tuple[str, ...],
    as_object: bool,
) -> None:
    """Computes the metrics of a score file of any system.

    SCORES has one score per line, in the order of the documents of DATA, or is - for standard input.

    \b
        python -m ltrbench evaluate test.txt scores.txt --metrics ndcg@10,map
        python -m ltrbench evaluate test.txt scores.txt --convention lightgbm --json
    """
    from ltrbench.data.score_files import read_scores
    from ltrbench.metrics import evaluate, preset, with_settings

    convention = with_settings(preset(preset_name), split_settings("--set", settings))
    metrics = _parse_names(names)
    dataset = read(data, reading)
    ranked = dataset.from_file_order(read_scores(scores, dataset.num_documents))
    evaluation = evaluate(dataset, ranked, metrics, convention)
    if per_query is not None:
        columns = [values.tolist() for values in evaluation.per_query.values()]
        rows = zip(dataset.query_ids.tolist(), dataset.query_sizes.tolist(), *columns, strict=True)
        write_output(Table.of(["query", "documents", *evaluation.per_query], rows).csv(), per_query)
    if as_object:
        echo_json(
            {
                "convention": evaluation.convention.name,
                "queries": dataset.num_queries,
                "share_without_relevant": evaluation.share_without_relevant,
                "skipped": dict(evaluation.skipped),
                "metrics": {name: _or_null(mean) for name, mean in evaluation.means.items()},
            }
        )
    else:
        echo(_render_evaluation(data, dataset, evaluation))


@click.command("conventions")
@click.argument("data", type=PATH)
@click.argument("scores", type=click.Path(path_type=Path, allow_dash=True))
@_METRICS_OPTION
@PLUGIN_OPTION
@READ_OPTION
@JSON_OPTION
def conventions_verb(data: Path, scores: Path, names: str, reading: tuple[str, ...], as_object: bool) -> None:
    """Evaluates a score file under the convention of every library.

    The table shows why the NDCG values of libraries differ. SCORES is as for evaluate. If a library does not
    define a metric on DATA, the metric is left out and the reason is given.

    \b
        python -m ltrbench conventions test.txt scores.txt --metrics ndcg@10,map
    """
    from ltrbench.data.score_files import read_scores

    metrics = _parse_names(names)
    dataset = read(data, reading)
    ranked = dataset.from_file_order(read_scores(scores, dataset.num_documents))
    rows = [_convention_row(dataset, ranked, metrics, convention) for convention in PRESETS.values()]
    if as_object:
        records = [
            {
                "convention": row.convention.name,
                "metrics": {name: _or_null(row.means.get(name)) for name in metrics},
                "undefined": dict(row.undefined),
            }
            for row in rows
        ]
        echo_json({"queries": dataset.num_queries, "share_without_relevant": rows[0].share, "rows": records})
    else:
        echo(_render_conventions(data, dataset, ranked, metrics, rows))


@dataclass(frozen=True)
class _ConventionRow:
    """The metrics of one convention.

    Attributes:
        means: metric -> mean, for the metrics that the convention defines; NaN if no query counts.
        undefined: metric -> reason why the convention does not define it on these data.
        share: share of the queries without a relevant document.
    """

    convention: Convention
    means: Mapping[str, float]
    undefined: Mapping[str, str]
    share: float


def _convention_row(
    dataset: RankingDataset, scores: Scores, names: Sequence[str], convention: Convention
) -> _ConventionRow:
    """Evaluates one metric at a time, so that an undefined metric does not affect the others."""
    from ltrbench.metrics import evaluate, has_relevant_document

    means, undefined = {}, {}
    for name in names:
        try:
            means[name] = evaluate(dataset, scores, [name], convention).means[name]
        # The only possible DataError is a label without a gain in this convention.
        except (ConfigError, DataError) as error:
            undefined[name] = str(error)
    share = float(np.mean(~has_relevant_document(dataset, convention)))
    return _ConventionRow(convention, means, undefined, share)


def _parse_names(names: str) -> list[str]:
    from ltrbench.metrics import parse_metric

    metrics = [name.strip() for name in names.split(",")]
    for name in metrics:
        parse_metric(name)
    return list(dict.fromkeys(metrics))


def _or_null(value: float | None) -> float | None:
    return value if is_available(value) else None


def _render_evaluation(data: Path, dataset: RankingDataset, evaluation: Evaluation) -> str:
    columns = [TableColumn("metric", left=True), TableColumn("mean", ".6f"), TableColumn("queries counted")]
    rows: list[TableRow] = [
        [name, mean, dataset.num_queries - evaluation.skipped[name]]
        for name, mean in evaluation.means.items()
    ]
    convention = evaluation.convention
    parts = [
        _counts(data, dataset, evaluation.share_without_relevant),
        Table(columns, rows).markdown(),
        wrapped(f"Convention {convention.name}: {rules(convention.describe())}."),
    ]
    if convention.quirks:
        parts.append("\n".join(wrapped(f"- {quirk}", "  ") for quirk in convention.quirks))
    return "\n\n".join(parts)


def _counts(data: Path, dataset: RankingDataset, share: float) -> str:
    return wrapped(
        f"{data}: {dataset.num_documents} documents of {dataset.num_queries} queries; "
        f"{share:.1%} of the queries have no relevant document."
    )


_NO_RELEVANT = {"skip": "left out", "0": "counts 0", "1": "counts 1"}


def rules(fields: Mapping[str, Any]) -> str:
    """Returns the main choices of a described convention, and the exceptions of single metrics."""
    departures = [
        f"in {metric} {', '.join(f'{key} = {value}' for key, value in values.items())}"
        for metric, values in fields.get("by_metric", {}).items()
        if values
    ]
    return "; ".join(
        [
            f"{str(fields.get('gain')).replace('_', ' ')}, ties {str(fields.get('ties')).replace('_', ' ')}",
            f"a query without a relevant document {_NO_RELEVANT.get(str(fields.get('no_relevant')))}",
            *departures,
        ]
    )


def _render_conventions(
    data: Path, dataset: RankingDataset, scores: Scores, names: Sequence[str], rows: Sequence[_ConventionRow]
) -> str:
    from ltrbench.metrics import parse_metric, rank
    from ltrbench.metrics.conventions import Ties

    cells: list[TableRow] = []
    for row in rows:
        fields = row.convention.of(parse_metric(names[0])[0]).describe()
        policies = [str(fields[key]).replace("_", " ") for key in ("gain", "ties")]
        absent = _NO_RELEVANT[fields["no_relevant"]]
        cells.append([row.convention.name, *policies, absent, *(row.means.get(name) for name in names)])
    header = ["convention", "gain", "ties", "no relevant", *names]
    sizes = rank(dataset, scores, Ties.EXPECTED).tie_size
    share, num_tied = rows[0].share, int(sizes[sizes > 1].sum())
    parts = [
        _counts(data, dataset, share),
        Table.of(header, cells, ".4f").markdown(terminal_width()),
        wrapped(f"The columns gain, ties and no relevant describe {names[0]}. Reasons for the differences:"),
    ]
    notes = [
        f"- A share p = {share:.4f} of the queries has no relevant document. If they count 0, mean_0 = "
        "(1 - p) mean_skip; if they count 1, mean_1 = mean_0 + p.",
        f"- {num_tied} of {dataset.num_documents} documents have the same score as another document of their "
        "query. If the rows are sorted by label, ties in row order inflate the metric.",
    ]
    undefined: dict[str, list[str]] = {}
    for row in rows:
        for name, reason in row.undefined.items():
            undefined.setdefault(f"{row.convention.name}: {reason}", []).append(name)
    parts.append("\n".join(wrapped(note, "  ") for note in notes))
    if undefined:
        reasons = [f"- {', '.join(metrics)} {reason}" for reason, metrics in undefined.items()]
        parts.append("\n".join(["Not defined:", *(wrapped(reason, "  ") for reason in reasons)]))
    return "\n\n".join(parts)


# ---- The verb `inspect`: a summary of a data set, and its problems for each backend of conf/model.

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
    from ltrbench.experiment.loading import inspect_data

    rankers, unavailable = _rankers()
    inspection = inspect_data(read(data, reading), rankers)
    concerns = dict(sorted({**inspection.concerns, **unavailable}.items()))
    if as_object:
        record = {**dataclasses.asdict(inspection), "concerns": concerns}
        echo_json({"data": list(map(str, data)), **record})
        return
    lines = [
        wrapped(f"- {model}: {sentence}", "  ")
        for model, sentences in concerns.items()
        for sentence in sentences or ("none.",)
    ]
    title = "Problems for each backend, with the default settings:"
    echo("\n".join([", ".join(map(str, data)), "", facts_as_lines(_facts(inspection)), "", title, *lines]))


def _rankers() -> tuple[dict[str, Ranker], dict[str, tuple[str]]]:
    """Returns model -> the ranker that its YAML in conf/model builds with the default settings, and
    model -> why its ranker cannot be imported."""
    from ltrbench.config import build, composed
    from ltrbench.folders import conf_dir
    from ltrbench.rankers import Ranker

    models = sorted(path.stem for path in conf_dir().glob("model/*.yaml") if not path.stem.startswith("_"))
    rankers: dict[str, Ranker] = {}
    unavailable = {}
    # All models in one configuration, because composing takes a tenth of a second.
    config = composed(*(f"+model@study.models.{model}={model}" for model in models))
    for model in models:
        try:
            rankers[model] = build(config.study.models, model, Ranker)
        except ConfigError as error:  # the package of an extra is not installed
            unavailable[model] = (str(error),)
    return rankers, unavailable


def _facts(inspection: Inspection) -> Iterator[tuple[str, str]]:
    def of_queries(count: int) -> str:
        return f"{count} queries ({count / inspection.queries:.1%})"

    yield "documents", str(inspection.documents)
    yield "queries", str(inspection.queries)
    yield "features", str(inspection.features)
    yield "labels", first_of([f"{label}: {count}" for label, count in inspection.labels.items()])
    for sentence in inspection.label_warnings:
        yield "warning", sentence
    if inspection.fractional_labels:
        yield (
            "not whole",
            f"labels of {inspection.fractional_labels} documents; a run rejects them unless "
            "data.whole_labels=false",
        )
    sizes = inspection.query_sizes
    yield (
        "query sizes",
        f"min {sizes['0']:g}, median {sizes['0.5']:g}, mean {sizes['mean']:.1f}, max {sizes['1']:g}",
    )
    yield "no relevant", f"{of_queries(inspection.without_relevant)} without a document of label 1 or more"
    yield "only relevant", of_queries(inspection.only_relevant)
    yield "one document", of_queries(inspection.single_document)
    faults = inspection.feature_faults
    missing = [f"{name}: {count}" for name, count in faults.missing.items()]
    yield "missing", f"{len(missing)} features have missing values{_listed(missing)}"
    yield "constant", f"{len(faults.constant)} features are constant{_listed(faults.constant)}"
    same = faults.constant_within_queries
    yield "same in query", f"{len(same)} features are constant within every query{_listed(same)}"
    yield "rows", _order_of_rows(inspection)
    if (weights := inspection.query_weights) is not None:
        vary = "; they vary within queries" if inspection.weights_vary_within_queries else ""
        yield (
            "query weights",
            f"min {weights['min']:g}, mean {weights['mean']:g}, max {weights['max']:g}{vary}",
        )
    if (positions := inspection.positions) is not None:
        yield "positions", f"{positions['min']} to {positions['max']}"
    yield "fingerprint", inspection.fingerprint


def _order_of_rows(inspection: Inspection) -> str:
    order = inspection.row_order
    text = (
        f"{order.mixed} queries have different labels: {order.best_first} are sorted best label first, "
        f"{order.worst_first} worst first; query ids are "
        f"{'ascending' if order.query_ids_ascend else 'unsorted'}"
    )
    if order.mixed and max(order.best_first, order.worst_first) >= _MOSTLY * order.mixed:
        text += (
            ". Ties in row order distort the metrics of every ranker: shuffle the rows, or use ties=expected"
        )
    return text


def _listed(names: Sequence[str]) -> str:
    return f": {first_of(names)}" if names else ""


def first_of(names: Sequence[str]) -> str:
    """Joins the first names of a list; --json has the others."""
    left = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {left} more (see --json)" if left > 0 else "") or "-"

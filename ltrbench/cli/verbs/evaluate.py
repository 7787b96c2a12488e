"""Verbs on files of data and scores: `evaluate`, `conventions`, `inspect`.

The verbs on score files: `evaluate` and `conventions`. They read the scores of any system.
"""

from __future__ import annotations

import dataclasses
import math
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
ROPE_OPTION = click.option(
    "--rope",
    type=float,
    default=0.005,
    show_default=True,
    metavar="D",
    help="Region of practical equivalence: differences from -D to D.",
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
    from ltrbench.metrics import evaluate, preset, with_settings

    convention = with_settings(preset(preset_name), split_settings("--set", settings))
    metrics = _parse_names(names)
    dataset = read(data, reading, whole_labels=_needs_whole_labels(convention, metrics))
    evaluation = evaluate(dataset, _read_scores(scores, dataset), metrics, convention)
    if per_query is not None:
        _write_per_query(dataset, evaluation, per_query)
    if as_object:
        echo_json(_evaluation_record(dataset, evaluation))
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
    metrics = _parse_names(names)
    dataset = read(data, reading)
    ranked = _read_scores(scores, dataset)
    rows = [_convention_row(dataset, ranked, metrics, convention) for convention in PRESETS.values()]
    if as_object:
        records = [_row_record(row) for row in rows]
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

    metrics = [name.strip() for name in names.split(",") if name.strip()]
    if not metrics:
        raise ConfigError("--metrics is empty; list metrics, as in --metrics ndcg@10,map.")
    for name in metrics:
        parse_metric(name)
    return list(dict.fromkeys(metrics))


def _needs_whole_labels(convention: Convention, names: Sequence[str]) -> bool:
    """Returns whether the gain of any metric is not the label itself; the reader then rejects a fractional
    label with its line."""
    from ltrbench.metrics import parse_metric
    from ltrbench.metrics.conventions import linear_gain
    from ltrbench.metrics.functions import METRICS

    metrics = {parse_metric(name)[0] for name in names}
    return any(
        METRICS[metric].has_gain and convention.of(metric).gain is not linear_gain for metric in metrics
    )


def _read_scores(path: Path, dataset: RankingDataset) -> Scores:
    """Reads scores in the order of the file DATA and returns them in the order of the data set's rows,
    (D,)."""
    from ltrbench.data.score_files import read_scores

    return dataset.from_file_order(read_scores(path, dataset.num_documents))


def _write_per_query(dataset: RankingDataset, evaluation: Evaluation, path: Path) -> None:
    """Writes one row per query; a skipped query has an empty cell."""
    columns = [values.tolist() for values in evaluation.per_query.values()]
    rows = zip(dataset.query_ids.tolist(), dataset.query_sizes.tolist(), *columns, strict=True)
    write_output(Table.of(["query", "documents", *evaluation.per_query], rows).csv(), path)


def _evaluation_record(dataset: RankingDataset, evaluation: Evaluation) -> dict[str, Any]:
    return {
        "convention": evaluation.convention.name,
        "queries": dataset.num_queries,
        "share_without_relevant": evaluation.share_without_relevant,
        "skipped": dict(evaluation.skipped),
        "metrics": {name: _or_null(mean) for name, mean in evaluation.means.items()},
    }


def _row_record(row: _ConventionRow) -> dict[str, Any]:
    names = [*row.means, *row.undefined]
    return {
        "convention": row.convention.name,
        "metrics": {name: _or_null(row.means.get(name)) for name in names},
        "undefined": dict(row.undefined),
    }


def _or_null(value: float | None) -> float | None:
    return value if is_available(value) else None


def _render_evaluation(data: Path, dataset: RankingDataset, evaluation: Evaluation) -> str:
    columns = [
        TableColumn("metric", left=True),
        TableColumn("mean", ".6f"),
        TableColumn("queries counted"),
    ]
    rows: list[TableRow] = [
        [name, mean, dataset.num_queries - evaluation.skipped[name]]
        for name, mean in evaluation.means.items()
    ]
    convention = evaluation.convention
    return "\n\n".join(
        [
            _counts(data, dataset, evaluation.share_without_relevant),
            Table(columns, rows).markdown(),
            wrapped(f"Convention {convention.name}: {_rules(convention)}."),
            "\n".join(wrapped(f"- {quirk}", "  ") for quirk in convention.quirks),
        ]
    ).rstrip()


def _counts(data: Path, dataset: RankingDataset, share: float) -> str:
    return wrapped(
        f"{data}: {dataset.num_documents} documents of {dataset.num_queries} queries; "
        f"{share:.1%} of the queries have no relevant document."
    )


_GAINS = {"exponential_gain": "2^label - 1", "linear_gain": "label"}
_TIES = {
    "expected": "averaged over their orders",
    "row_order": "in the order of their rows",
    "worst": "the lowest label first",
    "best": "the highest label first",
    "document_id": "by document id, descending",
}
_NO_RELEVANT = {"skip": "left out", "0": "counts 0", "1": "counts 1"}


def _rules(convention: Convention) -> str:
    """Returns the main choices of a convention, and the exceptions of single metrics."""
    fields = convention.describe()
    departures = [
        f"in {metric} {', '.join(f'{key} = {value}' for key, value in values.items())}"
        for metric, values in fields["by_metric"].items()
        if values
    ]
    return "; ".join(
        [
            f"gain {_gain(fields)}, tied scores {_TIES[fields['ties']]}",
            f"a query without a relevant document {_NO_RELEVANT[fields['no_relevant']]}",
            f"relevant documents have a label {_threshold(convention.relevance_threshold)}",
            *departures,
        ]
    )


def _gain(fields: Mapping[str, Any]) -> str:
    gain = fields["gain"]
    return _GAINS.get(gain, gain) if isinstance(gain, str) else str(gain)


def _threshold(threshold: float) -> str:
    """Returns a threshold in words; one floating-point step above a round number means "above" that
    number."""
    below = math.nextafter(threshold, -math.inf)
    return f"above {below:g}" if float(f"{threshold:g}") == below else f"of {threshold:g} or more"


def _render_conventions(
    data: Path,
    dataset: RankingDataset,
    scores: Scores,
    names: Sequence[str],
    rows: Sequence[_ConventionRow],
) -> str:
    header = ["convention", "gain", "ties", "no relevant", *names]
    table = Table.of(header, [_cells(row, names) for row in rows], ".4f").markdown(terminal_width())
    reasons = [wrapped(f"- {reason}", "  ") for row in rows for reason in _reasons(row)]
    return "\n\n".join(
        [
            _counts(data, dataset, rows[0].share),
            table,
            wrapped(
                f"The columns gain, ties and no relevant describe {names[0]}. Reasons for the differences:"
            ),
            "\n".join([_share_note(dataset, rows[0]), _ties_note(dataset, scores)]),
            *(["\n".join(["Not defined, and therefore not computed:\n", *reasons])] if reasons else []),
        ]
    )


def _reasons(row: _ConventionRow) -> Iterator[str]:
    """Yields why metrics are left out: one sentence for metrics that a library lacks, and one per reason."""
    from ltrbench.metrics import parse_metric

    convention = row.convention
    defined = convention.metrics
    absent = [name for name in row.undefined if defined is not None and parse_metric(name)[0] not in defined]
    if defined is not None and absent:
        yield f"{convention.name} has no {', '.join(absent)}; it has {', '.join(sorted(defined))}."
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in row.undefined.items():
        if name not in absent:
            names_by_reason.setdefault(reason, []).append(name)
    for reason, names in names_by_reason.items():
        yield f"{convention.name}, {', '.join(names)}: {reason}"


def _cells(row: _ConventionRow, names: Sequence[str]) -> TableRow:
    from ltrbench.metrics import parse_metric

    fields = row.convention.of(parse_metric(names[0])[0]).describe()
    policies = [_gain(fields), fields["ties"].replace("_", " "), _NO_RELEVANT[fields["no_relevant"]]]
    return [row.convention.name, *policies, *(row.means.get(name) for name in names)]


def _share_note(dataset: RankingDataset, skipping: _ConventionRow) -> str:
    """Returns how the three treatments of queries without a relevant document relate, with the actual
    values."""
    share = skipping.share
    if share == 0:
        return "- Every query has a relevant document, so the treatment of queries without one has no effect."
    sentences = (
        f"- A share p = {share:.4f} of the queries has no relevant document. If they count 0, mean_0 = "
        "(1 - p) mean_skip; if they count 1, mean_1 = mean_0 + p."
    )
    name = next((name for name in skipping.means if name.startswith("ndcg")), None)
    if name is not None and dataset.query_weights is None and not math.isnan(skipping.means[name]):
        skip = skipping.means[name]
        zero = (1 - share) * skip
        sentences += f" So {name} = {skip:.4f} without them becomes {zero:.4f} or {zero + share:.4f}."
    return wrapped(sentences, "  ")


def _ties_note(dataset: RankingDataset, scores: Scores) -> str:
    from ltrbench.metrics import rank
    from ltrbench.metrics.conventions import Ties

    sizes = rank(dataset, scores, Ties.EXPECTED).tie_size
    tied = int(sizes[sizes > 1].sum())
    if tied == 0:
        return "- No two documents of a query have the same score, so the treatment of ties has no effect."
    return wrapped(
        f"- {tied} of {dataset.num_documents} documents have the same score as another document of their "
        "query. If the rows are sorted by label, ties in row order inflate the metric; the expected value "
        "does not.",
        "  ",
    )


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
    inspection = dataclasses.replace(
        inspection, concerns=dict(sorted({**inspection.concerns, **unavailable}.items()))
    )
    if as_object:
        echo_json({"data": list(map(str, data)), **dataclasses.asdict(inspection)})
    else:
        echo(_render(", ".join(map(str, data)), inspection))


def _rankers() -> tuple[dict[str, Ranker], dict[str, tuple[str]]]:
    """Returns model -> the ranker that its YAML in conf/model builds with the default settings, and
    model -> why its ranker cannot be imported."""
    from hydra import compose, initialize_config_dir

    from ltrbench.conf_folder import conf_dir
    from ltrbench.config import build, register_schema
    from ltrbench.rankers import Ranker

    register_schema()
    models = sorted(path.stem for path in conf_dir().glob("model/*.yaml") if not path.stem.startswith("_"))
    rankers: dict[str, Ranker] = {}
    unavailable = {}
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        # All models in one configuration, because composing takes a tenth of a second.
        config = compose("config", overrides=[f"+model@study.models.{model}={model}" for model in models])
    for model in models:
        try:
            rankers[model] = build(config.study.models, model, Ranker)
        except ConfigError as error:  # the package of an extra is not installed
            unavailable[model] = (str(error),)
    return rankers, unavailable


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
    for sentence in inspection.label_warnings:
        yield "warning", sentence
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
    for count, effect in ((order.best_first, "inflate"), (order.worst_first, "deflate")):
        if order.mixed and count >= _MOSTLY * order.mixed:
            fact += (
                f". Ties in row order {effect} the metrics of every ranker: shuffle the rows, or use "
                "ties=expected"
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

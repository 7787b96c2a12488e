"""Verbs on files of data and scores: `evaluate`, `conventions`, `inspect`, `data`."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ltrbench.cli.console import (
    JSON_OPTION,
    PATH,
    PLUGIN_OPTION,
    READ_OPTION,
    check_output,
    echo,
    echo_json,
    facts_as_lines,
    parse_value,
    read,
    refuse_ineffective,
    split_settings,
    terminal_width,
    typed_options,
    wrapped,
    write_output,
)
from ltrbench.data import RankingDataset
from ltrbench.data.dataset import FRACTIONS_REMEDY
from ltrbench.data.tables import SPLIT_ROLES
from ltrbench.errors import ConfigError, DataError, require, require_choice
from ltrbench.folders import conf_dir, find_class, models, settings_in
from ltrbench.measure import without_password
from ltrbench.metrics import (
    METRICS_OF_A_RUN,
    PRESETS,
    Convention,
    Evaluation,
    evaluate,
    has_relevant_document,
    parse_metric,
    preset,
    rank,
    upside_down,
    with_settings,
)
from ltrbench.metrics.conventions import Ties
from ltrbench.shapes import Scores
from ltrbench.tables import Table, TableRow, columns_of, is_available
from ltrbench.untrusted import visible

if TYPE_CHECKING:
    from ltrbench.data.sources import DataSource, PublishedArchive
    from ltrbench.data.store import Manifest
    from ltrbench.experiment.columns import DataPlan
    from ltrbench.experiment.loading import Inspection
    from ltrbench.rankers import Ranker

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
    default=",".join(METRICS_OF_A_RUN),
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
@click.option(
    "--per-query",
    type=PATH,
    metavar="FILE",
    help="Also write a CSV file with one row per query.",
)
@PLUGIN_OPTION
@READ_OPTION
@JSON_OPTION
def evaluate_verb(
    data: Path,
    scores: Path,
    *,
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

    check_output("--per-query", per_query, [data, scores])
    convention = with_settings(preset(preset_name), split_settings("--set", settings))
    metrics = _parse_names(names)
    dataset = read(data, reading)
    ranked = dataset.from_file_order(read_scores(scores, dataset.num_documents))
    evaluation = evaluate(dataset, ranked, metrics, convention)
    if per_query is not None:
        write_output(_table_of_queries(dataset, evaluation).csv(), per_query)
    if as_object:
        echo_json(_record_of_evaluation(dataset, evaluation))
    else:
        echo(_render_evaluation(data, dataset, evaluation))
    warning = upside_down(dataset, ranked, metrics[0], convention)
    if warning:
        echo(f"{scores}: {warning}", err=True)


def _table_of_queries(dataset: RankingDataset, evaluation: Evaluation) -> Table:
    columns = {
        "query": dataset.query_ids.tolist(),
        "documents": dataset.query_sizes.tolist(),
    }
    if dataset.query_weights is not None:
        columns["weight"] = dataset.query_weights.tolist()
    for name, values in evaluation.per_query.items():
        columns[name] = values.tolist()
    rows = zip(*columns.values(), strict=True)
    return Table.of(list(columns), rows)


def _record_of_evaluation(
    dataset: RankingDataset, evaluation: Evaluation
) -> dict[str, Any]:
    return {
        "convention": evaluation.convention.name,
        "queries": dataset.num_queries,
        "share_without_relevant": evaluation.share_without_relevant,
        "skipped": dict(evaluation.skipped),
        "metrics": {name: _or_null(mean) for name, mean in evaluation.means.items()},
    }


@click.command("conventions")
@click.argument("data", type=PATH)
@click.argument("scores", type=click.Path(path_type=Path, allow_dash=True))
@_METRICS_OPTION
@PLUGIN_OPTION
@READ_OPTION
@JSON_OPTION
def conventions_verb(
    data: Path, scores: Path, names: str, reading: tuple[str, ...], as_object: bool
) -> None:
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
    rows = {
        name: _means_and_reasons(dataset, ranked, metrics, convention)
        for name, convention in PRESETS.items()
    }
    share = float(np.mean(~has_relevant_document(dataset)))
    if as_object:
        records = []
        for convention, row in rows.items():
            values = {name: _or_null(row.means.get(name)) for name in metrics}
            records.append(
                {
                    "convention": convention,
                    "metrics": values,
                    "undefined": row.undefined,
                }
            )
        echo_json(
            {
                "queries": dataset.num_queries,
                "share_without_relevant": share,
                "rows": records,
            }
        )
        return
    paragraphs = [
        _counts(data, dataset, share),
        _table_of_conventions(metrics, rows).markdown(terminal_width()),
        wrapped(
            f"The columns gain, ties and no relevant describe {metrics[0]}. Reasons for differences:"
        ),
        _as_list(_reasons_for_differences(dataset, ranked, share)),
    ]
    without_a_value = _undefined(rows)
    if without_a_value:
        paragraphs.append(_as_list(without_a_value))
    echo("\n\n".join(paragraphs))


def _reasons_for_differences(
    dataset: RankingDataset, ranked: Scores, share: float
) -> list[str]:
    sizes = rank(dataset, ranked, Ties.EXPECTED).tie_size
    num_tied = sizes[sizes > 1].sum()
    return [
        f"- A share p = {share:.4f} of the queries has no relevant document. If they count 0, mean_0 = "
        "(1 - p) mean_skip; if they count 1, mean_1 = mean_0 + p.",
        f"- {num_tied} of {dataset.num_documents} documents have the same score as another "
        "document of their query. If the rows are sorted by label, ties in row order inflate the metric.",
    ]


def _as_list(lines: Iterable[str]) -> str:
    return "\n".join(wrapped(line, "  ") for line in lines)


@dataclasses.dataclass(frozen=True)
class _Means:
    """The metrics of scores under one convention.

    Attributes:
        means: metric -> mean; NaN if no query counts.
        undefined: metric that the convention does not define -> the reason.
    """

    means: Mapping[str, float]
    undefined: Mapping[str, str]


def _means_and_reasons(
    dataset: RankingDataset,
    scores: Scores,
    names: Sequence[str],
    convention: Convention,
) -> _Means:
    """Evaluates one metric at a time, so that an undefined metric does not affect the others."""
    means = {}
    undefined = {}
    for name in names:
        try:
            means[name] = evaluate(dataset, scores, [name], convention).means[name]
        # The only possible DataError is a label without a gain in this convention.
        except (ConfigError, DataError) as error:
            undefined[name] = str(error)
    return _Means(means, undefined)


def _parse_names(names: str) -> list[str]:
    metrics = [name.strip() for name in names.split(",")]
    for name in metrics:
        parse_metric(name)
    return list(dict.fromkeys(metrics))


def _or_null(value: float | None) -> float | None:
    return value if is_available(value) else None


def _render_evaluation(
    data: Path, dataset: RankingDataset, evaluation: Evaluation
) -> str:
    columns = columns_of({"metric": None, "mean": ".6f", "queries counted": ""})
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
        parts.append(_as_list(f"- {quirk}" for quirk in convention.quirks))
    return "\n\n".join(parts)


def _counts(data: Path, dataset: RankingDataset, share: float) -> str:
    return wrapped(
        f"{data}: {dataset.num_documents} documents of {dataset.num_queries} queries; "
        f"{share:.1%} of the queries have no relevant document."
    )


_NO_RELEVANT = {"skip": "left out", "0": "counts 0", "1": "counts 1"}


def rules(fields: Mapping[str, Any]) -> str:
    """Returns the main choices of a described convention, and the exceptions of single metrics."""
    gain = str(fields.get("gain")).replace("_", " ")
    ties = str(fields.get("ties")).replace("_", " ")
    no_relevant = _NO_RELEVANT.get(str(fields.get("no_relevant")))
    choices = [
        f"{gain}, ties {ties}",
        f"a query without a relevant document {no_relevant}",
    ]
    if fields.get("skip_constant_labels"):
        choices.append("lists with constant labels left out")
    fewest = fields.get("skip_shorter_than", 1)
    if fewest > 1:
        choices.append(f"lists with fewer than {fewest} documents left out")
    if fields.get("aggregation") == "ratio_of_sums":
        choices.append("the ratio of the sums over all queries")
    for metric, values in fields.get("by_metric", {}).items():
        departures = [f"{key} = {value}" for key, value in values.items()]
        if departures:
            choices.append(f"in {metric} {', '.join(departures)}")
    return "; ".join(choices)


def _table_of_conventions(names: Sequence[str], rows: Mapping[str, _Means]) -> Table:
    """Returns the means of each convention, and its choices for the first metric."""
    first_metric, _ = parse_metric(names[0])
    cells: list[TableRow] = []
    for convention, row in rows.items():
        fields = PRESETS[convention].of(first_metric).describe()
        gain = str(fields["gain"]).replace("_", " ")
        ties = str(fields["ties"]).replace("_", " ")
        no_relevant = _NO_RELEVANT[fields["no_relevant"]]
        means = [row.means.get(name) for name in names]
        cells.append([convention, gain, ties, no_relevant, *means])
    return Table.of(["convention", "gain", "ties", "no relevant", *names], cells, ".4f")


def _undefined(rows: Mapping[str, _Means]) -> list[str]:
    """Returns a line for each reason why metrics are not defined, after a title."""
    metrics_of: dict[str, list[str]] = {}
    for convention, row in rows.items():
        for name, reason in row.undefined.items():
            metrics_of.setdefault(f"{convention}: {reason}", []).append(name)
    if not metrics_of:
        return []
    lines = ["Not defined:"]
    for reason, metrics in metrics_of.items():
        lines.append(f"- {', '.join(metrics)} {reason}")
    return lines


# ---- The verb `inspect`: a summary of a data set, and its problems for each backend of conf/model.

_SHOWN = 12  # maximum number of names or labels in the text output; --json has all
_MOSTLY = 0.9  # share of queries sorted by label from which the order of rows is not accidental


@click.command("inspect")
@click.argument("data", metavar="DATA...", nargs=-1, required=True, type=PATH)
@READ_OPTION
@JSON_OPTION
@click.option(
    "--yaml",
    "yaml",
    type=PATH,
    metavar="FILE",
    help="Instead, write conf/data/NAME.yaml for one file: with it, data=NAME is all that a command needs.",
)
@click.option(
    "--keep-feature",
    "kept",
    multiple=True,
    metavar="COLUMN",
    help="With --yaml: keep a feature that would be left out; may be repeated.",
)
@click.option(
    "--target",
    metavar="NAME",
    help="With --yaml: engine or library that will hold the model, as in ship --to.",
)
def inspect_verb(
    data: tuple[Path, ...],
    *,
    reading: tuple[str, ...],
    as_object: bool,
    yaml: Path | None,
    kept: tuple[str, ...],
    target: str | None,
) -> None:
    """Summarizes DATA, and lists what each backend would reject or ignore in it.

    Several files form one split, as in data.train=[part1.txt,part2.txt]. A store is verified first: its
    manifest, the checksum of every array, the invariants of a data set, and its fingerprint. The exit code is
    2 if it is damaged.

    With --yaml, --read takes roles, such as label=COLUMN, and missing=[TEXT]; for LETOR text, options of its
    reader, such as absent=nan. Roles that it does not name are guessed from the names and contents of
    columns, and columns that tell the label, ids and constant columns are left out, with the reason.
    Categories are encoded for a --target that cannot split by them.

    \b
        python -m ltrbench inspect train.txt
        python -m ltrbench inspect train.store
        python -m ltrbench inspect train.csv --read label=grade --json
        python -m ltrbench inspect shop.parquet --read label=clicked --yaml conf/data/shop.yaml
    """
    if yaml is not None:
        refuse_ineffective("--json", beside="--yaml FILE")
        if len(data) > 1:
            raise ConfigError(f"--yaml describes one file, not {len(data)}; name one.")
        _write_yaml(data[0], reading, yaml, kept=kept, target=target)
        return
    refuse_ineffective("--keep-feature", "--target", without="--yaml FILE")
    from ltrbench.data.store import check_store, is_store, read_manifest
    from ltrbench.experiment.loading import inspect_data

    stores = {path: read_manifest(path) for path in data if is_store(path)}
    for store in stores:
        check_store(store)
    rankers, unavailable = default_rankers(models())
    inspection = inspect_data(read(data, reading), rankers, typed_options(reading))
    concerns = dict(inspection.concerns)
    for model, reason in unavailable.items():
        concerns[model] = (reason,)
    concerns = dict(sorted(concerns.items()))
    if as_object:
        manifests = {}
        for store, manifest in stores.items():
            manifests[str(store)] = manifest.model_dump()
        record = {
            "data": list(map(str, data)),
            **dataclasses.asdict(inspection),
            "concerns": concerns,
            "stores": manifests,
        }
        echo_json(record)
        return
    names = ", ".join(map(str, data))
    facts = facts_as_lines(_facts(inspection))
    echo("\n\n".join([names, facts, _problems_in_words(concerns)]))
    for store, manifest in stores.items():
        of_store = facts_as_lines(_facts_of_store(store, manifest))
        echo(f"\nThe store {store}, which has no problems:\n\n{of_store}")


def _problems_in_words(concerns: Mapping[str, Sequence[str]]) -> str:
    problems = ["Problems for each backend, with the default settings:"]
    for model, sentences in concerns.items():
        lines = [f"- {model}: {sentence}" for sentence in sentences or ("none.",)]
        problems.append(_as_list(lines))
    return "\n".join(problems)


def plan_of(
    path: Path,
    roles: Mapping[str, str],
    kept: Sequence[str],
    target: str | None,
    missing: Sequence[str] | None = None,
    *,
    reading: Mapping[str, Any] | None = None,
) -> DataPlan:
    """Returns how to read a file from which a model for a target is learnt, as `propose` does."""
    from ltrbench.experiment.columns import propose
    from ltrbench.shipping.destination import Destination

    can_split = True
    if target is not None:
        destination = Destination.of({"name": target})
        can_split = destination.target.holds_categories
    return propose(path, roles, {*kept}, can_split, missing, reading=reading)


def write_plan(plan: DataPlan, path: Path) -> None:
    """Writes the YAML of a data set, whose folder is made."""
    from ltrbench.runs.record import writing_to

    with writing_to(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_output(plan.yaml(), path)


def _write_yaml(
    file: Path,
    reading: Sequence[str],
    path: Path,
    *,
    kept: Sequence[str],
    target: str | None,
) -> None:
    """Writes how a file is read, and prints what its columns are taken for."""
    from ltrbench.data.sources import is_letor, reading_options
    from ltrbench.experiment.columns import about_columns, about_data

    roles = split_settings("--read", reading)
    missing = None
    if "missing" in roles:
        missing = parse_value(roles.pop("missing"))
    check_output("--yaml", path, [file])
    options = {}
    if is_letor(file):
        given = {name: parse_value(text) for name, text in roles.items()}
        options = reading_options(file, given)
        for name in options:
            del roles[name]
    plan = plan_of(file, roles, kept, target, missing, reading=options)
    plan = dataclasses.replace(plan, name=path.stem)
    if path.exists() and path.read_bytes() != plan.yaml().encode():
        raise ConfigError(
            f"--yaml {path} exists with another content, perhaps edited by hand. Choose another file, or "
            "remove this one."
        )
    write_plan(plan, path)
    for sentence in (*about_data(plan), *about_columns(plan)):
        echo(wrapped(sentence, "  "))


def _facts_of_store(store: Path, manifest: Manifest) -> Iterator[tuple[str, str]]:
    from ltrbench.data.store import REQUIRED_ARRAYS, option_text, shards_of

    features = manifest.feature_arrays
    optional = [
        name
        for name in manifest.shards[0].arrays
        if name not in {*features, *REQUIRED_ARRAYS}
    ]
    num_bytes = 0
    for shard in shards_of(store, manifest):
        num_bytes += sum(shard[name].num_bytes for name in features)
    yield "documents", str(manifest.documents)
    yield "queries", str(manifest.queries)
    yield "features", f"{manifest.num_features}: {first_of(manifest.feature_names)}"
    if manifest.absent is not None:
        stored = sum(shard.values for shard in manifest.shards)
        yield "stored", f"{stored} values; the other cells are {manifest.absent}"
    yield "also has", ", ".join(optional) or "-"
    yield "size", f"{num_bytes / MB:.1f} MB of features"
    yield "shards", str(len(manifest.shards))
    yield "fingerprint", manifest.fingerprint
    for source in manifest.sources:
        yield "source", f"{source.path}, {source.bytes} bytes, SHA-256 {source.sha256}"
    options = [option_text(name, value) for name, value in manifest.reading.items()]
    yield "read with", ", ".join(options) or "the default options"
    yield "written by", f"ltrbench {manifest.ltrbench}, format {manifest.format}"


def default_rankers(
    names: Iterable[str],
) -> tuple[dict[str, Ranker], dict[str, str]]:
    """Returns model -> the ranker that its YAML in conf/model builds with the default settings, and
    model -> why its ranker cannot be imported."""
    rankers: dict[str, Ranker] = {}
    unavailable = {}
    for model in names:
        try:
            rankers[model] = default_ranker(model)
        except ConfigError as error:
            unavailable[model] = str(error)
    return rankers, unavailable


def default_ranker(model: str) -> Ranker:
    """Returns the ranker that a YAML in conf/model builds with the default settings.

    Raises:
        ConfigError: The package of an extra is not installed.
    """
    from ltrbench.config import build
    from ltrbench.rankers import BoostingRanker, Ranker

    # Without Hydra, which takes seconds to compose all models.
    settings = settings_in("model", model)
    kind = find_class(settings["_target_"], Ranker, model)
    if issubclass(kind, BoostingRanker):
        settings = settings_in("params", "matched") | settings
    return build({model: settings}, model, Ranker)


def _facts(inspection: Inspection) -> Iterator[tuple[str, str]]:
    yield "documents", str(inspection.documents)
    yield "queries", str(inspection.queries)
    are_numbers = all(map(str.isdecimal, inspection.feature_names))
    names = () if are_numbers else inspection.feature_names
    yield "features", f"{inspection.features}{_listed(names)}"
    yield from _facts_of_labels(inspection)
    yield from _facts_of_queries(inspection)
    yield from _facts_of_features(inspection)
    yield "rows", _order_of_rows(inspection)
    if (weights := inspection.query_weights) is not None:
        range_and_mean = "min {min:g}, mean {mean:g}, max {max:g}".format_map(weights)
        vary = ""
        if inspection.weights_vary_within_queries:
            vary = "; they vary within queries"
        yield "query weights", f"{range_and_mean}{vary}"
    if (positions := inspection.positions) is not None:
        yield "positions", f"{positions['min']} to {positions['max']}"
    yield "fingerprint", inspection.fingerprint


def _facts_of_labels(inspection: Inspection) -> Iterator[tuple[str, str]]:
    counts = [f"{label}: {count}" for label, count in inspection.labels.items()]
    yield "labels", first_of(counts)
    for sentence in (*inspection.label_warnings, *inspection.column_warnings):
        yield "warning", sentence
    if inspection.fractional_labels:
        yield (
            "not whole",
            f"labels of {inspection.fractional_labels} documents, which a run refuses. {FRACTIONS_REMEDY}",
        )


def _facts_of_queries(inspection: Inspection) -> Iterator[tuple[str, str]]:
    def of_queries(count: int) -> str:
        return f"{count} queries ({count / inspection.queries:.1%})"

    sizes = inspection.query_sizes
    mean = f"{sizes['mean']:.1f}"
    smallest = f"{sizes['0']:g}"
    median = f"{sizes['0.5']:g}"
    largest = f"{sizes['1']:g}"
    yield (
        "query sizes",
        f"min {smallest}, median {median}, mean {mean}, max {largest}",
    )
    yield (
        "no relevant",
        f"{of_queries(inspection.without_relevant)} without a document of label 1 or more",
    )
    yield "only relevant", of_queries(inspection.only_relevant)
    yield "one document", of_queries(inspection.single_document)


def _facts_of_features(inspection: Inspection) -> Iterator[tuple[str, str]]:
    faults = inspection.feature_faults
    missing = [f"{name}: {count}" for name, count in faults.missing.items()]
    yield "missing", f"{len(missing)} features have missing values{_listed(missing)}"
    yield (
        "constant",
        f"{len(faults.constant)} features are constant{_listed(faults.constant)}",
    )
    same = faults.constant_within_queries
    yield (
        "same in query",
        f"{len(same)} features are constant within every query{_listed(same)}",
    )
    if merged := inspection.merged:
        remedy = "subtract the minimum, or convert dates with data.dates"
        counted = (
            f"{len(merged)} features have different values that are equal in float32"
        )
        yield "merged", f"{counted}{_listed(merged)}; {remedy}"


def _order_of_rows(inspection: Inspection) -> str:
    order = inspection.row_order
    text = (
        f"{order.mixed} queries have different labels: {order.best_first} are sorted best label first, "
        f"{order.worst_first} worst first; query ids are "
        f"{'ascending' if order.query_ids_ascend else 'unsorted'}"
    )
    most_sorted = max(order.best_first, order.worst_first)
    if order.mixed and most_sorted >= _MOSTLY * order.mixed:
        text += (
            ". Ties in row order distort the metrics of every ranker: shuffle the rows, or use "
            "ties=expected"
        )
    return text


def _listed(names: Sequence[str]) -> str:
    return f": {first_of(names)}" if names else ""


def first_of(names: Sequence[str]) -> str:
    """Joins the first names of a list; --json has the others."""
    shown = ", ".join(names[:_SHOWN])
    left = len(names) - _SHOWN
    if left > 0:
        return f"{shown} and {left} more (see --json)"
    return shown or "-"


# ---- The verb `data`: commands on data sets.

MB = 10**6


@click.group("data")
def data_verb() -> None:
    """Prepares data sets."""


# ---- The command `data build`: writes a store, which is opened instead of parsed.


@data_verb.command("build")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True, type=PATH)
@click.option(
    "--output",
    type=PATH,
    required=True,
    metavar="STORE",
    help="Folder of the store; must not exist yet.",
)
@click.option(
    "--shard-mb",
    type=float,
    default=256,
    show_default=True,
    metavar="MB",
    help="Size of the features of a shard in MB. The queries of a shard are complete.",
)
@READ_OPTION
def build_verb(
    sources: tuple[Path, ...],
    *,
    output: Path,
    shard_mb: float,
    reading: tuple[str, ...],
) -> None:
    """Writes a store: a data set as arrays in a folder, which a run opens without parsing.

    Several files form one split, as in data.train=[part1.txt,part2.txt]. A SOURCE may also be a store, which
    is then written with other shards. A store can be used wherever a data file can, and in runs with
    data=store.

    \b
        python -m ltrbench data build train.txt --output train.store
        python -m ltrbench data build train.csv --output train.store --read label=grade
        python -m ltrbench data=store data.train=train.store
    """
    from ltrbench.data.sources import provenance_of
    from ltrbench.data.store import check_new, write_store

    require("--shard-mb", shard_mb, above=0)
    check_new(output)
    options = typed_options(reading)
    for role in SPLIT_ROLES:
        if column := options.get(role):
            raise ConfigError(
                f"--read {role}={column}: the runs on a store split its queries, not the store. Keep the "
                f"column with --read 'keep=[{column}]', and set data.{role}={column} beside data=store."
            )
    dataset = read(sources, reading, scratch=output.absolute().parent)
    manifest = write_store(
        output,
        dataset,
        shard_bytes=max(int(shard_mb * MB), 1),
        provenance=provenance_of(sources, options),
    )
    text = (
        f"{output}: {manifest.documents} documents of {manifest.queries} queries, "
        f"{manifest.num_features} features; shards: {len(manifest.shards)}; fingerprint "
        f"{manifest.fingerprint}."
    )
    echo(wrapped(text))


# ---- The command `data fetch`: downloads a published data set, checks it and unpacks it.


@data_verb.command("fetch")
@click.argument("name")
@click.option(
    "--root",
    type=PATH,
    metavar="DIR",
    help="Data folder; default: that of the YAML, $LTRBENCH_DATA or data.",
)
@click.option(
    "--url",
    metavar="URL",
    help="Address of the archive, instead of the address in the YAML.",
)
@click.option(
    "--accept-licence",
    is_flag=True,
    help="You have read and accept the licence of the publisher.",
)
@click.option(
    "--config-dir",
    type=PATH,
    metavar="DIR",
    help="Folder with your own YAMLs, such as DIR/data/NAME.yaml.",
)
def fetch_command(
    name: str,
    root: Path | None,
    url: str | None,
    accept_licence: bool,
    config_dir: Path | None,
) -> None:
    """Downloads the published data set NAME, checks it and unpacks it.

    NAME is a YAML of conf/data, whose node fetch has the address, size and SHA-256 of the archive. The
    licence is printed first. An archive that you downloaded yourself into the data folder is checked and
    unpacked. Existing files are not overwritten.

    \b
        python -m ltrbench data fetch istella_s
        python -m ltrbench data fetch mslr_web10k --url https://example.com/MSLR-WEB10K.zip --accept-licence
    """
    from ltrbench.data.sources import address_of, find_archive, unpack_archive

    sources = list(sources_in_yaml(name, root, config_dir))
    first = sources[0]
    archive = first.fetch
    folder = Path(getattr(first, "root", "") or ".").expanduser()
    if archive is None:
        how = getattr(first, "obtain", "").strip()
        raise DataError(
            f"data={name} cannot be fetched, because data.fetch is null. {how}"
        )
    expected = list(itertools.chain.from_iterable(map(_files, sources)))
    if expected and all(path.exists() for path in expected):
        echo(f"data={name} is complete: {len(expected)} files in {folder.absolute()}.")
        return
    echo(_terms(archive))
    file = find_archive(archive, folder)
    if file is None:
        address = address_of(archive, folder, name, url, accept_licence)
        file = _downloaded(archive, folder, address)
    destination = folder / archive.into
    echo(f"unpacking {file} into {destination}", err=True)
    written = unpack_archive(archive, file, folder, expected)
    echo(
        f"data={name} is complete: wrote {len(written)} files below "
        f"{destination.absolute()}. {file} is no longer needed."
    )


def _downloaded(archive: PublishedArchive, folder: Path, address: str) -> Path:
    """Downloads an archive with a bar, and returns its file."""
    from ltrbench.data.sources import download_archive

    label = f"downloading {without_password(address)}, {archive.size / MB:.0f} MB"
    with click.progressbar(
        length=archive.size, label=visible(label), file=sys.stderr
    ) as bar:
        return download_archive(
            archive,
            folder,
            address,
            lambda arrived, _: bar.update(arrived - bar.pos),
        )


def sources_in_yaml(
    name: str, root: Path | None, config_dir: Path | None
) -> Iterator[DataSource]:
    """Yields the data source that a YAML describes, once for each published fold.

    Raises:
        ConfigError: There is no such YAML, or it is invalid.
    """
    from ltrbench.config import build, composed
    from ltrbench.data.sources import DataSource

    yamls = list((conf_dir() / "data").glob("[!_]*.yaml"))
    search_path = []
    if config_dir is not None:
        own = config_dir.expanduser()
        yamls += (own / "data").glob("[!_]*.yaml")
        search_path.append(f"hydra.searchpath=[file://{own.absolute()}]")
    require_choice("data", name, sorted(path.stem for path in yamls))
    config = composed(*search_path, f"data={name}")
    if root is not None:
        config.data.root = str(root.expanduser())
    num_folds = config.data.get("num_folds")
    if not num_folds:
        yield build(config, "data", DataSource)
        return
    for fold in range(1, num_folds + 1):
        config.data.fold = fold
        yield build(config, "data", DataSource)


def _files(source: DataSource) -> list[Path]:
    """Returns the files of all splits."""
    files: list[Path] = []
    for split in ("train", "valid", "test"):
        paths = getattr(source, split, None) or []
        if isinstance(paths, str):
            paths = [paths]
        files += (Path(path).expanduser() for path in paths)
    return files


def _terms(archive: PublishedArchive) -> str:
    """Returns the licence and what identifies the archive."""
    address = "not known"
    if archive.url is not None:
        address = without_password(archive.url)
    if not archive.verified:
        address = f"{address} (not verified)"
    rows = [
        ("licence", archive.licence),
        ("page", archive.page),
        ("archive", f"{archive.file}, {archive.size} bytes, SHA-256 {archive.sha256}"),
        ("address", address),
    ]
    return facts_as_lines((name, value.strip()) for name, value in rows)

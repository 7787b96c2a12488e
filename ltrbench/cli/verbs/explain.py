"""Verbs that explain: `explain`, `walkthrough`, `glossary`.

The sums of `explain`, to which trees are fitted, come from the compiled objective that training calls. The
contribution of each pair comes from the specification of that objective, `ltrbench.native.objectives.pairs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import click
import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import TypeAdapter, ValidationError

from ltrbench.cli.console import (
    JSON_OPTION,
    PATH,
    READ_OPTION,
    echo,
    echo_json,
    read,
    split_settings,
    terminal_width,
    wrapped,
)
from ltrbench.errors import ConfigError, did_you_mean, require_choice
from ltrbench.tables import assignments, find_term, glossary, paragraph

if TYPE_CHECKING:
    from ltrbench.data import RankingDataset
    from ltrbench.native.objectives.pairs import PairLambdas, PairSettings
    from ltrbench.shapes import Scores

Sums = NDArray[np.float64]  # (n,), one value per document of the query

MOST_SHOWN = 11
"""Maximum number of documents in the text output, the first by rank: their matrix fits 100 columns."""


@click.command("explain")
@click.argument("data", type=PATH)
@click.option(
    "--query",
    "query_id",
    required=True,
    metavar="QID",
    help="The id of the query in DATA.",
)
@click.option(
    "--scores",
    "score_file",
    type=PATH,
    help="File with one score per document of DATA, one per line; default: all 0, as before the first tree.",
)
@click.option(
    "--preset",
    "preset_name",
    default="native",
    show_default=True,
    help="Settings of the lambdas: native, lightgbm, xgboost, ranklib or pyltr.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a setting of the preset: truncation=3, sigma=2, normalize_query=false, metric=err@10, "
    "metric=none (RankNet), gain=linear, ...; may be repeated.",
)
@READ_OPTION
@JSON_OPTION
def explain_verb(
    data: Path,
    query_id: str,
    score_file: Path | None,
    preset_name: str,
    settings: Sequence[str],
    reading: Sequence[str],
    as_object: bool,
) -> None:
    """Explains the lambdas of one query of DATA: ranks, gains, discounts, pairs, and sums.

    \b
        python -m ltrbench explain train.txt --query 10032 --preset lightgbm --set truncation=3
    """
    from ltrbench.compilation import announcing_compilation
    from ltrbench.data.score_files import read_scores
    from ltrbench.native.objectives.lambdas import prepare
    from ltrbench.native.objectives.pairs import pair_lambdas

    chosen = pair_settings(preset_name, split_settings("--set", settings))
    dataset = read(data, reading).with_mean_weight_one()
    scores = np.zeros(dataset.num_documents)
    if score_file is not None:
        scores = dataset.from_file_order(read_scores(score_file, dataset.num_documents))
    numbers = np.flatnonzero(dataset.query_ids == query_id)
    if not numbers.size:
        raise ConfigError(
            f"{data} has no query '{query_id}'{did_you_mean(query_id, dataset.query_ids.tolist())}"
        )
    query = int(numbers[0])
    start, end = dataset.query_start[query : query + 2].tolist()
    scores = scores[start:end]
    pairs = pair_lambdas(dataset.labels[start:end], scores, chosen)
    with announcing_compilation(partial(echo, err=True)):
        # The gradients and hessians of the first iteration, with the same seed as in `pair_lambdas`.
        objective = prepare(dataset.take_queries([query]), chosen)
        sums = objective(scores.astype(np.float64), None, np.random.default_rng(0))
    explained = _explained(dataset, query, scores, pairs, sums)
    if as_object:
        echo_json({"preset": preset_name, **explained})
    else:
        echo(_tutorial(preset_name, chosen, explained))


def pair_settings(preset_name: str, settings: Mapping[str, str]) -> PairSettings:
    """Returns the settings of a preset, with some of them changed; settings of its convention are changed
    there.

    Raises:
        ConfigError: The preset or a setting is unknown, or a value is invalid.
    """
    from ltrbench.metrics import PRESETS, with_settings
    from ltrbench.metrics.conventions import SETTABLE
    from ltrbench.native.objectives.lambdas import check_settings
    from ltrbench.native.objectives.pairs import PairSettings
    from ltrbench.rankers.native import NativeRanker, pairs_of

    preset = pairs_of(NativeRanker.from_preset(preset_name))
    types = get_type_hints(PairSettings)
    del types["convention"]
    values: dict[str, Any] = {}
    for key in settings:
        require_choice("--set", key, (*types, *SETTABLE))
        if key not in types:
            continue
        text = settings[key]
        finite = TypeAdapter(types[key], config={"allow_inf_nan": False})
        try:
            values[key] = finite.validate_python(None if text == "none" else text)
        except ValidationError as error:
            message = error.errors()[0]["msg"]
            raise ConfigError(f"--set {key}={text}: {message}.") from None
    of_convention = {key: text for key, text in settings.items() if key not in types}
    convention = with_settings(preset.convention, of_convention)
    if preset_name in PRESETS:
        # The limit of the library itself, reported under its name.
        largest_label = PRESETS[preset_name].of("ndcg").largest_label
        convention = replace(convention, name=preset_name, largest_label=largest_label)
    chosen = replace(preset, **values, convention=convention)
    check_settings(chosen)
    return chosen


def _explained(
    dataset: RankingDataset,
    query: int,
    scores: Scores,
    pairs: PairLambdas,
    sums: tuple[Sums, Sums],
) -> dict[str, Any]:
    """Returns the JSON record: rows in the order of the file, with the weights of training applied."""
    start, end = dataset.query_start[query : query + 2].tolist()
    weights = dataset.weight_of_document[start:end]
    documents: list[str | None] = [None] * len(weights)
    if dataset.document_ids is not None:
        documents = list(map(str, dataset.document_ids[start:end]))
    gradients, hessians = sums
    columns: dict[str, Sequence[Any]] = {
        "row": range(1, len(weights) + 1),
        "document": documents,
        "label": _as_floats(dataset.labels[start:end]),
        "score": _as_floats(scores),
        "rank": pairs.ranks.tolist(),
        "gain": pairs.gains.tolist(),
        "discount": pairs.discounts.tolist(),
        "weight": _as_floats(weights),
        "gradient": gradients.tolist(),
        "hessian": hessians.tolist(),
    }
    lines = zip(*columns.values(), strict=True)
    dcg = float(pairs.gains @ pairs.discounts)
    ideal = float(np.sort(pairs.gains)[::-1] @ np.sort(pairs.discounts)[::-1])
    lambdas = pairs.lambda_matrix * weights[:, None]
    return {
        "query": str(dataset.query_ids[query]),
        "dcg": dcg,
        "ideal_dcg": ideal,
        "ndcg": dcg / ideal if ideal > 0 else None,
        "rows": [dict(zip(columns, values, strict=True)) for values in lines],
        "gradients": gradients.tolist(),
        "hessians": hessians.tolist(),
        "delta_matrix": pairs.delta.tolist(),
        "lambda_matrix": lambdas.tolist(),
    }


def _as_floats(values: NDArray[Any]) -> list[float]:
    floats: list[float] = values.astype(float).tolist()
    return floats


def _tutorial(
    preset_name: str, settings: PairSettings, explained: Mapping[str, Any]
) -> str:
    records = explained["rows"]
    shown = sorted(records, key=lambda record: record["rank"])[:MOST_SHOWN]
    rows = [record["row"] - 1 for record in shown]
    of_all = ""
    if len(shown) < len(records):
        of_all = f", the first {len(shown)} of {len(records)} by rank; --json has all"
    convention = settings.convention.describe()
    gain = str(convention["gain"]).replace("_", " ")
    discount = str(convention["discount"]).replace("_", " ")
    dcg = f"{explained['dcg']:.3f}, ideal DCG {explained['ideal_dcg']:.3f}"
    ndcg = "- (no relevant document)"
    if explained["ndcg"] is not None:
        ndcg = f"{explained['ndcg']:.3f}"
    delta = "1"
    if settings.metric is not None:
        delta = f"the change of {settings.metric} by a swap of two ranks"
    deltas = _matrix(explained["delta_matrix"], rows)
    lambdas = _matrix(-np.array(explained["lambda_matrix"]), rows)
    return f"""\
Query {explained["query"]}, {len(records)} documents, the lambdas of {preset_name}{of_all}

1. Rank by score s; G: {gain} of a document, D: {discount} of its rank

{_documents(shown)}

   DCG = sum of G D = {dcg}, NDCG {ndcg}
   of the whole list

2. delta: {delta}, for pairs of different labels, by row

{deltas}

3. p = 1 / (1 + exp(sigma (s_hi - s_lo))), hi has the higher label; lambda = sigma p delta and
   hessian = sigma^2 p (1 - p) delta, which the settings and the weights scale
{_settings(settings)}
   Row i, column j: lambda; positive where the pair pushes document i up

{lambdas}

4. Sums per row, positive pushes up; a tree is fitted to -gradient / hessian of the cost

{_sums(shown)}"""


def _settings(settings: PairSettings) -> str:
    """Returns the settings that scale lambdas and choose pairs; docs/concepts/objectives.md explains them."""
    values = {
        item.name: getattr(settings, item.name)
        for item in fields(settings)
        if item.name != "convention"
    }
    return wrapped(f"   Settings: {assignments(values)}", "   ")


def _documents(shown: Sequence[Mapping[str, Any]]) -> str:
    head = f"{'rank':>7}{'row':>6}{'label':>7}{'score':>11}{'gain':>9}{'discount':>10}"
    if any(record["document"] for record in shown):
        head += "  document"
    lines = [head]
    for record in shown:
        numbers = (
            f"{record['score']:>11.4f}{record['gain']:>9g}{record['discount']:>10.4f}"
        )
        document = record["document"] or ""
        lines.append(f"{_beginning(record)}{numbers}  {document}".rstrip())
    return "\n".join(lines)


def _beginning(record: Mapping[str, Any]) -> str:
    """Returns the cells of the rank, the row and the label of a document."""
    return f"{record['rank'] + 1:>7}{record['row']:>6}{record['label']:>7g}"


def _matrix(values: ArrayLike, rows: Sequence[int]) -> str:
    head = "".join(f"{row + 1:>8}" for row in rows)
    lines = [f"{'':7}{head}"]
    shown = np.array(values)[np.ix_(rows, rows)].tolist()
    for row, line in zip(rows, shown, strict=True):
        cells = ["." if value == 0 else f"{value:.3f}" for value in line]
        text = "".join(f"{cell:>8}" for cell in cells)
        lines.append(f"{row + 1:>7}{text}")
    return "\n".join(lines)


def _sums(shown: Sequence[Mapping[str, Any]]) -> str:
    head = f"{'rank':>7}{'row':>6}{'label':>7}{'lambda':>11}{'gradient':>12}{'hessian':>12}"
    lines = [head]
    for record in shown:
        # 0.0 - x instead of -x, because -0.0 would be printed with its sign.
        push = 0.0 - record["gradient"]
        sums = f"{push:>11.3f}{record['gradient']:>12.6f}{record['hessian']:>12.6f}"
        lines.append(f"{_beginning(record)}{sums}")
    return "\n".join(lines)


# ---- The verb `walkthrough`: LambdaMART on ten documents.


@click.command("walkthrough")
def walkthrough_verb() -> None:
    """Explains LambdaMART step by step on ten documents.

    The native engine computed every number.

    \b
        python -m ltrbench walkthrough
    """
    echo(
        Path(__file__)
        .parents[1]
        .joinpath("walkthrough.md")
        .read_text(encoding="utf-8")
        .rstrip()
    )


# ---- The verb `glossary`: the meaning of a column or note of a comparison.


@click.command("glossary")
@click.argument("term", nargs=-1)
def glossary_verb(term: tuple[str, ...]) -> None:
    """Prints the meaning of TERM, a column or note of a comparison, or without TERM all terms.

    \b
        python -m ltrbench glossary
        python -m ltrbench glossary simultaneous interval
    """
    if not term:
        echo("\n".join(glossary()))
        return
    name = find_term(" ".join(term))
    echo(f"{name}\n\n{paragraph(glossary()[name], terminal_width())}")

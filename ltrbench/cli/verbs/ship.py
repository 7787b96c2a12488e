"""Verbs that put a model to use: `ship`, `serve`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltrbench.cli.console import OK, PATH, READ_OPTION, RUN_FAILED, echo, parse_value, split_settings, wrapped
from ltrbench.cli.verbs.runs import RANKER_OPTION, data_of_test, load_model, options_as_trained
from ltrbench.errors import ConfigError, ResultError
from ltrbench.runs import read_run

if TYPE_CHECKING:
    from ltrbench.runs import Run
    from ltrbench.shipping.certificate import Certificate
    from ltrbench.shipping.shipment import AnswerCheck, ShippedData
    from ltrbench.shipping.target import Target

_SHOWN_ROWS = 5


@click.command("ship")
@click.argument("folder", type=PATH, metavar="RUN")
@click.option(
    "--to",
    "to",
    metavar="TARGET",
    help="Engine or library: elasticsearch, opensearch, solr, vespa, lightgbm, xgboost, ranklib, onnx, "
    "treelite or c.",
)
@click.option("--output", type=PATH, metavar="DIR", help="New folder of the converted model.")
@click.option("--best", is_flag=True, help="RUN is a folder of runs: ship the best one by validation.")
@click.option(
    "--data", type=PATH, metavar="FILE", help="Compare on this file with labels and queries instead."
)
@click.option(
    "--tolerance",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Number of queries whose ranking may change. From 1 on, other differences of scores are listed, not "
    "refused.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Option of the target; may be repeated."
)
@click.option(
    "--check",
    "answers",
    type=PATH,
    metavar="ANSWERS",
    help="RUN is a shipped folder: compare this answer of a deployed engine with the expected scores.",
)
@RANKER_OPTION
@READ_OPTION
def ship_verb(
    folder: Path,
    to: str | None,
    output: Path | None,
    best: bool,
    data: Path | None,
    tolerance: int,
    settings: Sequence[str],
    answers: Path | None,
    ranker: str | None,
    reading: Sequence[str],
) -> int:
    """Converts the model of the finished RUN for an engine, and certifies that it ranks as before.

    The folder of --output gets the model, how to upload it, rows with expected scores, and a certificate:
    scores and rankings of the engine, or of a simulator of its rules, on the test queries and on values where
    conversions break. If a ranking changes beyond ties, the folder has only the certificate, and the exit
    code is 1.

    \b
        python -m ltrbench ship outputs/2026-01-31/12-00-00 --to solr --output shipped
        python -m ltrbench ship multirun/2026-01-31/12-00-00 --best --to elasticsearch --output shipped
        python -m ltrbench ship shipped --check answers.json
    """
    if answers is not None:
        return _check(folder, answers, tolerance)
    if to is None or output is None:
        missing = "--to TARGET" if to is None else "--output DIR"
        raise ConfigError(f"{missing} is missing; as in ship RUN --to elasticsearch --output shipped.")
    from ltrbench.shipping.shipment import RefusedModelError, check_free, ship

    check_free(output)
    target = _target(to, settings)
    run, reason = _best_run(folder) if best else (read_run(folder), "")
    if reason:
        echo(f"{run.path}: {reason}")
    model = load_model(run, ranker)
    compared = _data(run, data, reading)
    try:
        certificate = ship(run, model, target, compared, output, tolerance=tolerance, reason=reason)
    except RefusedModelError as error:
        echo(f"refused: {error}", err=True)
        return RUN_FAILED
    verified = f"Verified against: {target.verified_against}."
    echo("\n".join((*_summary(certificate, output), wrapped(verified, "  "))))
    return OK


def _target(name: str, settings: Sequence[str]) -> Target:
    from ltrbench.shipping.target import build_target, find_target, takes_text

    target_class = find_target(name)
    texts = split_settings("--set", settings)
    return build_target(
        name,
        {key: text if takes_text(target_class, key) else parse_value(text) for key, text in texts.items()},
    )


def _best_run(folder: Path) -> tuple[Run, str]:
    """Returns the best run by validation, and the reason.

    Raises:
        ResultError: The runs have no data set or no validation set in common.
    """
    from ltrbench.cli.session import best_of
    from ltrbench.compare import compare
    from ltrbench.runs import find_runs

    best = best_of(compare(find_runs([folder])))
    if best is None:
        raise ResultError(
            f"--best chooses by validation on one data set, but the runs in {folder} have no data set or no "
            "validation set in common. Name one run instead."
        )
    return best.run, best.reason


def _data(run: Run, file: Path | None, reading: Sequence[str]) -> ShippedData:
    from ltrbench.data.sources import read_data
    from ltrbench.shipping.shipment import ShippedData

    if file is None:
        return ShippedData(str(run.result.data["name"]), "test", data_of_test(run))
    return ShippedData(str(file), None, read_data(file, **options_as_trained(run, file, reading)))


def _summary(certificate: Certificate, output: Path) -> list[str]:
    """Returns the lines that are printed about a shipped model."""
    comparison, engine = certificate.comparison, certificate.engine
    if comparison is None or engine is None:
        return [wrapped(f"{output}: not verified, because there is no evaluator of this engine in Python.")]
    how = "the simulator of " if engine.is_simulated else ""
    lines = [
        " ".join(f"{output}: {certificate.status} with {how}{engine.name} {engine.version}".split()) + ".",
        f"Rankings changed: {len(comparison.changed_queries)} of {comparison.queries} queries. Largest "
        f"difference of scores: {comparison.largest_difference:.3g}{comparison.describe_reordered()}.",
    ]
    if (metric := comparison.metric) is not None:
        lines.append(f"NDCG@10 {metric.original:.4f}, loss {metric.loss:.4g}.")
    lines += [f"Limit ({kind}): {limit.sentence}" for kind, limit in certificate.limits.items()]
    lines += [
        f"Difference: {rows.sentence(kind, engine.name)}."
        for kind, rows in certificate.probes.items()
        if rows.differing
    ]
    return [wrapped(line, "  ") for line in lines]


def _check(folder: Path, answers: Path, tolerance: int) -> int:
    from ltrbench.shipping.shipment import CERTIFICATE_FILE, CHECK_FILE, check_answers, read_shipped
    from ltrbench.shipping.target import build_target

    rows = read_shipped(folder, CHECK_FILE)["rows"]
    about = read_shipped(folder, CERTIFICATE_FILE)["target"]
    target = build_target(about["name"], about["options"])
    try:
        scores = target.answered_scores(target.read_answers(answers))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ResultError(f"{answers} is no answer of {target.name}: {error}.") from error
    check = check_answers(rows, scores)
    echo("\n".join(wrapped(line, "  ") for line in _outcome(check, tolerance)))
    return OK if check.is_passed(tolerance) else RUN_FAILED


def _outcome(check: AnswerCheck, tolerance: int) -> list[str]:
    num_answered = check.num_rows - len(check.missing)
    verdict = "equal" if check.is_passed(tolerance) else "different"
    lines = [
        f"{verdict}: {num_answered} of {check.num_rows} rows answered, largest difference of scores "
        f"{check.largest_difference:.3g}, {len(check.wrong)} rows beyond rounding, {len(check.changed)} "
        "queries in another order."
    ]
    if check.missing:
        lines.append(f"No answer: {', '.join(check.missing[:_SHOWN_ROWS])}.")
    if check.unknown:
        lines.append(f"Not in check_rows.json: {', '.join(check.unknown[:_SHOWN_ROWS])}.")
    lines += [
        f"{name}: expected {expected!r}, answered {answered!r}."
        for name, (expected, answered) in list(check.wrong.items())[:_SHOWN_ROWS]
    ]
    lines += [
        f"Query {query}: {first} should rank before {second}."
        for query, (first, second) in list(check.changed.items())[:_SHOWN_ROWS]
    ]
    return lines


# ---- The verb `serve`: answers requests to rank documents with the model of a finished run.


@click.command("serve")
@click.argument("run", type=PATH)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to listen on; 0: any free port.",
)
@click.option(
    "--max-documents",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Maximum number of documents of one request.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    default=16 * 2**20,
    show_default=True,
    help="Maximum size of one request, bytes.",
)
@RANKER_OPTION
def serve_verb(
    run: Path, host: str, port: int, max_documents: int, max_bytes: int, ranker: str | None
) -> None:
    """Ranks documents over HTTP with the model of the finished RUN, until Ctrl-C.

    POST /rank takes the JSON {"query": "q1", "documents": [{"id": "d1", "features": {"NAME": VALUE, ...}},
    ...]} and returns the documents with their scores, the best first. GET /model names the features, and
    GET /health tells whether the service answers. The service has no authentication; by default only
    programs on this machine can connect. It needs pip install 'ltrbench[serve]'.

    \b
        python -m ltrbench serve outputs/2026-01-31/12-00-00 --port 8000
    """
    from ltrbench.runs.record import loaded_model
    from ltrbench.serve import is_loopback, listen, ranking_app, run_service, url_of, warm_up

    finished = read_run(run)
    model = loaded_model(finished, load_model(finished, ranker))
    with listen(host, port) as listener:
        warm_up(model)
        if not is_loopback(host):
            click.echo(
                f"warning: {host} may be reached from other machines, and the service has no authentication "
                "and no encryption. Put a proxy with both in front of it, or use --host 127.0.0.1.",
                err=True,
            )
        features = f"{len(model.feature_names):,} features"
        click.echo(f"{model.name} ({features}) on {url_of(listener)} (Ctrl-C to stop)", err=True)
        run_service(ranking_app(model, max_documents, max_bytes), listener)

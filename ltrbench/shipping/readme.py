"""The README of the folder of a shipped model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ltrbench.shipping.certificate.record import Certificate
from ltrbench.shipping.folder import CERTIFICATE_FILE, CHECK_FILE, UPLOAD_FILE
from ltrbench.shipping.model import ShippedModel
from ltrbench.shipping.target import CheckRequests, Export
from ltrbench.untrusted.escaping import visible

_MOST_NAMES = 200


def readme(
    model: ShippedModel,
    target: str,
    export: Export,
    certificate: Certificate,
    requests: CheckRequests | None = None,
) -> bytes:
    """Returns the text of README.md.

    Args:
        requests: how the deployed engine scores the rows with expected scores; None: a library does.
    """
    paragraphs = (
        *_paragraphs(model, target, export, certificate),
        "## Check",
        *(_check(requests) if requests and requests.files else _check_without_requests(requests)),
        f"## Features\n\n{_names(model)}",
    )
    return ("\n\n".join(paragraphs) + "\n").encode()


def _paragraphs(model: ShippedModel, target: str, export: Export, certificate: Certificate) -> Iterator[str]:
    first = next(iter(export.files))
    yield f"# {model.name} for {target}"
    yield f"`{first}` is the model. {_verdict(certificate)} `{CERTIFICATE_FILE}` has the details."
    yield "## Upload"
    yield f"Run this in the folder; it is also in `{UPLOAD_FILE}`."
    yield f"```\n{export.request.rstrip()}\n```"
    if export.notes:
        yield "\n".join(f"- {note}" for note in export.notes)
    yield "## Scores"
    yield _scores(certificate)
    if certificate.limits:
        yield "Values that the engine cannot treat as the model does:"
        yield "\n".join(f"- {kind}: {limit.sentence}" for kind, limit in certificate.limits.items())


def _check(requests: CheckRequests) -> Iterator[str]:
    """Yields how the deployed engine scores the rows, and how its answer is compared."""
    yield (
        f"`{CHECK_FILE}` has rows with expected scores. After the upload, these commands score the same rows "
        f"with the deployed engine and write its answer to `{requests.answers}`:"
    )
    yield f"```\n{requests.commands}\n```"
    left_out = [f"Rows left out: {rows}." for rows in _left_out(requests)]
    if requests.notes or left_out:
        yield "\n".join(f"- {note}" for note in (*requests.notes, *left_out))
    yield "Compare the answer with the expected scores:"
    yield f"```\npython -m ltrbench ship . --check {requests.answers}\n```"
    yield "It names each row without an answer or with another score. The exit code is 0 if there is none."
    if requests.cleanup:
        yield f"Remove what the commands created:\n\n```\n{requests.cleanup}\n```"


def _left_out(requests: CheckRequests) -> list[str]:
    reasons = Counter(requests.left_out.values())
    return [f"{count}, which have {reason}" for reason, count in reasons.items()]


def _check_without_requests(requests: CheckRequests | None) -> Iterator[str]:
    if requests is not None:
        yield f"There are no requests, because no row can be in one: {'; '.join(_left_out(requests))}."
    yield (
        f"Score the rows of `{CHECK_FILE}` with the deployed model, and write a JSON object with the score "
        'of each id, such as `{"q1-d1": 0.25, "q1-d2": -0.5}`, to `answers.json`:'
    )
    yield "```\npython -m ltrbench ship . --check answers.json\n```"


def _verdict(certificate: Certificate) -> str:
    comparison = certificate.comparison
    if comparison is None or certificate.engine is None:
        return "It was not verified: there is no evaluator of this engine in Python."
    how = "a simulator of " if certificate.engine.is_simulated else ""
    changed = len(comparison.changed_queries)
    return (
        f"Checked with {how}{certificate.engine.name}: the rankings of {changed} of {comparison.num_queries} "
        f"queries changed beyond ties, and {certificate.coverage.tested} of {certificate.coverage.splits} "
        "splits were tested at their thresholds."
    )


def _scores(certificate: Certificate) -> str:
    total = certificate.offset + certificate.constant
    if total == 0:
        return "Scores are those of the original model, but for rounding."
    return f"Scores are those of the original model plus {total!r}, but for rounding; rankings are the same."


def _names(model: ShippedModel) -> str:
    names = model.feature_names[:_MOST_NAMES]
    rest = model.num_features - len(names)
    text = ", ".join(f"`{visible(name).replace('`', '')}`" for name in names)
    return f"{text} and {rest} more." if rest else f"{text}."

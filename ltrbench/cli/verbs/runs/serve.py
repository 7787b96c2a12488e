"""The verb `serve`: answers requests to rank documents with the model of a finished run."""

from __future__ import annotations

from pathlib import Path

import click

from ltrbench.cli.files import PATH
from ltrbench.cli.verbs.runs.models import RANKER_OPTION, load_model
from ltrbench.results import read_run
from ltrbench.serving.requests import RequestLimits


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
    default=RequestLimits.num_documents,
    show_default=True,
    help="Maximum number of documents of one request.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    default=RequestLimits.num_bytes,
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
    from ltrbench.serving.loaded import loaded_model
    from ltrbench.serving.server import is_loopback, listen, run_service, url_of, warm_up

    limits = RequestLimits(num_documents=max_documents, num_bytes=max_bytes)
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
        run_service(model, listener, limits)

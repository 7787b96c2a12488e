"""The verb `export`: the scores and metrics of a run in the file formats of TREC and RankLib."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from ltrbench.cli.files import PATH, echo

if TYPE_CHECKING:
    from ltrbench.results import Run, ScoredSplit


@click.command("export")
@click.argument("run", type=PATH)
@click.option(
    "--format",
    "kind",
    required=True,
    type=click.Choice(["trec-run", "qrels", "ranklib-idv", "scores"]),
    help="Format of the lines, see above.",
)
@click.option(
    "--split",
    type=click.Choice(["test", "valid"]),
    default="test",
    show_default=True,
    help="Split to export.",
)
@click.option("--metric", default="ndcg@10", show_default=True, metavar="NAME", help="Metric of ranklib-idv.")
@click.option(
    "--convention",
    default="ranklib",
    show_default=True,
    metavar="NAME",
    help="Convention of the metric of ranklib-idv.",
)
@click.option(
    "--output",
    type=PATH,
    help="Write to this file instead of standard output; .gz, .bz2, .xz and .zst files are compressed.",
)
def export_verb(run: Path, kind: str, split: str, metric: str, convention: str, output: Path | None) -> None:
    """Writes the scores of the finished RUN in the format of another tool.

    \b
        trec-run     query Q0 document rank score tag: read by trec_eval, pytrec_eval and ir_measures
        qrels        query 0 document label: the judgments for a trec-run
        ranklib-idv  NDCG@10   query   value: one metric per query, as written by RankLib's -idv
        scores       one score per line, in the order of the data rows

    Documents are named by their ids; if the data has no ids, by their row, counted from 1, with a note on
    standard error. Scores are written with full precision.

    \b
        python -m ltrbench export outputs/2026-01-31/12-00-00 --format trec-run --output run.trec
    """
    from ltrbench.results import naming, read_run

    export = _Export(read_run(run), split, metric, convention)
    with naming(export.run):
        text = "".join(_WRITERS[kind](export, export.run.scored(split)))
    _write(text, output)


@dataclass(frozen=True)
class _Export:
    run: Run
    split: str
    metric: str
    convention: str


def _trec_run(export: _Export, scored: ScoredSplit) -> Iterator[str]:
    from ltrbench.data.formats.trec import document_names, trec_run_lines

    names, reason = document_names(scored.judgments, scored.file_rows)
    _say_of_names(reason)
    _say_of_ties(scored)
    return trec_run_lines(scored.judgments, scored.scores, names, export.run.result.model)


def _qrels(export: _Export, scored: ScoredSplit) -> Iterator[str]:
    from ltrbench.data.formats.trec import document_names, qrels_lines

    names, reason = document_names(scored.judgments, scored.file_rows)
    _say_of_names(reason)
    return qrels_lines(scored.judgments, names)


def _ranklib_idv(export: _Export, scored: ScoredSplit) -> Iterator[str]:
    from ltrbench.data.formats.ranklib import idv_lines
    from ltrbench.metrics import evaluate, preset

    evaluation = evaluate(scored.judgments, scored.scores, [export.metric], preset(export.convention))
    values = evaluation.per_query[export.metric]
    counted = ~np.isnan(values)
    if not counted.all():
        left_out = f"{(~counted).sum()} of {len(counted)} queries"
        _say(f"{left_out} do not count under the convention {export.convention}, so they have no line.")
    queries = scored.judgments.query_ids[counted].tolist()
    pairs = zip(queries, values[counted].tolist(), strict=True)
    return idv_lines(export.metric, pairs, evaluation.means[export.metric])


def _scores(export: _Export, scored: ScoredSplit) -> Iterator[str]:
    in_file = scored.scores if scored.file_rows is None else scored.scores[np.argsort(scored.file_rows)]
    return (f"{score!r}\n" for score in in_file.tolist())


_WRITERS: dict[str, Callable[[_Export, ScoredSplit], Iterator[str]]] = {
    "trec-run": _trec_run,
    "qrels": _qrels,
    "ranklib-idv": _ranklib_idv,
    "scores": _scores,
}


def _say_of_names(reason: str) -> None:
    if reason:
        _say(f"{reason[0].upper()}{reason[1:]}: documents are named by their row, counted from 1.")


def _say_of_ties(scored: ScoredSplit) -> None:
    """Prints a note about ties in trec_eval, which stores scores in float32."""
    from ltrbench.metrics import rank

    with np.errstate(over="ignore"):
        sizes = rank(scored.judgments, scored.scores.astype(np.float32)).tie_size
    tied = int(sizes[sizes > 1].sum())
    if tied:
        _say(
            f"{tied} of {scored.judgments.num_documents} documents have the same float32 score as another "
            "document of their query: trec_eval orders them by document id, descending."
        )


def _say(sentence: str) -> None:
    echo(sentence, err=True)


def _write(text: str, output: Path | None) -> None:
    from ltrbench.data.formats.compression import write_whole

    if output is None:
        click.echo(text, nl=False)
        return
    with write_whole(output) as stream:
        stream.write(text.encode(errors="backslashreplace"))

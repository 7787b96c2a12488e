"""RankLib's files: the scores that `-score` writes, and the figures of single queries that `-idv` writes.

    -score    query TAB index TAB score        the index of a document in its query, from 0
    -idv      NDCG@10   query   value          a line a query, and `all` with the mean at the end

(RankLib 2.x, ciir/umass/edu/eval/Evaluator.java, score and savePerRankListPerformanceFile.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ltrbench.data.formats.letor.line import quote
from ltrbench.data.formats.scores import parse_score
from ltrbench.errors import DataError

SCORE_LINE = "query index score"
SCORE_COLUMNS = len(SCORE_LINE.split())

# What RankLib calls the metrics that it has; all others keep our name.
_METRICS = {"ndcg": "NDCG", "dcg": "DCG", "map": "MAP", "mrr": "RR", "precision": "P", "err": "ERR"}


def parse_ranklib_scores(text: bytes, name: str) -> dict[str, list[float]]:
    """Query -> the scores of its documents, in the order of the data's rows.

    RankLib takes the rows of a query that stand apart in a file for two lists, and counts each from 0: here
    they are one query again.

    Args:
        text: of a `-score` file.
        name: what messages call the file.

    Raises:
        DataError: where a line is not `query index score`, or an index is not the one that comes next.

    >>> parse_ranklib_scores(b"q1\\t0\\t0.5\\nq1\\t1\\t-2\\nq2\\t0\\t1e-3\\n", "scores.txt")
    {'q1': [0.5, -2.0], 'q2': [0.001]}
    """
    scores: dict[str, list[float]] = {}
    last_query, last_index = b"", -1
    for number, line in enumerate(text.split(b"\n"), 1):
        columns = line.split()
        if not columns:
            continue
        score = parse_score(columns[-1])
        if len(columns) != SCORE_COLUMNS or not columns[1].isdigit() or score is None:
            raise DataError(
                f"{name}:{number}: {quote(line)} is no line of RankLib's -score, '{SCORE_LINE}' with an "
                "index from 0. Check the file, or write it again."
            )
        query, index = columns[0], int(columns[1])
        if index != 0 and (query, index) != (last_query, last_index + 1):
            raise DataError(
                f"{name}:{number}: index {index} of query {quote(query)} does not follow the line before; "
                "RankLib writes them in order, from 0. Lines are missing or out of order: write it again."
            )
        scores.setdefault(query.decode(errors="backslashreplace"), []).append(score)
        last_query, last_index = query, index
    return scores


def idv_lines(metric: str, values: Iterable[tuple[str, float]], mean: float) -> Iterator[str]:
    """The lines of a file as `-idv` writes it.

    Args:
        metric: such as ndcg@10.
        values: (query, value) of each query.
        mean: over the queries.

    >>> print(*idv_lines("ndcg@10", [("q1", 0.5), ("q2", 1.0)], 0.75), sep="", end="")
    NDCG@10   q1   0.5
    NDCG@10   q2   1.0
    NDCG@10   all   0.75
    """
    word, at, cutoff = metric.partition("@")
    name = f"{_METRICS.get(word, word)}{at}{cutoff}"
    for query, value in [*values, ("all", mean)]:
        yield f"{name}   {query}   {value!r}\n"

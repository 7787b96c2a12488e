"""RankLib's files: document scores (`-score`) and metric values per query (`-idv`).

    -score    query TAB index TAB score        index of the document in its query, from 0
    -idv      NDCG@10   query   value          one line per query; the last line, `all`, has the mean

(RankLib 2.x, ciir/umass/edu/eval/Evaluator.java, score and savePerRankListPerformanceFile.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ltrbench.data.formats.letor.line import quote
from ltrbench.data.formats.scores import parse_score
from ltrbench.errors import DataError

SCORE_LINE = "query index score"
SCORE_COLUMNS = len(SCORE_LINE.split())

# RankLib's names of its metrics; other metrics keep the name of this package.
_METRICS = {"ndcg": "NDCG", "dcg": "DCG", "map": "MAP", "mrr": "RR", "precision": "P", "err": "ERR"}


def parse_ranklib_scores(text: bytes, name: str) -> dict[str, list[float]]:
    """Returns query -> scores of its documents, in the order of the data rows.

    RankLib treats non-consecutive rows of a query as two lists, each numbered from 0: this function joins
    them to one query.

    Args:
        text: content of a `-score` file.
        name: name of the file in messages.

    Raises:
        DataError: A line is not `query index score`, or an index does not follow the previous one.

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
                f"{name}:{number}: the line is {quote(line)}; expected a line of RankLib's -score output, "
                f"'{SCORE_LINE}', with an index from 0. Check the file, or run RankLib again."
            )
        query, index = columns[0], int(columns[1])
        if index != 0 and (query, index) != (last_query, last_index + 1):
            raise DataError(
                f"{name}:{number}: index {index} of query {quote(query)} does not follow the previous line; "
                "RankLib writes indices in order, from 0. Lines are missing or reordered: run RankLib again."
            )
        scores.setdefault(query.decode(errors="backslashreplace"), []).append(score)
        last_query, last_index = query, index
    return scores


def idv_lines(metric: str, values: Iterable[tuple[str, float]], mean: float) -> Iterator[str]:
    """Yields the lines of a file in the format of `-idv`.

    Args:
        metric: name of the metric, such as ndcg@10.
        values: (query, value) of each query.
        mean: mean over the queries.

    >>> print(*idv_lines("ndcg@10", [("q1", 0.5), ("q2", 1.0)], 0.75), sep="", end="")
    NDCG@10   q1   0.5
    NDCG@10   q2   1.0
    NDCG@10   all   0.75
    """
    word, at, cutoff = metric.partition("@")
    name = f"{_METRICS.get(word, word)}{at}{cutoff}"
    for query, value in [*values, ("all", mean)]:
        yield f"{name}   {query}   {value!r}\n"

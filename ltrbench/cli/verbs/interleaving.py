"""The verb `interleave`: preference in a log of interleaved lists, new lists, number of sessions to plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ltrbench.cli.console import (
    JSON_OPTION,
    PATH,
    check_output,
    echo,
    echo_json,
    split_settings,
    wrapped,
)
from ltrbench.errors import ConfigError, DataError, require

if TYPE_CHECKING:
    from ltrbench.clicks.interleaving import Outcomes, Plan, Preference, Run
    from ltrbench.statistics import Interval

_ANALYSE = "log"
_DETECT = 0.05
"""Preference to plan sessions for, unless the user names another one."""


class _WithLog(click.Group):
    """A group whose first word, if it is no command, is a log to analyse."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands:
            args = [_ANALYSE, *args]
        return super().resolve_command(ctx, args)


@click.group(
    "interleave",
    cls=_WithLog,
    subcommand_metavar="LOG | COMMAND ...",
    # Options before the log belong to the command `log`.
    context_settings={"ignore_unknown_options": True},
)
def interleave_verb() -> None:
    """Compares two rankers that were interleaved in one list, by their clicks.

    \b
        python -m ltrbench interleave make production.csv candidate.csv --output lists.csv
        python -m ltrbench interleave log.csv
    """


# ---- The preference in a log.

_DEPTH_OPTION = click.option(
    "--depth",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Number of documents in a list.",
)
_SEED_OPTION = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True
)


@interleave_verb.command(_ANALYSE)
@click.argument("log", metavar="LOG", type=PATH)
@click.option(
    "--teams",
    default="A,B",
    show_default=True,
    metavar="NAME,NAME",
    help="Names of the two rankers in the column team.",
)
@click.option(
    "--column",
    "columns",
    metavar="ROLE=COLUMN",
    multiple=True,
    help="Column of session, query, click, event, team, credit, position, rank_a or rank_b; may be repeated.",
)
@click.option(
    "--planned",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Sessions with a click for which the interval of continuous looking is narrowest. Do not change it "
    "between looks.",
)
@click.option(
    "--detect",
    type=float,
    metavar="D",
    help="Preference to plan sessions for. Default: 0.05, if no preference is significant.",
)
@JSON_OPTION
def log_verb(
    log: Path,
    *,
    teams: str,
    columns: tuple[str, ...],
    planned: int,
    detect: float | None,
    as_object: bool,
) -> None:
    """Shows which ranker users prefer in LOG, with intervals by query.

    LOG is a CSV or Parquet table with a row for each document of each list, or for each event: session,
    query, click (0 or 1; or event), and team (A or B), the ranker that placed the document. In place of team,
    credit is a number above 0 for A and below 0 for B, and rank_a, rank_b and position are those of balanced
    interleaving, which is biased.

    \b
        python -m ltrbench interleave log.csv
        python -m ltrbench interleave log.csv --teams production,candidate --column session=search_id
    """
    from ltrbench.clicks.interleaving import Preference, read_interleaved

    require("--detect", detect, above=0, at_most=0.5)
    names = _names_of(teams)
    of_roles = split_settings("--column", columns)
    outcomes = read_interleaved(log, of_roles, names)
    preference = Preference.of(outcomes.queries, outcomes.values)
    if as_object:
        difference = _DETECT if detect is None else detect
        echo_json(_record(preference, outcomes, names, planned, difference))
        return
    unit = "queries" if outcomes.has_queries else "sessions"
    sentences = [
        _claim_in_words(preference, names, unit),
        _looks_in_words(preference, names, planned),
        _sessions_in_words(preference, detect),
        *_warnings_in_words(outcomes),
    ]
    for sentence in filter(None, sentences):
        echo(wrapped(sentence))


def _names_of(teams: str) -> tuple[str, str]:
    """Returns two names from `A,B`."""
    first, _, second = teams.partition(",")
    names = (first.strip(), second.strip())
    are_different = all(names) and names[0] != names[1]
    if "," in second or not are_different:
        raise ConfigError(
            f"--teams is '{teams}'; write two different names, as in --teams A,B."
        )
    return names


def _record(
    preference: Preference,
    outcomes: Outcomes,
    names: tuple[str, str],
    planned: int,
    detect: float,
) -> dict[str, Any]:
    from ltrbench.clicks.interleaving import sessions_needed

    error: float | None = None
    needed: int | None = None
    if preference.interval is not None:
        error = preference.standard_error
        needed = sessions_needed(detect, preference.deviation)
    return {
        "teams": list(names),
        "method": outcomes.method,
        "sessions": outcomes.num_sessions,
        "sessions_with_click": preference.num_sessions,
        "queries": preference.num_queries,
        "queries_are_known": outcomes.has_queries,
        "wins": preference.wins,
        "losses": preference.losses,
        "ties": preference.ties,
        "preference": preference.value,
        "standard_error": error,
        "interval": _ends(preference.interval),
        "always_valid": _ends(preference.always_valid(planned)),
        "planned": planned,
        "detect": detect,
        "sessions_needed": needed,
    }


def _ends(interval: Interval | None) -> list[float] | None:
    if interval is None:
        return None
    return [interval.low, interval.high]


def _preferred(interval: Interval, names: tuple[str, str]) -> str:
    """Returns the name of the preferred ranker; empty without a significant preference."""
    if interval.low > 0:
        return names[0]
    if interval.high < 0:
        return names[1]
    return ""


def _claim_in_words(preference: Preference, names: tuple[str, str], unit: str) -> str:
    """Returns the answer.

    Args:
        unit: what is independent: queries or sessions.
    """
    counts = _counts_in_words(preference, names)
    interval = preference.interval
    if interval is None:
        return (
            f"No claim: the outcomes of the {unit} ({preference.num_queries}) are too few or all alike for "
            f"an interval. {counts}"
        )
    name = _preferred(interval, names)
    claim = f"Users prefer {name}." if name else "No significant preference."
    value = _with_ends(preference.value, interval)
    clusters = f"{preference.num_queries:,} {unit}"
    return (
        f"{claim} {counts} Preference for {names[0]}: {value} (95 %, {clusters}; 0 is none, 0.5 the "
        "largest)."
    )


def _counts_in_words(preference: Preference, names: tuple[str, str]) -> str:
    sessions = f"{preference.num_sessions:,} sessions with a click"
    wins = f"{names[0]} wins {preference.wins:,}"
    losses = f"{names[1]} wins {preference.losses:,}"
    return f"Of {sessions}, {wins}, {losses}, and {preference.ties:,} are ties."


def _with_ends(value: float, interval: Interval) -> str:
    return f"{value:z.3f} {_ends_in_words(interval)}"


def _ends_in_words(interval: Interval) -> str:
    return f"[{interval.low:z.3f}, {interval.high:z.3f}]"


def _looks_in_words(
    preference: Preference, names: tuple[str, str], planned: int
) -> str:
    interval = preference.always_valid(planned)
    if interval is None:
        return ""
    name = _preferred(interval, names)
    claim = f"{name} is preferred" if name else "no significant preference yet"
    return (
        "That interval is for one look, at the planned end. For looking at any time, planned for "
        f"{planned:,} sessions: {_ends_in_words(interval)}, {claim}."
    )


def _sessions_in_words(preference: Preference, detect: float | None) -> str:
    """Returns the sessions that a difference needs; empty if a preference is shown and none is asked for."""
    from ltrbench.clicks.interleaving import sessions_needed

    interval = preference.interval
    if interval is None:
        return ""
    is_shown = interval.low > 0 or interval.high < 0
    if detect is None and is_shown:
        return ""
    difference = _DETECT if detect is None else detect
    needed = sessions_needed(difference, preference.deviation)
    return (
        f"To detect a preference of {difference:g}, one look needs about {needed:,} sessions with a click "
        "(80 % power), looking at any time about twice as many."
    )


def _warnings_in_words(outcomes: Outcomes) -> list[str]:
    warnings = []
    if not outcomes.has_queries:
        warnings.append(
            "Warning: without the column query, sessions count as independent. If queries are repeated, the "
            "interval is too narrow: log the query."
        )
    if outcomes.method == "balanced":
        warnings.append(
            "Warning: balanced interleaving can prefer a ranker by random clicks, if its list is that of the "
            "other with a document moved. Draw lists by team draft: interleave make."
        )
    if outcomes.method == "credit":
        warnings.append(
            "Warning: the credits are those of the log. They are biased with balanced interleaving; lists of "
            "team draft (interleave make) need no credits."
        )
    return warnings


# ---- Lists of two rankers.

_RANKERS = (
    click.argument("first", metavar="A", type=PATH),
    click.argument("second", metavar="B", type=PATH),
)


@interleave_verb.command("make")
@_RANKERS[0]
@_RANKERS[1]
@click.option(
    "--lists",
    "num_lists",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of lists of each query.",
)
@_DEPTH_OPTION
@_SEED_OPTION
@click.option(
    "--output",
    type=PATH,
    required=True,
    metavar="FILE",
    help="Table that is written, .csv or .parquet.",
)
def make_verb(
    first: Path,
    second: Path,
    *,
    num_lists: int,
    depth: int,
    seed: int,
    output: Path,
) -> None:
    """Draws interleaved lists of the rankers A and B by team draft.

    A and B are folders of runs, of which test is used, or score files: TREC runs, or CSV or Parquet tables
    with query_id, document_id and score. Show each user one list of the query, and log the team of each
    document with the clicks.

    \b
        python -m ltrbench interleave make production.csv candidate.csv --lists 20 --output lists.csv
    """
    from ltrbench.clicks.interleaving import lists_of, pools_of
    from ltrbench.data.tables import write_frame

    check_output("--output", output, [first, second])
    scores = (_scores_of(first), _scores_of(second))
    pools = pools_of(*scores, depth)
    lists = lists_of(pools, depth, num_lists, seed)
    write_frame(lists, output)
    queries = {*scores[0], *scores[1]}
    left_out = len(queries) - len(pools)
    text = f"{output}: {num_lists} lists of each of {len(pools):,} queries."
    if left_out:
        text += f" {left_out:,} queries that only one ranker has are left out."
    echo(wrapped(text))


def _scores_of(path: Path) -> Run:
    """Returns query -> document -> score, of test of a run or of a score file."""
    from ltrbench.data.score_files import read_scores_of_documents
    from ltrbench.runs.record import read_run

    if not path.is_dir():
        return read_scores_of_documents(path)
    scored = read_run(path).scored("test")
    return _by_document(scored, scored.scores)


def _by_document(scored: Any, values: Any) -> dict[str, dict[str, float]]:
    """Returns query -> document -> value of a split of a run.

    Documents are named by their ids or, if the data have none, by their rows.

    Args:
        values: (D,).

    Raises:
        DataError: Two rows of a query have the same document id.
    """
    from ltrbench.data.score_files import document_names

    judgments = scored.judgments
    names = judgments.document_ids
    if names is None:
        names, _ = document_names(judgments, scored.file_rows)
    starts = judgments.query_start.tolist()
    by_query = {}
    for number, query in enumerate(judgments.query_ids.tolist()):
        rows = slice(starts[number], starts[number + 1])
        documents = names[rows].tolist()
        of_query = values[rows].tolist()
        by_query[query] = dict(zip(documents, of_query, strict=True))
        if len(by_query[query]) < len(documents):
            (document, _), *_ = Counter(documents).most_common(1)
            raise DataError(
                f"test has document {document!r} twice in query {query!r}, so that a list cannot name its "
                "rows: remove the copies from the data, and run again."
            )
    return by_query


# ---- The number of sessions, from judged queries.


@interleave_verb.command("plan")
@_RANKERS[0]
@_RANKERS[1]
@click.option(
    "--detect",
    type=float,
    metavar="D",
    help="Preference to plan sessions for. Default: that of the simulated clicks.",
)
@click.option(
    "--sessions-per-query",
    type=float,
    default=5.0,
    show_default=True,
    help="Mean number of sessions with a click a query in the log; a session counts less if it repeats a "
    "query.",
)
@click.option(
    "--click-model",
    default="pbm",
    show_default=True,
    metavar="NAME",
    help="Users of the simulated clicks: pbm, cascade, dbn or trust.",
)
@_DEPTH_OPTION
@_SEED_OPTION
def plan_verb(
    first: Path,
    second: Path,
    *,
    detect: float | None,
    sessions_per_query: float,
    click_model: str,
    depth: int,
    seed: int,
) -> None:
    """Plans how many sessions an interleaving of the rankers A and B needs.

    A and B are as for make, and one of them is a run, whose labels decide the simulated clicks.

    \b
        python -m ltrbench interleave plan outputs/2026-01-31/12-00-00 candidate.csv
    """
    from ltrbench.clicks.interleaving import plan, pools_of

    require("--detect", detect, above=0, at_most=0.5)
    require("--sessions-per-query", sessions_per_query, at_least=1)
    labels = _labels_of(first, second)
    pools = pools_of(_scores_of(first), _scores_of(second), depth)
    done = plan(pools, labels, depth, seed, click_model)
    names = (str(first), str(second))
    echo(wrapped(_expected_in_words(done, names, len(pools))))
    echo(wrapped(_planned_in_words(done, detect, sessions_per_query)))


def _labels_of(*rankers: Path) -> Mapping[str, Mapping[str, float]]:
    """Returns query -> document -> label, of the first run."""
    from ltrbench.runs.record import read_run

    for path in rankers:
        if path.is_dir():
            scored = read_run(path).scored("test")
            return _by_document(scored, scored.judgments.labels)
    raise ConfigError(
        f"{rankers[0]} and {rankers[1]} have no labels, by which clicks are simulated; name the folder of a "
        "run as one of them."
    )


def _expected_in_words(done: Plan, names: tuple[str, str], num_queries: int) -> str:
    preference = done.preference
    if preference.interval is None:
        return "The rankers have the same outcome in all simulated sessions."
    name = _preferred(preference.interval, names)
    claim = f"Users would prefer {name}." if name else "No preference is expected."
    value = _with_ends(preference.value, preference.interval)
    return (
        f"{claim} Preference for {names[0]}: {value}, in clicks of simulated users on the judged documents "
        f"of {num_queries:,} queries."
    )


def _planned_in_words(
    done: Plan, detect: float | None, sessions_per_query: float
) -> str:
    from ltrbench.clicks.interleaving import sessions_needed

    interval = done.preference.interval
    if interval is None:
        return "No number of sessions shows a difference."
    difference = detect
    if difference is None and not interval.low <= 0 <= interval.high:
        difference = abs(done.preference.value)
    if difference is None:
        return "Name the preference to plan sessions for, as in --detect 0.05."
    needed = sessions_needed(difference, done.deviation(sessions_per_query))
    return (
        f"To detect {difference:.3g}, one look needs about {needed:,} sessions with a click (80 % power, "
        f"{sessions_per_query:g} sessions a query), and looking at any time about twice as many. In the "
        f"simulation {100 * done.clicked_share:.0f} % of the sessions have a click."
    )

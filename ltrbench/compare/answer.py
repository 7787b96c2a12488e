"""The answer: what a comparison says, in a few sentences that follow from its values.

`answer_of` is the only place where a decision and its claims become sentences: the terminal, the report, a
notebook, table.md and comparison.json show the same ones. Each function below is one template.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ltrbench.compare.claims import NOT_REPEATED, Claim, Pair, against
from ltrbench.compare.clicks import Evidence
from ltrbench.compare.comparison import Comparison
from ltrbench.compare.decision import (
    KEEP,
    SHIP,
    Decision,
    decide,
    pairs_of,
)
from ltrbench.compare.guards import COSTS, LATENCY, MEMORY
from ltrbench.compare.planning import NextStep, next_step, queries_in_words, rounded
from ltrbench.compare.remarks import IMPORTANT
from ltrbench.compare.table import (
    Trainings,
)
from ltrbench.metrics import bounds_of, parse_metric
from ltrbench.statistics.checks import AT_LEAST, FAILS, HOLDS, STATES, Check
from ltrbench.statistics.claims import (
    BETTER,
    EQUIVALENT,
    UNDECIDED,
    WORSE,
    Varied,
)
from ltrbench.statistics.paired import IDENTICAL
from ltrbench.tables import DIFFERENCE, format_interval, format_number, listed

_TRAINED_AGAIN = {
    Varied.RETRAINED: "Trained again with other seeds",
    Varied.RETUNED: "Trained and tuned again with other seeds",
    Varied.METHODS: "Trained again on other queries",
    Varied.TUNED_METHODS: "Trained and tuned again on other queries",
    Varied.LATER: "Trained again, and tested on later queries",
}


@dataclass(frozen=True)
class Answer:
    """What a comparison says.

    Attributes:
        title: Data set, metric, and numbers of queries and trainings.
        headline: What to do, or which model is best, in one sentence or two; empty with a single row.
        claims: What the claims say about it, one sentence each.
        remarks: Rows that are not considered, and runs that are missing, one sentence each.
        next_step: What to do next; None if there is nothing.
        details: Sentences that a terminal leaves out, so that an answer on clicks has at most eight lines.
    """

    title: str
    headline: str
    claims: tuple[str, ...]
    remarks: tuple[str, ...]
    next_step: NextStep | None
    details: tuple[str, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """All sentences, the most important one first."""
        first = [self.headline] if self.headline else []
        return [*first, *self.claims, *self.remarks, *self.details]

    @property
    def paragraphs(self) -> list[str]:
        """The decision with its claims, and what they rest on, without the details."""
        first = [self.headline] if self.headline else []
        decided = " ".join([*first, *self.claims])
        rest = " ".join(self.remarks)
        return [text for text in (decided, rest) if text]


def answer_of(comparison: Comparison) -> Answer:
    """Returns the answer of a comparison."""
    decision = decide(comparison)
    headline = ""
    claims: list[str] = []
    remarks: list[str] = []
    details: list[str] = []
    is_of_clicks = comparison.evidence is not None
    if decision is not None:
        headline = _headline(comparison, decision)
        first, *further = _guards_in_words(comparison, decision) or [""]
        losses = list(_loss(comparison, decision))
        excluded = [*decision.excluded, *decision.choices]
        if is_of_clicks:
            details = [*further, *losses, *excluded]
            further = []
            losses = []
            excluded = list(_passed_over(decision))
        claims = [
            first,
            *further,
            *_claims(comparison, decision),
            *losses,
            *_in_other_metrics(comparison, decision),
        ]
        # Without a given difference, the checks of guards say how many queries decide them.
        if not decision.checks or comparison.settings.detect:
            claims.append(queries_in_words(comparison))
        remarks.extend(excluded)
    important = [remark for remark in comparison.remarks if remark.kind in IMPORTANT]
    if is_of_clicks:
        remarks.extend(remark.brief for remark in important)
    else:
        remarks.extend(str(remark.note) for remark in important)
    is_withheld = any(pair.withheld for pair in comparison.family)
    if is_withheld and comparison.evidence is None:
        remarks.append(
            "Train the missing runs, or make claims without them (compare --selected REASON)."
        )
    return Answer(
        title=title_of(comparison),
        headline=headline,
        claims=tuple(filter(None, claims)),
        remarks=tuple(remarks),
        next_step=next_step(comparison, decision),
        details=tuple(details),
    )


def title_of(comparison: Comparison) -> str:
    """Returns data set, metric, and numbers of queries and trainings, such as "MQ2008, ndcg@10, 564 queries,
    15 trainings of each model"."""
    parts = [comparison.data, comparison.metric]
    if comparison.queries is not None:
        count = comparison.queries.distinct.num_queries
        unit = "queries"
        if comparison.evidence is not None:
            unit = comparison.evidence.units
        parts.append(f"{count:,} {unit}" if count > 1 else "1 query")
    numbers = set()
    for row in comparison.rows:
        if not _is_imported(comparison, row.label):
            numbers.add(len(row.runs))
    if numbers:
        ends = sorted({min(numbers), max(numbers)})
        span = " to ".join(f"{number:,}" for number in ends)
        noun = "training" if numbers == {1} else "trainings"
        parts.append(f"{span} {noun} of each model")
    return ", ".join(parts)


def _is_imported(comparison: Comparison, label: str) -> bool:
    trainings = _trainings_of(comparison, label)
    return any(of_cell.is_imported for of_cell in trainings)


def _trainings_of(comparison: Comparison, label: str) -> Sequence[Trainings]:
    queries = comparison.queries
    if queries is None or label not in queries.labels:
        return ()
    return queries.trainings[queries.labels.index(label)]


# ---- The headline.


def _headline(comparison: Comparison, decision: Decision) -> str:
    if decision.checks:
        return _decision_in_words(comparison, decision)
    if decision.reason:
        return f"No model is recommended: {decision.reason}."
    if decision.kind == SHIP:
        return _better_in_words(comparison, decision)
    if comparison.settings.names_baseline:
        if decision.unbeaten:
            return _unbeaten_in_words(comparison, decision)
        return f"Keep {comparison.baseline}: {_none_is_better(comparison, decision)}."
    return _leader_in_words(comparison, decision)


def _unbeaten_in_words(comparison: Comparison, decision: Decision) -> str:
    yardsticks = _listed(comparison, decision.unbeaten)
    if decision.subject == comparison.baseline and comparison.settings.names_baseline:
        verb = "is" if len(decision.unbeaten) == 1 else "are"
        return f"No model is recommended: {yardsticks} {verb} better than {decision.subject}."
    return f"No model is recommended: {decision.subject} is not shown to be better than {yardsticks}."


def _none_is_better(comparison: Comparison, decision: Decision) -> str:
    others = f"no other model{_with_test_sets(comparison)}"
    to_baseline = against(comparison.family, comparison.baseline)
    if any(pair.models.state == BETTER for pair in to_baseline):
        others = "no other model that can be taken"
    verb = "is" if decision.kind == KEEP else "is shown to be"
    return f"{others} {verb} better on these queries"


def _better_in_words(comparison: Comparison, decision: Decision) -> str:
    """Returns which models replace the named baseline, with the difference of the first one."""
    first, *others = decision.models
    claim = pairs_of(comparison, first)[comparison.baseline].models
    text = (
        f"Take {first}: on these queries it is better than {comparison.baseline} "
        f"({_difference_in_words(comparison, claim)})."
    )
    if comparison.evidence is not None:
        pair = pairs_of(comparison, first)[comparison.baseline]
        text = (
            f"Take {first}: {_clicks_in_words(comparison, comparison.evidence, pair)}."
        )
    if others:
        text += f" {_listed(comparison, others)} {_is(others)} better, too."
    return text


def _difference_in_words(comparison: Comparison, claim: Claim) -> str:
    """Returns a difference and its interval; of a metric without bounds in per cent of the baseline."""
    assert claim.interval is not None  # a decided claim has one
    ends = (claim.difference or 0.0, claim.interval.low, claim.interval.high)
    mean = comparison.row(comparison.baseline).metrics[comparison.metric] or 0.0
    if bounds_of(comparison.metric) is not None or mean <= 0:
        difference = format_number(ends[0], DIFFERENCE)
        return f"{difference} {format_interval(*ends[1:], DIFFERENCE)}"
    change, low, high = (100 * end / mean for end in ends)
    return f"{change:+.1f} % [{low:+.1f}, {high:+.1f}]"


def _clicks_in_words(comparison: Comparison, evidence: Evidence, pair: Pair) -> str:
    """Returns how a model differs from the baseline in a metric of clicks."""
    lists = f"{evidence.num_lists:,} lists"
    if comparison.queries is not None:
        lists += f" of {comparison.queries.distinct.num_queries:,} {evidence.units}"
    if pair.is_order_only:
        return f"on {lists} it is better than {comparison.baseline}"
    claim = pair.models
    assert claim.interval is not None  # a decided claim has one
    ends = format_interval(claim.interval.low, claim.interval.high, ".2f")
    difference = f"{claim.difference or 0.0:.2f} {ends}"
    if parse_metric(evidence.metric)[0] == "clicks":
        return f"on {lists} it would get {difference} more clicks a list than {comparison.baseline}"
    return f"on {lists} its {evidence.metric} is higher than that of {comparison.baseline} by {difference}"


def _leader_in_words(comparison: Comparison, decision: Decision) -> str:
    leader = decision.subject
    highest = f"{comparison.best} has the highest {comparison.metric}"
    if comparison.unpaired:
        highest += f" of the models{_with_test_sets(comparison)}"
    if comparison.best is None or leader == comparison.best:
        return f"{highest}."
    if comparison.row(comparison.best).is_yardstick:
        best_model = "the best model"
        if not _is_imported(comparison, leader):
            best_model = "the best trained model"
        return f"{highest}, but it is only a yardstick; {best_model} is {leader}."
    return f"{highest}; of the models that can be taken, it is {leader}."


def _decision_in_words(comparison: Comparison, decision: Decision) -> str:
    """Returns the decision under guards, without the reasons that `_guards_in_words` has."""
    if decision.kind == SHIP:
        subject = decision.models[0]
        primary, *_ = decision.checks[subject]
        return f"Ship {subject}: {_check_in_words(comparison, primary)}."
    if decision.unbeaten:
        return _unbeaten_in_words(comparison, decision)
    start = "Keep" if decision.kind == KEEP else "Undecided, keep"
    return f"{start} {comparison.baseline}."


def _passed_over(decision: Decision) -> Iterator[str]:
    """Yields which models have no considered row, without the reason."""
    if decision.passed_over:
        yield (
            f"The rows of {listed(decision.passed_over)} are not considered (the report says why)."
        )


def _guards_in_words(comparison: Comparison, decision: Decision) -> list[str]:
    """Returns the checks of the models, and how many queries decide them; of clicks, one sentence a model."""
    if not decision.checks:
        return []
    if decision.kind == SHIP:
        _, *guards = decision.checks[decision.models[0]]
        if not guards:
            return []
        return [f"The guards hold: {checks_in_words(comparison, guards)}."]
    in_words = []
    for label, checks in decision.checks.items():
        in_words.append(f"{label}: {checks_in_words(comparison, checks)}")
    if comparison.evidence is None:
        in_words = ["; ".join(in_words)]
    sentences = [f"{text}." for text in in_words]
    for label, checks in decision.checks.items():
        needed = _queries_needed(comparison, label, checks)
        if needed:
            return [*sentences, f"To decide on {label} takes about {listed(needed)}."]
    return sentences


def _queries_needed(
    comparison: Comparison, label: str, checks: Sequence[Check]
) -> list[str]:
    """Returns for each undecided check how many queries detect a difference that matters with 80 % power.

    The difference is the limit of the guard; without one, that of the comparison (`Settings.detect_of`).
    Checks whose number is not known, or for which the present queries are enough, are left out.
    """
    needed = []
    for check in checks:
        pair = comparison.claim(label, check.name)
        if check.state != UNDECIDED or pair is None:
            continue
        difference = abs(check.limit) or comparison.settings.detect_of(check.name)
        queries = pair.models.power.queries_for(difference)
        if queries is None or queries <= pair.statistics.num_queries:
            continue
        about = f"{rounded(queries):,} queries"
        needed.append(f"{about} for a difference of {difference:g} in {check.name}")
    return needed


def checks_in_words(comparison: Comparison, checks: Iterable[Check]) -> str:
    """Returns the primary metric and the guards of a model in words, the failed ones first."""
    ordered = sorted(checks, key=lambda check: STATES.index(check.state))
    return listed([_check_in_words(comparison, check) for check in ordered])


def _check_in_words(comparison: Comparison, check: Check) -> str:
    if check.name in COSTS:
        return _cost_in_words(check)
    if check.low is None or check.high is None:
        return f"{check.name} has no interval"
    metric = re.sub(r"^value@(\d+):([^:]+)", r"\2 in the first \1", check.name)
    text = f"{metric} {_PRIMARY[check.state]}"
    if check.sense == AT_LEAST:
        text = f"{metric} {_GUARD[check.state]} lower"
        if check.limit:
            text += f" by more than {-check.limit:g}"
    if comparison.is_order_only(check.name):
        return text
    separator = ":"
    if check.sense != AT_LEAST and check.state == HOLDS:
        separator = " by"
    return f"{text}{separator} {_change(comparison, check)}"


_PRIMARY = {HOLDS: "is higher", FAILS: "is not higher", UNDECIDED: "is undecided"}
_GUARD = {HOLDS: "is not", FAILS: "is", UNDECIDED: "may be"}
_UNITS = {LATENCY: "ms a list", MEMORY: "MB of memory in the fit"}


def _cost_in_words(check: Check) -> str:
    if check.value is None:
        return f"{check.name} is not known, without a model"
    text = f"{check.value:.3g} {_UNITS[check.name]}"
    if check.state == FAILS:
        return f"{text}, above {check.limit:g}"
    return text


def _change(comparison: Comparison, check: Check) -> str:
    """Returns a difference with its interval; of a primary metric without bounds in per cent of the baseline,
    such as "1.2 % [+0.4, +2.0] of native's 20.1"."""
    values = [end or 0.0 for end in (check.value, check.low, check.high)]
    mean = comparison.row(comparison.baseline).metrics.get(check.name) or 0.0
    if (
        check.name != comparison.metric
        or bounds_of(check.name) is not None
        or mean <= 0
    ):
        return "{:+.4f} [{:+.4f}, {:+.4f}]".format(*values)
    shares = [100 * value / mean for value in values]
    percents = "{:.1f} % [{:+.1f}, {:+.1f}]".format(*shares)
    return f"{percents} of {comparison.baseline}'s {mean:.4g}"


# ---- The claims.


def _claims(comparison: Comparison, decision: Decision) -> Iterator[str]:
    """Yields what the claims say about the subject of the decision."""
    subject = decision.subject
    if not subject or decision.reason:
        return
    pairs = pairs_of(comparison, subject)
    if not comparison.settings.names_baseline:
        yield _on_these_queries(comparison, pairs)
        if decision.unbeaten and not decision.checks:
            yield _unbeaten_in_words(comparison, decision)
    identical = [
        label for label, pair in pairs.items() if pair.statistics.note == IDENTICAL
    ]
    if identical:
        number = pairs[identical[0]].statistics.num_queries
        yield (
            f"{subject} and {listed(identical)} have the same {comparison.metric} on each of the "
            f"{number:,} queries."
        )
    methods = _methods_in_words(comparison, subject, pairs)
    if methods:
        yield methods


def _loss(comparison: Comparison, decision: Decision) -> Iterator[str]:
    """Yields what the subject of the decision loses at most, if that is known."""
    subject = decision.subject
    if not subject or decision.reason or not decision.loss:
        return
    verb = "Taking"
    is_in_use = comparison.settings.names_baseline and subject == comparison.baseline
    if is_in_use or decision.kind in (KEEP, UNDECIDED):
        verb = "Keeping"
    confidence = comparison.settings.confidence_of(comparison.metric)
    loss = _loss_in_words(comparison, decision.loss)
    others = f"the others{_with_test_sets(comparison)}"
    yield f"{verb} {subject} loses at most {loss} to any of {others} ({confidence})."


def _with_test_sets(comparison: Comparison) -> str:
    """Returns the end of a phrase that leaves out rows without some test sets; empty if there are none."""
    return " with all test sets" if comparison.unpaired else ""


def _in_other_metrics(comparison: Comparison, decision: Decision) -> Iterator[str]:
    """Yields the claims about the subject of the decision in further metrics of `--family`."""
    subject = decision.subject
    for metric in comparison.settings.family:
        family = comparison.declared.get(metric, ())
        claims = {}
        for pair in against(family, subject):
            if pair.models.interval is not None:
                claims[pair.a] = pair.models.turned()
        if not claims:
            continue
        of_state = _by_state(claims)
        parts = _better_and_worse(comparison, of_state)
        for state in (EQUIVALENT, UNDECIDED):
            if of_state[state]:
                preposition = "against" if state == UNDECIDED else "to"
                labels = _listed(comparison, of_state[state])
                parts.append(f"{state} {preposition} {labels}")
        yield f"In {metric}, {subject} is {', '.join(parts)}."


def _on_these_queries(comparison: Comparison, pairs: dict[str, Pair]) -> str:
    of_state = _by_state({label: pair.models for label, pair in pairs.items()})
    if len(of_state[BETTER]) == len(pairs):
        others = f"all others{_with_test_sets(comparison)}"
        if len(pairs) == 1:
            others = next(iter(pairs))
        return f"On these queries it is better than {others}."
    parts = _better_and_worse(comparison, of_state)
    if not parts:
        parts.append("not shown to be better than any other")
    if of_state[EQUIVALENT]:
        rope = comparison.settings.rope_of(comparison.metric)
        equal = _listed(comparison, of_state[EQUIVALENT])
        parts.append(f"equivalent to {equal} (within ±{rope:g})")
    return f"On these queries it is {', and '.join(parts)}."


def _methods_in_words(
    comparison: Comparison, subject: str, pairs: dict[str, Pair]
) -> str:
    """Returns what is known about the methods, trained again; empty without other rows."""
    if comparison.settings.names_baseline and subject != comparison.baseline:
        # Claims are about pairs with the baseline only.
        pairs = {comparison.baseline: pairs[comparison.baseline]}
    known = {}
    for label, pair in pairs.items():
        if pair.methods.interval is not None:
            known[label] = pair.methods
    if not known:
        return _not_claimed(comparison, subject, pairs.values())
    how = _distinct_in_words(
        _TRAINED_AGAIN[claim.scope.varied] for claim in known.values()
    )
    if _is_imported(comparison, subject):
        how = f"With its imported scores, and the others {how[0].lower()}{how[1:]}"
    of_state = _by_state(known)
    parts = _better_and_worse(comparison, of_state)
    if len(of_state[BETTER]) == len(pairs) > 1:
        parts = [f"better than all others{_with_test_sets(comparison)}"]
    if of_state[EQUIVALENT]:
        labels = _listed(comparison, of_state[EQUIVALENT])
        parts.append(f"equivalent to {labels}")
    if parts:
        return f"{how}, {subject} is {', and '.join(parts)}."
    other = "any"
    if len(pairs) == 1:
        other = next(iter(pairs))
    return f"{how}, {subject} is not shown to be better than {other}."


def _not_claimed(comparison: Comparison, subject: str, pairs: Iterable[Pair]) -> str:
    """Returns why nothing is claimed about training a model again."""
    if _is_imported(comparison, subject):
        return f"{subject} has imported scores, so nothing is known about training it again."
    reasons = {pair.methods.reason for pair in pairs} - {""}
    if reasons == {NOT_REPEATED}:
        return (
            f"Each model was trained once: whether the lead of {subject} holds when it is trained again is "
            "not known."
        )
    return f"About training again nothing is claimed: {listed(sorted(reasons))}."


def _distinct_in_words(texts: Iterable[str]) -> str:
    """Returns the distinct texts in their order, joined."""
    return "; ".join(dict.fromkeys(texts))


def _better_and_worse(
    comparison: Comparison, of_state: dict[str, list[str]]
) -> list[str]:
    """Returns than which rows a row is better, and than which it is worse."""
    parts = []
    for state in (BETTER, WORSE):
        labels = of_state[state]
        if labels:
            parts.append(f"{state} than {_listed(comparison, labels)}")
    return parts


_MOST_LABELS = 3
"""Maximum number of rows that an answer on clicks lists; the table has all."""


def _listed(comparison: Comparison, labels: Sequence[str]) -> str:
    if comparison.evidence is None or len(labels) <= _MOST_LABELS:
        return listed(labels)
    shown = labels[: _MOST_LABELS - 1]
    return listed([*shown, f"{len(labels) - len(shown)} others"])


def _by_state(claims: dict[str, Claim]) -> dict[str, list[str]]:
    """Returns state -> the labels with that claim."""
    states = (BETTER, WORSE, EQUIVALENT, UNDECIDED)
    of_state: dict[str, list[str]] = {state: [] for state in states}
    for label, claim in claims.items():
        of_state[claim.state].append(label)
    return of_state


def _loss_in_words(comparison: Comparison, loss: float) -> str:
    """Returns an upper bound, rounded up."""
    if bounds_of(comparison.metric) is None:
        return f"{_rounded_up(loss, 3):.3g}"
    if loss >= 0.0005:
        return f"{math.ceil(1000 * loss) / 1000:.3f}"
    return f"{_rounded_up(loss, 1):.1g}"


def _rounded_up(value: float, digits: int) -> float:
    """Returns a positive number, rounded up to significant digits.

    >>> _rounded_up(0.1231, 3), _rounded_up(1234.0, 1)
    (0.124, 2000.0)
    """
    rounding = decimal.Context(prec=digits, rounding=decimal.ROUND_CEILING)
    return float(rounding.create_decimal(value))


def _is(labels: Sequence[str]) -> str:
    return "is" if len(labels) == 1 else "are"

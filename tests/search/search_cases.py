"""Spaces, and searches without any fit: the value of a trial is a function of its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ltrbench.search import Proposal, Range, Search, SearchedModel, Trial, Value

SPACE = {
    "learning_rate": Range(0.02, 0.3, log=True),
    "num_leaves": Range(4, 128, log=True),
    "truncation": Range(5, 100),
    "split_criterion": Range(values=["newton", "least_squares"]),
}
DEFAULT: dict[str, Value] = {
    "learning_rate": 0.1,
    "num_leaves": 31,
    "truncation": 30,
    "split_criterion": "newton",
}
NUM_TREES = 300

Quality = Callable[[Proposal], float | None]


def quality(proposal: Proposal) -> float:
    """The value of a fully trained trial: best at a learning rate of 0.1, and with few leaves."""
    settings = proposal.settings
    rate, leaves = settings["learning_rate"], settings["num_leaves"]
    assert isinstance(rate, float)
    assert isinstance(leaves, int)
    return 0.5 - abs(rate - 0.1) - leaves / 1000


def ended(proposal: Proposal, value_of: Quality = quality, seconds: float = 1.0) -> Trial:
    """The trial of a proposal, whose curve rises linearly to its value; `minimum` is applied to it."""
    value = value_of(proposal)
    if value is None:
        return Trial(proposal, None, seconds=seconds)
    trees = proposal.num_trees or NUM_TREES
    curve = {number: value * (0.5 + 0.5 * number / NUM_TREES) for number in range(1, trees + 1)}
    for number in sorted(proposal.minimum):
        if curve[number] < proposal.minimum[number]:
            curve = {trees: value for trees, value in curve.items() if trees <= number}
            return Trial(proposal, curve[number], number, seconds, curve, is_pruned=True)
    return Trial(proposal, curve[trees], trees, seconds, curve)


def run(
    search: Search,
    space: Mapping[str, Range] = SPACE,
    default: Mapping[str, Value] = DEFAULT,
    value_of: Quality = quality,
    num_folds: int = 1,
    trials: list[Trial] | None = None,
) -> list[Trial]:
    """Runs a search to its end, from trials that have ended already."""
    trials = list(trials or [])
    model = SearchedModel(space, default, NUM_TREES, num_folds)
    while proposals := search.propose(model, trials):
        assert [proposal.number for proposal in proposals] == [
            *range(len(trials), len(trials) + len(proposals))
        ]
        trials += [ended(proposal, value_of) for proposal in proposals]
    return trials

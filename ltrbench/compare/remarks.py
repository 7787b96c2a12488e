"""What a reader should know about a comparison: facts as values, and their sentences.

Whoever computes a fact returns a `Remark`: its kind, its subject, and its values. A kind has a group, a
term of the glossary, and one template, a function from the values to the sentence. `notes_of` applies the
templates when a comparison is shown; `by_group` joins the notes of one subject. No code reads a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from ltrbench.statistics import LEVEL
from ltrbench.tables import assignments, listed

ON_CLAIMS = "Claims"
ON_CONVENTIONS = "Conventions"
ON_BACKENDS = "Differences between backends"
ON_COSTS = "Costs"
ON_DATA = "Data and runs"
GROUPS = (ON_CLAIMS, ON_CONVENTIONS, ON_BACKENDS, ON_COSTS, ON_DATA)
"""The headings of the groups, in the order in which they are shown."""

SHOWN_DIGITS = 12
"""Number of digits of a fingerprint that are shown; enough to distinguish two."""

_MOST_SHOWN = 3
"""Maximum number of other looks, of their models, and of trainings that a sentence lists."""


# ---- Templates: claims.


def percent(level: float) -> str:
    """Returns an error level in percent.

    >>> percent(0.05), percent(0.05 / 4), percent(0.05 / 6)
    ('5 %', '1.25 %', '0.833 %')
    """
    return f"{100 * level:.3g} %"


@dataclass(frozen=True, kw_only=True)
class OtherLook:
    """An earlier look at the runs of a sweep, as a note about a later one names it.

    Attributes:
        metrics: The primary metric, then the others of the family.
        guards: The guards with their limits.
        counts: "fold", "repeat", "resample" or "seed" -> number of its values, if there are several.
        labels: Labels of the rows; empty if they are those of the later look.
        convention: Empty for the default one.
        ropes: Half the widths of the regions of equivalence; empty if they are those of the later look.
    """

    metrics: Sequence[str]
    guards: Sequence[str]
    counts: Mapping[str, int]
    labels: Sequence[str]
    convention: str
    baseline: str | None
    ropes: Sequence[float]
    num_left_out: int

    def __str__(self) -> str:
        factors = " x ".join(f"{count} {name}s" for name, count in self.counts.items())
        words = [listed(self.metrics), f"with {factors or '1 training'}"]
        if self.labels:
            words.append(f"of {_shortened(self.labels, ', ')}")
        if self.convention:
            words.append(f"under {self.convention}")
        if self.baseline is not None:
            words.append(f"against {self.baseline}")
        if self.guards:
            words.append(f"guarded by {listed(self.guards)}")
        if self.ropes:
            widths = ", ".join(f"±{rope:g}" for rope in self.ropes)
            words.append(f"(equivalent: {widths})")
        if self.num_left_out:
            words.append(f"without {self.num_left_out} of the trainings")
        return " ".join(words)


def _look(number: int, declared: int, others: Sequence[OtherLook], level: float) -> str:
    listing = _shortened([str(other) for other in others]) or "none yet"
    return (
        f"This is look {_number_of_look(number, declared)} at these runs (others: {listing}): claims are at "
        f"{percent(level)} instead of {percent(LEVEL)}."
    )


def _look_in_brief(
    number: int, declared: int, others: Sequence[OtherLook], level: float
) -> str:
    del others
    return (
        f"Look {_number_of_look(number, declared)} at these runs: claims are at {percent(level)} instead of "
        f"{percent(LEVEL)}."
    )


def _number_of_look(number: int, declared: int) -> str:
    if number <= declared:
        return f"{number} of {declared} declared"
    return str(number)


def _unrecorded(folder: str, error: str) -> str:
    return f"This look is not recorded: {folder} cannot be written ({error})."


@dataclass(frozen=True)
class LeftOut:
    """Rows of a table without some of the trainings that a sweep has planned.

    Attributes:
        trainings: What distinguishes each missing training, such as "fold 2, seed 1".
        num_planned: Number of planned trainings of a row.
    """

    labels: Sequence[str]
    trainings: Sequence[str]
    num_planned: int

    def __str__(self) -> str:
        return (
            f"{len(self.trainings)} of {self.num_planned} trainings of {listed(self.labels)} "
            f"({_shortened(self.trainings)})"
        )


def left_out_in_words(left_out: Sequence[LeftOut]) -> str:
    """Returns which planned trainings the table lacks."""
    return f"the table lacks {' and '.join(sorted(map(str, left_out)))}"


def _selected(reason: str, left_out: Sequence[LeftOut]) -> str:
    return f"Selected, because {reason}: {left_out_in_words(left_out)}."


def _shortened(items: Sequence[str], separator: str = "; ") -> str:
    shown = list(items[:_MOST_SHOWN])
    more = len(items) - _MOST_SHOWN
    if more > 0:
        shown.append(f"and {more} more")
    return separator.join(shown)


def _absent_baseline(baseline: str, first: str, has_guards: bool) -> str:
    unchecked = _NO_GUARD if has_guards else ""
    return f"The baseline {baseline} has no run here: differences are to {first}, the first row{unchecked}."


def _incomplete_baseline(baseline: str, first: str, has_guards: bool) -> str:
    unchecked = _NO_GUARD if has_guards else ""
    return (
        f"{baseline} lacks test sets: differences are to {first}, the first row with all of "
        f"them{unchecked}."
    )


_NO_GUARD = ", and no guard is checked"


def _constant_seeds(labels: Sequence[str]) -> str:
    return (
        f"Seeds change nothing in {', '.join(labels)}: every seed gave the same scores, and all seeds "
        "count as one training."
    )


def _not_folds(reasons: Sequence[str]) -> str:
    return (
        f"{'. '.join(reasons)}: they are not folds of a cross-validation, and claims are about these "
        "trained models only."
    )


def _numbers_of_settings(counts: Mapping[str, int]) -> str:
    numbers = ", ".join(f"{model} {count}" for model, count in counts.items())
    return f"Tuning budgets differ; number of settings in this table: {numbers}."


def _best_by_validation(count: int, model: str, best: str) -> str:
    return (
        f"Do not choose among the {count} settings of {model} by this table, which is on test; "
        f"the best by validation is {best}."
    )


def leak_in_words(folds: Sequence[str]) -> str:
    """Returns that validation queries of folds are test queries of other folds."""
    noun = "fold" if len(folds) == 1 else "folds"
    return (
        f"validation queries of {noun} {listed(folds)} are test queries of other folds, so that one setting "
        "chosen by the validation of all folds has seen test data"
    )


def _validation_in_test(models: Sequence[str], folds: Sequence[str]) -> str:
    return (
        f"Settings of {listed(models)}: {leak_in_words(folds)}. Choose a setting for each fold by its own "
        "validation."
    )


def _picked_on_test(model: str, folds: Sequence[object]) -> str:
    known = [str(fold) for fold in folds if fold is not None]
    where = ""
    if known:
        where = f" in fold {', '.join(known)}"
    return (
        f"{model} was picked on test{where}: its validation set is the test set, and its metrics are too "
        "high. Give data.valid other queries."
    )


def _ensemble(weights: Mapping[str, float]) -> str:
    words = [f"{label} {weight:.2f}" for label, weight in weights.items() if weight]
    return (
        f"Members and weights were selected among {len(weights)} rows on validation, in each fold, "
        "resample and seed; this selection is a part of the method that claims are about. Mean weights: "
        f"{', '.join(words)}. The fit time is the sum over all these rows, without their searches; the "
        "predict time is the sum over the members. Its pairs do not share the variance of other pairs."
    )


def _searches(name: str, choose: str, metric: str, sizes: Mapping[str, str]) -> str:
    words = "; ".join(f"{label} ({size})" for label, size in sizes.items())
    how = choose.replace("_", " ")
    return f"Search {name}, {how}, by {metric} on validation: {words}."


def _varied_settings(common: int, others: Mapping[str, Sequence[str]]) -> str:
    words = "; ".join(
        f"{names} ({listed(labels)})" for names, labels in others.items() if names
    )
    return f"All searches vary {common} common settings; some also vary {words}."


def _unequal_searches(differences: Sequence[str]) -> str:
    return (
        f"Tuning budgets differ in {'; in '.join(differences)}. A model with more of them has an "
        "advantage: repeat the searches with the same search.trials and search.space."
    )


def _untuned(
    tuned: Sequence[str], untuned: Sequence[str], search: str, trials: int
) -> str:
    return (
        f"Tuned: {listed(tuned)}; not tuned: {listed(untuned)}, a disadvantage. Tune all by the same search "
        f"(search={search} search.trials={trials}), or none (search=none)."
    )


# ---- Templates: conventions.


def _convention(name: str, gain: str, ties: str) -> str:
    words = f"ties: {ties.replace('_', ' ')}"
    if ties == "expected":
        words = "ties count with their expected value"
    return f"Convention: {name} ({gain.replace('_', ' ')}, {words})."


def _skipped_queries(
    share: float, value: object, metric: str, *, are_skipped: bool, are_filtered: bool
) -> str:
    if share == 0:
        return "Every test query has a relevant document."
    counted = f"count {value}"
    if value != "skip" and are_filtered:
        counted += ", unless their lists are left out"
    if value == "skip":
        # Metrics of a column, and of plug-ins, may have a value without a relevant document.
        counted = "are skipped" if are_skipped else f"count in {metric}"
    return f"{100 * share:.1f} % of the test queries have no relevant document; they {counted}."


def _plugin_metrics(metrics: Sequence[str], modules: Sequence[str]) -> str:
    options = " ".join(f"--plugin {name}" for name in modules or ["MODULE"])
    return (
        f"{', '.join(metrics)}: not shown, because no metric of this name is known. A plug-in defined it "
        f"when the run was made; add {options}."
    )


# ---- Templates: differences between backends.


def _parameters(
    kinds: Sequence[str],
    settings: Mapping[str, Sequence[Mapping[str, Any]]],
    tuned: Sequence[str],
) -> str:
    """Returns the set of shared parameters, the models with other values, and the tuned models."""
    of_text: dict[str, list[str]] = {}
    for model, sets in settings.items():
        texts = dict.fromkeys(filter(None, map(assignments, sets)))
        text = "; ".join(texts) or "none"
        of_text.setdefault(text, []).append(model)
    models = [f"{listed(alike)} ({text})" for text, alike in of_text.items()]
    parts = []
    if kinds and models:
        parts.append(f"{', '.join(kinds)}, except in {listed(models)}")
    elif kinds:
        parts.append(", ".join(kinds))
    elif models:
        parts.append(f"each model's own, {listed(models)}")
    if tuned:
        parts.append(f"tuned by a search in {listed(tuned)}")
    return f"Parameters: {'; '.join(parts)}."


def _of_runs(sentence: str, count: int, num_runs: int) -> str:
    """Returns a sentence that runs recorded, and which share of the runs of a model did."""
    if count == num_runs:
        return sentence
    return f"In {count} of {num_runs} runs: {sentence}"


def _further(count: int) -> str:
    return f"{count} further notes are in result.json of the runs."


# ---- Templates: costs.


def _threads(counts: Sequence[str]) -> str:
    text = f"Threads: {', '.join(counts)}"
    if len(counts) > 1:
        return f"{text}, which differ between runs: do not compare the times."
    return f"{text}."


def _monitored() -> str:
    return "The fit time includes the evaluation after each iteration."


def _machines(machines: Sequence[str]) -> str:
    return f"Machines differ: {'; '.join(machines)}. Do not compare the times."


def _shared_machine(counts: Mapping[str, tuple[int, int]]) -> str:
    words = []
    for label, (count, num_runs) in counts.items():
        noun = "run" if num_runs == 1 else "runs"
        words.append(f"{count} of {num_runs} {noun} of {label}")
    return (
        f"Several jobs of ltrbench ran at a time during {listed(words)}. Their times are left out of "
        "columns and figures. python -m ltrbench resume DIR --timing takes the times of a sweep again, "
        "one after another."
    )


# ---- Templates: data and runs.


def _mismatched_data(
    data: str,
    fold: int | None,
    labels: tuple[str, str],
    fingerprints: Mapping[str, tuple[str | None, str | None]],
    tables: Sequence[str],
) -> str:
    where = ""
    if fold is not None:
        where = f" fold {fold},"
    differing = []
    for split, pair in fingerprints.items():
        one, other = ((each or "none")[:SHOWN_DIGITS] for each in pair)
        differing.append(f"{split} {one} and {other}")
    text = (
        f"{data},{where} {listed(labels)}: the fingerprints of {', '.join(differing)} "
        "differ."
    )
    if tables:
        text += f" They are {listed(tables)}."
    return text


def _repeated_runs(
    label: str,
    replicate: str,
    where: str,
    last: str,
    ignored: Sequence[str],
) -> str:
    return (
        f"{label} has {len(ignored) + 1} runs with {replicate} and the same settings on "
        f"{where}: the last one, {last}, counts; ignored: {', '.join(ignored)}."
    )


def _missing_runs(
    lacking: Mapping[str, Sequence[str]],
    common: int,
    num_sets: int,
    selected: str,
    *,
    are_paired: bool,
) -> str:
    which = listed(
        [f"on {cells} ({listed(labels)})" for cells, labels in lacking.items()]
    )
    if selected:
        consequence = (
            f"{common} of {num_sets} test sets are counted, because {selected}"
        )
    else:
        why = "no two rows have every test set to be paired"
        if are_paired:
            why = "such rows are left out of paired tests"
        consequence = f"{why} ({common} of {num_sets} test sets are common to all rows)"
    return f"Runs are missing {which}: {consequence}."


def _missing_cells(where: str) -> str:
    return f"No row counts {where}: the queries count in the other repeats only."


def _repeated_queries(num_distinct: int, num_queries: int) -> str:
    return (
        f"Test queries repeat: the test sets contain {num_distinct:,} distinct queries (by "
        f"documents and labels) {num_queries:,} times; each counts once in tests."
    )


def _clicks(metric: str) -> str:
    return (
        f"The labels are probably clicks (0 and 1, of documents with positions): {metric} measures how well "
        "a model repeats the order that was shown, and a better model can look worse."
    )


def _raw_clicks(metric: str) -> str:
    return (
        f"{metric} does not correct clicks for their positions: it measures how well a model repeats the "
        "order that was shown, and a better model can look worse. Compare clicks@10."
    )


def _click_log(
    theta: Sequence[float | None],
    replays: Sequence[Mapping[str, Any]],
    is_rejected: bool,
    heaviest: float,
    modelled: float,
) -> str:
    known = [value for value in theta if value is not None]
    first = [f"{value:.2g}" for value in known[:_MOST_POSITIONS]]
    examination = ""
    if first:
        examination = f" Examination from the first position on: {listed(first)}."
    in_brief = _click_log_in_brief(theta, replays, is_rejected, heaviest, modelled)
    return f"{in_brief}{examination}"


def _click_log_in_brief(
    theta: Sequence[float | None],
    replays: Sequence[Mapping[str, Any]],
    is_rejected: bool,
    heaviest: float,
    modelled: float,
) -> str:
    """Returns what an estimate rests on, without the examination, of which the report has a picture."""
    del theta
    on_model = ""
    if modelled:
        share = _rounded_percent(modelled)
        on_model = f", and a model of documents that were never shown {share}"
    return (
        f"{_replay_in_words(replays, is_rejected)} The three heaviest clicks carry "
        f"{_rounded_percent(heaviest)} of an estimate{on_model}."
    )


def _rounded_percent(share: float) -> str:
    form = ".0f" if share >= 0.1 else ".2g"
    return f"{100 * share:{form}} %"


_MOST_POSITIONS = 5


def _replay_in_words(replays: Sequence[Mapping[str, Any]], is_rejected: bool) -> str:
    assumption = "that examination depends on the position only"
    if not replays:
        return f"This assumes {assumption} (not checked: that takes two rankers with common queries)."
    worst = max(replays, key=_error_of)
    error = _rounded_percent(_error_of(worst))
    if is_rejected:
        return (
            f"It is rejected {assumption}: the other lists predict the clicks of {worst['ranker']} with an "
            f"error of {error}. Claims are about the order only, without a size."
        )
    return (
        f"This assumes {assumption} (checked: the other lists predict the clicks of {worst['ranker']} within "
        f"{error})."
    )


def _error_of(replay: Mapping[str, Any]) -> float:
    observed = float(replay["observed"])
    return abs(float(replay["predicted"]) - observed) / observed


def _commits(commits: Sequence[str]) -> str:
    return f"The runs were made by different commits of the code: {', '.join(commits)}."


def _final_model(folder: str) -> str:
    return f"{folder} is a final model, trained on all queries: it is not compared."


def _failed_run(model: str, folder: str, error: str) -> str:
    return f"{model} failed ({folder}): {error}"


class Kind(Enum):
    """Kinds of remarks: group, term of the glossary, template, and a shorter one for an answer on clicks."""

    SELECTED = ON_CLAIMS, "look", _selected
    LOOK = ON_CLAIMS, "look", _look, _look_in_brief
    UNRECORDED = ON_CLAIMS, "look", _unrecorded
    ABSENT_BASELINE = ON_CLAIMS, "baseline", _absent_baseline
    INCOMPLETE_BASELINE = ON_CLAIMS, "baseline", _incomplete_baseline
    CONSTANT_SEEDS = ON_CLAIMS, "seeds that change nothing", _constant_seeds
    NOT_FOLDS = ON_CLAIMS, "not folds", _not_folds
    NUMBERS_OF_SETTINGS = ON_CLAIMS, "tuning budget", _numbers_of_settings
    SEARCHES = ON_CLAIMS, "tuning budget", _searches
    VARIED_SETTINGS = ON_CLAIMS, "tuning budget", _varied_settings
    UNEQUAL_SEARCHES = ON_CLAIMS, "tuning budget", _unequal_searches
    UNTUNED = ON_CLAIMS, "tuning budget", _untuned
    BEST_BY_VALIDATION = ON_CLAIMS, "choice by validation", _best_by_validation
    ENSEMBLE = ON_CLAIMS, "choice by validation", _ensemble
    VALIDATION_IN_TEST = ON_CLAIMS, "validation queries in test", _validation_in_test
    PICKED_ON_TEST = ON_CLAIMS, "picked on test", _picked_on_test
    CONVENTION = ON_CONVENTIONS, "convention", _convention
    SKIPPED_QUERIES = ON_CONVENTIONS, "skipped queries", _skipped_queries
    PLUGIN_METRICS = ON_CONVENTIONS, "plug-in metrics", _plugin_metrics
    PARAMETERS = ON_BACKENDS, "matched parameters", _parameters
    DEPARTURE = ON_BACKENDS, "differences between backends", _of_runs
    THREADS = ON_COSTS, "threads", _threads
    MONITORED = ON_COSTS, "fit s", _monitored
    MACHINES = ON_COSTS, "machines", _machines
    SHARED_MACHINE = ON_COSTS, "shared machine", _shared_machine
    MISMATCHED_DATA = ON_DATA, "mismatched data", _mismatched_data
    FAILED_RUN = ON_DATA, "failed runs", _failed_run
    FINAL_MODEL = ON_DATA, "final model", _final_model
    MISSING_RUNS = ON_DATA, "missing runs", _missing_runs
    MISSING_CELLS = ON_DATA, "missing runs", _missing_cells
    REPEATED_RUNS = ON_DATA, "repeated runs", _repeated_runs
    REPEATED_QUERIES = ON_DATA, "repeated queries", _repeated_queries
    CLICKS = ON_DATA, "clicks", _clicks
    RAW_CLICKS = ON_DATA, "clicks", _raw_clicks
    CLICK_LOG = ON_CLAIMS, "clicks", _click_log, _click_log_in_brief
    COMMITS = ON_DATA, "commits", _commits
    OF_RUNS = ON_DATA, "notes of runs", _of_runs
    FURTHER = ON_DATA, "notes of runs", _further
    OF_SCORES = ON_DATA, "imported and fused scores", _of_runs

    def __init__(
        self,
        group: str,
        term: str,
        template: Callable[..., str],
        in_brief: Callable[..., str] | None = None,
    ) -> None:
        self.group = group
        self.term = term
        self.template = template
        self.in_brief = in_brief or template


IMPORTANT = frozenset(
    {
        Kind.SELECTED,
        Kind.LOOK,
        Kind.UNRECORDED,
        Kind.ABSENT_BASELINE,
        Kind.INCOMPLETE_BASELINE,
        Kind.MISMATCHED_DATA,
        Kind.FAILED_RUN,
        Kind.MISSING_RUNS,
        Kind.MISSING_CELLS,
        Kind.CLICKS,
        Kind.RAW_CLICKS,
        Kind.CLICK_LOG,
    }
)
"""Kinds that belong to the answer: runs or rows are missing, claims are at another level, or the metric does
not measure relevance."""


@dataclass(frozen=True)
class Remark:
    """A fact about a comparison.

    Attributes:
        kind: Group, glossary term and template.
        values: The arguments of the template.
        subject: Label of the row, or name of the model, that the remark is about; empty if it is about all.
    """

    kind: Kind
    values: Mapping[str, Any]
    subject: str = ""

    @classmethod
    def of(cls, kind: Kind, *, subject: str = "", **values: object) -> Remark:
        return cls(kind, values, subject)

    @property
    def note(self) -> Note:
        """The remark in words."""
        sentence = self.kind.template(**self.values)
        return Note(self.kind.group, self.kind.term, sentence, self.subject)

    @property
    def brief(self) -> str:
        """The remark in as few words as an answer on clicks has lines for; the note has all of them."""
        sentence = self.kind.in_brief(**self.values)
        return str(replace(self.note, sentence=sentence))


# ---- Notes: remarks in words.


@dataclass(frozen=True)
class Note:
    """A note under the table.

    Attributes:
        group: One of `GROUPS`.
        term: Heading of the glossary entry that explains the note.
        sentence: The note itself, without the subject.
        subject: As in `Remark`.
    """

    group: str
    term: str
    sentence: str
    subject: str = ""

    def __str__(self) -> str:
        """Returns the note as one line of text, such as "xgboost: min_docs_in_leaf is not applied."."""
        if self.subject:
            return f"{self.subject}: {self.sentence}"
        return self.sentence


def notes_of(remarks: Iterable[Remark]) -> list[Note]:
    """Returns the remarks in words, in their order."""
    return [remark.note for remark in remarks]


def by_group(notes: Iterable[Note]) -> dict[str, list[Note]]:
    """Returns group -> its notes, without empty groups; notes with one subject and term are joined, and
    equal notes about several subjects as well.

    >>> joined = by_group([Note(ON_DATA, "b", "One.", "native"), Note(ON_CLAIMS, "a", "Two."),
    ...                    Note(ON_DATA, "b", "Three.", "native"), Note(ON_DATA, "c", "Four.", "native"),
    ...                    Note(ON_DATA, "c", "Four.", "random")])
    >>> {group: [str(note) for note in notes] for group, notes in joined.items()}
    {'Claims': ['Two.'], 'Data and runs': ['native: One. Three.', 'native and random: Four.']}
    """
    notes = list(dict.fromkeys(notes))
    groups = {
        group: [note for note in notes if note.group == group] for group in GROUPS
    }
    return {group: _joined(of_group) for group, of_group in groups.items() if of_group}


def _joined(notes: Sequence[Note]) -> list[Note]:
    of_subject: dict[tuple[str, str, str], Note] = {}
    for note in notes:
        # Notes about all models stay apart: they have no subject to be joined under.
        key = (note.subject, note.term, note.subject or note.sentence)
        first = of_subject.get(key)
        if first is not None:
            note = replace(first, sentence=f"{first.sentence} {note.sentence}")
        of_subject[key] = note
    alike: dict[tuple[str, str, bool], list[Note]] = {}
    for note in of_subject.values():
        key_of_text = (note.term, note.sentence, bool(note.subject))
        alike.setdefault(key_of_text, []).append(note)
    return [
        replace(items[0], subject=listed([note.subject for note in items]))
        for items in alike.values()
    ]

"""The outcome of `auto`, and the page about it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ltrbench.cli.auto.order import Order
from ltrbench.cli.console import PROGRAM, wrapped
from ltrbench.data.blocks import without_compression_ending
from ltrbench.experiment.columns import DataPlan, about_columns
from ltrbench.shipping.destination import Destination
from ltrbench.statistics.claims import BETTER, WORSE
from ltrbench.tables import Table, TableRow, columns_of, listed
from ltrbench.untrusted import read_json


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the table, on test.

    Attributes:
        value: the metric.
        difference: it minus that of the baseline; None for the baseline, or if they cannot be paired.
        low, high: ends of the interval of the difference; None without one.
        claim: better, worse, equivalent or undecided; empty for the baseline.
    """

    label: str
    value: float
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    claim: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The claims about the models on test.

    Attributes:
        rows: all rows, the highest value first.
        chosen: row of the model that validation chose.
        baseline: row that it is compared with.
        level: 1 minus the probability that all intervals hold together.
        num_queries: number of queries of test.
        rule: how the queries were divided.
    """

    rows: Sequence[Row]
    chosen: Row
    baseline: Row
    level: float
    num_queries: int
    rule: str

    @property
    def is_better(self) -> bool:
        return self.chosen.claim == BETTER

    @classmethod
    def read(cls, folder: Path, chosen: str, baseline: str, rule: str) -> Outcome:
        """Reads the claims from the files of a comparison.

        Args:
            chosen: name of the chosen model.
            baseline: label of the baseline.
        """
        record = read_json(folder / "comparison.json", "Repeat the command")
        metric = record["metric"]
        pairs = [pair for pair in record["pairs"] if pair["metric"] == metric]
        rows = [_row(row, baseline, metric, pairs) for row in record["rows"]]
        rows.sort(key=lambda row: -row.value)
        labels = [row.label for row in rows]
        label_of_model = {row["model"]: row["label"] for row in record["rows"]}
        return cls(
            rows=rows,
            chosen=rows[labels.index(label_of_model[chosen])],
            baseline=rows[labels.index(baseline)],
            level=record["level"],
            num_queries=max(pair["num_queries"] for pair in pairs),
            rule=rule,
        )


def _row(
    record: Mapping[str, Any],
    baseline: str,
    metric: str,
    pairs: Sequence[Mapping[str, Any]],
) -> Row:
    """Returns a row with its claim against the baseline."""
    label = record["label"]
    row = Row(label=label, value=record["metrics"][metric])
    for pair in pairs:
        claim = pair["models"]
        low, high = claim["interval"] or (None, None)
        if (pair["a"], pair["b"]) == (label, baseline):
            difference = claim["difference"]
            return replace(
                row, difference=difference, low=low, high=high, claim=claim["claim"]
            )
        if (pair["b"], pair["a"]) == (label, baseline):
            turned = {BETTER: WORSE, WORSE: BETTER}
            return replace(
                row,
                difference=-claim["difference"],
                low=None if high is None else -high,
                high=None if low is None else -low,
                claim=turned.get(claim["claim"], claim["claim"]),
            )
    return row


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The page: what was chosen, how sure that is, what was left out, and what to do next.

    Attributes:
        order: what the user asked for.
        data: how the table is read.
        facts: what the columns are taken for, and what speaks against the data.
        models: models that were compared with the baseline.
        trials: number of settings that each of them has tried.
        left_out: other model -> why it got no more time.
        outcome: claims about the models on test.
        comparison: folder of the comparison with the baseline.
        sweep: folder of the runs.
        commands: file with the same work step by step.
        destination: target to ship to; None: there is none.
        is_made: whether the model was made.
    """

    order: Order
    data: DataPlan
    facts: Sequence[str]
    models: Sequence[str]
    trials: int
    left_out: Mapping[str, str]
    outcome: Outcome
    comparison: Path
    sweep: Path
    commands: Path
    destination: Destination | None
    is_made: bool

    def text(self) -> str:
        """Returns the page in Markdown."""
        parts = [
            f"# {self._headline()}",
            self._claim_in_words(),
            self._table().markdown(),
            *_paragraphs("Data", [*self.facts, f"{self.outcome.rule}."]),
            *_paragraphs("Left out", self._left_out()),
            *_paragraphs("Next", self._next_steps()),
        ]
        return "\n\n".join(parts) + "\n"

    def _headline(self) -> str:
        chosen = self.outcome.chosen.label
        baseline = self.outcome.baseline.label
        if self.outcome.is_better:
            return f"{self.data.name}: {chosen} is better than {baseline}"
        no_model = "" if self.is_made else ", so no model is made"
        claim = f"{chosen} is not shown to be better than {baseline}"
        return f"{self.data.name}: {claim}{no_model}"

    def _claim_in_words(self) -> str:
        chosen = self.outcome.chosen
        baseline = self.outcome.baseline
        metric = self.order.metric
        difference = "they cannot be compared"
        if chosen.difference is not None:
            form = f"{chosen.difference:+.4f}"
            if chosen.low is not None and chosen.high is not None:
                level = f"{100 * (1 - self.outcome.level):g} % interval"
                form += f" ({level} {chosen.low:+.4f} to {chosen.high:+.4f})"
            difference = f"the difference is {form}"
        tuned = "their default settings"
        if self.trials > 1:
            tuned = f"the best of {self.trials} settings of each"
        models = f"models: {listed(self.models)}, with {tuned}"
        return wrapped(
            f"{chosen.label} has the highest {metric} on validation ({models}). "
            f"On {self.outcome.num_queries} test queries, by which no model or setting was chosen, its "
            f"{metric} is {chosen.value:.4f}, that of {baseline.label} {baseline.value:.4f}: {difference}."
        )

    def _table(self) -> Table:
        against = f"difference to {self.outcome.baseline.label}"
        columns = columns_of(
            {"model": None, self.order.metric: ".4f", against: None, "claim": None}
        )
        rows: list[TableRow] = []
        for row in self.outcome.rows:
            text = "-"
            if row.difference is not None:
                text = f"{row.difference:+.4f}"
            if row.low is not None and row.high is not None:
                text += f" [{row.low:+.4f}, {row.high:+.4f}]"
            rows.append([row.label, row.value, text, row.claim or "-"])
        return Table(columns, rows)

    def _left_out(self) -> Iterator[str]:
        yield from about_columns(self.data)
        for model, reason in self.left_out.items():
            yield f"The model {model} is left out: {reason.rstrip('.')}."

    def _next_steps(self) -> Iterator[str]:
        folder = _quoted(self.order.output)
        new = f"NEW{without_compression_ending(self.order.table).suffix}"
        if not self.is_made:
            yield (
                "To make the model nevertheless, repeat the command with --anyway. More judged queries, or "
                "features that say more, help more than further settings."
            )
        elif self.destination is not None:
            yield f"To upload it: {folder}/shipped/README.md has the commands for {self.order.target}."
        if self.is_made:
            yield f"To ask it for scores: {PROGRAM} serve {folder}/model"
            yield f"To watch it: {PROGRAM} monitor {folder}/model {new} --max-psi 0.2"
        report = _quoted(self.comparison / "report.html")
        yield f"All intervals and pictures: {report}"
        yield f"The same work step by step: sh {_quoted(self.commands)} FOLDER"
        sync = f"{PROGRAM} sync {_quoted(self.sweep)}"
        yield f"To look at the runs in MLflow: {sync}, then {PROGRAM} ui"


def _paragraphs(title: str, sentences: Iterable[str]) -> Iterator[str]:
    lines = [wrapped(f"- {sentence}", "  ") for sentence in sentences]
    if lines:
        yield f"## {title}"
        yield "\n".join(lines)


def _quoted(path: Path) -> str:
    """Returns a path as it is typed in a shell."""
    return shlex.quote(str(path))

"""How the scores of a run came about: one small class a kind, stored in result.json as `origin`.

    Trained    the ranker was fitted
    Copied     the training of another run of the sweep, of which only a seed without effect differs
    Trial      fitted for a search: evaluated on the validation set only
    Final      fitted on all labelled queries, to be deployed
    Imported   scores or a model of any other system
    Fused      the scores of several runs, combined by a rule
    Ensemble   the scores of several runs, with members and weights selected on validation
    Variant    a cheaper model, made of the model of another run

Every kind answers the same questions. A new kind is a class in `Origin`.

    is_compared     has scores of test for a comparison, if the run finished
    has_model       has a model to load, ship and serve, if the run finished
    was_fitted      the settings of the run fitted its ranker: the same command trains it again
    is_imported     it is not known what trained it, or a part of it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field

from ltrbench.untrusted import Amount, Count, Name, type_error, types_of


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A run whose ranker was fitted."""

    kind: Literal["trained"] = "trained"

    is_compared: ClassVar[bool] = True
    has_model: ClassVar[bool] = True
    was_fitted: ClassVar[bool] = True
    is_imported: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Copied:
    """A run with the scores, model, times and importances of another training.

    Attributes:
        run: Folder of that run, relative to the folder of the sweep.
    """

    run: Name
    kind: Literal["copied"] = "copied"

    is_compared: ClassVar[bool] = True
    has_model: ClassVar[bool] = True
    was_fitted: ClassVar[bool] = True
    is_imported: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial of a search: without metrics and scores of test, importances and model."""

    kind: Literal["trial"] = "trial"

    is_compared: ClassVar[bool] = False
    has_model: ClassVar[bool] = False
    was_fitted: ClassVar[bool] = True
    is_imported: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Final:
    """A model of all labelled queries: without metrics and scores.

    Attributes:
        row: Row of the comparison that was chosen.
        reason: Why it was chosen.
        settings: Folder of the run with its settings.
        runs: Folders of the runs that gave the number of trees.
        trees: Their numbers of trees; empty for a model without trees.
        scale: Factor of the median of these numbers.
        metric, estimate, low, high: Metric of the comparison, the mean of the row and its interval; None if
            they are not known.
        num_settings: Number of different settings of the runs of the row. A search may choose others for each
            fold: the estimate is then that of the search, and not of the settings of this model.
    """

    row: Name
    reason: str
    settings: Name
    runs: Sequence[Name]
    trees: Sequence[int]
    scale: Amount
    metric: Name
    estimate: float | None
    low: float | None
    high: float | None
    num_settings: Count = 1
    kind: Literal["final"] = "final"

    is_compared: ClassVar[bool] = False
    has_model: ClassVar[bool] = True
    was_fitted: ClassVar[bool] = True
    is_imported: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Scores or a model of any other system, on the data of a run.

    Attributes:
        file: The file.
        has_model: Whether it is the file of a model.
    """

    file: str
    has_model: bool
    kind: Literal["imported"] = "imported"

    is_compared: ClassVar[bool] = True
    was_fitted: ClassVar[bool] = False
    is_imported: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Fused:
    """The scores of several rows, combined by a rule that learns nothing.

    Attributes:
        method: Name of the rule, such as rrf.
        members: Labels of the rows.
        is_imported: Whether a member was imported.
    """

    method: Name
    members: Sequence[Name]
    is_imported: bool
    kind: Literal["fused"] = "fused"

    is_compared: ClassVar[bool] = True
    has_model: ClassVar[bool] = False
    was_fitted: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """The scores of several rows, with members and weights selected on validation.

    Attributes:
        weights: Label of each row that could be drawn -> its share of the draws.
        runs: Label -> folder of its run.
        is_imported: Whether one of these rows was imported.
    """

    weights: Mapping[Name, Amount]
    runs: Mapping[Name, str]
    is_imported: bool
    kind: Literal["ensemble"] = "ensemble"

    is_compared: ClassVar[bool] = True
    has_model: ClassVar[bool] = False
    was_fitted: ClassVar[bool] = False

    @property
    def largest(self) -> str:
        """Folder of the member with the largest weight."""
        label = max(self.weights, key=self.weights.__getitem__)
        return self.runs[label]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A cheaper model, made of the model of another run, as `ltrbench.frontier` makes it.

    Attributes:
        of: Label of the row of that run.
        run: Folder of that run.
        change: What is cheaper, such as "trees=10%".
        ranker: Class whose fit it is, and whose seed therefore changes its scores.
        is_imported: Whether that run was imported.
    """

    of: Name
    run: Name
    change: Name
    ranker: Name
    is_imported: bool
    kind: Literal["variant"] = "variant"

    is_compared: ClassVar[bool] = True
    has_model: ClassVar[bool] = True
    was_fitted: ClassVar[bool] = False

    @property
    def has_fewer_trees(self) -> bool:
        """Whether the model has the first trees of the other one, and no other change."""
        return self.change.startswith("trees=")


Origin = Annotated[
    Trained | Copied | Trial | Final | Imported | Fused | Ensemble | Variant,
    Field(discriminator="kind"),
]
KINDS: tuple[Any, ...] = get_args(get_args(Origin)[0])


def origin_of(record: object) -> Origin:
    """Returns the origin that a JSON value describes.

    Raises:
        ValueError: There is no such kind, or a field is missing, unknown or has another type.
    """
    kinds = {kind.kind: kind for kind in KINDS}
    name = None
    if isinstance(record, dict):
        name = record.get("kind")
    if name not in kinds:
        raise ValueError(f"origin.kind is {name!r}; it should be one of {[*kinds]}")
    assert isinstance(record, dict)  # for the type checker
    kind = kinds[name]
    declared = types_of(kind)
    types = {field.name: declared[field.name] for field in fields(kind)}
    for key in sorted(types.keys() ^ record.keys()):
        raise ValueError(f"origin.{key} is missing or unknown")
    if error := type_error(record, types):
        raise ValueError(f"origin.{error}")
    origin: Origin = kind(**record)
    return origin

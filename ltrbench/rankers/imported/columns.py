"""Matches the features of a model file with the columns of the data: by names, by numbers or by positions.

    names       the model and the data have names of features: equal names
    numbers     the number of a feature in a LETOR file, which is the name of the column: RankLib's feature 5,
                and the feature with index 5 of LightGBM and XGBoost, which read LETOR files with indices from
                0, are the column "5"
    positions   the first feature of the model is the first column; RankLib's features are counted from 1

Only features that a split uses must exist in the data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ltrbench.errors import ConfigError, DataError, require_choice
from ltrbench.rankers.models.formats.reading import OF_RANKLIB, ModelFile
from ltrbench.rankers.models.trees import Ensemble, InnerNode, nodes_of

BY_NAMES, BY_NUMBERS, BY_POSITIONS = "names", "numbers", "positions"
WAYS = (BY_NAMES, BY_NUMBERS, BY_POSITIONS)

_SHOWN = 10
"""Maximum number of features that a message lists."""
_DEFAULT_NAMES = ("Column_{}", "f{}", "{}")
"""Names of features without names, by their index from 0: of LightGBM, of XGBoost, and of the columns of a
DataFrame, whose "1" is the second one."""


@dataclass(frozen=True)
class MatchedFeatures:
    """The columns of a model's features.

    Attributes:
        way: "names", "numbers" or "positions".
        columns: feature that a split uses -> column of the data, both from 0.
        sentence: how the features were matched.
    """

    way: str
    columns: Mapping[int, int]
    sentence: str


def used_features(ensemble: Ensemble) -> list[int]:
    """Returns the features that a split uses, ascending."""
    nodes = (node for tree in ensemble.trees for node in nodes_of(tree.root))
    return sorted({node.feature for node in nodes if isinstance(node, InnerNode)})


def match_features(file: ModelFile, data_names: Sequence[str], way: str | None = None) -> MatchedFeatures:
    """Matches the features of a model with the columns of the data.

    Args:
        data_names: (F,), names of the columns; numbers if the data are LETOR files.
        way: "names", "numbers" or "positions"; None: names if both have them, else the numbers of RankLib,
            else positions if the number of features is the same, else numbers from 0.

    Raises:
        ConfigError: The way is unknown, or the model has no names.
        DataError: A feature that the model uses is not in the data; the message lists these features.
    """
    require_choice("--features", way, WAYS)
    used = used_features(file.model.trees)
    chosen = way or _way(file, data_names, used)
    if chosen == BY_NAMES and not _has_names(file):
        raise ConfigError(
            f"{file.path} has no names of features, so that --features names is not possible. Use --features "
            "numbers or --features positions."
        )
    places, labels = _places(chosen, data_names), _labels(chosen, file, used)
    missing = [labels[feature] for feature in used if labels[feature] not in places]
    if missing:
        raise DataError(_missing(file, chosen, missing, len(used), data_names))
    columns = {feature: places[labels[feature]] for feature in used}
    return MatchedFeatures(chosen, columns, _sentence(file, chosen, len(used), data_names))


def _has_names(file: ModelFile) -> bool:
    names = file.model.feature_names
    defaults = [[form.format(index) for index in range(len(names))] for form in _DEFAULT_NAMES]
    return bool(names) and list(names) not in defaults


def _are_numbers(names: Sequence[str]) -> bool:
    return all(name.isdecimal() for name in names)


def _way(file: ModelFile, data_names: Sequence[str], used: Sequence[int]) -> str:
    """Returns how to match features if the user does not say it.

    Raises:
        DataError: The numbers of features differ, and the model has neither names nor RankLib's numbers.
    """
    if _has_names(file):
        names = file.model.feature_names
        if not _are_numbers(data_names) or {names[feature] for feature in used} <= set(data_names):
            return BY_NAMES
    if file.library == OF_RANKLIB:
        return BY_NUMBERS if _are_numbers(data_names) else BY_POSITIONS
    count = file.model.num_features
    if count == len(data_names):
        return BY_POSITIONS
    # A LETOR file that LightGBM or XGBoost has read: indices begin at 0, and 0 is in no line.
    if _are_numbers(data_names) and count == int(data_names[-1]) + 1 and 0 not in used:
        return BY_NUMBERS
    raise DataError(
        f"{file.path} has {count} features, but the data has {len(data_names)}, and no names of "
        f"features are in both ({_listed(list(data_names))}). Use data with the features of the "
        "model, or say how to match them: --features numbers or --features positions."
    )


def _places(way: str, data_names: Sequence[str]) -> dict[str, int]:
    """Returns label of a feature -> column of the data."""
    if way == BY_POSITIONS:
        return {str(column): column for column in range(len(data_names))}
    places = {name: column for column, name in enumerate(data_names)}
    if way == BY_NAMES:
        # LightGBM replaces blanks in the names that it is given.
        for name, column in list(places.items()):
            places.setdefault(re.sub(r"\s", "_", name), column)
    return places


def _labels(way: str, file: ModelFile, used: Sequence[int]) -> dict[int, str]:
    """Returns feature that a split uses -> its label: name, number or position."""
    if way == BY_NAMES:
        return {feature: file.model.feature_names[feature] for feature in used}
    first = 1 if way == BY_NUMBERS and file.library == OF_RANKLIB else 0
    return {feature: str(feature + first) for feature in used}


def _missing(file: ModelFile, way: str, missing: list[str], num_used: int, data_names: Sequence[str]) -> str:
    kind = {BY_NAMES: "names", BY_NUMBERS: "numbers", BY_POSITIONS: "positions, from 0,"}[way]
    others = " or ".join(f"--features {other}" for other in WAYS if other != way)
    return (
        f"{file.path}: {len(missing)} of the {num_used} features that the model uses are not in the data, "
        f"which has {len(data_names)} features ({_listed(list(data_names))}). Their {kind} are "
        f"{_listed(missing)}. Name a run on data with these features, or match them in another way: {others}."
    )


def _sentence(file: ModelFile, way: str, num_used: int, data_names: Sequence[str]) -> str:
    how = {
        BY_NAMES: "by their names",
        BY_NUMBERS: "by their numbers in LETOR files",
        BY_POSITIONS: "by their positions: the first feature of the model is the first column",
    }[way]
    return (
        f"{num_used} features of the model are used, and were matched with the {len(data_names)} columns of "
        f"the data {how} (--features {way})."
    )


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

"""Base classes of data sources, and the splits that a source without published splits holds out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ltrbench.data.dataset import RankingDataset
from ltrbench.data.fetching.archive import PublishedArchive
from ltrbench.data.splits import Splits, sample_queries, split_latest, split_queries, take_fold
from ltrbench.errors import ConfigError, require_choice

TEST, VALID = "test", "valid"
"""Values of `SplitSource.cv_split`."""


@dataclass(kw_only=True)
class Published:
    """Published results on a data set.

    Args:
        source: where the figures were published and how they were computed.
        figures: model -> metric -> value.
        convention: convention of the figures, such as lightgbm: a comparison shows its models beside them,
            evaluated under it. None: no convention is the same, and the figures are shown alone.
    """

    source: str
    figures: dict[str, dict[str, float]]
    convention: str | None = None


@dataclass(kw_only=True)
class DataSource(ABC):
    """Base class of data sources.

    Args:
        name: name of the data set in tables and runs.
        published: published results, shown under the tables; None: not available.
        fetch: archive that `data fetch` downloads; None: not available.
    """

    name: str
    published: Published | None = None
    fetch: PublishedArchive | None = None

    @abstractmethod
    def load(self) -> Splits:
        """Reads or generates the data. Raises DataError if the data is absent or invalid.

        The data may depend only on the fields and on files that they name: a process loads equal sources
        once, unless a named file has changed.
        """


@dataclass(kw_only=True)
class SplitSource(DataSource):
    """Base class of sources that hold out missing splits from the training queries, by query.

    The test set is held out first, then the validation set from the remaining queries. The test set therefore
    does not depend on `valid_share`, and neither set depends on `subset`.

    With `cv`, each fold in turn is the test set. With `cv_split="valid"` it is the validation set instead;
    the test set is then the same for every fold, and settings can be chosen by the validation sets of all
    folds without seeing test queries.

    Args:
        valid_share: share of the queries, without the test queries, held out for validation; 0: no
            validation.
        test_share: share of the queries held out for the test set.
        split_seed: random seed of the splits.
        subset: share of the training queries to keep; validation and test sets stay whole.
        cv: number of cross-validation folds; None: no cross-validation.
        cv_split: split that a fold becomes, "test" or "valid".
        fold: number of that fold, from one.

    Raises:
        ConfigError: `cv` is below 2 or set without a fold, the fold does not exist, or `cv_split` is neither
            split.
    """

    valid_share: float = 0.2
    test_share: float = 0.2
    split_seed: int = 0
    subset: float = 1.0
    cv: int | None = None
    cv_split: str = TEST
    fold: int | None = None

    def __post_init__(self) -> None:
        require_choice("data.cv_split", self.cv_split, (TEST, VALID))
        if self.cv is not None:
            self._check_dealt_fold(self.cv)
        elif self.fold is not None:
            self._check_published_fold(self.fold)

    def _check_dealt_fold(self, cv: int) -> None:
        if cv < 2:
            raise ConfigError(
                f"cv is {cv}; cross-validation needs at least 2 folds. Set a larger number, such as cv=5, or "
                "cv=null for a single split."
            )
        if self.fold is None:
            raise ConfigError(
                f"cv is {cv}, but no fold is set; choose the test fold with data.fold=1 to {cv}, or add -m "
                "to run all folds."
            )
        if not 1 <= self.fold <= cv:
            raise ConfigError(
                f"data.fold is {self.fold}, but cv={cv} has folds 1 to {cv}; choose one of them."
            )

    def _check_published_fold(self, fold: int) -> None:
        raise ConfigError(
            f"data.fold is {fold}, but {self.name} has no folds; remove data.fold, or set cv to the number "
            "of cross-validation folds, such as cv=5."
        )

    def complete(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        test: RankingDataset | None = None,
        *,
        times: Mapping[str, Any] | None = None,
        groups: Mapping[str, str] | None = None,
    ) -> Splits:
        """Holds out the missing splits from the training queries.

        Args:
            times: query id -> time; the latest queries are held out. None: random queries.
            groups: query id -> group, for groups of queries that stay together; None: no groups.

        Raises:
            DataError: A share is not between 0 and 1, the fold does not exist, too few queries remain, or
                splits share a query.
        """
        folds = {} if self.cv is None or self.fold is None else {self.cv_split: (self.fold, self.cv)}
        if test is None and TEST in folds:
            train, test = take_fold(train, *folds[TEST], self.split_seed, groups)
        elif test is None:
            train, test = self._hold_out(train, self.test_share, TEST, times, groups)
        if valid is None and VALID in folds:
            train, valid = take_fold(train, *folds[VALID], self.split_seed, groups)
        elif valid is None and self.valid_share != 0:
            train, valid = self._hold_out(train, self.valid_share, VALID, times, groups)
        return Splits(sample_queries(train, self.subset, self.split_seed), valid, test)

    def _hold_out(
        self,
        train: RankingDataset,
        share: float,
        name: str,
        times: Mapping[str, Any] | None,
        groups: Mapping[str, str] | None,
    ) -> tuple[RankingDataset, RankingDataset]:
        if times is not None:
            return split_latest(train, times, share, name, groups)
        return split_queries(train, share, self.split_seed, name, groups)

"""Where the data of a run comes from: what the YAMLs in conf/data name by `_target_`.

A source is a dataclass: its fields are the keys of the YAML, checked by their types, and `load()` gives the
Splits. A data set in LETOR format needs no Python, only a YAML for LetorFiles; another format is a subclass
of DataSource in one file of its own, here or in a user's package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from ltrbench.data.dataset import RankingDataset
from ltrbench.data.letor import read_letor
from ltrbench.data.splits import Splits, split_queries
from ltrbench.errors import DataError


@dataclass(kw_only=True)
class Published:
    """What others reported on a data set.

    Args:
        source: whose figures they are and how they were computed.
        figures: model -> metric -> value.
    """

    source: str
    figures: dict[str, dict[str, float]]


@dataclass(kw_only=True)
class DataSource(ABC):
    """A data set that a run can name.

    Args:
        name: what tables and runs call it.
        published: figures that others reported on it, shown under the tables; None where there are none.
    """

    name: str
    published: Published | None = None

    @abstractmethod
    def load(self) -> Splits:
        """Reads or makes the data. DataError where it is absent or cannot be used."""


@dataclass(kw_only=True)
class LetorFiles(DataSource):
    """Train, validation and test in LETOR files.

    Args:
        train: the path of the training file; `~` is the home folder, a relative path starts in the current
            one.
        valid: the same for validation; None: `valid_share` of the training queries.
        test: the same for test; None: `test_share` of the training queries, taken before validation is.
        valid_share: of the queries, by query; 0 goes without validation. Ignored where `valid` is given.
        test_share: of the queries, by query. Ignored where `test` is given.
        split_seed: which queries are taken.
        num_features: the width that all files are padded to; None: that of the training file.
        root: the publisher's folder, which the YAML's paths are built from; not used here.
        fold: which fold the YAML's paths name; None for a data set without folds.
        num_folds: how many there are, to refuse one that does not exist.
        obtain: where to get the data and where to put it, for the message when a file is absent.
    """

    train: str
    valid: str | None = None
    test: str | None = None
    valid_share: float = 0.2
    test_share: float = 0.2
    split_seed: int = 0
    num_features: int | None = None
    root: str = ""
    fold: int | None = None
    num_folds: int = 5
    obtain: str = ""

    def load(self) -> Splits:
        """Reads the files; the training file says how many features there are.

        Raises:
            DataError: where a file is absent (with `obtain`), is not LETOR text, has features that training
                does not have, or shares a query with another; where the fold does not exist.
        """
        if self.fold is not None and not 1 <= self.fold <= self.num_folds:
            raise DataError(
                f"data.fold is {self.fold}, but {self.name} has the folds 1 to {self.num_folds}; choose one."
            )
        train = self._read(self.train, self.num_features)
        valid = None if self.valid is None else self._read(self.valid, train.num_features)
        test = None if self.test is None else self._read(self.test, train.num_features)
        return complete_splits(
            train,
            valid,
            test,
            valid_share=self.valid_share,
            test_share=self.test_share,
            split_seed=self.split_seed,
        )

    def _read(self, path: str, num_features: int | None) -> RankingDataset:
        file = Path(path).expanduser()
        if not file.exists():
            raise DataError(
                f"data={self.name}: there is no file {file.absolute()}. "
                + (self.obtain.strip() or "Check data.train, data.valid and data.test.")
            )
        return read_letor(file, num_features)


def complete_splits(
    train: RankingDataset,
    valid: RankingDataset | None,
    test: RankingDataset | None,
    *,
    valid_share: float,
    test_share: float,
    split_seed: int,
) -> Splits:
    """Takes what is not given out of train, by query: test first, then validation from the rest.

    So the test queries stay the same whatever `valid_share` is.

    Raises:
        DataError: where a share is not between 0 and 1, too few queries are left, or splits share a query.
    """
    if test is None:
        train, test = split_queries(train, test_share, split_seed, "test")
    if valid is None and valid_share != 0:
        train, valid = split_queries(train, valid_share, split_seed, "valid")
    return Splits(train, valid, test)

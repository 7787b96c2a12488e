"""Where the data of a run comes from: what the YAMLs in conf/data name by `_target_`.

A source is a dataclass: its fields are the keys of the YAML, checked by their types, and `load()` gives the
Splits. A data set in LETOR format or in tables needs no Python, only a YAML for LetorFiles or TableFiles;
another format is a subclass of FileSource or DataSource in one file of its own, here or in a user's package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ltrbench.data.dataset import RankingDataset
from ltrbench.data.formats.letor.reader import read_letor
from ltrbench.data.formats.table.tables import read_table
from ltrbench.data.splits import Splits, sample_queries, split_queries, take_fold
from ltrbench.errors import ConfigError, DataError


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
class SplitSource(DataSource):
    """A data set whose missing parts are taken out of its training queries, by query.

    Test is taken first, then validation from the rest. So the test queries stay the same whatever
    `valid_share` is, and both whatever `subset` is.

    Args:
        valid_share: of the queries that test leaves; 0 goes without validation.
        test_share: of the queries.
        split_seed: which queries are taken.
        subset: the share of the training queries that is kept; validation and test stay whole.
        cv: into how many folds the queries are dealt; None: none.
        fold: which one of the `cv` folds is the test set, counted from one.

    Raises:
        ConfigError: where `cv` is below 2 or stands without a fold, or `fold` is not one of the folds.
    """

    valid_share: float = 0.2
    test_share: float = 0.2
    split_seed: int = 0
    subset: float = 1.0
    cv: int | None = None
    fold: int | None = None

    def __post_init__(self) -> None:
        if self.cv is not None:
            self._check_dealt_fold(self.cv)
        elif self.fold is not None:
            self._check_published_fold(self.fold)

    def _check_dealt_fold(self, cv: int) -> None:
        if cv < 2:
            raise ConfigError(
                f"cv is {cv}; cross-validation needs at least 2 folds. Set cv=5 or another number from 2, or "
                "cv=null for one split."
            )
        if self.fold is None:
            raise ConfigError(
                f"cv is {cv} without a fold; name the test set with data.fold=1 to {cv}, or add -m to run "
                "over all folds."
            )
        if not 1 <= self.fold <= cv:
            raise ConfigError(f"data.fold is {self.fold}, but cv={cv} has the folds 1 to {cv}; choose one.")

    def _check_published_fold(self, fold: int) -> None:
        raise ConfigError(
            f"data.fold is {fold}, but {self.name} has no folds; leave data.fold out, or set cv to the "
            "number of folds that the queries are dealt into, as in cv=5."
        )

    def complete(
        self, train: RankingDataset, valid: RankingDataset | None = None, test: RankingDataset | None = None
    ) -> Splits:
        """Takes what is not given out of train.

        Raises:
            DataError: where a share is not between 0 and 1, the fold does not exist, too few queries are
                left, or splits share a query.
        """
        if test is None and self.cv is not None and self.fold is not None:
            train, test = take_fold(train, self.fold, self.cv, self.split_seed)
        elif test is None:
            train, test = split_queries(train, self.test_share, self.split_seed, "test")
        if valid is None and self.valid_share != 0:
            train, valid = split_queries(train, self.valid_share, self.split_seed, "valid")
        return Splits(sample_queries(train, self.subset, self.split_seed), valid, test)


@dataclass(kw_only=True)
class FileSource(SplitSource):
    """Train, validation and test in files.

    Args:
        train: the path of the training file, or a list of paths that are one split; `~` is the home folder, a
            relative path starts in the current one.
        valid: the same for validation; None: `valid_share` of the training queries.
        test: the same for test; None: `test_share` of the training queries, or fold `fold` of `cv`.
        sort_queries: brings the documents of a query together where they are scattered.
        whole_labels: refuses labels that are not whole numbers.
        root: the publisher's folder, which the YAML's paths are built from; not used here.
        num_folds: how many published folds the YAML's paths have, where `fold` chooses one; None: no folds.
        obtain: where to get the data and where to put it, for the message when a file is absent.

    Raises:
        ConfigError: where a path is none, a fold does not exist, or `cv` stands beside a test set.
    """

    # Paths are Any, because OmegaConf knows no type for one or a list.
    train: Any
    valid: Any = None
    test: Any = None
    sort_queries: bool = False
    whole_labels: bool = True
    root: str = ""
    num_folds: int | None = None
    obtain: str = ""

    def __post_init__(self) -> None:
        for key, given in (("train", self.train), ("valid", self.valid), ("test", self.test)):
            if given is not None or key == "train":
                _check_paths(key, given)
        if self.cv is not None and self.num_folds is not None:
            raise ConfigError(
                f"cv is {self.cv}, but the folds of {self.name} are published; leave out cv and choose "
                f"among them with data.fold=1 to {self.num_folds}."
            )
        if self.cv is not None and self.test is not None:
            raise ConfigError(
                f"cv is {self.cv}, but {self.name} brings a test set; leave out cv, or set data.test=null."
            )
        super().__post_init__()

    def _check_published_fold(self, fold: int) -> None:
        if self.num_folds is None:
            raise ConfigError(
                f"data.fold is {fold}, but {self.name} has no folds; leave it out, deal the queries into "
                "folds with cv, or say in data.num_folds how many the paths have."
            )
        if not 1 <= fold <= self.num_folds:
            raise ConfigError(
                f"data.fold is {fold}, but {self.name} has the folds 1 to {self.num_folds}; choose one."
            )

    def existing(self, key: str) -> list[Path]:
        """The paths that a key of the YAML names.

        Raises:
            DataError: where there is no such file, with `obtain`.
        """
        given = getattr(self, key)
        files = [Path(path).expanduser() for path in ([given] if isinstance(given, str) else given)]
        for file in files:
            if not file.exists():
                raise DataError(
                    f"data={self.name}: there is no file {file.absolute()}. "
                    + (self.obtain.strip() or f"Check data.{key}.")
                )
        return files


def _check_paths(key: str, given: Any) -> None:
    paths = given if isinstance(given, list) else [given]
    if not paths or not all(isinstance(path, str) and path for path in paths):
        raise ConfigError(
            f"data.{key} is {given!r}; it must be the path of a file, or a list of paths that are one split, "
            "as in [a.txt,b.txt]."
        )


@dataclass(kw_only=True)
class LetorFiles(FileSource):
    """Train, validation and test in LETOR files; `read_letor` says how.

    Args:
        num_features: the width that all files are padded to; None: as many as `feature_names` has, or else as
            the training file has.
        first_index: the index of the first feature in the files, 0 or 1.
        absent: the value of a feature that a line leaves out: 0, or NaN for missing.
        overflow: what becomes of a value that float32 cannot hold: refuse, cap or missing.
        feature_names: the path of a file of lines `name, index`; None: features are called by their index.
    """

    num_features: int | None = None
    first_index: int = 1
    absent: float = 0.0
    overflow: str = "refuse"
    feature_names: str | None = None

    def load(self) -> Splits:
        """Reads the files; the training file says how many features there are, unless the YAML does.

        Raises:
            DataError: where a file is absent (with `obtain`), is not LETOR text, has features that training
                does not have, or shares a query with another; where the names do not fit the features.
        """
        train = self._read("train", self.num_features)
        return self.complete(
            train,
            None if self.valid is None else self._read("valid", train.num_features),
            None if self.test is None else self._read("test", train.num_features),
        )

    def _read(self, key: str, num_features: int | None) -> RankingDataset:
        return read_letor(
            self.existing(key),
            num_features,
            first_index=self.first_index,
            absent=self.absent,
            overflow=self.overflow,
            sort_queries=self.sort_queries,
            whole_labels=self.whole_labels,
            feature_names=None if self.feature_names is None else self.existing("feature_names")[0],
        )


@dataclass(kw_only=True)
class TableFiles(FileSource):
    """Train, validation and test in CSV or Parquet files with named columns; `read_table` says how.

    Args:
        label, query, document, weight, position: the column of each role; None: its usual name.
        features: the columns that are features; None: all that have no role.
    """

    label: str | None = None
    query: str | None = None
    document: str | None = None
    weight: str | None = None
    position: str | None = None
    features: list[str] | None = None

    def load(self) -> Splits:
        """Reads the tables; the columns of the training table say which features there are.

        Raises:
            DataError: where a file is absent, is not such a table, has other features than training, or
                shares a query with another.
        """
        train = self._read("train", None)
        names = train.feature_names
        return self.complete(
            train,
            None if self.valid is None else self._read("valid", names),
            None if self.test is None else self._read("test", names),
        )

    def _read(self, key: str, feature_names: tuple[str, ...] | None) -> RankingDataset:
        return read_table(
            self.existing(key),
            label=self.label,
            query=self.query,
            document=self.document,
            weight=self.weight,
            position=self.position,
            features=self.features,
            feature_names=feature_names,
            sort_queries=self.sort_queries,
            whole_labels=self.whole_labels,
        )

"""Data sources of a run: the classes that the YAMLs in conf/data name as `_target_`.

A source is a dataclass. Its fields are the keys of the YAML, checked by their types, and `load()` returns the
Splits. A data set in LETOR files or tables needs no Python, only a YAML for LetorFiles or TableFiles. For
another format, write a subclass of FileSource or DataSource in one file, here or in a package of your own.
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
from ltrbench.errors import ConfigError, DataError, require_choice

TEST, VALID = "test", "valid"
"""Values of `SplitSource.cv_split`."""


@dataclass(kw_only=True)
class Published:
    """Published results on a data set.

    Args:
        source: where the figures were published and how they were computed.
        figures: model -> metric -> value.
    """

    source: str
    figures: dict[str, dict[str, float]]


@dataclass(kw_only=True)
class DataSource(ABC):
    """Base class of data sources.

    Args:
        name: name of the data set in tables and runs.
        published: published results, shown under the tables; None: not available.
    """

    name: str
    published: Published | None = None

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
        self, train: RankingDataset, valid: RankingDataset | None = None, test: RankingDataset | None = None
    ) -> Splits:
        """Holds out the missing splits from the training queries.

        Raises:
            DataError: A share is not between 0 and 1, the fold does not exist, too few queries remain, or
                splits share a query.
        """
        folds = {} if self.cv is None or self.fold is None else {self.cv_split: (self.fold, self.cv)}
        if test is None and TEST in folds:
            train, test = take_fold(train, *folds[TEST], self.split_seed)
        elif test is None:
            train, test = split_queries(train, self.test_share, self.split_seed, "test")
        if valid is None and VALID in folds:
            train, valid = take_fold(train, *folds[VALID], self.split_seed)
        elif valid is None and self.valid_share != 0:
            train, valid = split_queries(train, self.valid_share, self.split_seed, "valid")
        return Splits(sample_queries(train, self.subset, self.split_seed), valid, test)


@dataclass(kw_only=True)
class FileSource(SplitSource):
    """Base class of sources that read training, validation and test files.

    Args:
        train: path of the training file, or a list of paths that form one split; `~` is the home folder,
            relative paths start in the current folder.
        valid: the same for validation; None: `valid_share` of the training queries.
        test: the same for the test set; None: `test_share` of the training queries, or fold `fold` of `cv`.
        sort_queries: group scattered documents by query.
        whole_labels: reject labels that are not whole numbers.
        root: folder of the published data, used in the paths of the YAML; not used here.
        num_folds: number of published folds, if the paths of the YAML contain `fold`; None: no folds.
        obtain: where to download the data and where to put it; shown when a file does not exist.

    Raises:
        ConfigError: A path is not text, a fold does not exist, or `cv` is combined with a test set.
    """

    # Paths are Any, because OmegaConf has no type for a string or a list.
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
                f"cv is {self.cv}, but {self.name} has published folds; remove cv and choose a fold with "
                f"data.fold=1 to {self.num_folds}."
            )
        published = {TEST: self.test, VALID: self.valid}.get(self.cv_split)
        if self.cv is not None and published is not None:
            raise ConfigError(
                f"cv is {self.cv}, but {self.name} has a {self.cv_split} set; remove cv, or set "
                f"data.{self.cv_split}=null."
            )
        super().__post_init__()

    def _check_published_fold(self, fold: int) -> None:
        if self.num_folds is None:
            raise ConfigError(
                f"data.fold is {fold}, but {self.name} has no folds; remove data.fold, set cv to "
                "cross-validate, or set data.num_folds to the number of published folds."
            )
        if not 1 <= fold <= self.num_folds:
            raise ConfigError(
                f"data.fold is {fold}, but {self.name} has folds 1 to {self.num_folds}; choose one of them."
            )

    def existing(self, key: str) -> list[Path]:
        """Returns the paths under a key of the YAML.

        Raises:
            DataError: A file does not exist; the message contains `obtain`.
        """
        given = getattr(self, key)
        files = [Path(path).expanduser() for path in ([given] if isinstance(given, str) else given)]
        for file in files:
            if not file.exists():
                raise DataError(
                    f"data={self.name}: {file.absolute()} does not exist. "
                    + (self.obtain.strip() or f"Check the path in data.{key}.")
                )
        return files


def _check_paths(key: str, given: Any) -> None:
    paths = given if isinstance(given, list) else [given]
    if not paths or not all(isinstance(path, str) and path for path in paths):
        raise ConfigError(
            f"data.{key} is {given!r}; set the path of a file, or a list of paths that form one split, such "
            "as [a.txt,b.txt]."
        )


@dataclass(kw_only=True)
class LetorFiles(FileSource):
    """Training, validation and test sets in LETOR files; see `read_letor`.

    Args:
        num_features: number of features of all files; None: the number of names in `feature_names`, or the
            largest index in the training file.
        first_index: index of the first feature in the files, 0 or 1.
        absent: value of features that a line omits: 0, or NaN for missing.
        overflow: treatment of values beyond float32: refuse, cap or missing.
        feature_names: path of a file with lines `name, index`; None: the names are the indices.
    """

    num_features: int | None = None
    first_index: int = 1
    absent: float = 0.0
    overflow: str = "refuse"
    feature_names: str | None = None

    def load(self) -> Splits:
        """Reads the files; by default the training file determines the number of features.

        Raises:
            DataError: A file does not exist (with `obtain`), is not LETOR text, has features that training
                does not have, or shares a query with another file; the names do not match the features.
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
    """Training, validation and test sets in CSV or Parquet files with named columns; see `read_table`.

    Args:
        label, query, document, weight, position: column of each role; None: the default name.
        features: feature columns; None: all columns without a role.
    """

    label: str | None = None
    query: str | None = None
    document: str | None = None
    weight: str | None = None
    position: str | None = None
    features: list[str] | None = None

    def load(self) -> Splits:
        """Reads the tables; the columns of the training table determine the features.

        Raises:
            DataError: A file does not exist, is not such a table, has other features than training, or shares
                a query with another file.
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

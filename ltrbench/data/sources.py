"""Data sources of a run: the classes that the YAMLs in conf/data name as `_target_`.

A source is a dataclass. Its fields are the keys of the YAML, checked by their types, and `load()` returns the
Splits. A data set in LETOR files or tables needs no Python, only a YAML for LetorFiles or TableFiles. For
another format, write a subclass of FileSource or DataSource in one file, here or in a package of your own.

base    base classes of sources: DataSource, and SplitSource, which holds out missing splits
files   sources that read files: LetorFiles and TableFiles
stores  a source that reads stores: StoreFiles
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from ltrbench.data.dataset import ROLES, RankingDataset
from ltrbench.data.letor import read_letor
from ltrbench.data.reading import files_of
from ltrbench.data.splits import (
    Splits,
    check_no_shared_group,
    sample_queries,
    split_latest,
    split_queries,
    take_fold,
)
from ltrbench.data.store import AUTO, NONE, cache_folder, read_cached, read_store
from ltrbench.data.tables import SPLIT_ROLES, SplitColumns, read_split_columns, read_table
from ltrbench.errors import ConfigError, DataError, require, require_choice

# ---- The `fetch` node of a YAML in conf/data: where a published archive is, and how to check and unpack
# it.

ARCHIVE_ENDINGS = (".zip", ".tar.gz", ".tgz")
"""Endings of the archives that can be unpacked."""


@dataclass(kw_only=True)
class PublishedArchive:
    """The archive of a published data set.

    Args:
        file: name of the archive below the data folder; it ends in .zip, .tar.gz or .tgz.
        size: size of the archive in bytes.
        sha256: SHA-256 of the archive, 64 hexadecimal digits.
        into: folder below the data folder into which the archive is unpacked.
        max_unpacked_gb: maximum size of the unpacked files in GB (10^9 bytes), at most 10^6; a larger
            archive is refused.
        licence: the licence, in one sentence.
        page: the page of the publisher, with the licence and the download.
        must_accept: whether the publisher requires that the licence is accepted before the download.
        url: address of the archive; None: not known.
        verified: whether a download from `url` has been checked; other addresses are printed, not used.

    Raises:
        ConfigError: A value is not of this form, or `verified` is set without an address.
    """

    file: str
    size: int
    sha256: str
    into: str
    max_unpacked_gb: float
    licence: str
    page: str
    must_accept: bool = True
    url: str | None = None
    verified: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w[\w.-]*", self.file) or not self.file.endswith(ARCHIVE_ENDINGS):
            raise ConfigError(
                f"data.fetch.file is '{self.file}'; it must be a file name without folders that ends in "
                f"{', '.join(ARCHIVE_ENDINGS)}."
            )
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ConfigError(
                f"data.fetch.sha256 is '{self.sha256}'; it must be 64 hexadecimal digits in lower case, as "
                "sha256sum prints them."
            )
        if not is_inside(self.into):
            raise ConfigError(
                f"data.fetch.into is '{self.into}'; it must be a relative folder without .. below the data "
                "folder."
            )
        require("data.fetch.size", self.size, at_least=1)
        require("data.fetch.max_unpacked_gb", self.max_unpacked_gb, above=0, at_most=1e6)
        if self.verified and self.url is None:
            raise ConfigError(
                "data.fetch.verified is true, but data.fetch.url is not set; set the address, or "
                "verified: false."
            )


def is_inside(path: str) -> bool:
    r"""Returns whether a path of an archive or a YAML is relative and stays inside the folder it starts in.

    Backslashes, control characters and drive letters are refused, because other systems would read them as
    parts of a path.

    >>> [is_inside(path) for path in ("Fold1/train.txt", "./a", "", "/a", "a/../b", r"a\b", "C:a", "a\n")]
    [True, True, False, False, False, False, False, False]
    """
    pure = PurePosixPath(path)
    return (
        bool(pure.parts)
        and not pure.is_absolute()
        and ".." not in pure.parts
        and not re.search(r"[\\\x00-\x1f\x7f]|^[A-Za-z]:", path)
    )


# ---- Base classes of data sources, and the splits that a source without published splits holds out.

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


# ---- Data sources that read training, validation and test files: LETOR text, and tables.


@dataclass(kw_only=True)
class FileSource(SplitSource):
    """Base class of sources that read training, validation and test files.

    Args:
        train: path of the training file, or a list of paths that form one split; `~` is the home folder,
            relative paths start in the current folder.
        valid: the same for validation; None: `valid_share` of the training queries.
        test: the same for the test set; None: `test_share` of the training queries, or fold `fold` of `cv`.
        split_by: column of the time of a query, for tables: the latest queries are held out, those for the
            test set after those for validation. None: random queries are held out.
        group_by: column of the group of a query, for tables: the queries of a group, such as near-duplicates,
            are all in the same split. None: no groups.
        cache: folder of parsed files, so that the next run need not parse them: none, no cache; a path; or
            auto, for files of 50 MB or more, the folder of the environment variable LTRBENCH_CACHE, or else
            of the user.
        sort_queries: group scattered documents by query.
        whole_labels: reject labels that are not whole numbers.
        root: folder of the published data, used in the paths of the YAML; not used here.
        num_folds: number of published folds, if the paths of the YAML contain `fold`; None: no folds.
        version: published version of the files; None: there is only one.
        versions: version -> file name of each split, used in the paths of the YAML.
        obtain: where to download the data and where to put it; shown when a file does not exist.

    Raises:
        ConfigError: A path is not text, a version or a fold does not exist, `cv` is combined with a test
            set, `split_by` with `cv` or with files of other splits, the files have no columns to split by, or
            `cache` is empty, true or false.
    """

    has_columns: ClassVar[bool] = False
    """Whether the files have columns with names, for `split_by` and `group_by`."""

    # Paths are Any, because OmegaConf has no type for a string or a list.
    train: Any
    valid: Any = None
    test: Any = None
    split_by: str | None = None
    group_by: str | None = None
    cache: str | None = NONE
    sort_queries: bool = False
    whole_labels: bool = True
    root: str = ""
    num_folds: int | None = None
    version: str | None = None
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    obtain: str = ""

    def __post_init__(self) -> None:
        self._check_version()
        for key, given in (("train", self.train), ("valid", self.valid), ("test", self.test)):
            if given is not None or key == "train":
                _check_paths(key, given)
        if self.cv is not None and self.num_folds is not None:
            raise ConfigError(
                f"cv is {self.cv}, but {self.name} has published folds; remove cv and choose a fold with "
                f"data.fold=1 to {self.num_folds}."
            )
        self._check_columns()
        self._check_cache()
        published = {TEST: self.test, VALID: self.valid}.get(self.cv_split)
        if self.cv is not None and published is not None:
            raise ConfigError(
                f"cv is {self.cv}, but {self.name} has a {self.cv_split} set; remove cv, or set "
                f"data.{self.cv_split}=null."
            )
        super().__post_init__()

    def _check_version(self) -> None:
        choices = ", ".join(self.versions)
        if self.version is None and self.versions:
            raise ConfigError(f"data.version is null, but {self.name} has several versions; set {choices}.")
        if self.version is not None and not self.versions:
            raise ConfigError(
                f"data.version is '{self.version}', but {self.name} has only one version; remove "
                "data.version."
            )
        require_choice("data.version", self.version, self.versions)

    def _check_columns(self) -> None:
        for key, column in (("split_by", self.split_by), ("group_by", self.group_by)):
            if column is not None and not self.has_columns:
                raise ConfigError(
                    f"data.{key} is '{column}', but the files of {self.name} have no columns with names; "
                    "write the data to a CSV or Parquet table and read it with data=table, or remove "
                    f"data.{key}."
                )
        if self.split_by is None:
            return
        if self.cv is not None:
            raise ConfigError(
                f"cv is {self.cv}, but data.split_by={self.split_by} splits by time: a fold would be tested "
                "with models that were trained on later queries. Remove cv, or remove data.split_by."
            )
        for key, given in ((VALID, self.valid), (TEST, self.test)):
            if given is not None:
                raise ConfigError(
                    f"data.{key} is {given!r}, but data.split_by={self.split_by} takes the validation and "
                    f"test sets from data.train. Set data.{key}=null and add the file to data.train, as in "
                    "[a.csv,b.csv]; or remove data.split_by."
                )

    def _check_cache(self) -> None:
        if self.cache is not None and self.cache.strip().lower() in ("", "true", "false"):
            raise ConfigError(
                f"data.cache is '{self.cache}'; set {NONE} for no cache, {AUTO}, or a folder (./true for a "
                "folder with such a name)."
            )

    def _check_published_fold(self, fold: int) -> None:
        if self.num_folds is None and self.split_by is not None:
            raise ConfigError(
                f"data.fold is {fold}, but data.split_by={self.split_by} splits by time, into one test set. "
                "Remove data.fold; or remove data.split_by and set cv to cross-validate."
            )
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
                remedy = f"Check the path in data.{key}."
                if self.fetch is not None:
                    remedy = (
                        f"`python -m ltrbench data fetch {self.name}` downloads it; add --config-dir DIR if "
                        f"the YAML is in a folder of your own. Otherwise check the path in data.{key}."
                    )
                absent = f"data={self.name}: {file.absolute()} does not exist."
                raise DataError(f"{absent} {self.obtain.strip() or remedy}")
        return files

    def read_through_cache(
        self,
        files: list[Path],
        read: Callable[..., RankingDataset],
        options: dict[str, Any],
        feature_names: Path | None = None,
    ) -> RankingDataset:
        """Returns `read(files, **options)`, from the cache if `cache` is set.

        Args:
            feature_names: file of feature names, passed to `read` under this name if it is given.
        """
        named = {} if feature_names is None else {"feature_names": feature_names}
        used = {str(number): file for number, file in enumerate(files)} | named
        for number, file in enumerate(files):
            used |= {f"{number}{beside.suffix}": beside for beside in files_of(file) if beside != file}
        folder = cache_folder(self.cache, used)
        if folder is None:
            return read(files, **options, **named)
        key = {"reader": read.__name__, **options}
        scratch = {"scratch": folder} if read is read_letor else {}
        return read_cached(folder, used, key, lambda: read(files, **options, **named, **scratch))


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
        nulls: treatment of values written as NULL: refuse or missing.
        sparse: whether to store only the values that the lines have.
        feature_names: path of a file with lines `name, index`; None: the names are the indices.
    """

    num_features: int | None = None
    first_index: int = 1
    absent: float = 0.0
    overflow: str = "refuse"
    nulls: str = "refuse"
    sparse: bool = False
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
        options = {
            "num_features": num_features,
            "first_index": self.first_index,
            "absent": self.absent,
            "overflow": self.overflow,
            "nulls": self.nulls,
            "sparse": self.sparse,
            "sort_queries": self.sort_queries,
            "whole_labels": self.whole_labels,
        }
        names = None if self.feature_names is None else self.existing("feature_names")[0]
        return self.read_through_cache(self.existing(key), read_letor, options, names)


@dataclass(kw_only=True)
class TableFiles(FileSource):
    """Training, validation and test sets in CSV or Parquet files with named columns; see `read_table`.

    Args:
        label, query, document, weight, position: column of each role; None: the default name.
        features: feature columns; None: all columns without a role.
    """

    has_columns: ClassVar[bool] = True

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
                a query or a group with another file.
        """
        train, columns = self._read("train", None)
        given = {
            key: self._read(key, train.feature_names)
            for key in (VALID, TEST)
            if getattr(self, key) is not None
        }
        groups = {key: columns_of_file.groups for key, (_, columns_of_file) in given.items()}
        check_no_shared_group({"train": columns.groups, **groups})
        splits = {key: dataset for key, (dataset, _) in given.items()}
        return self.complete(train, **splits, times=columns.times, groups=columns.groups)

    def _read(self, key: str, feature_names: tuple[str, ...] | None) -> tuple[RankingDataset, SplitColumns]:
        roles = {role: getattr(self, role) for role in (*ROLES, *SPLIT_ROLES)}
        options: dict[str, Any] = {
            "features": self.features,
            "feature_names": feature_names,
            "sort_queries": self.sort_queries,
            "whole_labels": self.whole_labels,
        }
        files = self.existing(key)
        dataset = self.read_through_cache(files, read_table, {**roles, **options})
        if self.split_by is None and self.group_by is None:
            return dataset, SplitColumns()
        columns = read_split_columns(
            files, query=self.query, split_by=self.split_by, group_by=self.group_by, features=self.features
        )
        return dataset, columns


# ---- A data source that reads stores: folders of arrays, whose features are read by blocks.


@dataclass(kw_only=True)
class StoreFiles(FileSource):
    """Training, validation and test sets in stores that `data build` wrote; see `read_store`.

    The paths are folders. Dense features stay on the disk, and all other arrays are read into memory.

    Raises:
        ConfigError: `sort_queries` is set; the documents of a store are grouped when it is built.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sort_queries:
            raise ConfigError(
                f"data.sort_queries is true, but data={self.name} reads stores, whose documents are grouped "
                "when they are built. Remove it, and add --read sort_queries=true to `data build`."
            )

    def load(self) -> Splits:
        """Opens the stores; the training store determines the features.

        Raises:
            DataError: A store does not exist (with `obtain`), is damaged, has other features than training,
                or shares a query with another store.
        """
        train = self._read("train", None)
        names = train.feature_names
        return self.complete(
            train,
            None if self.valid is None else self._read("valid", names),
            None if self.test is None else self._read("test", names),
        )

    def _read(self, key: str, feature_names: tuple[str, ...] | None) -> RankingDataset:
        return read_store(
            self.existing(key),
            None if feature_names is None else len(feature_names),
            feature_names=feature_names,
            whole_labels=self.whole_labels,
        )

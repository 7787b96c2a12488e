"""Data sources of a run: the classes that the YAMLs in conf/data name as `_target_`.

A source is a dataclass. Its fields are the keys of the YAML, checked by their types, and `load()` returns the
Splits. A data set in LETOR files or tables needs no Python, only a YAML for LetorFiles or TableFiles. For
another format, write a subclass of FileSource or DataSource in one file, here or in another package.

The last part finds or downloads the archive of a published data set, checks it, and unpacks it.
"""

from __future__ import annotations

import copy
import inspect
import logging
import shutil
import tarfile
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from ltrbench.data.blocks import as_paths, check_option
from ltrbench.data.dataset import RankingDataset
from ltrbench.data.letor import (
    companions_of,
    has_query_sizes,
    read_letor,
    read_letor_features,
)
from ltrbench.data.splits import (
    HeldOut,
    Splits,
    check_files,
    check_no_shared_group,
    sample_queries,
    split_latest,
    split_queries,
    take_fold,
    take_window,
)
from ltrbench.data.store import (
    MANIFEST_FILE,
    NONE,
    OPTIONS_OF_VALUES,
    Manifest,
    Provenance,
    cache_folder,
    is_store,
    read_cached,
    read_manifest,
    read_store,
    read_store_features,
    stored_file,
)
from ltrbench.data.tables import (
    SPLIT_ROLES,
    gap_between,
    is_table,
    parts_of,
    read_beside,
    read_split_columns,
    read_table,
    read_table_features,
    span_of,
    time_text,
)
from ltrbench.errors import (
    ConfigError,
    DataError,
    did_you_mean,
    require,
    require_choice,
)
from ltrbench.measure import without_password
from ltrbench.shapes import Features

log = logging.getLogger("ltrbench")

# ---- Base classes of data sources, and the splits that a source without published splits holds out.

TEST = "test"
VALID = "valid"
FORWARD = "forward"
"""Values of `SplitSource.cv_split`."""


@dataclass(kw_only=True)
class PublishedArchive:
    """The `fetch` node of a YAML in conf/data: where a published archive is, and how to check and unpack it.

    Args:
        file: name of the archive in the data folder; a zip archive ends in .zip, others are tar archives.
        size: size of the archive in bytes.
        sha256: SHA-256 of the archive, 64 hexadecimal digits.
        into: folder below the data folder into which the archive is unpacked.
        licence: the licence, in one sentence.
        page: the page of the publisher, with the licence and the download.
        must_accept: whether the publisher requires that the licence is accepted before the download.
        url: address of the archive; None: not known.
        verified: whether a download from `url` has been checked; other addresses are printed, not used.
    """

    file: str
    size: int
    sha256: str
    into: str
    licence: str
    page: str
    must_accept: bool = True
    url: str | None = None
    verified: bool = False


@dataclass(kw_only=True)
class DataSource(ABC):
    """Base class of data sources.

    Args:
        name: name of the data set in tables and runs.
        fetch: archive that `data fetch` downloads; None: not available.
    """

    name: str
    fetch: PublishedArchive | None = None

    @abstractmethod
    def load(self) -> Splits:
        """Reads or generates the data. Raises DataError if the data is absent or invalid.

        The data may depend only on the fields and on files that they name: a process loads equal sources
        once, unless a named file has changed.
        """

    def with_exact_features(self) -> DataSource:
        """Returns the source whose data sets have float64 features, for models that compare in float64; self
        if it reads no files."""
        return self

    def with_all_queries(self) -> Self:
        """Returns the source of a final model, whose splits together have all labelled queries."""
        return self


@dataclass(frozen=True)
class _SplitBy:
    """Columns of a split: query id -> time and query id -> group, and the gap; None: not given."""

    times: Mapping[str, Any] | None
    groups: Mapping[str, str] | None
    gap: Any


@dataclass(frozen=True)
class _Held:
    """The remaining queries, the held-out queries, and the rule in words."""

    rest: RankingDataset
    taken: RankingDataset
    rule: str
    notes: tuple[str, ...] = ()


@dataclass(kw_only=True)
class SplitSource(DataSource):
    """Base class of sources that hold out missing splits from the training queries, by query.

    The test set is held out first, then the validation set from the remaining queries. The test set therefore
    does not depend on `valid_share`, and neither set depends on `subset`.

    With `cv`, each fold in turn is the test set. With `cv_split="valid"` it is the validation set instead;
    the test set is then the same for every fold, and settings can be chosen by the validation sets of all
    folds without seeing test queries. With `cv_split="forward"` the test sets are windows of time, and each
    fold trains on earlier queries only; the data need times.

    Args:
        valid_share: share of the queries, without the test queries, held out for validation; 0: no
            validation.
        test_share: share of the queries held out for the test set.
        split_seed: random seed of the splits.
        subset: share of the training queries to keep; validation and test sets stay whole.
        cv: number of cross-validation folds; None: no cross-validation.
        cv_split: split that a fold becomes, "test" or "valid"; or "forward".
        fold: number of that fold, from one.

    Raises:
        ConfigError: `cv` is below 2 or set without a fold, the fold does not exist, `cv_split` is unknown, or
            it is "forward" without `cv` or without times.
    """

    valid_share: float = 0.2
    test_share: float = 0.2
    split_seed: int = 0
    subset: float = 1.0
    cv: int | None = None
    cv_split: str = TEST
    fold: int | None = None

    def __post_init__(self) -> None:
        require_choice("data.cv_split", self.cv_split, (TEST, VALID, FORWARD))
        split_by = getattr(self, "split_by", None)
        if self.cv_split == FORWARD and (self.cv is None or split_by is None):
            raise ConfigError(
                f"cv_split=forward needs cv, the number of windows ({self.cv or 'null'}), and data.split_by, "
                f"the column of the times of data=table or data=store ({split_by or 'null'})."
            )
        require("cv", self.cv, at_least=2)
        if self.cv is not None and self.fold is None:
            raise ConfigError(
                f"cv is {self.cv}, but no fold is set; set data.fold=1 to {self.cv}, or add -m."
            )
        num_folds = getattr(self, "num_folds", None) or self.cv
        if self.fold is not None and not 1 <= self.fold <= (num_folds or 0):
            known = "no folds without cv"
            if num_folds:
                known = f"the folds 1 to {num_folds}"
            raise ConfigError(
                f"data.fold is {self.fold}, but {self.name} has {known}; correct or remove data.fold."
            )

    def with_all_queries(self) -> Self:
        source = copy.copy(self)
        source.subset = 1.0
        return source

    def complete(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        test: RankingDataset | None = None,
        *,
        times: Mapping[str, Any] | None = None,
        groups: Mapping[str, str] | None = None,
        gap: Any = None,
        how: Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> Splits:
        """Holds out the missing splits from the training queries.

        Args:
            times: query id -> time; the latest queries are held out. None: random queries.
            groups: query id -> group, for groups of queries that stay together; None: no groups.
            gap: as for `split_latest`.
            how: more about the rule of the splits, for `Splits.rule`.
            notes: sentences for `Splits.notes`.

        Raises:
            DataError: A share is not between 0 and 1, the fold does not exist, too few queries remain, or
                splits share a query.
        """
        by = _SplitBy(times, groups, gap)
        rules = []
        all_notes = [*notes]
        given = {"train": train, VALID: valid, TEST: test}
        has_valid_share = self.valid_share != 0
        has_valid_fold = self.cv is not None and self.cv_split == VALID
        if test is None:
            held_out = self._hold_out(train, TEST, self.test_share, by)
            train = held_out.rest
            test = held_out.taken
            rules.append(held_out.rule)
            all_notes += held_out.notes
        if valid is None and (has_valid_share or has_valid_fold):
            held_out = self._hold_out(train, VALID, self.valid_share, by)
            train = held_out.rest
            valid = held_out.taken
            rules.append(held_out.rule)
            all_notes += held_out.notes
        spans: dict[str, tuple[str, str]] = {}
        num_in_gaps = 0
        if times is not None:
            splits = {"train": train, VALID: valid, TEST: test}
            of_names = {name: split for name, split in splits.items() if split}
            spans = {name: span_of(split, times) for name, split in of_names.items()}
            num_in_gaps = _num_in_gaps(of_names.values(), test, times)
        checked = Splits(
            sample_queries(train, self.subset, self.split_seed),
            valid,
            test,
            rule="; ".join([*rules, *how]),
            spans=spans,
            num_in_gaps=num_in_gaps,
            notes=all_notes,
        )
        check_files(given, self.without_ids())
        return checked

    def without_ids(self) -> Collection[str] | None:
        """Returns the splits whose files have no query ids, as for `check_files`; None: not known."""
        return None

    def _take_fold(
        self,
        train: RankingDataset,
        name: str,
        fold: int,
        num_folds: int,
        by: _SplitBy,
    ) -> _Held:
        """Holds out a fold of a cross-validation."""
        rule = f"{name}: each of {num_folds} folds"
        if by.times is None:
            folds = take_fold(train, fold, num_folds, self.split_seed, by.groups)
            return _Held(*folds, rule)
        windows = take_window(train, by.times, fold, num_folds, by.groups, gap=by.gap)
        return _Held(*windows, f"{rule} in order of time")

    def _hold_out(
        self, train: RankingDataset, name: str, share: float, by: _SplitBy
    ) -> _Held:
        """Holds out one split from the training queries."""
        is_fold = name == self._split_of_folds
        if is_fold and self.cv is not None and self.fold is not None:
            return self._take_fold(train, name, self.fold, self.cv, by)
        source = "remaining queries" if name == VALID else "queries"
        if by.times is None:
            parts = split_queries(train, share, self.split_seed, name, by.groups)
        else:
            parts = split_latest(train, by.times, share, name, by.groups, gap=by.gap)
        if by.times is None and by.groups is None:
            rule = f"{name}: random {100 * share:g} % of the {source}"
            return _Held(*parts, rule)
        size = HeldOut(
            name=name,
            share=share,
            num_held_out=parts[1].num_queries,
            num_queries=train.num_queries,
            largest=_most_frequent(parts[1], by.times, by.groups),
            settings=self._settings_of_splits,
        )
        size.check()
        kind = "random" if by.times is None else "latest"
        rule = f"{name}: {kind} {size.in_words} of the {source}"
        note = size.note()
        if note:
            return _Held(*parts, rule, (note,))
        return _Held(*parts, rule)

    @property
    def _settings_of_splits(self) -> tuple[str, ...]:
        """Settings with the columns of times and groups, if the source has them."""
        names = [name for name in SPLIT_ROLES if hasattr(self, name)]
        return tuple(f"data.{name}" for name in names)

    @property
    def _split_of_folds(self) -> str:
        """Split that a fold of `cv` becomes."""
        return VALID if self.cv_split == VALID else TEST


def _num_in_gaps(
    splits: Iterable[RankingDataset], test: RankingDataset, times: Mapping[str, Any]
) -> int:
    """Returns the number of queries up to the latest of the test set that are in no split."""
    used: set[str] = set()
    for split in splits:
        used.update(split.query_ids.tolist())
    last = max(times[query] for query in test.query_ids.tolist())
    return sum(times[query] <= last for query in times.keys() - used)


def _most_frequent(
    held_out: RankingDataset,
    times: Mapping[str, Any] | None,
    groups: Mapping[str, str] | None,
) -> str:
    """Returns the time or the group with most of the held-out queries, and their number."""
    of_query = times if times is not None else groups or {}
    counts = Counter(of_query[query] for query in held_out.query_ids.tolist())
    value, number = counts.most_common(1)[0]
    name = f"the group {value!r}" if times is None else f"the time {time_text(value)}"
    return f"{number} of {name}"


# ---- Data sources that read training, validation and test files: LETOR text, and tables.


@dataclass(kw_only=True)
class FileSource(SplitSource):
    """Base class of sources that read training, validation and test files.

    Args:
        train: path of the training file, or a list of paths that form one split; `~` is the home folder,
            relative paths start in the current folder.
        valid: the same for validation; None: `valid_share` of the training queries.
        test: the same for the test set; None: `test_share` of the training queries, or fold `fold` of `cv`.
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
        ConfigError: A path is not text, a version or a fold does not exist, or `cv` is combined with
            published folds or files.
    """

    # Paths are Any, because OmegaConf has no type for a string or a list.
    train: Any
    valid: Any = None
    test: Any = None
    cache: str | None = NONE
    sort_queries: bool = False
    whole_labels: bool = True
    root: str = ""
    num_folds: int | None = None
    version: str | None = None
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    obtain: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.version or self.versions:
            require_choice(
                "data.version", self.version or "null", self.versions or ["null"]
            )
        given = {key: getattr(self, key) for key in ("train", VALID, TEST)}
        for key, paths in given.items():
            listed = paths if isinstance(paths, list) else [paths]
            is_needed = key == "train" or paths is not None
            are_paths = all(isinstance(path, str) and path for path in listed)
            if is_needed and not (listed and are_paths):
                raise ConfigError(
                    f"data.{key} is {paths!r}; set a path, or a list such as [a.txt,b.txt]."
                )
        name = self._split_of_folds
        is_split = self.num_folds is not None or given[name] is not None
        if self.cv is not None and is_split:
            raise ConfigError(
                f"cv is {self.cv}, but {self.name} has published folds or a {name} set; remove cv, "
                f"or set data.num_folds=null and data.{name}=null."
            )

    # No setting: only models that compare in float64 need it.
    exact = False

    def with_exact_features(self) -> FileSource:
        source = copy.copy(self)
        source.exact = True
        return source

    def load(self) -> Splits:
        """Reads the files; the training file determines the features.

        Raises:
            DataError: A file does not exist (with `obtain`), cannot be read, has features that training does
                not have, or shares a query or a group with another file.
        """
        splits = self.complete(**self.read_all())
        return replace(splits, reading=self.reading())

    def read_all(self) -> dict[str, Any]:
        """Returns the data of each split that has files."""
        train = self.read("train", None)
        splits = {"train": train}
        for key in (VALID, TEST):
            if getattr(self, key) is not None:
                splits[key] = self.read(key, train)
        return splits

    def reading(self) -> Mapping[str, Any]:
        """Returns the options with which the files were read, if the settings do not have them."""
        return {}

    @abstractmethod
    def read(self, key: str, train: RankingDataset | None) -> RankingDataset:
        """Reads the files under a key; `train` is None for the training files themselves."""

    def without_ids(self) -> Collection[str] | None:
        return ()

    def existing(self, key: str) -> list[Path]:
        """Returns the paths under a key of the YAML.

        Raises:
            DataError: A file does not exist; the message contains `obtain`.
        """
        given = getattr(self, key)
        paths = [given] if isinstance(given, str) else given
        files = [Path(path).expanduser() for path in paths]
        for file in files:
            if not file.exists():
                remedy = self.obtain.strip() or f"Check the path in data.{key}."
                raise DataError(
                    f"data={self.name}: {file.absolute()} does not exist. {remedy}"
                )
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
        used = dict(named)
        for number, file in enumerate(files):
            used |= _roles_of_files(file, number)
        folder = None
        # The content of a pipe can be read only once, and not be compared.
        if not self.exact and all(map(files_of, files)):
            folder = cache_folder(self.cache, used)
        if folder is None:
            return read(files, **options, **named)
        key = {"reader": read.__name__, **options}
        scratch = {"scratch": folder} if read is read_letor else {}
        read_now = partial(read, files, **options, **named, **scratch)
        return read_cached(folder, used, key, read_now)


def _roles_of_files(path: Path, number: int) -> dict[str, Path]:
    """Returns role -> regular file of a path, for the cache: its number, and what tells the others apart.

    The name of a part within its folder is content, as in day=2026-01-31/part-0.parquet.
    """
    roles = {}
    for file in files_of(path):
        role = str(number)
        if path.is_dir():
            role = f"{number}/{file.relative_to(path)}"
        elif file != path:
            role = f"{number}{file.suffix}"
        roles[role] = file
    return roles


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

    def without_ids(self) -> Collection[str] | None:
        without = []
        for key in ("train", VALID, TEST):
            if getattr(self, key) is not None:
                files = self.existing(key)
                if any(map(has_query_sizes, files)):
                    without.append(key)
        return without

    def read(self, key: str, train: RankingDataset | None) -> RankingDataset:
        fields = (
            "first_index",
            "absent",
            "overflow",
            "nulls",
            "sparse",
            "sort_queries",
            "whole_labels",
        )
        options = {"num_features": self.num_features}
        if train is not None:
            options["num_features"] = train.num_features
        for name in (*fields, "exact"):
            options[name] = getattr(self, name)
        names = None
        if self.feature_names is not None:
            names = self.existing("feature_names")[0]
        return self.read_through_cache(self.existing(key), read_letor, options, names)


@cache
def _log_features(names: tuple[str, ...]) -> None:
    """Logs the features of a table once per process: a numeric column that nobody named is one."""
    listed = ", ".join(names[:20])
    if len(names) > 20:
        listed += ", ..."
    log.info("data.features is null, so the features are %s", listed)


@dataclass(kw_only=True)
class ColumnSource(FileSource):
    """Base class of sources with named columns, by which the queries may be split.

    Args:
        split_by: column of the time of a query: the latest queries are held out, those for the
            test set after those for validation. None: random queries are held out.
        gap: minimum time between training and validation, and between both and the test set: 7d, 12h or 2w
            between dates, a number between numbers; queries in between are left out. None: no gap.
        group_by: column of the group of a query: the queries of a group, such as near-duplicates,
            are all in the same split. None: no groups.

    Raises:
        ConfigError: `split_by` is combined with folds or with files of other splits.
    """

    split_by: str | None = None
    gap: Any = None
    group_by: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        others = [self.valid, self.test]
        if self.cv_split != FORWARD:
            others = [self.cv, self.fold, *others]
        if self.split_by is not None and any(other is not None for other in others):
            raise ConfigError(
                f"data.split_by={self.split_by} holds out the latest queries of data.train; remove "
                "data.valid, data.test and data.fold, and set cv_split=forward for folds (cv), or remove it."
            )
        if self.gap is not None and self.split_by is None:
            raise ConfigError(
                f"data.gap={self.gap} needs data.split_by; set it, or remove data.gap."
            )

    def with_all_queries(self) -> Self:
        source = super().with_all_queries()
        source.gap = None
        if self.cv_split == FORWARD:
            source.fold = self.cv
        return source

    def load(self) -> Splits:
        """Reads the files, and the columns by which their queries are split.

        Raises:
            DataError: as `FileSource.load`; also, a group is in two files.
        """
        data = self.read_all()
        columns: dict[str, dict[str, Any]] = {"train": {}}
        if self.split_by is not None or self.group_by is not None:
            columns = {key: self.split_columns(key, data[key]) for key in data}
        of_train = columns["train"]
        num_varying = of_train.pop("num_varying", 0)
        check_no_shared_group(
            {key: of_file.get("groups") for key, of_file in columns.items()}
        )
        notes: tuple[str, ...] = ()
        named = {"time": self.split_by, "gap": self.gap, "groups": self.group_by}
        how = []
        for name, value in named.items():
            if value is not None:
                how.append(f"{name}: {value}")
        if num_varying:
            how[0] += f", the latest of a query ({num_varying} queries have several)"
            notes = (
                f"data.split_by={self.split_by}: {num_varying} queries have several times; the latest "
                "counts.",
            )
        if self.gap is not None:
            of_train["gap"] = gap_between(self.gap, of_train["times"])
        splits = self.complete(**data, **of_train, how=how, notes=notes)
        return replace(splits, reading=self.reading())

    @abstractmethod
    def split_columns(self, key: str, data: RankingDataset) -> dict[str, Any]:
        """Returns the columns by which queries are split, as `read_split_columns`.

        Args:
            data: what was read under the key.
        """


@dataclass(kw_only=True)
class TableFiles(ColumnSource):
    """Training, validation and test sets in CSV or Parquet files with named columns; see `read_table`.

    Args:
        label, query, document, weight, position: column of each role; None: the default name.
        features: feature columns, as names or shell patterns; None: all columns that are not named elsewhere.
        categorical: features with categories; the categories are those of all rows of `train`.
        keep: columns that are no features, for metrics and slices.
        ignore: columns that are not read.
        missing: texts of a CSV file that are missing values in features and categories, beside empty cells,
            and numbers that are missing values in features of every table; None: NA, N/A, NaN, null, None
            and the like.
        dates: features of dates, as 2026-01-31, 20260131, Unix seconds, milliseconds or typed, which become
            days since the earliest in `train`; or name -> first day; None: none.
        encode: categorical features that become a feature of 0 and 1 for each category: onehot: all, with at
            most 20 categories each; or a list of columns, with any number of categories; or column ->
            categories; None: none.
    """

    label: str | None = None
    query: str | None = None
    document: str | None = None
    weight: str | None = None
    position: str | None = None
    features: list[str] | None = None
    categorical: list[str] = field(default_factory=list)
    keep: list[str] = field(default_factory=list)
    ignore: list[str] = field(default_factory=list)
    missing: list[str] | None = None
    # A list or a mapping.
    dates: Any = None
    # A text, a list or a mapping.
    encode: Any = None

    def load(self) -> Splits:
        splits = super().load()
        if self.features is None:
            _log_features(splits.train.feature_names)
        return splits

    def split_columns(self, key: str, data: RankingDataset) -> dict[str, Any]:
        names = ("query", *SPLIT_ROLES, "features", "missing")
        settings = {name: getattr(self, name) for name in names}
        return read_split_columns(self.existing(key), **settings)

    def read(self, key: str, train: RankingDataset | None) -> RankingDataset:
        known = _options(read_table)
        options = {name: getattr(self, name) for name in known if hasattr(self, name)}
        for name in ("feature_names", "categories"):
            options[name] = None if train is None else getattr(train, name)
        if train is not None:
            options["dates"] = train.dates
            options["encode"] = train.encoded
        return self.read_through_cache(self.existing(key), read_table, options)


# ---- A data source that reads stores: folders of arrays, whose features are read by blocks.


_QUERY = "query of a document"


@dataclass(kw_only=True)
class StoreFiles(ColumnSource):
    """Training, validation and test sets in stores that `data build` wrote; see `read_store`.

    The paths are folders. Dense features stay on the disk, and all other arrays are read into memory.
    """

    def reading(self) -> Mapping[str, Any]:
        return read_manifest(self.existing("train")[0]).reading

    def split_columns(self, key: str, data: RankingDataset) -> dict[str, Any]:
        import pandas as pd  # takes half a second, too long for --help

        stores = ", ".join(map(str, self.existing(key)))
        columns: dict[str, Any] = {_QUERY: data.query_ids[data.query_of_document]}
        roles: dict[str, str] = {}
        for role in SPLIT_ROLES:
            name = getattr(self, role)
            if name is None:
                continue
            if name not in data.kept:
                raise DataError(
                    f"data.{role}={name}: {stores} has no kept column '{name}'. Build it again with "
                    f"--read 'keep=[{name}]'."
                )
            cells = data.kept[name]
            if cells.dtype.kind == "U":
                cells = cells.astype(object)
                cells[cells == ""] = None  # a null was kept as the empty text
            columns[name] = cells
            roles[role] = name
        try:
            return read_split_columns(pd.DataFrame(columns), query=_QUERY, **roles)
        except DataError as error:
            raise DataError(f"{stores}: {error}") from None

    def without_ids(self) -> Collection[str] | None:
        without = []
        for key in ("train", VALID, TEST):
            if getattr(self, key) is not None:
                manifests = map(read_manifest, self.existing(key))
                if any(manifest.numbered for manifest in manifests):
                    without.append(key)
        return without

    def read(self, key: str, train: RankingDataset | None) -> RankingDataset:
        of_train = ("num_features", "feature_names", "categories", "dates")
        names = () if train is None else of_train
        options: dict[str, Any] = {name: getattr(train, name) for name in names}
        if train is not None:
            options["reading"] = self.reading()
        options |= {"whole_labels": self.whole_labels, "exact": self.exact}
        return read_store(self.existing(key), **options)


# ---- Readers of data: stores, tables and LETOR text, chosen by the path.

_FEATURE_READERS: dict[Callable[..., RankingDataset], Callable[..., Features]] = {
    read_store: read_store_features,
    read_table: read_table_features,
    read_letor: read_letor_features,
}
# Options that depend on the features and the gains of a run, not on the format of a file.
_OF_THE_RUN = {"num_features", "feature_names", "categories", "whole_labels"}
# Options that concern labels and queries only.
_NO_FEATURES = {"sort_queries", "whole_labels", "labelled"}


def read_data(
    path: str | Path | Sequence[str | Path],
    num_features: int | None = None,
    feature_names: Sequence[str] | str | Path | None = None,
    *,
    scratch: str | Path | None = None,
    as_table: bool = False,
    **options: Any,
) -> RankingDataset:
    """Reads a store, a table (CSV with the extension .csv, compressed or not, or Parquet), or LETOR text.

    Args:
        path: the file or the folder of a store, or several of the same format that form one split.
        num_features: expected number of features; None: the number in the file.
        feature_names: feature names of the training data, which select the columns of a table or a store in
            any order; ignored for LETOR text, whose features have indices. For LETOR text also the path of a
            file of feature names.
        scratch: folder of a temporary file for features that do not fit into memory, if the reader has this
            option; None: they are an error.
        as_table: whether files with any other extension are CSV tables, too, instead of LETOR text.
        options: options of `read_store`, `read_table` or `read_letor`, by name; LETOR text ignores
            `categories`.

    Raises:
        ConfigError: The reader does not have an option, or its type is wrong.
        DataError: The file cannot be read.
    """
    reader, known = _reader_with(path, feature_names, options, as_table)
    if reader is read_letor:
        known["scratch"] = scratch
    return reader(path, num_features, **known)


def read_features(
    path: str | Path | Sequence[str | Path],
    num_features: int | None = None,
    feature_names: Sequence[str] | str | Path | None = None,
    *,
    as_table: bool = False,
    **options: Any,
) -> Features:
    """Reads the features of documents for prediction, which need neither labels nor queries.

    Labels in LETOR text are validated, but not returned; those in tables are not read.

    Args:
        path, num_features, feature_names, as_table: as in `read_data`.
        options: options of `read_store`, `read_table` or `read_letor`, by name. Options about labels and
            queries (`whole_labels`, `sort_queries`) have no effect here.

    Returns:
        (D, F), the documents in file order: the input of `Ranker.predict`. An array, SparseRows for sparse
        features, or a FeatureMatrix for a store.

    Raises:
        ConfigError: The reader does not have an option, or its type is wrong.
        DataError: The file cannot be read.
    """
    reader, known = _reader_with(path, feature_names, options, as_table)
    used = {name: value for name, value in known.items() if name not in _NO_FEATURES}
    return _FEATURE_READERS[reader](path, num_features, **used)


def read_ids(
    path: str | Path,
    num_features: int | None = None,
    feature_names: Sequence[str] | str | Path | None = None,
    *,
    as_table: bool = False,
    **options: Any,
) -> dict[str, NDArray[Any]]:
    """Reads the ids and kept columns of documents, to be written beside scores.

    A table needs no labels; LETOR text needs labels and queries, as for `read_data`.

    Args:
        path, num_features, feature_names, as_table, options: as in `read_features`.

    Returns:
        "query_id", "document_id", kept columns -> (D,) values in file order, as far as there are any.
    """
    reader, known = _reader_with(path, feature_names, options, as_table)
    known.pop("exact", None)
    if reader is read_table:
        used = {
            name: value for name, value in known.items() if name not in _NO_FEATURES
        }
        return read_beside(Path(path), **used)
    dataset = reader(path, num_features, **known)
    return {
        name: dataset.to_file_order(values) for name, values in dataset.beside.items()
    }


def _reader_with(
    given: str | Path | Sequence[str | Path],
    feature_names: Sequence[str] | str | Path | None,
    options: Mapping[str, Any],
    as_table: bool,
) -> tuple[Callable[..., RankingDataset], dict[str, Any]]:
    """Returns the reader of the first path, for all of them, and its options."""
    check_option("as_table", as_table, bool)
    first = as_paths(given)[0]
    reader = _reader(first, as_table)
    options = {**options, "feature_names": feature_names}
    if reader is read_letor:
        # Its features have numbers; a path is that of a file of names.
        options["feature_names"] = (
            feature_names if isinstance(feature_names, str | Path) else None
        )
        if categories := options.pop("categories", None):
            listed = ", ".join(categories)
            raise DataError(
                f"{first}: LETOR text has no categories ({listed}); write a table, with the extension .csv."
            )
    known = _options(reader)
    for name in options:
        if name not in known:
            raise ConfigError(
                f"{first}: {reader.__name__} has no option '{name}'{did_you_mean(name, known)} A store has "
                "the options with which `python -m ltrbench data build` read its source."
            )
    return reader, options


def files_of(path: Path) -> list[Path]:
    """Returns the regular files that a reader reads for a path.

    LETOR text may have companion files, a folder of Parquet has parts, and the manifest of a store contains
    the checksums of its arrays.
    """
    reader = _reader(path)
    if reader is read_store:
        return [path / MANIFEST_FILE]
    files = [path]
    if reader is read_letor:
        files += companions_of(path)
    elif path.is_dir():
        files = parts_of(path)
    return [file for file in files if file.is_file()]


def provenance_of(paths: Sequence[Path], options: Mapping[str, Any]) -> Provenance:
    """Returns where the data of a new store come from; stores pass on where theirs come from.

    Args:
        paths: the files, or stores, of one split, which can be read together.
        options: options with which they are read.
    """
    reader = _reader(paths[0], options.get("as_table", False))
    if reader is read_store:
        return _common_provenance([read_manifest(path) for path in paths])
    sources = []
    for path in paths:
        sources += [stored_file(file) for file in files_of(path)]
    defaults = inspect.signature(reader).parameters
    reading = {}
    for name in OPTIONS_OF_VALUES:
        if name in defaults:
            reading[name] = defaults[name].default
    return Provenance(
        sources=sources,
        reading={**reading, **options},
        is_numbered=reader is read_letor and any(map(has_query_sizes, paths)),
    )


def _common_provenance(manifests: Sequence[Manifest]) -> Provenance:
    """Returns the sources of all stores, and the options that they have in common."""
    sources = []
    for manifest in manifests:
        sources += [each for each in manifest.sources if each not in sources]
    reading = {}
    for name, value in manifests[0].reading.items():
        item = (name, value)
        if all(item in manifest.reading.items() for manifest in manifests):
            reading[name] = value
    return Provenance(
        sources=sources,
        reading=reading,
        is_numbered=all(manifest.numbered for manifest in manifests),
    )


def reading_options(
    path: str | Path, config: Mapping[str, Any], as_table: bool = False
) -> dict[str, Any]:
    """Returns the reader options of a run that apply to another file, for `read_data`.

    Args:
        path: the file to read.
        config: `data` configuration of the run, as stored in its result; None represents NaN.
        as_table: as in `read_data`.

    Returns:
        The keys that are set and are options of the reader of `path`, without the options that depend on the
        features of the run or restrict labels.

    >>> reading_options("test.txt", {"name": "mine", "first_index": 0, "absent": None, "label": "grade"})
    {'first_index': 0, 'absent': nan}
    """
    known = set(_options(_reader(Path(path), as_table))) - _OF_THE_RUN
    of_reader = {name: value for name, value in config.items() if name in known}
    options = {name: value for name, value in of_reader.items() if value is not None}
    if "absent" in known and config.get("absent", 0.0) is None:
        options["absent"] = float("nan")
    return options


def is_letor(path: Path, as_table: bool = False) -> bool:
    """Returns whether a path is read as LETOR text, not as a store or a table."""
    return _reader(path, as_table) is read_letor


def _reader(path: Path, as_table: bool = False) -> Callable[..., RankingDataset]:
    if is_store(path):
        return read_store
    return read_table if as_table or is_table(path) else read_letor


def _options(reader: Callable[..., RankingDataset]) -> list[str]:
    return list(inspect.signature(reader).parameters)[1:]


# ---- Archives of published data sets: found or downloaded, checked and unpacked.

OnArrival = Callable[[int, int], None]
"""Called with the number of bytes that have arrived and the size of the file."""

_BLOCK = 1 << 16  # bytes
_TIMEOUT = (30.0, 60.0)  # seconds to connect, and without a byte


def find_archive(archive: PublishedArchive, root: Path) -> Path | None:
    """Returns the archive in the data folder; None if it is not there.

    Raises:
        DataError: A file of this name has another size or SHA-256.
    """
    file = root / archive.file
    if not file.exists():
        return None
    _check(file, archive, f"Remove or rename {file}, and repeat the command.")
    return file


def address_of(
    archive: PublishedArchive, root: Path, name: str, url: str | None, accepted: bool
) -> str:
    """Returns the address to download from.

    Args:
        name: name of the data set, for messages.
        url: address given by the user; None: the address of the YAML, which must be verified.
        accepted: whether the user has accepted the licence.

    Raises:
        DataError: There is no verified address, or the licence is not accepted.
    """
    address = url or None
    if address is None and archive.verified:
        address = archive.url
    if address is None:
        target = (root / archive.file).absolute()
        raise DataError(
            f"data={name} has no verified address. Download {archive.file} from {archive.page}, save it as "
            f"{target} and repeat the command, or pass an address with --url."
        )
    if archive.must_accept and not accepted:
        raise DataError(
            f"data={name}: read the licence at {archive.page}, and accept it with --accept-licence."
        )
    return address


def _download(address: str, part: Path, size: int, on_arrival: OnArrival) -> None:
    """Writes a file until it is complete, or larger than the archive."""
    import requests  # takes a tenth of a second, too long for --help

    arrived = 0
    identity = {"Accept-Encoding": "identity"}
    with (
        requests.get(
            address, headers=identity, stream=True, timeout=_TIMEOUT
        ) as response,
        part.open("wb") as output,
    ):
        response.raise_for_status()
        for block in response.iter_content(_BLOCK):
            output.write(block)
            arrived += len(block)
            on_arrival(arrived, size)
            if arrived > size:
                break


def download_archive(
    archive: PublishedArchive, root: Path, address: str, on_arrival: OnArrival
) -> Path:
    """Downloads an archive into the data folder and returns its path.

    The file appears under its name when its size and SHA-256 are right; otherwise nothing remains.

    Raises:
        DataError: The download fails, it is another file, or the folder cannot be written.
    """
    file = root / archive.file
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=root, prefix=f".{archive.file}."
        ) as folder:
            part = Path(folder, archive.file)
            _download(address, part, archive.size, on_arrival)
            _check(
                part, archive, "Repeat the command, or pass another address with --url."
            )
            part.replace(file)
    except OSError as error:  # also of requests
        reason = without_password(str(error))
        raise DataError(
            f"{without_password(address)} cannot be downloaded to {file} ({reason}). "
            "Check the connection and the folder, or pass another address with --url."
        ) from None
    return file


def unpack_archive(
    archive: PublishedArchive, file: Path, root: Path, expected: Sequence[Path]
) -> list[Path]:
    """Unpacks an archive below the folder `archive.into`, and returns the new files.

    Existing files are kept. A member outside of the folder is an error or left out.

    Args:
        expected: files of the data set.

    Raises:
        DataError: The archive cannot be unpacked, or has no expected file.
    """
    folder = root / archive.into
    written = []
    try:
        with tempfile.TemporaryDirectory(dir=root, prefix=f".{archive.file}.") as name:
            # A zip archive cannot write outside of the folder; its unpacker has no filter.
            shutil.unpack_archive(
                file, name, filter=None if file.suffix == ".zip" else "data"
            )
            members = sorted(Path(name).rglob("*"))
            for path in filter(Path.is_file, members):
                target = folder / path.relative_to(name)
                if not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.move(path, target)
                    written.append(target)
    except (OSError, tarfile.TarError) as error:
        raise DataError(
            f"{file} cannot be unpacked into {folder} ({error}). Choose another folder with --root."
        ) from None
    missing = [path for path in expected if not path.exists()]
    if missing:
        raise DataError(
            f"{missing[0]} does not exist after {file} was unpacked: correct data.fetch.into."
        )
    return written


def _check(file: Path, archive: PublishedArchive, remedy: str) -> None:
    """Raises DataError unless a file has the size and the SHA-256 of an archive."""
    found = stored_file(file)
    if (found.bytes, found.sha256) != (archive.size, archive.sha256):
        raise DataError(
            f"{file} has {found.bytes} bytes and the SHA-256 {found.sha256}, but data.fetch.size is "
            f"{archive.size} and data.fetch.sha256 is {archive.sha256}. {remedy}"
        )

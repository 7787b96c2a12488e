"""A data source that reads stores: folders of arrays, whose features are read by blocks."""

from __future__ import annotations

from dataclasses import dataclass

from ltrbench.data.dataset import RankingDataset
from ltrbench.data.sources.files import FileSource
from ltrbench.data.splits import Splits
from ltrbench.data.store.reading import read_store
from ltrbench.errors import ConfigError


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

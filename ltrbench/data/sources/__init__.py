"""Data sources of a run: the classes that the YAMLs in conf/data name as `_target_`.

A source is a dataclass. Its fields are the keys of the YAML, checked by their types, and `load()` returns the
Splits. A data set in LETOR files or tables needs no Python, only a YAML for LetorFiles or TableFiles. For
another format, write a subclass of FileSource or DataSource in one file, here or in a package of your own.

base    base classes of sources: DataSource, and SplitSource, which holds out missing splits
files   sources that read files: LetorFiles and TableFiles
stores  a source that reads stores: StoreFiles
"""

from ltrbench.data.sources.base import TEST, VALID, DataSource, Published, SplitSource
from ltrbench.data.sources.files import FileSource, LetorFiles, TableFiles
from ltrbench.data.sources.stores import StoreFiles

__all__ = [
    "TEST",
    "VALID",
    "DataSource",
    "FileSource",
    "LetorFiles",
    "Published",
    "SplitSource",
    "StoreFiles",
    "TableFiles",
]

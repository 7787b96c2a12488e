"""Reads and writes files of feature names: one line `name, id` per feature.

Search engines store such files together with LETOR data, which has no feature names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ltrbench.data.formats.compression import read_blocks, write_whole
from ltrbench.data.formats.letor.line import MAX_FEATURES
from ltrbench.errors import DataError

_LINE = re.compile(r"(?P<name>[^\r\n]*\S)(?:\s*[,\t]\s*|\s+)(?P<id>[0-9]+)")
_END_OF_LINE = re.compile(r"\r\n|\r|\n")


def read_feature_names(path: Path, first_index: int = 1) -> tuple[str, ...]:
    """Returns the feature names in the order of their ids; a missing id is its own name.

    A line is `name, id`, separated by a comma, a tab or blanks. Blank lines and lines that start with # are
    skipped. Ids are feature indices of the data.

    Args:
        first_index: index of the first feature in the data, 1 or 0.

    Returns:
        (F,) names, up to the highest id in the file.

    Raises:
        DataError: A line has another form, an id is out of range, a name or an id is repeated, or the file
            has no names.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "feature2id.txt")
    ...     _ = file.write_text("bm25 of title, 1\\npagerank, 3\\n")
    ...     read_feature_names(file)
    ('bm25 of title', '2', 'pagerank')
    """
    names: dict[int, str] = {}
    seen: dict[str, int] = {}
    try:
        text = b"".join(block for block, _ in read_blocks(path)).decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: the file is not UTF-8 text ({error}). Convert it to UTF-8, with lines 'name, id'."
        ) from None
    for number, line in enumerate(_END_OF_LINE.split(text), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None or not match["name"].strip(", \t") or len(match["id"]) > len(str(MAX_FEATURES)):
            raise DataError(
                f"{path}:{number}: the line is {line.strip()[:40]!r}; write 'name, id', such as 'bm25, 1'."
            )
        name, feature = match["name"].rstrip(", \t"), int(match["id"]) - first_index
        if not 0 <= feature < MAX_FEATURES:
            raise DataError(
                f"{path}:{number}: the id is {match['id']}, but ids start from {first_index} and are below "
                f"{first_index + MAX_FEATURES}. Correct the id, or set data.first_index."
            )
        for what in (f"the name '{name}'", f"the id {match['id']}"):
            if what in seen:
                raise DataError(
                    f"{path}:{number}: {what} is already on line {seen[what]}; remove one of the two lines."
                )
            seen[what] = number
        names[feature] = name
    if not names:
        raise DataError(f"{path}: the file has no feature names; write lines 'name, id', such as 'bm25, 1'.")
    return tuple(names.get(feature, str(first_index + feature)) for feature in range(max(names) + 1))


def write_feature_names(names: Sequence[str], path: str | Path, first_index: int = 1) -> None:
    """Writes a file for `read_feature_names`, to accompany formats without names, such as LETOR text.

    Raises:
        DataError: A name cannot be written in a line, or the file cannot be written.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_feature_names(["bm25 of title", "pagerank"], Path(folder, "feature2id.txt"))
    ...     Path(folder, "feature2id.txt").read_text()
    'bm25 of title, 1\\npagerank, 2\\n'
    """
    for name in names:
        match = _LINE.fullmatch(f"{name}, 1".encode(errors="backslashreplace").decode())
        read_back = None if match is None else match["name"].strip().rstrip(", \t")
        if not name or read_back != name or name.startswith("#"):
            raise DataError(
                f"feature_names: {name!r} cannot be written as 'name, id'; a name must be one line, must not "
                "start with # or a blank, and must not end with a blank or a comma. Rename the feature."
            )
    lines = [f"{name}, {number}\n" for number, name in enumerate(names, first_index)]
    with write_whole(Path(path)) as stream:
        stream.write("".join(lines).encode())

"""A file of feature names, read and written: a line `name, id` a feature.

Search engines keep such files beside LETOR data, which cannot bear names.
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
    """The names of the features, in their order; one that the file leaves out keeps its number.

    A line reads `name, id`, with a comma, a tab or blanks between them; blank lines and those that begin with
    # are passed over. Ids count as the data's own do.

    Args:
        first_index: what the data calls its first feature, 1 or 0.

    Returns:
        (F,) names, up to the highest id in the file.

    Raises:
        DataError: where a line is not as above, an id cannot be one, a name or an id is repeated, or there is
            no line.

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
        raise DataError(f"{path}: is not UTF-8 text ({error}); give lines of 'name, id'.") from None
    for number, line in enumerate(_END_OF_LINE.split(text), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None or not match["name"].strip(", \t") or len(match["id"]) > len(str(MAX_FEATURES)):
            raise DataError(f"{path}:{number}: {line.strip()[:40]!r} is not 'name, id', such as 'bm25, 1'.")
        name, feature = match["name"].rstrip(", \t"), int(match["id"]) - first_index
        if not 0 <= feature < MAX_FEATURES:
            raise DataError(
                f"{path}:{number}: there is no feature {match['id']}; ids count from {first_index}. Correct "
                "the id, or set data.first_index."
            )
        for what in (f"the name '{name}'", f"the id {match['id']}"):
            if what in seen:
                raise DataError(f"{path}:{number}: {what} stands on line {seen[what]} already; keep one.")
            seen[what] = number
        names[feature] = name
    if not names:
        raise DataError(f"{path}: names no feature; give lines of 'name, id', such as 'bm25, 1'.")
    return tuple(names.get(feature, str(first_index + feature)) for feature in range(max(names) + 1))


def write_feature_names(names: Sequence[str], path: str | Path, first_index: int = 1) -> None:
    """Writes what `read_feature_names` reads back, for what cannot bear names, such as LETOR text.

    Raises:
        DataError: where a name cannot stand in a line, or the file cannot be written.

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
                f"feature_names: {name!r} cannot stand in a line 'name, id', where a name begins with "
                "neither # nor a blank and ends with neither a blank nor a comma. Rename the feature."
            )
    lines = [f"{name}, {number}\n" for number, name in enumerate(names, first_index)]
    with write_whole(Path(path)) as stream:
        stream.write("".join(lines).encode())

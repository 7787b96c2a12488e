"""A file of feature names: a line `name, id` a feature, as search engines keep them beside LETOR data."""

from __future__ import annotations

import re
from pathlib import Path

from ltrbench.data.letor_line import MAX_FEATURES
from ltrbench.errors import DataError

_LINE = re.compile(r"(?P<name>.*\S)(?:\s*[,\t]\s*|\s+)(?P<id>\d+)")


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
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not UTF-8 text ({error}); give lines of 'name, id'.") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None or len(match["id"]) > len(str(MAX_FEATURES)):
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

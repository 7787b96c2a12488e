"""A data set as a DataFrame, and the names of the columns in tables that are not features."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ltrbench.data.features import as_array
from ltrbench.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from ltrbench.data.dataset import RankingDataset

# Role -> default column names, first the name that `to_frame` writes. Only label and query are required.
ROLES = {
    "label": ("label", "relevance"),
    "query": ("query_id", "qid"),
    "document": ("document_id", "docid"),
    "weight": ("weight",),
    "position": ("position",),
}

ROLE_OF_NAME = {name: role for role, names in ROLES.items() for name in names}
# pandas' name for a column without a name, usually an index that it wrote.
NO_NAME = re.compile(r"(Unnamed: \d+)?")


def to_frame(dataset: RankingDataset) -> pd.DataFrame:
    """Returns a DataFrame with D rows, which `read_table` restores with the same fingerprint.

    Raises:
        DataError: A feature has the name of a role, or an empty name.
    """
    # Imported here, because pandas takes half a second, too long for --help.
    import pandas as pd

    clash = [name for name in dataset.feature_names if name in ROLE_OF_NAME or NO_NAME.fullmatch(name)]
    if clash:
        raise DataError(
            f"feature_names: the feature '{clash[0]}' cannot be a column of a table, because this name is "
            "reserved for another column. Rename the feature."
        )
    weights = None if dataset.query_weights is None else dataset.weight_of_document
    by_role = {
        "query": dataset.query_ids[dataset.query_of_document],
        "document": dataset.document_ids,
        "label": dataset.labels,
        "weight": weights,
        "position": dataset.positions,
    }
    known = {ROLES[role][0]: values for role, values in by_role.items() if values is not None}
    features = pd.DataFrame(as_array(dataset.features), columns=list(dataset.feature_names))
    return pd.concat([pd.DataFrame(known), features], axis=1)

"""The columns of the run list in the MLflow UI: the NDCG of every run.

By default the UI shows no metric in the list, and a server cannot change that default. It can store views: a
tag of the experiment that holds the columns. The address of the run list selects a view, and so does the
menu of views. `view` is the value of the tag, `run_list` the address. The description of the experiment links
to it, for users who do not open the UI by `python -m ltrbench ui`.

The value has the two forms that MLflow reads: a name and a state as JSON (3.17), and the keys of that state
themselves (before).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence

from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

VIEW = "ltrbench"
"""What the UI's menu of views and the address of the run list call the view."""

VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"

_METRIC_WIDTH = 142  # pixels, in which the name of a metric and all digits of a value are seen


def run_list(experiment_id: str) -> str:
    """The run list with the columns of the view, behind the address of a server."""
    return f"/#/experiments/{experiment_id}/runs?workflowType=machine_learning&viewStateShareKey={VIEW}"


def experiment_tags(experiment_id: str, known: dict[str, str], keys: Iterable[str]) -> dict[str, str]:
    """The tags that an experiment lacks for its view to show these metrics; none where it has them.

    A view or a description that a user has changed stays as it is.

    Args:
        known: the tags that the experiment has.
        keys: of a run's metrics, such as "test/ndcg_at_10".
    """
    tags = {}
    state = view(known.get(VIEW_TAG), shown_metrics(keys))
    if state is not None:
        tags[VIEW_TAG] = state
    if MLFLOW_RUN_NOTE not in known:  # The description of an experiment has the same key as that of a run.
        tags[MLFLOW_RUN_NOTE] = f"[Runs with their metrics]({run_list(experiment_id)[1:]})"
    return tags


def shown_metrics(keys: Iterable[str]) -> list[str]:
    """The metrics that the list shows: NDCG on test, the largest cutoff first (without any, all of test), the
    first of these on validation, and the time of the fit.

    >>> shown_metrics(["test/ndcg_at_5", "test/ndcg_at_10", "test/map", "valid/ndcg_at_10", "seconds/fit"])
    ['test/ndcg_at_10', 'test/ndcg_at_5', 'valid/ndcg_at_10', 'seconds/fit']
    """
    known = sorted(set(keys), key=lambda key: (-_cutoff(key), key))
    of_test = [key for key in known if key.startswith("test/")]
    shown = [key for key in of_test if key.startswith("test/ndcg")] or of_test
    beside = (f"valid/{shown[0].removeprefix('test/')}", "seconds/fit") if shown else ()
    return [*shown, *(key for key in beside if key in known)]


def _cutoff(key: str) -> int:
    digits = key.rpartition("_at_")[2]
    return int(digits) if digits.isdecimal() else 0


def view(known: str | None, metrics: Sequence[str]) -> str | None:
    """The value of the view's tag; None where the known one shows these metrics or a user has changed it."""
    columns = [f"metrics.`{key}`" for key in metrics]
    if known is not None:
        of_before = _columns(known)
        columns = [*of_before, *(column for column in columns if column not in of_before)]
        if not of_before or columns == of_before:
            return None
    state = {
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": dict.fromkeys(columns, _METRIC_WIDTH),
    }
    now = int(time.time() * 1000)
    return json.dumps({"name": VIEW, "createdAt": now, "updatedAt": now, "state": json.dumps(state), **state})


def _columns(value: str) -> list[str]:
    """Those of a view that ltrbench wrote; none of one that the UI wrote, where only the state has them."""
    try:
        return list(json.loads(value)["selectedColumns"])
    except (ValueError, LookupError, TypeError):
        return []

"""The columns of the run list in the MLflow UI: the NDCG of every run.

By default the UI shows no metric in the list, and a server cannot change that default. But an experiment can
store views: a tag with the columns. A view is selected in the address of the run list, or in the menu of
views. `view` returns the value of the tag, `run_list` the address. The description of the experiment links to
this address, for users who do not open the UI with `python -m ltrbench ui`.

The value has both forms that MLflow reads: a name and a state as JSON (3.17), and the keys of the state
themselves (earlier versions).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence

from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

VIEW = "ltrbench"
"""Name of the view in the UI's menu of views and in the address of the run list."""

VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"

_METRIC_WIDTH = 142  # pixels; fits the name of a metric and all digits of a value


def run_list(experiment_id: str) -> str:
    """Returns the path of the run list with the columns of the view, relative to the address of a server."""
    return f"/#/experiments/{experiment_id}/runs?workflowType=machine_learning&viewStateShareKey={VIEW}"


def experiment_tags(experiment_id: str, known: dict[str, str], keys: Iterable[str]) -> dict[str, str]:
    """Returns the tags to set so that the view of an experiment shows these metrics; empty if it does
    already.

    A view or a description that a user has changed is kept.

    Args:
        known: the tags of the experiment.
        keys: keys of metrics, such as "test/ndcg_at_10".
    """
    tags = {}
    state = view(known.get(VIEW_TAG), shown_metrics(keys))
    if state is not None:
        tags[VIEW_TAG] = state
    if MLFLOW_RUN_NOTE not in known:  # The key of the description is the same for experiments and runs.
        tags[MLFLOW_RUN_NOTE] = f"[Runs with their metrics]({run_list(experiment_id)[1:]})"
    return tags


def shown_metrics(keys: Iterable[str]) -> list[str]:
    """Returns the metrics of the list: NDCG on test, largest cutoff first (or all of test if there is no
    NDCG), the first of them on validation, and the time of the fit.

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
    """Returns the value of the view's tag; None if it shows these metrics already or a user has changed
    it."""
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
    """Returns the columns of a view that ltrbench wrote; empty for a view of the UI, which has another
    form."""
    try:
        return list(json.loads(value)["selectedColumns"])
    except (ValueError, LookupError, TypeError):
        return []

"""Copies of run folders in an MLflow experiment: which folder and content a copy has, whether it is complete.

Each content of a run folder is stored once. A copy carries the digest of the folder's result.json, which has
the times, metrics and settings of the run. The copy is complete when its MLflow run has ended as FINISHED or
FAILED, because this is the last call that stores it. KILLED is the status of an incomplete copy and of a run
that was interrupted; the copy of an interrupted run is complete when it has the tag `interrupted`.

A copy in a sweep also carries the folder relative to the folder of the sweep. A folder with new content, such
as a failed job that was run again, is thereby recognized on another host, too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mlflow import MlflowClient
from mlflow.entities import Run as MlflowRun
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST, ErrorCode
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from ltrbench.errors import ResultError
from ltrbench.runs import RESULT_FILE, Run
from ltrbench.runs.record import RUN_REMEDY
from ltrbench.tracking.mlflow_entities import milliseconds

_COMPLETE = ("FINISHED", "FAILED")
_RUN_DIGEST, _JOB, SWEEP_ID = "run_digest", "job", "sweep_id"

INTERRUPTED_TAG = "interrupted"
"""Tag of the copy of an interrupted run, set when only its end is not stored yet."""


@dataclass(frozen=True)
class RunIdentity:
    """The folder and the content of a run.

    Attributes:
        digest: digest of result.json.
        started: start of the run in milliseconds; None: not recorded.
        folder: absolute path.
        job: folder relative to the folder of the sweep; the absolute path if it is not below it.
    """

    digest: str
    started: int | None
    folder: str
    job: str

    @property
    def tags(self) -> dict[str, str]:
        """The tags that identify a copy."""
        below = {} if self.job == self.folder else {_JOB: self.job}
        return {_RUN_DIGEST: self.digest, **below}


class Copy(NamedTuple):
    """The MLflow run of a run folder.

    Attributes:
        digest: "" for a copy by a release that stored none.
        parent: id of the parent run; "" if there is none.
        models: ids of the MLflow models of the run.
    """

    run_id: str
    digest: str
    started: int | None
    folder: str
    job: str
    parent: str
    is_complete: bool
    models: tuple[str, ...] = ()

    def has_content(self, identity: RunIdentity) -> bool:
        if self.digest:
            return self.digest == identity.digest
        return (self.started, self.folder) == (identity.started, identity.folder)


def stored_identity(run: Run, sweep: Path | None) -> RunIdentity:
    """Returns the identity of a run in the sweep with this folder; None: in no sweep.

    Raises:
        ResultError: result.json cannot be read.
    """
    path = run.path / RESULT_FILE
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ResultError(f"{path} cannot be read: {error.strerror}. {RUN_REMEDY}.") from None
    folder = run.path.resolve()
    return RunIdentity(digest, milliseconds(run.result.started), str(folder), _job(folder, sweep))


def _job(folder: Path, sweep: Path | None) -> str:
    is_below = sweep is not None and folder.is_relative_to(sweep) and folder != sweep
    return str(folder.relative_to(sweep) if is_below and sweep is not None else folder)


def parent_of(client: MlflowClient, experiment_id: str, identity: str) -> MlflowRun | None:
    """Returns the oldest parent run of the sweep with this identity, or None."""
    query = f"tags.{SWEEP_ID} = '{as_tag(identity)}' AND tags.kind = 'sweep'"
    order = ["attributes.start_time ASC"]
    return next(iter(client.search_runs([experiment_id], query, max_results=1, order_by=order)), None)


def as_tag(identity: str) -> str:
    """Returns the identity of a sweep in characters that need no quotation in a query."""
    return re.sub(r"[^\w.-]", "_", identity)


def children_of(client: MlflowClient, experiment_id: str, parent: str, sweep: Path) -> list[Copy]:
    query = f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{parent}'"
    return [_copy(entity, sweep) for entity in _search(client, experiment_id, query)]


def copies_of(
    client: MlflowClient, experiment_id: str, identity: RunIdentity, sweep: Path | None
) -> list[Copy]:
    """Returns every copy of a content in the experiment, with any parent or none."""
    query = f"tags.{_RUN_DIGEST} = '{identity.digest}'"
    if identity.started is not None:
        # Finds a copy without a digest, too.
        query = f"attributes.start_time = {identity.started} AND tags.kind = 'run'"
    copies = (_copy(entity, sweep) for entity in _search(client, experiment_id, query))
    return [copy for copy in copies if copy.has_content(identity)]


def _search(client: MlflowClient, experiment_id: str, query: str) -> Iterator[MlflowRun]:
    token = None
    while True:
        page = client.search_runs([experiment_id], query, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _copy(entity: MlflowRun, sweep: Path | None) -> Copy:
    tags, status = entity.data.tags, entity.info.status
    folder = str(Path(tags.get("folder", "")).resolve())
    models = entity.outputs.model_outputs if entity.outputs else []
    return Copy(
        run_id=entity.info.run_id,
        digest=tags.get(_RUN_DIGEST, ""),
        started=entity.info.start_time,
        folder=folder,
        job=tags.get(_JOB) or _job(Path(folder), sweep),
        parent=tags.get(MLFLOW_PARENT_RUN_ID, ""),
        is_complete=status in _COMPLETE or (status == "KILLED" and INTERRUPTED_TAG in tags),
        models=tuple(item.model_id for item in models),
    )


def delete(client: MlflowClient, copy: Copy) -> None:
    """Marks a copy and its models as deleted; MLflow keeps their files until `mlflow gc`."""
    client.delete_run(copy.run_id)
    for model_id in copy.models:
        try:
            client.delete_logged_model(model_id)
        except MlflowException as error:
            # An earlier call may have ended after it.
            if error.error_code != ErrorCode.Name(RESOURCE_DOES_NOT_EXIST):
                raise

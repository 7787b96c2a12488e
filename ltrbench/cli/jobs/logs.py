"""Configurations of Python's logging for jobs: which handlers write into the folder of a run."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ltrbench.cli.program import SCRIPT
from ltrbench.conf_folder import settings_in
from ltrbench.sweep.worker import FOLDER


def default_logging() -> dict[str, Any]:
    """Returns conf/hydra/job_logging/plain.yaml, with `FOLDER` for the folder of a run."""
    settings = settings_in("hydra/job_logging", "plain")
    settings["handlers"]["file"]["filename"] = f"{FOLDER}/{SCRIPT}.log"
    return settings


def handlers_kept(configuration: Mapping[str, Any], *, into_folders: bool) -> dict[str, Any]:
    """Returns a configuration of Python's logging with some of its handlers.

    Args:
        into_folders: keep the handlers that write into the folder of a run; False: keep the others.
    """
    kept = copy.deepcopy(dict(configuration))
    handlers = kept.get("handlers", {})
    dropped = [name for name, handler in handlers.items() if (FOLDER in str(handler)) != into_folders]
    for name in dropped:
        del handlers[name]
    for logger in [kept.get("root") or {}, *kept.get("loggers", {}).values()]:
        if "handlers" in logger:
            logger["handlers"] = [name for name in logger["handlers"] if name not in dropped]
    return kept

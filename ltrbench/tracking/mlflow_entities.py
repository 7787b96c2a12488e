"""Converts a run to MLflow's entities: tags, parameters, metric points and data sets.

MLflow does not allow `@`, so `ndcg@10` becomes `ndcg_at_10`. A key such as `valid/ndcg_at_10` is the value of
the kept model, one point at step 0. `valid_by_iteration/ndcg_at_10` is the learning curve, with one point per
iteration: MLflow shows the latest point of a metric, which need not be that of the kept model. MLflow's page
of a run lists metrics and parameters in the order in which they are logged, the important ones first; its
comparison of runs sorts them by name, and shows only the first ones.

To show more of a run, add an entry to `run_tags`, `run_params` or `run_metrics`.
"""

from __future__ import annotations

import contextlib
import getpass
import importlib
import json
import re
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param
from mlflow.utils.mlflow_tags import (
    MLFLOW_DATASET_CONTEXT,
    MLFLOW_GIT_COMMIT,
    MLFLOW_PARENT_RUN_ID,
    MLFLOW_RUN_NOTE,
    MLFLOW_SOURCE_NAME,
    MLFLOW_SOURCE_TYPE,
    MLFLOW_USER,
)

from ltrbench.errors import ResultError
from ltrbench.provenance import versions, without_password
from ltrbench.rankers import Ranker
from ltrbench.rankers.base import is_ours, load_ranker
from ltrbench.rankers.importance import MOST_LISTED
from ltrbench.runs import MODEL_FOLDER, LearningCurve, Run, RunResult
from ltrbench.untrusted import read_json, visible

# ---- The columns of the run list in the MLflow UI: the NDCG of every run.
#
# By default the UI shows no metric in the list, and a server cannot change that default. But an experiment
# can store views: a tag with the columns. A view is selected in the address of the run list, or in the menu
# of views. `view` returns the value of the tag, `run_list` the address. The description of the experiment
# links to this address, for users who do not open the UI with `python -m ltrbench ui`.
#
# The value has both forms that MLflow reads: a name and a state as JSON (3.17), and the keys of the state
# themselves (earlier versions).

_VIEW = "ltrbench"  # the name of the view in the UI's menu of views and in the address of the run list
_VIEW_TAG = f"mlflow.sharedViewState.{_VIEW}"

_METRIC_WIDTH = 142  # pixels; fits the name of a metric and all digits of a value


def run_list(experiment_id: str) -> str:
    """Returns the path of the run list with the columns of the view, relative to the address of a server."""
    return f"/#/experiments/{experiment_id}/runs?workflowType=machine_learning&viewStateShareKey={_VIEW}"


def experiment_tags(experiment_id: str, known: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    """Returns the tags to set so that the view of an experiment shows these metrics; empty if it does
    already.

    Args:
        known: the tags of the experiment.
        keys: keys of metrics, such as "test/ndcg_at_10".
    """
    tags = {}
    before = json.loads(known[_VIEW_TAG]).get("selectedColumns", []) if _VIEW_TAG in known else []
    columns = list(dict.fromkeys([*before, *(f"metrics.`{key}`" for key in shown_metrics(keys))]))
    if columns != before:
        widths = dict.fromkeys(columns, _METRIC_WIDTH)
        state = {"selectedColumns": columns, "columnOrder": columns, "columnWidths": widths}
        now = int(time.time() * 1000)
        value = {"name": _VIEW, "createdAt": now, "updatedAt": now, "state": json.dumps(state), **state}
        tags[_VIEW_TAG] = json.dumps(value)
    if MLFLOW_RUN_NOTE not in known:  # The key of the description is the same for experiments and runs.
        tags[MLFLOW_RUN_NOTE] = f"[Runs with their metrics]({run_list(experiment_id)[1:]})"
    return tags


def shown_metrics(keys: Iterable[str]) -> list[str]:
    """Returns the metrics of the list: NDCG on test, largest cutoff first (or all of test if there is no
    NDCG), the first of them on validation, and the time of the fit.

    >>> shown_metrics(["test/ndcg_at_5", "test/ndcg_at_10", "test/map", "valid/ndcg_at_10", "seconds/fit"])
    ['test/ndcg_at_10', 'test/ndcg_at_5', 'valid/ndcg_at_10', 'seconds/fit']
    """
    known = sorted(set(keys), key=lambda key: (-int(re.sub(r".*_at_(\d+)$|.*", r"\1", key) or 0), key))
    of_test = [key for key in known if key.startswith("test/")]
    shown = [key for key in of_test if key.startswith("test/ndcg")] or of_test
    beside = (f"valid/{shown[0].removeprefix('test/')}", "seconds/fit") if shown else ()
    return [*shown, *(key for key in beside if key in known)]


COMMAND = "python -m ltrbench"

_BY_ITERATION = "_by_iteration/"  # of a learning curve, between the split and the metric

# Maximum lengths on a server. A key is kept ten characters shorter, so that `_params` can make it unique.
_MAX_KEY_LENGTH = 240
_MAX_PARAM_LENGTH = 6000
MAX_TAG_LENGTH = 5000
_MAX_NAME_LENGTH = 250
_MAX_DIGEST_LENGTH = 36

# Settings that change no figure, and explanatory texts of a data set's YAML.
_NO_PARAMETERS = ("tracking", "executor", "progress", "register", "study")
_TEXTS = re.compile(r"importance\.(?!kinds$)|data\.(_target_|obtain|published|fetch)|replicates\.")

# The names of the splits in MLflow's UI.
_CONTEXTS = {"train": "training", "valid": "validation", "test": "testing"}


# Settings in the name of a single run, beside its model and its data set.
_NAMES = {"replicates.index": "resample"}  # short names of settings whose last part is unclear
_IN_NAMES = re.compile(r"(params|model|data\.fold|seed|cv)(\.|$)")


def run_name(result: RunResult) -> str:
    """Returns the name of a run. Job of a sweep: its model and the settings that differ between jobs. Other
    run: its model, data set, and the hyperparameters that the command set.

    >>> swept = {"model": ["native", "lightgbm"], "params.num_leaves": ["15", "31"]}
    >>> overrides = ["model=native", "params.num_leaves=15", "params.num_trees=50"]
    >>> of = {"status": "finished", "model": "native", "params": "matched", "seed": 0, "overrides": overrides}
    >>> run_name(RunResult(**of, swept=swept)), run_name(RunResult(**of, data={"name": "mq2008"}))
    ('native num_leaves=15', 'native on mq2008 num_leaves=15 num_trees=50')
    """
    values = settings_of_overrides(result.overrides or ())
    if result.sweep is not None or result.swept:
        named = {key: values[key] for key in result.swept if key in values}
        what = result.model
    else:
        named = {key: value for key, value in values.items() if _IN_NAMES.match(key)}
        what = f"{result.model} on {result.data['name']}" if "name" in result.data else result.model
    named.pop("model", None)
    short = short_names(named)
    what = f"{what} trial" if result.trial else what
    words = [f"{short[key]}={value}" for key, value in named.items()]
    return _name(" ".join([what, *words]))


def sweep_title(result: RunResult) -> str:
    """Returns the title of the sweep that a run belongs to: models, data sets, and swept settings.

    >>> swept = {"model": ["native", "lightgbm"], "params.num_leaves": ["15", "31"], "seed": ["1", "2"]}
    >>> of = {"status": "finished", "model": "native", "params": "matched", "seed": 1}
    >>> sweep_title(RunResult(**of, swept=swept, data={"name": "mq2008"}))
    'native, lightgbm on mq2008: num_leaves, seed'
    """
    swept = dict(result.swept)
    models = swept.pop("model", [result.model])
    title = f"{', '.join(models)} on {', '.join(swept.pop('data', [str(result.data.get('name'))]))}"
    settings = ", ".join(short_names(swept).values())
    return _name(f"{title}: {settings}" if settings else title)


def sweep_params(result: RunResult) -> list[Param]:
    """Returns the parameters of the sweep that a run belongs to: its models and data sets, each swept setting
    with all of its values, and the other settings of the command."""
    given = {key: value for key, value in settings_of_overrides(result.overrides or ()).items() if value}
    swept = {key: ", ".join(values) for key, values in result.swept.items()}
    return _params(
        {**_names(result), **swept, **{key: value for key, value in given.items() if key not in swept}}
    )


def settings_of_overrides(overrides: Sequence[str]) -> dict[str, str]:
    """Returns key -> value of the settings of a command line, without the marks `+` and `~`.

    >>> settings_of_overrides(["model=native", "+model.extra.a=1", "~early_stopping"])
    {'model': 'native', 'model.extra.a': '1', 'early_stopping': ''}
    """
    pairs = (override.partition("=") for override in overrides)
    return {key.lstrip("+~"): value for key, _, value in pairs}


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """Returns key -> its last part, or the whole key if several keys have the same last part.

    >>> short_names(["params.num_leaves", "data.seed", "seed"])
    {'params.num_leaves': 'num_leaves', 'data.seed': 'data.seed', 'seed': 'seed'}
    >>> short_names(["replicates.index"])
    {'replicates.index': 'resample'}
    """
    last = {key: _NAMES.get(key, key.rpartition(".")[2]) for key in keys}
    shared = Counter(last.values())
    return {key: key if shared[name] > 1 else name for key, name in last.items()}


def model_name(result: RunResult) -> str:
    """Returns the name of the model, in the characters that MLflow allows.

    >>> model_name(RunResult(status="finished", model="a/b: 50%", params="", seed=0))
    'a_b_ 50_'
    """
    return re.sub("[/:.%\"']", "_", _name(result.model))


def _name(text: str) -> str:
    """Returns a name on one line, of the length that MLflow allows."""
    return shortened(visible(text), _MAX_NAME_LENGTH)


def command(result: RunResult) -> str:
    """Returns the command that repeats the run, quoted for a shell; empty if there is none."""
    return "" if result.command is None else shlex.join(result.command)


def origin_tags() -> dict[str, str]:
    """Returns the tags about source and user that MLflow's fluent interface sets."""
    tags = {MLFLOW_SOURCE_NAME: COMMAND, MLFLOW_SOURCE_TYPE: "LOCAL"}
    # A container may run under a user id without a name.
    with contextlib.suppress(ImportError, KeyError, OSError):
        tags[MLFLOW_USER] = getpass.getuser()
    return tags


def run_tags(run: Run, parent: str) -> dict[str, str]:
    result, data = run.result, run.result.data
    tags: dict[str, object] = {
        **origin_tags(),
        MLFLOW_PARENT_RUN_ID: parent,
        MLFLOW_GIT_COMMIT: result.commit,
        "kind": "run",
        "backend": result.model,
        "params": result.params,
        "data": data.get("name"),
        "fold": data.get("fold"),
        "convention": result.convention.get("name"),
        "command": command(result),
        "folder": run.path,
        "unmatched": "\n".join(result.unmatched),
        "drift": str(result.drift) if result.drift.get("drifted") else None,
        "sweep": result.sweep,
        "reused": result.reused,
        "shared_machine": "true" if result.shared_machine else None,
        "trial": "true" if result.trial else None,
        "search": result.search.get("name"),
        "commit": result.commit,
    }
    for split in ("train", "valid", "test"):
        tags[f"fingerprint.{split}"] = data.get(split, {}).get("fingerprint")
    for name, version in result.versions.items():
        tags[metric_key(f"version.{name}")] = version
    if result.error:
        # The end of a traceback has the cause.
        too_many = len(result.error) > MAX_TAG_LENGTH
        tags["error"] = f"…{result.error[1 - MAX_TAG_LENGTH :]}" if too_many else result.error
    return {name: shortened(value, MAX_TAG_LENGTH) for name, value in tags.items() if value not in (None, "")}


def run_inputs(result: RunResult) -> list[DatasetInput]:
    """Returns the splits as MLflow data sets, identified by their fingerprints."""
    inputs = []
    for split, context in _CONTEXTS.items():
        described = result.data.get(split)
        if described is None:
            continue
        counts = {f"num_{name}": described.get(name) for name in ("documents", "queries", "features")}
        dataset = Dataset(
            name=_name(f"{result.data['name']} {split}"),
            digest=shortened(described.get("fingerprint", "unknown"), _MAX_DIGEST_LENGTH),
            source_type="code",
            source=json.dumps({"name": result.data["name"]}),
            profile=json.dumps(counts),
        )
        inputs.append(DatasetInput(dataset, [InputTag(MLFLOW_DATASET_CONTEXT, context)]))
    return inputs


def run_params(result: RunResult) -> list[Param]:
    """Returns the settings of the run: its model and data, those of the command, and every other setting that
    is not empty."""
    settings = {name: value for name, value in result.settings.items() if name not in _NO_PARAMETERS}
    if result.search:
        settings["search"] = {
            name: value for name, value in result.search.items() if name not in ("default", "space")
        }
    flat = dict(_flatten(settings))

    def of_model(name: str) -> str:
        # The model repeats the shared parameters under its own name.
        repeated = f"model.{name.removeprefix('params.')}"
        return repeated if repeated in flat else name

    given = {of_model(name) for name in settings_of_overrides(result.overrides or ())}
    shown = {
        name: value
        for name, value in flat.items()
        if of_model(name) == name
        and not _TEXTS.match(name)
        and (name in given or value not in (None, [], {}))
    }
    order = sorted(shown, key=lambda name: name not in given)
    return _params({**_names(result), **{name: shown[name] for name in order}})


def _names(result: RunResult) -> dict[str, Any]:
    return {"model": result.model, "params": result.params, "data": result.data.get("name")}


def _params(settings: Mapping[str, Any]) -> list[Param]:
    """Returns settings as parameters."""
    values: dict[str, Any] = {}
    for name, value in settings.items():
        key = metric_key(name)
        while key in values:
            # Two names may become equal when characters are replaced; both values must be kept.
            key += "_"
        values[key] = "null" if value is None else value
    return [Param(key, shortened(value, _MAX_PARAM_LENGTH)) for key, value in values.items()]


def _flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def run_metrics(run: Run) -> list[Metric]:
    """Returns the values of the kept model, and the points of the learning curve."""
    curve, moment = run.learning_curve(), milliseconds(run.result.finished) or 0
    points = [
        Metric(metric_key(name.replace("/", _BY_ITERATION, 1)), value, moment, iteration)
        for name, values in curve.values.items()
        for iteration, value in zip(curve.iterations, values, strict=True)
    ]
    return [*end_metrics(run, curve), *points]


def end_metrics(run: Run, curve: LearningCurve) -> list[Metric]:
    """Returns the values of the kept model at step 0: the NDCG, the other metrics, those of train, costs."""
    result, moment = run.result, milliseconds(run.result.finished) or 0
    of_curve: dict[str, float | None] = {}
    if result.best_iteration in curve.iterations:
        kept = curve.iterations.index(result.best_iteration)
        of_curve = {name: values[kept] for name, values in curve.values.items()}
    values: dict[str, float | None] = {
        **dict(sorted(result.metrics.items(), key=lambda item: not item[0].startswith("test/"))),
        # The metrics of result.json are the published ones.
        **{name: value for name, value in of_curve.items() if name not in result.metrics},
        "best_iteration": result.best_iteration,
        **{f"seconds/{kind}": value for kind, value in result.seconds.items()},
        "peak_memory_mb": result.peak_memory_mb,
    }
    known = {metric_key(name): value for name, value in values.items() if value is not None}
    order = dict.fromkeys([*shown_metrics(known), *known])
    return [Metric(name, known[name], moment, 0) for name in order]


def plain_metrics(figures: Mapping[str, float]) -> list[Metric]:
    """Returns one point at step 0 for each value."""
    now = int(time.time() * 1000)
    return [Metric(metric_key(name), value, now, 0) for name, value in figures.items()]


def metric_key(name: str) -> str:
    """Returns a name in the characters that MLflow allows: letters, digits, blanks, _ - . and / between
    parts.

    >>> metric_key("valid/ndcg@10"), metric_key("extra.a[0]"), metric_key("../etc//x/")
    ('valid/ndcg_at_10', 'extra.a_0_', 'etc/x')
    """
    allowed = re.sub(r"[^\w/. -]", "_", name.replace("@", "_at_"))
    # A key may become a path in MLflow's store, and must not lead out of it.
    parts = [part for part in allowed.split("/") if part not in ("", ".", "..")]
    return "/".join(parts)[:_MAX_KEY_LENGTH] or "_"


def shortened(value: object, length: int) -> str:
    """Returns a value as text of at most `length` characters, with passwords in addresses masked."""
    text = visible(without_password(str(value)), lines=True)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def milliseconds(moment: str) -> int | None:
    return int(datetime.fromisoformat(moment).timestamp() * 1000) if moment else None


# ---- Logs models to MLflow: a model of a library in the library's MLflow flavor, other rankers as saved.

_CLASS_FILE = "class.json"


def can_be_logged(run: Run) -> bool:
    """Returns whether the run has a model of an ltrbench class; other classes named in a folder are not
    trusted."""
    return (run.path / MODEL_FOLDER).is_dir() and is_ours(_target(run))


def save_model(run: Run, folder: Path, **of_mlflow: Any) -> None:
    """Writes the model of a finished run as an MLflow model, to a folder that does not exist yet.

    Args:
        of_mlflow: `mlflow_model`, with the ids assigned by MLflow.
    """
    # Imported late, because the import takes a second and is needed only when a model is logged.
    import mlflow.pyfunc
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema

    ranker = load_ranker(_target(run), run.path / MODEL_FOLDER)
    example = run.input_example()
    common: dict[str, Any] = {
        "signature": ModelSignature(
            inputs=_inputs(int(run.result.data["train"]["features"])),
            outputs=Schema([ColSpec(DataType.double)]),
        ),
        "input_example": example if len(example) else None,
        "pip_requirements": _requirements(ranker),
        **of_mlflow,
    }
    library = ranker.library_model()
    if library is not None:
        package, model = library
        flavor = importlib.import_module(f"mlflow.{package}")
        with _without_scan_of_packages():
            flavor.save_model(model, str(folder), **common)
        return
    saved = folder.with_name(f"{folder.name}-saved")
    shutil.copytree(run.path / MODEL_FOLDER, saved / MODEL_FOLDER)
    (saved / _CLASS_FILE).write_text(json.dumps({"class": _target(run)}) + "\n")
    with _without_scan_of_packages():
        mlflow.pyfunc.save_model(str(folder), loader_module=__name__, data_path=str(saved), **common)


@contextlib.contextmanager
def _without_scan_of_packages() -> Iterator[None]:
    """Prevents that MLflow lists the files of all installed packages, which takes half a second.

    It would find the packages of imported modules, to infer requirements; `_requirements` gives them.
    """
    requirements_utils: Any = importlib.import_module("mlflow.utils.requirements_utils")
    known = requirements_utils._MODULES_TO_PACKAGES
    requirements_utils._MODULES_TO_PACKAGES = known or {}
    try:
        yield
    finally:
        requirements_utils._MODULES_TO_PACKAGES = known


def _inputs(num_features: int) -> Any:
    """Returns the schema of F features."""
    from mlflow.types import ColSpec, DataType, Schema, TensorSpec

    if num_features <= MOST_LISTED:
        return Schema([ColSpec(DataType.double)] * num_features)
    # MLflow takes minutes to write a million columns.
    return Schema([TensorSpec(np.dtype(np.float64), (-1, num_features))])


class ServedRanker:
    """The model object that MLflow calls to predict scores."""

    def __init__(self, ranker: Ranker) -> None:
        self._ranker = ranker

    # Without type annotations, because MLflow would interpret them as a schema.
    def predict(self, features, params=None):  # type: ignore[no-untyped-def]
        """Returns scores (D,), higher is ranked earlier, for features (D, F) in a DataFrame or an array."""
        del params
        rows = features.to_numpy() if isinstance(features, pd.DataFrame) else np.asarray(features)
        return self._ranker.predict(rows.astype(np.float32))


def _load_pyfunc(path: str) -> ServedRanker:
    """Loads a model for MLflow, which calls this function by name with the folder written by `save_model`."""
    folder = Path(path)
    content = read_json(folder / _CLASS_FILE, "Log the model again")
    target = content.get("class") if isinstance(content, dict) else None
    if not isinstance(target, str):
        raise ResultError(f"{folder / _CLASS_FILE} does not name a ranker; log the model again.")
    return ServedRanker(load_ranker(target, folder / MODEL_FOLDER))


def _target(run: Run) -> str:
    return str(run.result.settings.get("model", {}).get("_target_"))


def _requirements(ranker: Ranker) -> list[str]:
    """Returns the pip requirements; MLflow would take seconds to infer them by loading the model in another
    process."""
    library = ranker.library_model()
    packages = ["mlflow", "numpy", *([library[0]] if library else ["ltrbench", *ranker.packages])]
    installed = versions(packages)
    return [f"{package}=={installed[package]}" for package in dict.fromkeys(packages)]

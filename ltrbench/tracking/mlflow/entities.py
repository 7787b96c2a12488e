"""Converts a run to MLflow's entities: tags, parameters, metric points and data sets.

MLflow does not allow `@`, so `ndcg@10` becomes `ndcg_at_10`. A key such as `valid/ndcg_at_10` is the value of
the kept model, one point at step 0. `valid_by_iteration/ndcg_at_10` is the learning curve, with one point per
iteration: MLflow shows the latest point of a metric, which need not be that of the kept model. MLflow's page
of a run lists metrics and parameters in the order in which they are logged, the important ones first.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import re
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

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

from ltrbench.measure import without_password
from ltrbench.runs.origin import Copied, Final, Trial
from ltrbench.runs.record import LearningCurve, Run, RunResult
from ltrbench.untrusted import visible

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


def experiment_tags(
    experiment_id: str, known: Mapping[str, str], keys: Iterable[str]
) -> dict[str, str]:
    """Returns the tags to set so that the view of an experiment shows these metrics; empty if it does
    already.

    Args:
        known: the tags of the experiment.
        keys: keys of metrics, such as "test/ndcg_at_10".
    """
    tags = {}
    before = []
    if _VIEW_TAG in known:
        before = json.loads(known[_VIEW_TAG]).get("selectedColumns", [])
    shown = [f"metrics.`{key}`" for key in shown_metrics(keys)]
    columns = list(dict.fromkeys([*before, *shown]))
    if columns != before:
        widths = dict.fromkeys(columns, _METRIC_WIDTH)
        state = {
            "selectedColumns": columns,
            "columnOrder": columns,
            "columnWidths": widths,
        }
        now = int(time.time() * 1000)
        value = {
            "name": _VIEW,
            "createdAt": now,
            "updatedAt": now,
            "state": json.dumps(state),
            **state,
        }
        tags[_VIEW_TAG] = json.dumps(value)
    # The key of the description is the same for experiments and runs.
    if MLFLOW_RUN_NOTE not in known:
        tags[MLFLOW_RUN_NOTE] = (
            f"[Runs with their metrics]({run_list(experiment_id)[1:]})"
        )
    return tags


def shown_metrics(keys: Iterable[str]) -> list[str]:
    """Returns the metrics of the list: NDCG on test, largest cutoff first (or all of test if there is no
    NDCG), the first of them on validation, and the time of the fit.

    >>> shown_metrics(["test/ndcg_at_5", "test/ndcg_at_10", "test/map", "valid/ndcg_at_10", "seconds/fit"])
    ['test/ndcg_at_10', 'test/ndcg_at_5', 'valid/ndcg_at_10', 'seconds/fit']
    """

    def largest_cutoff_first(key: str) -> tuple[int, str]:
        cutoff = re.sub(r".*_at_(\d+)$|.*", r"\1", key)
        return -int(cutoff or 0), key

    known = sorted(set(keys), key=largest_cutoff_first)
    of_test = [key for key in known if key.startswith("test/")]
    shown = [key for key in of_test if key.startswith("test/ndcg")] or of_test
    if not shown:
        return []
    beside = (f"valid/{shown[0].removeprefix('test/')}", "seconds/fit")
    return [*shown, *(key for key in beside if key in known)]


COMMAND = "python -m ltrbench"

_BY_ITERATION = (
    "_by_iteration/"  # of a learning curve, between the split and the metric
)

# Maximum lengths on a server.
_MAX_KEY_LENGTH = 250
_MAX_PARAM_LENGTH = 6000
MAX_TAG_LENGTH = 5000
_MAX_NAME_LENGTH = 250
_MAX_DIGEST_LENGTH = 36

# Settings that change no result, and explanatory texts of a data set's YAML.
_NO_PARAMETERS = ("tracking", "executor", "progress", "register", "study")
_TEXTS = re.compile(
    r"importance\.(?!kinds$)|data\.(_target_|obtain|fetch)|replicates\."
)

# The names of the splits in MLflow's UI.
_CONTEXTS = {"train": "training", "valid": "validation", "test": "testing"}


# Settings in the name of a single run, beside its model and its data set.
# Short names of settings whose last part is unclear.
_NAMES = {"replicates.index": "resample"}
_IN_NAMES = re.compile(r"(params|model|data\.fold|data\.split_seed|seed|cv)(\.|$)")


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
        named = {key: values[key] for key in values if _IN_NAMES.match(key)}
        what = result.model
        if "name" in result.data:
            what = f"{result.model} on {result.data['name']}"
    named.pop("model", None)
    short = short_names(named)
    what = f"{what} trial" if isinstance(result.origin, Trial) else what
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
    data_sets = swept.pop("data", [str(result.data.get("name"))])
    title = f"{', '.join(models)} on {', '.join(data_sets)}"
    settings = ", ".join(short_names(swept).values())
    return _name(f"{title}: {settings}" if settings else title)


def sweep_tags(result: RunResult) -> dict[str, str]:
    """Returns the settings of the sweep that a run belongs to: its models and data sets, each swept setting
    with all of its values, and the other settings of the command."""
    settings = _names(result)
    for key, values in result.swept.items():
        settings[key] = ", ".join(values)
    given = settings_of_overrides(result.overrides or ())
    for key, value in given.items():
        if value and key not in result.swept:
            settings[key] = value
    tags = {}
    for key, value in settings.items():
        tags[metric_key(key)] = shortened(value, MAX_TAG_LENGTH)
    return tags


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
    last = {}
    for key in keys:
        _, _, part = key.rpartition(".")
        last[key] = _NAMES.get(key, part)
    counts = Counter(last.values())
    short = {}
    for key, name in last.items():
        short[key] = key if counts[name] > 1 else name
    return short


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
    if result.command is None:
        return ""
    return shlex.join(result.command)


def origin_tags() -> dict[str, str]:
    """Returns the tags about source and user that MLflow's fluent interface sets."""
    tags = {MLFLOW_SOURCE_NAME: COMMAND, MLFLOW_SOURCE_TYPE: "LOCAL"}
    # A container may run under a user id without a name.
    with contextlib.suppress(ImportError, KeyError, OSError):
        tags[MLFLOW_USER] = getpass.getuser()
    return tags


def run_tags(run: Run, parent: str) -> dict[str, str]:
    result = run.result
    data = run.result.data
    tags: dict[str, object] = {
        **origin_tags(),
        MLFLOW_PARENT_RUN_ID: parent,
        MLFLOW_GIT_COMMIT: result.commit,
        "kind": "run",
        "backend": result.model,
        "params": result.params,
        "data": data.get("name"),
        "fold": data.get("fold"),
        "split_seed": result.repeat,
        "convention": result.convention.get("name"),
        "command": command(result),
        "folder": run.path,
        "unmatched": "\n".join(result.unmatched),
        "sweep": result.sweep,
        **_tags_of_origin(result),
        "shared_machine": "true" if result.shared_machine else None,
        "search": result.search.get("name"),
        "commit": result.commit,
        "error": result.error,
    }
    for split in ("train", "valid", "test"):
        tags[f"fingerprint.{split}"] = data.get(split, {}).get("fingerprint")
    for name, version in result.versions.items():
        tags[metric_key(f"version.{name}")] = version
    known = {}
    for name, value in tags.items():
        if value not in (None, ""):
            known[name] = shortened(value, MAX_TAG_LENGTH)
    return known


def _tags_of_origin(result: RunResult) -> dict[str, str | None]:
    origin = result.origin
    return {
        "reused": origin.run if isinstance(origin, Copied) else None,
        "trial": "true" if isinstance(origin, Trial) else None,
        "final": "\n".join(result.notes) if isinstance(origin, Final) else None,
    }


def run_inputs(result: RunResult) -> list[DatasetInput]:
    """Returns the splits as MLflow data sets, identified by their fingerprints."""
    inputs = []
    for split, context in _CONTEXTS.items():
        described = result.data.get(split)
        if described is None:
            continue
        counts = {
            f"num_{name}": described.get(name)
            for name in ("documents", "queries", "features")
        }
        name = result.data["name"]
        fingerprint = described.get("fingerprint", "unknown")
        dataset = Dataset(
            name=_name(f"{name} {split}"),
            digest=shortened(fingerprint, _MAX_DIGEST_LENGTH),
            source_type="code",
            source=json.dumps({"name": name}),
            profile=json.dumps(counts),
        )
        inputs.append(
            DatasetInput(dataset, [InputTag(MLFLOW_DATASET_CONTEXT, context)])
        )
    return inputs


def run_params(result: RunResult) -> list[Param]:
    """Returns the settings of the run: its model and data, those of the command, and every other setting that
    is not empty."""
    settings = {
        name: value
        for name, value in result.settings.items()
        if name not in _NO_PARAMETERS
    }
    if result.search:
        not_shown = ("default", "space")
        search = result.search.items()
        settings["search"] = {
            name: value for name, value in search if name not in not_shown
        }
    # The model repeats the shared parameters: `params.num_leaves` is shown as `model.num_leaves`.
    names = [name for name, _ in _flatten(settings)]
    repeated = {
        f"params.{name[6:]}": name for name in names if name.startswith("model.")
    }
    overrides = settings_of_overrides(result.overrides or ())
    given = {repeated.get(name, name) for name in overrides}
    params = _names(result)
    others = {}
    for name, value in _flatten(settings):
        if name in repeated or _TEXTS.match(name):
            continue
        if name in given:
            params[name] = value
        elif value not in (None, [], {}):
            others[name] = value
    return _params(params | others)


def _names(result: RunResult) -> dict[str, Any]:
    return {
        "model": result.model,
        "params": result.params,
        "data": result.data.get("name"),
    }


def _params(settings: Mapping[str, Any]) -> list[Param]:
    """Returns settings as parameters."""
    values = {}
    for name, value in settings.items():
        values[metric_key(name)] = "null" if value is None else value
    return [
        Param(key, shortened(value, _MAX_PARAM_LENGTH)) for key, value in values.items()
    ]


_Setting = tuple[str, Any]
"""Name and value."""


def _flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[_Setting]:
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def run_metrics(run: Run, model_id: str = "") -> list[Metric]:
    """Returns the values of the kept model, and the points of the learning curve.

    Args:
        model_id: model that the values of test are linked to, so that the model list shows them; "": none.
    """
    curve = run.learning_curve()
    moment = milliseconds(run.result.finished) or 0
    points = []
    for name, values in curve.values.items():
        key = metric_key(name.replace("/", _BY_ITERATION, 1))
        for iteration, value in zip(curve.iterations, values, strict=True):
            points.append(Metric(key, value, moment, iteration))
    return [*end_metrics(run, curve, model_id), *points]


def end_metrics(run: Run, curve: LearningCurve, model_id: str = "") -> list[Metric]:
    """Returns the values of the kept model at step 0: the NDCG, the other metrics, those of train, costs."""
    result = run.result
    moment = milliseconds(run.result.finished) or 0
    names = sorted(result.metrics, key=lambda name: not name.startswith("test/"))
    values: dict[str, float | None] = {name: result.metrics[name] for name in names}
    if result.best_iteration in curve.iterations:
        kept = curve.iterations.index(result.best_iteration)
        for name, of_curve in curve.values.items():
            # The metrics of result.json are the published ones.
            values.setdefault(name, of_curve[kept])
    values["best_iteration"] = result.best_iteration
    for kind, seconds in result.seconds.items():
        values[f"seconds/{kind}"] = seconds
    values["peak_memory_mb"] = result.peak_memory_mb
    known = {
        metric_key(name): value for name, value in values.items() if value is not None
    }
    points = []
    for name in dict.fromkeys([*shown_metrics(known), *known]):
        of_model = None
        if model_id and name.startswith("test/"):
            of_model = model_id
        points.append(Metric(name, known[name], moment, 0, model_id=of_model))
    return points


def plain_metrics(values: Mapping[str, float]) -> list[Metric]:
    """Returns one point at step 0 for each value."""
    now = int(time.time() * 1000)
    points = []
    for name, value in values.items():
        key = metric_key(name)
        points.append(Metric(key, value, now, 0))
    return points


def metric_key(name: str) -> str:
    """Returns a name in the characters that MLflow allows: letters, digits, blanks, _ - . and / between
    parts.

    >>> metric_key("valid/ndcg@10"), metric_key("extra.a[0]"), metric_key("../etc//x/")
    ('valid/ndcg_at_10', 'extra.a_0_', 'etc/x')
    """
    allowed = re.sub(r"[^\w/. -]", "_", name.replace("@", "_at_"))
    # A key may become a path in MLflow's store, and must not lead out of it.
    unsafe = ("", ".", "..")
    parts = [part for part in allowed.split("/") if part not in unsafe]
    return "/".join(parts)[:_MAX_KEY_LENGTH] or "_"


def shortened(value: object, length: int) -> str:
    """Returns a value as text of at most `length` characters, with passwords in addresses masked."""
    text = visible(without_password(str(value)), lines=True)
    if len(text) <= length:
        return text
    return f"{text[: length - 1]}…"


def milliseconds(moment: str) -> int | None:
    if moment:
        return int(datetime.fromisoformat(moment).timestamp() * 1000)
    return None

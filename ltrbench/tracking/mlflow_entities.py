"""What a run is in MLflow's words: its tags, parameters, points of metrics and data sets.

MLflow allows no `@`, so `ndcg@10` is `ndcg_at_10` here. A key such as `valid/ndcg_at_10` is the learning
curve, a point an iteration. Where the kept model is not that of the last iteration, its value follows one
step behind the end of the curve, so that the figure that MLflow shows for a run, the latest, is that of the
model that was kept. The metrics of test have no curve and stand at the same step.

What else a run should show is one more entry in `run_tags`, `run_params` or `run_metrics`.
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
    MLFLOW_SOURCE_NAME,
    MLFLOW_SOURCE_TYPE,
    MLFLOW_USER,
)

from ltrbench.measure.provenance import without_password
from ltrbench.results import LearningCurve, Run, RunResult
from ltrbench.tables import figure
from ltrbench.untrusted.escaping import visible

COMMAND = "python -m ltrbench"

# What a server takes in one text. A key has ten characters to spare, for `run_params` to make it unique.
_MAX_KEY_LENGTH = 240
_MAX_PARAM_LENGTH = 6000
MAX_TAG_LENGTH = 5000
_MAX_NAME_LENGTH = 250
_MAX_DIGEST_LENGTH = 36

# Texts of a data set's YAML for people, in which no two runs differ.
_NO_PARAMETERS = ("data.obtain", "data.published")

# What MLflow's own UI calls the splits.
_CONTEXTS = {"train": "training", "valid": "validation", "test": "testing"}


# What a single run is named after, beside its model and its data set.
_NAMES = {"replicates.index": "resample"}  # of settings whose last part says too little
_IN_NAMES = re.compile(r"(params|model|data\.fold|seed|cv)(\.|$)")


def run_name(result: RunResult) -> str:
    """Of a job of a sweep, the model and the settings in which the jobs differ; of any other run, the model,
    the data set and the hyperparameters that the command set.

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
    words = [f"{short[key]}={value}" for key, value in named.items()]
    return _name(" ".join([what, *words]))


def sweep_title(result: RunResult) -> str:
    """Of the sweep that a run is a job of: what is compared, on what data, over which settings.

    Experiments that are swept stand in the place of models and data that the command does not name.

    >>> swept = {"model": ["native", "lightgbm"], "params.num_leaves": ["15", "31"], "seed": ["1", "2"]}
    >>> of = {"status": "finished", "model": "native", "params": "matched", "seed": 1}
    >>> sweep_title(RunResult(**of, swept=swept, data={"name": "mq2008"}))
    'native, lightgbm on mq2008: num_leaves, seed'
    >>> sweep_title(RunResult(**of, swept={"experiment": ["a", "b"]}, data={"name": "mq2008"}))
    'experiment a, b'
    """
    swept, given = dict(result.swept), settings_of_overrides(result.overrides or ())
    experiments = swept.pop("experiment", [])
    models, data = (
        swept.pop(key, [name] if key in given or not experiments else [])
        for key, name in (("model", result.model), ("data", result.data.get("name", "")))
    )
    compared = [", ".join(models), f"experiment {', '.join(experiments)}" if experiments else ""]
    title = " on ".join(filter(None, [", ".join(filter(None, compared)), ", ".join(data)]))
    settings = ", ".join(short_names(swept).values())
    return _name(f"{title}: {settings}" if settings else title)


_GROUPS_OF_A_NODE = ("model", "data", "params")
"""Groups whose YAML files compose settings below the node of their own name only."""


def sweep_params(result: RunResult) -> list[Param]:
    """The configuration of the sweep that a run is a job of, as far as any of its jobs knows it.

    These are each swept setting with all of its values, and the other settings of the command. The composed
    configuration holds for all jobs too, except below a swept group, and below `model` and `data`, whose
    settings may be computed from swept ones. A swept experiment may compose anything: nothing composed is
    stated beside it.
    """
    given = {key: value for key, value in settings_of_overrides(result.overrides or ()).items() if value}
    swept = {key: ", ".join(values) for key, values in result.swept.items()}
    composed: dict[str, Any] = {}
    if all(key in _GROUPS_OF_A_NODE or _is_plain(key, result.config) for key in swept):
        of_some_jobs = ("model.", "data.", *(f"{key}." for key in swept))
        flat = _flatten(result.config)
        composed = {name: value for name, value in flat if not name.startswith(of_some_jobs)}
        composed |= {"model": result.model, "params": result.params, "data": result.data.get("name")}
    return _params({**given, **composed, **swept})


def _is_plain(key: str, config: Mapping[str, Any]) -> bool:
    """Whether a swept setting is a value of the configuration, and no group of YAML files."""
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    return not isinstance(value, Mapping)


def sweep_command(result: RunResult) -> str:
    """The overrides of the sweep that a run is a job of, as a shell takes them; a run records no flags."""
    words = []
    for override in result.overrides or ():
        key = override.partition("=")[0]
        values = result.swept.get(key.lstrip("+~"))
        words.append(override if values is None else f"{key}={','.join(values)}")
    return " ".join([COMMAND, *map(shlex.quote, words), "-m"])


def settings_of_overrides(overrides: Sequence[str]) -> dict[str, str]:
    """Key -> value of the settings of a command line, without the marks of adding a key.

    >>> settings_of_overrides(["model=native", "+model.extra.a=1", "~early_stopping"])
    {'model': 'native', 'model.extra.a': '1', 'early_stopping': ''}
    """
    pairs = (override.partition("=") for override in overrides)
    return {key.lstrip("+~"): value for key, _, value in pairs}


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """Key -> its last part, or the whole key where two have the same last part.

    >>> short_names(["params.num_leaves", "data.seed", "seed"])
    {'params.num_leaves': 'num_leaves', 'data.seed': 'data.seed', 'seed': 'seed'}
    >>> short_names(["replicates.index"])
    {'replicates.index': 'resample'}
    """
    last = {key: _NAMES.get(key, key.rpartition(".")[2]) for key in keys}
    shared = Counter(last.values())
    return {key: key if shared[name] > 1 else name for key, name in last.items()}


def model_name(result: RunResult) -> str:
    """The model's name in what MLflow allows of one.

    >>> model_name(RunResult(status="finished", model="a/b: 50%", params="", seed=0))
    'a_b_ 50_'
    """
    return re.sub("[/:.%\"']", "_", _name(result.model))


def _name(text: str) -> str:
    """A name of one line, which MLflow takes."""
    return shortened(visible(text), _MAX_NAME_LENGTH)


def command(result: RunResult) -> str:
    """What makes the run again, as a shell takes it; empty where no command made it."""
    return "" if result.command is None else shlex.join(result.command)


def origin_tags() -> dict[str, str]:
    """What MLflow's own fluent interface says of whoever logs a run."""
    tags = {MLFLOW_SOURCE_NAME: COMMAND, MLFLOW_SOURCE_TYPE: "LOCAL"}
    # A container may run under a number that has no name.
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
        "drift": _drift(result),
        "sweep": result.sweep,
        "reused": result.reused,
        "commit": result.commit,
    }
    for split in ("train", "valid", "test"):
        tags[f"fingerprint.{split}"] = data.get(split, {}).get("fingerprint")
    for name, version in result.versions.items():
        tags[metric_key(f"version.{name}")] = version
    if result.error:
        # Of a traceback the end says what happened.
        too_many = len(result.error) > MAX_TAG_LENGTH
        tags["error"] = f"…{result.error[1 - MAX_TAG_LENGTH :]}" if too_many else result.error
    return {name: shortened(value, MAX_TAG_LENGTH) for name, value in tags.items() if value not in (None, "")}


def version_tags(run: Run, reason: str) -> dict[str, str]:
    """Of a version of a registered model: where it comes from and why it was chosen."""
    result = run.result
    fold = {} if result.data.get("fold") is None else {"fold": str(result.data["fold"])}
    tags = {
        "reason": reason,
        "backend": result.model,
        "data": str(result.data.get("name")),
        **fold,
        "seed": str(result.seed),
        "run": run_name(result),
        "folder": str(run.path),
        "command": command(result),
    }
    return {name: shortened(value, MAX_TAG_LENGTH) for name, value in tags.items()}


def run_inputs(result: RunResult) -> list[DatasetInput]:
    """The splits as MLflow's data sets, told by their fingerprints."""
    given = result.settings.get("data", {})
    inputs = []
    for split, context in _CONTEXTS.items():
        described = result.data.get(split)
        if described is None:
            continue
        # A split that was taken out of train has no file of its own.
        files = given.get(split) or given.get("train")
        read = isinstance(files, (str, list)) and files
        kind, source = ("local", {"uri": str(files)}) if read else ("code", {"name": result.data["name"]})
        counts = {f"num_{name}": described.get(name) for name in ("documents", "queries", "features")}
        dataset = Dataset(
            name=_name(f"{result.data['name']} {split}"),
            digest=shortened(described.get("fingerprint", "unknown"), _MAX_DIGEST_LENGTH),
            source_type=kind,
            source=json.dumps(source),
            profile=json.dumps(counts),
        )
        inputs.append(DatasetInput(dataset, [InputTag(MLFLOW_DATASET_CONTEXT, context)]))
    return inputs


def _drift(result: RunResult) -> str:
    """Where the library's own figures are not ours; empty where they are."""
    if not result.drift.get("drifted"):
        return ""
    theirs, ours = result.drift["own"], result.drift["ours"]
    return ", ".join(
        f"{name}: own {figure(theirs[name], '.9f')}, ours {figure(ours[name], '.9f')}" for name in ours
    )


def run_params(result: RunResult) -> list[Param]:
    return _params(dict(_flatten(result.settings)))


def _params(settings: Mapping[str, Any]) -> list[Param]:
    values: dict[str, Any] = {}
    for name, value in settings.items():
        if name.startswith(_NO_PARAMETERS):
            continue
        key = metric_key(name)
        while key in values:
            # Two names that differ in what MLflow does not allow, which must not cost one of them its value.
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
    """The learning curve, then what the kept model reaches, where the curve does not end with it."""
    result, curve = run.result, run.learning_curve()
    kept: dict[str, float | None] = {
        **_at_iteration(curve, result.best_iteration),
        # After those of the curve, because what result.json says of the kept model is what is published.
        **result.metrics,
        **{f"seconds/{kind}": value for kind, value in result.seconds.items()},
        "peak_memory_mb": result.peak_memory_mb,
        "best_iteration": result.best_iteration,
    }
    moment = milliseconds(result.finished) or 0
    points = [
        Metric(metric_key(name), value, moment, iteration)
        for name, values in curve.values.items()
        for iteration, value in zip(curve.iterations, values, strict=True)
    ]
    behind_the_end = curve.iterations[-1] + 1 if curve.iterations else 0
    points += [
        Metric(metric_key(name), value, moment, behind_the_end)
        for name, value in kept.items()
        if value is not None and not (name in curve.values and value == curve.values[name][-1])
    ]
    return points


def plain_metrics(figures: Mapping[str, float]) -> list[Metric]:
    """Figures that have no course."""
    now = int(time.time() * 1000)
    return [Metric(metric_key(name), value, now, 0) for name, value in figures.items()]


def _at_iteration(curve: LearningCurve, iteration: int | None) -> dict[str, float | None]:
    """The curve's values at the iteration that was kept."""
    if iteration not in curve.iterations:
        return {}
    place = curve.iterations.index(iteration)
    return {name: values[place] for name, values in curve.values.items()}


def metric_key(name: str) -> str:
    """A name as MLflow allows it: letters, digits, blanks and _ - . and the / between parts.

    >>> metric_key("valid/ndcg@10"), metric_key("extra.a[0]"), metric_key("../etc//x/")
    ('valid/ndcg_at_10', 'extra.a_0_', 'etc/x')
    """
    allowed = re.sub(r"[^\w/. -]", "_", name.replace("@", "_at_"))
    # A key may become a path in MLflow's store, and must not lead out of it.
    parts = [part for part in allowed.split("/") if part not in ("", ".", "..")]
    return "/".join(parts)[:_MAX_KEY_LENGTH] or "_"


def shortened(value: object, length: int) -> str:
    """A value as MLflow takes it: not too long, and without the password of an address."""
    text = visible(without_password(str(value)), lines=True)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def milliseconds(moment: str) -> int | None:
    return int(datetime.fromisoformat(moment).timestamp() * 1000) if moment else None

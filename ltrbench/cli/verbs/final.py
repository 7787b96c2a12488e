"""Verbs on the model that is deployed: `final`, `register`."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ltrbench.cli.console import PATH, PLUGIN_OPTION, echo, showing, wrapped
from ltrbench.cli.session import Store, mirror, recorded_store
from ltrbench.cli.verbs.runs import (
    ANYWAY_OPTION,
    RANKER_OPTION,
    class_of_model,
    in_its_folder,
    load_splits,
    source_of,
)
from ltrbench.cli.verbs.sweeps import store_of
from ltrbench.errors import ConfigError
from ltrbench.runs.record import class_and_folder_of_model, find_runs, holds_runs, read_run

if TYPE_CHECKING:
    from ltrbench.tracking.mlflow import MLflowTracker

_FINAL_FOLDER = "final"
_OF_A_PART = ("cv", "replicates", "search", "executor", "distributed", "register")
"""Settings of a command that do not apply to a final model."""


@click.command("final")
@click.argument("folders", metavar="DIR...", type=PATH, nargs=-1, required=True)
@click.option("--model", "name", metavar="NAME", help="Model or row. Default: the best by validation.")
@click.option("--metric", help="Metric of the choice and of the estimate. Default: as in compare.")
@click.option(
    "--scale-trees",
    is_flag=True,
    help="Multiply the number of trees by the ratio of all queries to the training queries of the runs.",
)
@click.option("--output", type=PATH, metavar="OUT", help="Folder of the final run. Default: DIR/final.")
@RANKER_OPTION
@PLUGIN_OPTION
def final_verb(
    folders: tuple[Path, ...],
    name: str | None,
    metric: str | None,
    scale_trees: bool,
    output: Path | None,
    ranker: str | None,
) -> None:
    """Trains the model to deploy: the best settings of the runs in DIR..., on all labelled queries.

    The settings are those of the best model by validation, or of --model. The fit has the queries of train,
    valid and test, and no early stopping: the number of trees is the median over the runs of these settings
    (folds, resamples, seeds), rounded up. The final run has no test score; its record has the estimate of the
    comparison. It is a run for show, predict, ship, serve and register, and no comparison contains it.

    \b
        python -m ltrbench final multirun/2026-01-31/12-00-00
        python -m ltrbench final multirun/2026-01-31/12-00-00 --model lightgbm --output chosen
    """
    from ltrbench.compare import Settings, compare
    from ltrbench.compare.final import final_fit
    from ltrbench.config import build
    from ltrbench.experiment import Experiment
    from ltrbench.experiment import run as run_experiment
    from ltrbench.rankers import BoostingRanker, Ranker
    from ltrbench.rankers.importance import ImportanceSettings

    folder = (folders[0] / _FINAL_FOLDER if output is None else output).absolute()
    if holds_runs(folder):
        raise ConfigError(f"{folder} already has a run; name another folder with --output, or delete it.")
    runs = find_runs(folders)
    count = (lambda run: load_splits(run, all_queries=True).train.num_queries) if scale_trees else None
    fit = final_fit(compare(runs, Settings(metric=metric)), name, count)
    result = fit.run.result
    class_of_model(fit.run, ranker)  # refuses a class that the user does not name
    fitted = build(result.settings, "model", Ranker)
    fitted = replace(fitted, seed=int(result.config.get("seed", result.seed)))
    if isinstance(fitted, BoostingRanker) and fit.num_trees is not None:
        fitted = replace(fitted, num_trees=fit.num_trees, early_stopping=None)
    given = {"--model": name, "--metric": metric, "--output": output, "--ranker": ranker}
    words = [word for option, value in given.items() if value is not None for word in (option, str(value))]
    experiment = Experiment(
        model=result.model,
        ranker=fitted,
        source=source_of(fit.run).with_all_queries(),
        metrics=(fit.record["metric"],),
        params=result.params,
        importance=ImportanceSettings(),
        overrides=("final", *map(str, folders), *words, *(["--scale-trees"] * scale_trees)),
        config={key: value for key, value in result.config.items() if key not in _OF_A_PART},
        final=fit.record,
        notes=fit.notes,
    )
    with in_its_folder(fit.run), showing("auto", result.model) as on_progress:
        final = run_experiment(experiment, folder, on_progress=on_progress)
    for note in fit.notes:
        echo(wrapped(f"- {note}", "  "))
    shown = shlex.quote(str(output or folders[0] / _FINAL_FOLDER))
    echo(f"Ship it: python -m ltrbench ship {shown} --to TARGET --output shipped")
    if (store := recorded_store(runs)) is not None:
        mirror(_tracker(store), None, [final])


def _tracker(store: Store) -> MLflowTracker:
    # Imported late, because MLflow takes seconds.
    from ltrbench.tracking.mlflow import MLflowTracker

    return MLflowTracker(uri=store.uri, experiment=store.experiment)


# ---- The verb `register`: names the model of a run in the registry of MLflow.


@click.command("register")
@click.argument("run", type=PATH)
@click.argument("name")
@ANYWAY_OPTION
def register_verb(run: Path, name: str, anyway: bool) -> None:
    """Registers the model of the finished RUN as the next version of NAME, with the alias champion.

    The run is stored in MLflow first, if it is not there yet. To register the best model of a sweep that
    trained on all training queries, set register=NAME in its command.

    \b
        python -m ltrbench register multirun/2026-01-31/12-00-00/final shop
    """
    from ltrbench.compare.final import refuse_part

    finished = read_run(run)
    if not anyway:
        refuse_part(finished, "registered")
    class_and_folder_of_model(finished)  # refuses a run without a model
    tracker = _tracker(store_of([finished]))
    tracker.open(None)
    tracker.log(finished)
    reason = finished.result.final.get("reason", "named in the command")
    echo(f"{tracker.register(name, finished, reason)} ({tracker.where})")

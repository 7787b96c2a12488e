"""The verb `final`: trains the model that is deployed."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from ltrbench.cli.console import PATH, PLUGIN_OPTION, echo, showing, wrapped
from ltrbench.cli.session import mirror_beside
from ltrbench.cli.verbs.runs import RANKER_OPTION, in_its_folder, load_splits, source_of, unfitted
from ltrbench.errors import ConfigError
from ltrbench.runs.record import find_runs, holds_runs

_OF_A_PART = ("cv", "cv_repeats", "replicates", "search", "executor", "distributed", "register")
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
    comparison. It is a run for show, predict, ship, serve and sync, and no comparison contains it.

    \b
        python -m ltrbench final multirun/2026-01-31/12-00-00
        python -m ltrbench final multirun/2026-01-31/12-00-00 --model lightgbm --output chosen
    """
    from ltrbench.compare import Settings, compare
    from ltrbench.compare.final import final_fit
    from ltrbench.experiment import Experiment
    from ltrbench.experiment import run as run_experiment
    from ltrbench.rankers.importance import ImportanceSettings

    folder = folders[0] / "final" if output is None else output
    if holds_runs(folder):
        raise ConfigError(f"{folder} already has a run; name another folder with --output, or delete it.")
    runs = find_runs(folders)
    count = (lambda run: load_splits(run, all_queries=True).train.num_queries) if scale_trees else None
    fit = final_fit(compare(runs, Settings(metric=metric)), name, count)
    result = fit.run.result
    fitted = unfitted(fit.run, ranker)
    if fit.num_trees is not None:
        fitted = fitted.with_iterations(fit.num_trees)
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
    absolute = folder.absolute()
    with in_its_folder(fit.run), showing("auto", result.model) as on_progress:
        final = run_experiment(experiment, absolute, on_progress=on_progress)
    for note in fit.notes:
        echo(wrapped(f"- {note}", "  "))
    echo(f"Ship it: python -m ltrbench ship {shlex.quote(str(folder))} --to TARGET --output shipped")
    mirror_beside(runs, [final])

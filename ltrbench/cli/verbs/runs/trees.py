"""The verb `trees`: what a run's model looks like from inside."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from ltrbench.cli.files import PATH, echo, replaced
from ltrbench.cli.verbs.runs.models import RANKER_OPTION, load_model
from ltrbench.errors import ConfigError, ResultError
from ltrbench.rankers.capabilities import trees_of
from ltrbench.rankers.models.trees import Ensemble, Leaf, Node
from ltrbench.results import MODEL_FOLDER, RESULT_FILE, Run, read_run

DRAWN = 3
"""Trees that a picture shows where --first does not say how many."""


@click.command("trees")
@click.argument("run", type=PATH)
@click.option("--first", type=click.IntRange(min=1), metavar="N", help="The first N trees only.")
@click.option("--json", "as_list", is_flag=True, help="A JSON list of nested nodes instead of the text.")
@click.option(
    "--output",
    type=PATH,
    metavar="FILE.png",
    help=f"Also draw the trees: the first {DRAWN}, or as many as --first says.",
)
@RANKER_OPTION
def trees_verb(run: Path, first: int | None, as_list: bool, output: Path | None, ranker: str | None) -> None:
    """Prints the trees of the model of the finished RUN, of any backend that has trees, features by name.

    A leaf shows its value before shrinkage: times the tree's weight, which is the learning rate in most
    models, it is what the tree adds to a score. In JSON a node is {"feature", "threshold", "missing", "left",
    "right"}, nodes nested in it, or {"value"}, and a tree is its root with its "weight". Features count from
    0; a value goes left where it is at most the threshold, and a missing one where "missing" says. The score
    that all documents start from, where a model has one, is a last tree of one leaf.

    \b
        python -m ltrbench trees outputs/2026-01-31/12-00-00 --first 3 --output trees.png
    """
    from ltrbench.plots.tree_views import as_lines, as_nested, draw_trees

    finished = read_run(run)
    with _refusing_what_cannot_be_shown(run):
        ensemble = trees_of(load_model(finished, ranker))
        shown = replace(ensemble, trees=ensemble.trees[:first])
        names = _feature_names(finished, ensemble)
        if output is not None:
            _refuse_other_than_png(output)
            drawn = replace(ensemble, trees=ensemble.trees[: first or DRAWN])
            with replaced(output) as partial:
                draw_trees(drawn, names, _title(finished, len(drawn.trees), len(ensemble.trees)), partial)
        text = json.dumps(as_nested(shown), allow_nan=False) if as_list else "\n".join(as_lines(shown, names))
    echo(text)


@contextlib.contextmanager
def _refusing_what_cannot_be_shown(run: Path) -> Iterator[None]:
    """Raises ConfigError where a tree is too deep, and ResultError where the run does not name a feature."""
    try:
        yield
    except RecursionError:
        raise ConfigError(
            f"a tree of {run} is too deep to be shown: a node of it is some hundred splits below the root. "
            "Show the first trees alone with --first, or fit with a bound on the depth of trees."
        ) from None
    except IndexError:
        raise ResultError(
            f"{run / RESULT_FILE} names fewer features than the model of the run has; copy the folder again."
        ) from None


def _feature_names(run: Run, ensemble: Ensemble) -> Sequence[str]:
    """The names of the run's features, or their numbers, as LETOR counts them, where it recorded none.

    Raises:
        ResultError: where a tree asks for a feature that the run does not have.
    """
    train = run.result.data["train"]
    highest = max((_highest_feature(tree.root) for tree in ensemble.trees), default=-1)
    if highest >= train["features"]:
        raise ResultError(
            f"{run.path / MODEL_FOLDER}: a tree asks for feature {highest + 1}, and the data of the run have "
            f"{train['features']}. Copy the folder of the run again from where it came from."
        )
    return train.get("feature_names") or [str(number + 1) for number in range(train["features"])]


def _highest_feature(node: Node) -> int:
    if isinstance(node, Leaf):
        return -1
    return max(node.feature, _highest_feature(node.left), _highest_feature(node.right))


def _refuse_other_than_png(output: Path) -> None:
    if output.suffix.lower() != ".png":
        raise ConfigError(f"--output {output}: the picture is a PNG file; name it FILE.png.")


def _title(run: Run, num_drawn: int, num_trees: int) -> str:
    result = run.result
    of_fold = "" if result.data.get("fold") is None else f", fold {result.data['fold']}"
    which = f"the first {num_drawn} of " if num_drawn < num_trees else ""
    return f"{result.model} on {result.data['name']}{of_fold}: {which}{num_trees} trees"

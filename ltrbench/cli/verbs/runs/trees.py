"""The verb `trees`: prints and draws the trees of the model of a run."""

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
"""Number of trees in a picture without --first."""


@click.command("trees")
@click.argument("run", type=PATH)
@click.option("--first", type=click.IntRange(min=1), metavar="N", help="Only the first N trees.")
@click.option("--json", "as_list", is_flag=True, help="Print a JSON list of nested nodes instead of text.")
@click.option(
    "--output",
    type=PATH,
    metavar="FILE.png",
    help=f"Also draw the first {DRAWN} trees, or the first N of --first.",
)
@RANKER_OPTION
def trees_verb(run: Path, first: int | None, as_list: bool, output: Path | None, ranker: str | None) -> None:
    """Prints the trees of the model of the finished RUN, for every backend with trees.

    The score of a document is the sum of its leaf values, each multiplied by the weight of its tree, which is
    the learning rate in most models. Values up to the threshold go left. In JSON a tree is its root node and
    a "weight"; a node is {"feature", "threshold", "missing", "left", "right"}, or {"value"} if it is a leaf.
    Features are counted from 0, and "missing" is the direction of missing values; with "zero": "missing" the
    value 0 counts as missing. An initial score of all documents is shown as a last tree with one leaf.

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
    """Raises ConfigError if a tree is too deep, and ResultError if a feature has no name in the run."""
    try:
        yield
    except RecursionError:
        raise ConfigError(
            f"a tree of {run} is too deep to print: it has a node hundreds of splits below the root. Print "
            "only the first trees with --first, or fit with a maximum tree depth."
        ) from None
    except IndexError:
        raise ResultError(
            f"{run / RESULT_FILE} names fewer features than the model uses; copy the run folder again from "
            "its source."
        ) from None


def _feature_names(run: Run, ensemble: Ensemble) -> Sequence[str]:
    """Returns the feature names of the run; if it has none, the feature numbers of LETOR, from 1.

    Raises:
        ResultError: A tree uses a feature that the data of the run does not have.
    """
    train = run.result.data["train"]
    highest = max((_highest_feature(tree.root) for tree in ensemble.trees), default=-1)
    if highest >= train["features"]:
        raise ResultError(
            f"{run.path / MODEL_FOLDER}: a tree uses feature {highest + 1}, but the data of the run has "
            f"{train['features']} features. Copy the run folder again from its source."
        )
    return run.result.feature_names or [str(number + 1) for number in range(train["features"])]


def _highest_feature(node: Node) -> int:
    if isinstance(node, Leaf):
        return -1
    return max(node.feature, _highest_feature(node.left), _highest_feature(node.right))


def _refuse_other_than_png(output: Path) -> None:
    if output.suffix.lower() != ".png":
        raise ConfigError(f"--output {output}: only PNG pictures are supported; name it FILE.png.")


def _title(run: Run, num_drawn: int, num_trees: int) -> str:
    result = run.result
    of_fold = "" if result.data.get("fold") is None else f", fold {result.data['fold']}"
    which = f"the first {num_drawn} of " if num_drawn < num_trees else ""
    return f"{result.model} on {result.data['name']}{of_fold}: {which}{num_trees} trees"

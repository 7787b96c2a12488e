"""Imported models: a model file of another library becomes a run on the data of an existing run.

Unlike imported scores, the run has a model: it can predict, be shown as trees, and be shipped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from ltrbench.compare.scores.derived import Origin, derived_run, reported_metrics
from ltrbench.compare.scores.imported import on_all_queries
from ltrbench.data import RankingDataset, Splits
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.metrics import evaluate
from ltrbench.rankers.base import check_types
from ltrbench.rankers.imported import ImportedRanker
from ltrbench.rankers.imported.columns import MatchedFeatures, match_features
from ltrbench.rankers.library import model_digest
from ltrbench.rankers.models.formats.reading import ModelFile, read_model_file
from ltrbench.rankers.models.importance import DROP_COLUMN, ImportanceSettings, importances
from ltrbench.rankers.models.saved import check_saved
from ltrbench.results import FINISHED, IMPORTED, Run, ScoredSplit, claim, refuse_trial, write_run

MAY_HAVE_SEEN_TEST = (
    "It may have been trained on queries of this test set, which would make its metrics too high; compare it "
    "on queries that are newer than its training data."
)


@dataclass(frozen=True)
class ModelImport:
    """A model file, and how its features are matched with those of the data.

    Attributes:
        name: name in tables.
        path: the model file.
        features: "names", "numbers" or "positions", see `match_features`; None: chosen from the file.
    """

    name: str
    path: Path
    features: str | None = None


def import_model(system: ModelImport, like: Run, splits: Splits, folder: Path) -> Run:
    """Applies a model file to the data of a run, and writes a run with its scores and the model.

    Args:
        splits: the data of `like`, loaded again.

    Raises:
        ResultError: The file is not a supported model, the folder already contains a run, or `like` is not
            finished or a trial.
        DataError: The data differ from those of the run, or lack features of the model.
    """
    settings = _importance_settings(like)
    run, ranker = _applied(system, like, splits, folder)
    test = run.scored("test")
    with claim(folder, options="--output DIR"):
        return write_run(
            folder,
            run.result,
            ranker,
            run.held,
            evaluate(test.judgments, test.scores, reported_metrics(like)).per_query,
            importances=importances(ranker, splits, settings, ranker.seed),
            example=splits.test,
            check_model=lambda saved: check_saved(ranker, saved, splits.test.features, test.scores),
        )


def apply_model(system: ModelImport, like: Run, splits: Splits) -> Run:
    """Applies a model file to the data of a run; returns a run held in memory, with scores only.

    Args:
        splits: the data of `like`, loaded again.

    Raises:
        ResultError: As in `import_model`.
        DataError: As in `import_model`.
    """
    return _applied(system, like, splits, Path(system.name, like.path.name))[0]


def _applied(system: ModelImport, like: Run, splits: Splits, folder: Path) -> tuple[Run, ImportedRanker]:
    check_like(like)
    _check_fingerprints(like, splits)
    file = read_model_file(system.path)
    matched = match_features(file, splits.test.feature_names, system.features)
    ranker = ImportedRanker.of(file, matched.columns, splits.test.num_features)
    scored = {name: _scored(ranker, split) for name, split in splits if name != "train"}
    origin = Origin(
        model=system.name,
        params=IMPORTED,
        path=system.path,
        notes=(_sentence(file, ranker), matched.sentence, MAY_HAVE_SEEN_TEST),
        overrides=_command(system, like, folder),
        settings={"model": _settings(file, matched)},
    )
    run = derived_run(origin, on_all_queries(like), scored, seed=like.result.seed)
    num_trees = len(ranker.trees().trees)
    return replace(run, result=replace(run.result, best_iteration=num_trees)), ranker


def check_like(like: Run) -> None:
    """Checks before data are loaded that a model can be imported on the data of a run.

    Raises:
        ResultError: The run is not finished, or a trial.
    """
    if like.result.status != FINISHED:
        raise ResultError(f"{like.path} failed; name a finished run.")
    refuse_trial(like, "judgments of test")


def _scored(ranker: ImportedRanker, split: RankingDataset) -> ScoredSplit:
    return ScoredSplit(split, ranker.predict(split.features), split.query_keys, split.file_rows)


def _check_fingerprints(like: Run, splits: Splits) -> None:
    """Raises DataError if the loaded validation or test set is not that of the run."""
    recorded = like.result.data
    loaded = {name: split.fingerprint for name, split in splits if name != "train"}
    for name in ("test", "valid"):
        before, now = recorded.get(name, {}).get("fingerprint"), loaded.get(name)
        if before != now:
            raise DataError(
                f"the {name} set of {like.path} has changed since the run: its fingerprint was "
                f"{before or 'not recorded'}, and is {now or 'absent'} now. Restore its files, or name a run "
                "on the new data."
            )


def _importance_settings(like: Run) -> ImportanceSettings | None:
    """Returns the settings of the importances of a run, without those that need a fit; None if it has none.

    Raises:
        ResultError: They are invalid.
    """
    recorded: Any = like.result.config.get("importance")
    if recorded is None:
        return None
    try:
        values = {name: value for name, value in recorded.items() if name != "_target_"}
        check_types(values, get_type_hints(ImportanceSettings))
        settings = ImportanceSettings(**values)
    except (TypeError, AttributeError, ConfigError) as error:
        raise ResultError(
            f"{like.path}: the settings `importance` are invalid ({error}). Name another run on "
            "the same data."
        ) from None
    return replace(settings, kinds=[kind for kind in settings.kinds if kind != DROP_COLUMN])


def _sentence(file: ModelFile, ranker: ImportedRanker) -> str:
    num_trees = len(ranker.trees().trees)
    trees = "1 tree" if num_trees == 1 else f"{num_trees} trees"
    return (
        f"Its model ({file.library}, {trees}) was imported from {file.path}; it was not trained or timed "
        "here."
    )


def _settings(file: ModelFile, matched: MatchedFeatures) -> dict[str, Any]:
    kind = f"{ImportedRanker.__module__}.{ImportedRanker.__qualname__}"
    return {
        "_target_": kind,
        "library": file.library,
        "file": str(file.path),
        "digest": model_digest(file.content),
        "features": matched.way,
    }


def _command(system: ModelImport, like: Run, folder: Path) -> tuple[str, ...]:
    way = () if system.features is None else ("--features", system.features)
    words = ("import", system.name, str(system.path), "--like", str(like.path), "--output", str(folder))
    return (*words, *way)

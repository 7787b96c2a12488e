"""Imported scores: any system, such as RankLib or a neural ranker, joins the table without a backend.

An imported run takes the data of an existing run, and its scores from a file. The file name may contain
`{data}`, `{fold}`, `{seed}` and `{split}`, which are replaced by those of the existing run. With `{split}`
the scores of the validation set are read as well, if the file exists, so that weights can be learned on them.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ltrbench.compare.fusion import Origin, derived_run, reported_metrics
from ltrbench.compare.grouping import cell_of, first_by
from ltrbench.data import RankingDataset, Splits
from ltrbench.data.score_files import read_score_file
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.metrics import evaluate
from ltrbench.models.reading import read_model_file
from ltrbench.rankers.base import check_saved
from ltrbench.rankers.importance import DROP_COLUMN, ImportanceSettings, importances
from ltrbench.rankers.imported import ImportedRanker, match_features
from ltrbench.rankers.library import model_digest
from ltrbench.runs import FINISHED, IMPORTED, Run, RunResult, ScoredSplit, claim, refuse_trial, write_run

_PLACEHOLDERS = ("data", "fold", "seed", "split")


@dataclass(frozen=True)
class Import:
    """Name of a system, and of its score file, with or without placeholders.

    Raises:
        ConfigError: The name is missing, or the file name has an unknown placeholder or an open brace.

    >>> sorted(Import("ranklib", "scores/{split}{fold}.txt").placeholders)
    ['fold', 'split']
    """

    name: str
    pattern: str

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.pattern:
            raise ConfigError(f"{self}: expected a name and a file, as in ranklib=scores.txt.")
        unknown = sorted(self.placeholders - set(_PLACEHOLDERS))
        if unknown:
            known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
            raise ConfigError(f"{self}: unknown placeholder {{{unknown[0]}}}; known placeholders: {known}.")

    def __str__(self) -> str:
        return f"{self.name}={self.pattern}"

    @cached_property
    def placeholders(self) -> frozenset[str]:
        try:
            return frozenset(
                name for _, name, _, _ in string.Formatter().parse(self.pattern) if name is not None
            )
        except ValueError as error:
            raise ConfigError(f"{self}: {error}; write a placeholder in braces, as in {{fold}}.") from None

    def file(self, like: RunResult, split: str) -> Path:
        """Returns the file with the scores of a split for the data of a run."""
        data = like.data
        return Path(
            self.pattern.format(data=data["name"], fold=data.get("fold"), seed=like.seed, split=split)
        )


def import_scores(system: Import, runs: Sequence[Run]) -> list[Run]:
    """Returns the runs of a system, held in memory: one per cell with a score file.

    If the file name has no `{seed}`, a cell has one run, however many seeds there are.

    Raises:
        ResultError: No run is finished.
        DataError: No file exists, or a file does not match the documents of its split.
    """
    places = first_runs_of_cells(runs, by_seed="seed" in system.placeholders)
    if not places:
        raise ResultError(
            f"{system}: there is no finished run, and so no judgments to evaluate the scores with."
        )
    scored = [like for like in places if system.file(like.result, "test").exists()]
    if not scored:
        raise DataError(
            f"{system.file(places[0].result, 'test')}: there is no such file (in {Path.cwd()}), and none for "
            f"any other run. Check the path in {system}."
        )
    return _imported_in(scored, system)


def import_like(system: Import, like: Run, folder: Path) -> Run:
    """Writes the scores as a run with the data of `like` into a folder.

    Raises:
        ResultError: The folder already holds a run, or `like` is not finished or a trial.
        DataError: The file does not exist, or does not match the documents.
    """
    if like.result.status != FINISHED:
        raise ResultError(f"{like.path} failed and has no judgments; name a finished run.")
    refuse_trial(like, "judgments of test")
    (run,) = _imported_in([like], system, folder)
    test = run.scored("test")
    per_query = evaluate(test.judgments, test.scores, reported_metrics(like)).per_query
    with claim(folder, options="--output DIR"):
        return write_run(folder, run.result, scored=run.held, per_query=per_query)


def _imported_in(places: Sequence[Run], system: Import, folder: Path | None = None) -> list[Run]:
    """Returns the runs; `folder` is the output folder in the command of a run, by default NAME/RUN.

    Raises:
        DataError: A file without query ids in its lines is used for two different sets of documents.
    """
    fingerprints: dict[Path, str] = {}
    runs = []
    for like in places:
        scored, notes = {}, []
        for split in _splits(system, like):
            place, path = like.scored(split), system.file(like.result, split)
            file = read_score_file(path)
            fingerprint = str(like.result.data.get(split, {}).get("fingerprint"))
            if not file.queries and fingerprints.setdefault(path, fingerprint) != fingerprint:
                raise DataError(
                    f"{path}: its lines have no query ids, so that it cannot hold the scores of several "
                    f"sets, among them {_name_of(split, like.result)}. Write one file per set, with "
                    f"{{fold}}, {{data}} or {split} in its name."
                )
            matched = file.match(place.judgments, place.file_rows, _name_of(split, like.result))
            scored[split] = replace(place, scores=matched.scores)
            notes += [f"{path}: {note}" for note in matched.notes]
        output = folder or Path(system.name, like.path.name)
        origin = Origin(
            model=system.name,
            params=IMPORTED,
            path=system.file(like.result, "test"),
            notes=("Its scores were imported; it was not trained or timed here.", *notes),
            overrides=_command(system.name, system.pattern, like, output),
        )
        runs.append(derived_run(origin, on_all_queries(like), scored, seed=like.result.seed))
    return runs


def _command(name: str, file: str, like: Run, folder: Path) -> tuple[str, ...]:
    return ("import", name, file, "--like", str(like.path), "--output", str(folder))


def on_all_queries(like: Run) -> Run:
    """Returns the run without its resample of the training queries, which a score file does not have."""
    data = like.result.data
    if "resample" not in data:
        return like
    resample = data["resample"]
    described = ("features", "feature_names", "first_feature")
    features = {key: data["train"][key] for key in described if key in data["train"]}
    train = {**features, "fingerprint": resample["train"], "queries": resample["queries"]}
    whole = {key: value for key, value in data.items() if key != "resample"} | {"train": train}
    return replace(like, result=replace(like.result, data=whole))


def _splits(system: Import, like: Run) -> Iterator[str]:
    yield "test"
    has_valid = any(name.startswith("valid/") for name in like.result.metrics)
    if "split" in system.placeholders and has_valid and system.file(like.result, "valid").exists():
        yield "valid"


def _name_of(split: str, like: RunResult) -> str:
    fold = like.data.get("fold")
    return f"{split} of {like.data['name']}{'' if fold is None else f' fold {fold}'}"


def first_runs_of_cells(runs: Sequence[Run], by_seed: bool) -> list[Run]:
    """Returns the first run of each cell, or of each seed in each cell."""
    finished = [run for run in runs if run.result.status == FINISHED]
    return [*first_by(finished, lambda run: (cell_of(run), by_seed and run.result.seed)).values()]


# ---- Imported models: a model file of another library becomes a run on the data of an existing run.
#
# Unlike imported scores, the run has a model: it can predict, be shown as trees, and be shipped.

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
    num_trees = len(ranker.trees().trees)
    way = () if system.features is None else ("--features", system.features)
    origin = Origin(
        model=system.name,
        params=IMPORTED,
        path=system.path,
        notes=(
            f"Its model ({file.library}, {num_trees} trees) was imported from {file.path}; it was not "
            "trained or timed here.",
            matched.sentence,
            MAY_HAVE_SEEN_TEST,
        ),
        overrides=(*_command(system.name, str(system.path), like, folder), *way),
        settings={
            "model": {
                "_target_": f"{ImportedRanker.__module__}.{ImportedRanker.__qualname__}",
                "library": file.library,
                "file": str(file.path),
                "digest": model_digest(file.content),
                "features": matched.way,
            }
        },
    )
    run = derived_run(origin, on_all_queries(like), scored, seed=like.result.seed)
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
    """Returns the settings of the importances of a run, without those that need a fit; None if it has "
    "none."""
    recorded: Any = like.result.config.get("importance")
    if recorded is None:
        return None
    settings = ImportanceSettings(**{name: value for name, value in recorded.items() if name != "_target_"})
    return replace(settings, kinds=[kind for kind in settings.kinds if kind != DROP_COLUMN])

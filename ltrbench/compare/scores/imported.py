"""Scores of any system as runs: RankLib, or a neural ranker, joins the table without a backend.

A run made of a score file stands in the place of one that there is. The file's name may hold `{data}`,
`{fold}`, `{seed}` and `{split}`, which are filled in from the run whose place is taken. With `{split}` the
scores of the validation set are read too, where the file is there, so that weights can be learned on them.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ltrbench.compare.grouping import cell_of, first_by
from ltrbench.compare.scores.derived import Origin, derived_run, reported_metrics
from ltrbench.data.formats.score_files import Matched, ScoreFile, read_score_file
from ltrbench.errors import ConfigError, DataError, ResultError
from ltrbench.metrics import evaluate
from ltrbench.results import FINISHED, IMPORTED, Run, RunResult, ScoredSplit, claim, write_run

_PLACEHOLDERS = ("data", "fold", "seed", "split")


@dataclass(frozen=True)
class Import:
    """A system's name, and its score file's, with or without placeholders.

    Raises:
        ConfigError: where there is no name, or the file's holds another placeholder or a brace that is not
            closed.

    >>> sorted(Import("ranklib", "scores/{split}{fold}.txt").placeholders)
    ['fold', 'split']
    """

    name: str
    pattern: str

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.pattern:
            raise ConfigError(f"{self}: a name and a file were expected, as in ranklib=scores.txt.")
        unknown = sorted(self.placeholders - set(_PLACEHOLDERS))
        if unknown:
            known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
            raise ConfigError(f"{self}: there is no placeholder {{{unknown[0]}}}; known are {known}.")

    def __str__(self) -> str:
        return f"{self.name}={self.pattern}"

    @cached_property
    def placeholders(self) -> frozenset[str]:
        try:
            return frozenset(
                name for _, name, _, _ in string.Formatter().parse(self.pattern) if name is not None
            )
        except ValueError as error:
            raise ConfigError(f"{self}: {error}; braces hold a placeholder, as in {{fold}}.") from None

    def file(self, like: RunResult, split: str) -> Path:
        """The file with the scores of a split, in the place of a run."""
        data = like.data
        return Path(
            self.pattern.format(data=data["name"], fold=data.get("fold"), seed=like.seed, split=split)
        )


def import_scores(system: Import, runs: Sequence[Run]) -> list[Run]:
    """Runs of a system, held in memory: one in each cell of the given runs that it has a file for.

    Where the file's name has no `{seed}`, a cell has one run, however many seeds there are.

    Raises:
        ResultError: where no run is finished.
        DataError: where no file is there, or one does not score the documents of its split.
    """
    places = _first_of_cells(runs, by_seed="seed" in system.placeholders)
    if not places:
        raise ResultError(
            f"{system}: there is no finished run, by whose judgments the scores could be judged."
        )
    scored = [like for like in places if system.file(like.result, "test").exists()]
    if not scored:
        raise DataError(
            f"{system.file(places[0].result, 'test')}: there is no such file (seen from {Path.cwd()}), nor "
            f"one for another run. Check the path in {system}."
        )
    return _imported_in(scored, system)


def import_like(system: Import, like: Run, folder: Path) -> Run:
    """Writes the scores as a run of its own, in the place of another, into a folder.

    Raises:
        ResultError: where the folder holds a run already, or `like` is not a finished one.
        DataError: where the file is not there, or does not score the documents.
    """
    if like.result.status != FINISHED:
        raise ResultError(f"{like.path} failed and has no judgments; name a finished run.")
    (run,) = _imported_in([like], system, folder)
    test = run.scored("test")
    per_query = evaluate(test.judgments, test.scores, reported_metrics(like)).per_query
    with claim(folder, options="--output DIR"):
        return write_run(folder, run.result, scored=run.held, per_query=per_query)


class _Files:
    """The files that were read, each once, and the set of documents that each has the scores of."""

    def __init__(self) -> None:
        self._read: dict[Path, ScoreFile] = {}
        self._fingerprints: dict[Path, str] = {}
        self._known: dict[Path, set[str]] = {}

    def match(self, path: Path, place: ScoredSplit, split: str, like: RunResult) -> Matched:
        """Raises DataError where lines that name no query would be the scores of two sets of documents."""
        if path not in self._read:
            self._read[path] = read_score_file(path)
        file = self._read[path]
        fingerprint = str(like.data.get(split, {}).get("fingerprint"))
        if not file.queries and self._fingerprints.setdefault(path, fingerprint) != fingerprint:
            raise DataError(
                f"{path}: says no query in its lines, and cannot be the scores of several sets, of which "
                f"{_name_of(split, like)} is one. Give a file each, with {{fold}}, {{data}} or {{split}} "
                "in its name."
            )
        self._known.setdefault(path, set()).update(place.judgments.query_ids.tolist())
        return file.match(place.judgments, place.file_rows, _name_of(split, like))

    def left_out(self) -> tuple[str, ...]:
        """A sentence for each file with queries that nothing was judged on."""
        others = {path: set(file.queries) - self._known[path] for path, file in self._read.items()}
        return tuple(
            f"{path}: {len(queries)} of its {len(self._read[path].queries)} queries are not in the data of "
            "these runs and were left out."
            for path, queries in others.items()
            if queries
        )


def _imported_in(places: Sequence[Run], system: Import, folder: Path | None = None) -> list[Run]:
    """The runs; `folder` is where the command that makes one again writes it, None: NAME/RUN."""
    files = _Files()
    runs = [_imported(system, like, files, folder or Path(system.name, like.path.name)) for like in places]
    left_out = files.left_out()
    return [replace(run, result=replace(run.result, notes=(*run.result.notes, *left_out))) for run in runs]


def _imported(system: Import, like: Run, files: _Files, folder: Path) -> Run:
    scored, notes = {}, []
    for split in _splits(system, like):
        place = like.scored(split)
        path = system.file(like.result, split)
        matched = files.match(path, place, split, like.result)
        scored[split] = replace(place, scores=matched.scores)
        notes += [f"{path}: {note}" for note in matched.notes]
    test_file = system.file(like.result, "test")
    origin = Origin(
        model=system.name,
        params=IMPORTED,
        path=test_file,
        notes=("Its scores were imported; it was not trained or timed here.", *notes),
        overrides=("import", system.name, system.pattern, "--like", str(like.path), "--output", str(folder)),
    )
    return derived_run(origin, _on_all_queries(like), scored, seed=like.result.seed)


def _on_all_queries(like: Run) -> Run:
    """The run without the resample that it was trained on, of which a score file says nothing."""
    data = like.result.data
    if "resample" not in data:
        return like
    resample = data["resample"]
    features = {key: data["train"][key] for key in ("features", "feature_names") if key in data["train"]}
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


def _first_of_cells(runs: Sequence[Run], by_seed: bool) -> list[Run]:
    """The first run of each cell, or of each seed in each cell."""
    finished = [run for run in runs if run.result.status == FINISHED]
    return [*first_by(finished, lambda run: (cell_of(run), by_seed and run.result.seed)).values()]

"""The origin of a run: every kind is stored and read, and one definition tells what was fitted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from claim_cases import folds, only
from messages import naming
from toy_runs import FINAL, IMPORTED, write

from ltrbench.compare.planning import next_step
from ltrbench.errors import ResultError
from ltrbench.runs import read_run
from ltrbench.runs.origin import (
    KINDS,
    Copied,
    Ensemble,
    Fused,
    Origin,
    Trained,
    Trial,
    Variant,
)
from ltrbench.runs.record import RESULT_FILE, class_and_folder_of_model

EVERY: list[Origin] = [
    Trained(),
    Copied(run="0"),
    Trial(),
    FINAL,
    IMPORTED,
    Fused(method="rrf", members=["a", "b"], is_imported=False),
    Ensemble(weights={"a": 1.0, "b": 0.0}, runs={"a": "0", "b": "1"}, is_imported=True),
    Variant(of="a", run="0", change="trees=10%", ranker="x", is_imported=False),
]


def test_the_cases_are_all_kinds() -> None:
    assert [type(origin) for origin in EVERY] == list(KINDS)


@pytest.mark.parametrize("origin", EVERY, ids=lambda origin: origin.kind)
def test_every_kind_is_read_as_it_was_written_and_answers_every_question(
    origin: Origin, tmp_path: Path
) -> None:
    run = write(tmp_path / "run", "native", origin=origin)
    assert read_run(run.path).result.origin == origin
    kind = origin.kind
    assert origin.is_compared == (kind not in ("trial", "final"))
    assert origin.was_fitted == (kind in ("trained", "copied", "trial", "final"))
    (tmp_path / "run" / "model").mkdir()
    if origin.has_model:
        class_and_folder_of_model(run)
    else:
        with pytest.raises(ResultError, match=naming(run.path, "model")):
            class_and_folder_of_model(run)


@pytest.mark.parametrize(
    ("record", "parts"),
    [
        ({"kind": "guessed"}, ("origin.kind", "'guessed'", "trained")),
        ({"kind": "copied"}, ("origin.run", "missing")),
        ({"kind": "trained", "run": "0"}, ("origin.run", "unknown")),
        ({"kind": "copied", "run": 3}, ("origin.run", "3")),
    ],
)
def test_an_origin_that_is_none_is_refused(
    record: object, parts: tuple[str, ...], tmp_path: Path
) -> None:
    run = write(tmp_path / "run", "native")
    file = run.path / RESULT_FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | {"origin": record}))
    with pytest.raises(ResultError, match=naming(file, *parts)):
        read_run(run.path)


@pytest.mark.parametrize("origin", EVERY, ids=lambda origin: origin.kind)
def test_only_fitted_rows_are_trained_again(origin: Origin, tmp_path: Path) -> None:
    # Times and settings do not matter: a variant and an ensemble may have both.
    if not origin.is_compared:
        return
    runs = folds(tmp_path, "native", (1,))[:1]
    other = write(tmp_path / "other", "other", origin=origin)
    step = next_step(only([*runs, other]), None)
    assert step is not None
    assert ("other" in step.command) == origin.was_fitted


def test_a_variant_of_an_imported_model_is_a_variant_and_its_claims_say_that_it_is_imported(
    tmp_path: Path,
) -> None:
    variant = Variant(
        of="old (imported)",
        run="old",
        change="trees=10%",
        ranker="ImportedRanker",
        is_imported=True,
    )
    name = "old (imported) trees=10%"
    native = folds(tmp_path, "native", (1,))
    old = folds(tmp_path, "old", (1,), skill=0.9, origin=variant)
    renamed = [replace(run, result=replace(run.result, model=name)) for run in old]
    comparison = only([*native, *renamed])
    assert {row.label for row in comparison.rows} == {"native", name}
    (pair,) = comparison.pairs
    assert pair.methods.scope.has_imported

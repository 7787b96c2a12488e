# mypy: strict-optional=False
"""Looks at a sweep: what counts as a new one, the level of its claims, and trainings that are left out."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claim_cases import QUERIES
from command_line import TINY, run
from messages import naming
from plan_cases import job, numbered
from toy_runs import mentions, write

from ltrbench.compare import Comparison, Guard, Settings, answer_of, compare, render
from ltrbench.compare.remarks import notes_of
from ltrbench.errors import ResultError
from ltrbench.metrics import preset
from ltrbench.runs.record import find_runs
from ltrbench.statistics import LEVEL
from ltrbench.statistics.claims import UNDECIDED
from ltrbench.sweep.ledger import LEDGER_FILE, compare_sweeps, read_ledger
from ltrbench.sweep.plan import plan_jobs, prepare_sweep, read_plan

MODELS = ("native", "lightgbm", "xgboost")


def sweep_of(folder: Path, seeds: Iterable[int], **given: Any) -> Path:
    """Plans and runs jobs of three models, or the jobs that are missing."""
    drafts = [
        job(f"model={model}", f"seed={seed}", values={"seed": seed})
        for model in MODELS
        for seed in seeds
    ]
    prepare_sweep(folder)
    for planned in plan_jobs(read_plan(folder), drafts, numbered):
        if not (folder / planned.folder).exists():
            model, seed = (override.partition("=")[2] for override in planned.overrides)
            skill = 1.0 + 0.5 * MODELS.index(model)
            write(
                folder / planned.folder,
                model,
                seed=int(seed),
                skill=skill,
                fold=None,
                counted=QUERIES,
                **given,
            )
    return folder


def about_the_look(comparison: Comparison) -> str:
    notes = [note for note in notes_of(comparison.remarks) if note.term == "look"]
    return " ".join(note.sentence for note in notes)


def after(number: int) -> float:
    """Level of the look with this number, if the first one was declared."""
    return LEVEL / (number * (number + 1))


def compared(*folders: Path, declared: int = 1, **settings: Any) -> Comparison:
    chosen = Settings(**settings, num_draws=200)
    (comparison,) = compare_sweeps(find_runs(folders), chosen, declared)
    return comparison


@pytest.mark.slow
def test_the_level_falls_with_every_other_look_at_the_same_runs(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path / "s", (1, 2, 3))
    first = compared(sweep)
    assert (first.settings.level, len(read_ledger(sweep))) == (LEVEL, 1)
    # Not another look: the same one again, and with the region of equivalence that it had.
    assert (
        compared(sweep).settings.level
        == compared(sweep, rope=0.005).settings.level
        == LEVEL
    )
    looks: list[dict[str, Any]] = [
        {"metric": "ndcg@5"},
        {"rope": 0.01},
        {"family": ("ndcg@5", "ndcg@10")},
        {"convention": preset("lightgbm")},
        {"baseline": "native"},
    ]
    for number, settings in enumerate(looks, start=2):
        comparison = compared(sweep, **settings)
        assert comparison.settings.level == after(number)
        direct = compare(
            find_runs([sweep]),
            settings=replace(comparison.settings, level=after(number)),
        )
        assert comparison.claims == direct[0].claims
        assert comparison.family == direct[0].family
    longer = compared(sweep_of(sweep, (1, 2, 3, 4, 5)))
    assert longer.settings.level == after(7)
    # Every output states the level.
    look = about_the_look(longer)
    assert mentions(look, "look 7", "0.0893 %", "ndcg@5", "0.01", "and 3 more")
    assert mentions(render(longer), "99.9107 %")
    # A repeated look keeps its level.
    again = compared(sweep, metric="ndcg@5")
    assert again.settings.level == after(8)  # with more seeds it is another one
    assert compared(sweep, metric="ndcg@5").settings.level == after(8)


def test_rotating_the_primary_metric_the_family_and_the_guards_are_other_looks(
    tmp_path: Path,
) -> None:
    sweep = sweep_of(tmp_path / "s", (1, 2, 3))

    def guarded(metric: str, *guards: str) -> dict[str, Any]:
        parsed = tuple(map(Guard.parse, guards))
        return {"metric": metric, "guards": parsed, "baseline": "native"}

    looks: list[dict[str, Any]] = [
        guarded("ndcg@10", "map=-0.01"),
        guarded("map", "ndcg@10=-0.01"),
        guarded("ndcg@10", "map=-0.02"),
        guarded("ndcg@10", "map=-0.01", "memory=99MB"),
        guarded("ndcg@10", "map=-0.01", "memory=1GB"),
        {"metric": "ndcg@10", "family": ("map",), "baseline": "native"},
        {"metric": "map", "family": ("ndcg@10",), "baseline": "native"},
    ]
    levels = [compared(sweep, **settings).settings.level for settings in looks]
    assert levels == [LEVEL, *(after(number) for number in range(2, 8))]
    # The same look: guards and further metrics in another order, and a primary metric that is named twice.
    again = compared(sweep, **guarded("ndcg@10", "memory=1GB", "map=-0.01"))
    assert again.settings.level == after(5)
    family = ("map", "ndcg@10")
    same = compared(sweep, metric="ndcg@10", family=family, baseline="native")
    assert same.settings.level == after(6)
    assert mentions(about_the_look(same), "map=-0.01")


def test_other_rows_and_other_left_out_trainings_are_other_looks(
    tmp_path: Path,
) -> None:
    sweep = sweep_of(tmp_path / "s", range(5))
    folders = [sweep / str(number) for number in range(15)]
    assert compared(sweep).settings.level == LEVEL
    assert compared(*folders[:10]).settings.level == after(2)
    # Two systems of one name, outside of the sweep.
    for number, skill in enumerate((0.1, 0.2), start=3):
        write(
            tmp_path / f"new{number}",
            "new",
            seed=0,
            skill=skill,
            fold=None,
            counted=QUERIES,
        )
        assert compared(sweep, tmp_path / f"new{number}").settings.level == after(
            number
        )
    # A comparison of one model lacks four trainings, of which a sentence shows three.
    for number, kept in enumerate((0, 1), start=5):
        shown = compared(*folders[5:], folders[kept], selected="a test")
        assert shown.settings.level == after(number)
        assert mentions(about_the_look(shown), "4 of 5", "and 1 more")


def test_each_data_set_has_looks_of_its_own(tmp_path: Path) -> None:
    a = sweep_of(tmp_path / "a", (1, 2, 3))
    b = sweep_of(tmp_path / "b", (4, 5, 6, 7), name="other")
    assert compared(a).settings.level == LEVEL
    both = compare_sweeps(find_runs([a, b]), Settings(num_draws=200))
    assert [item.settings.level for item in both] == [LEVEL, LEVEL]
    assert [len(read_ledger(folder)) for folder in (a, b)] == [1, 1]
    assert "seed 3" not in read_ledger(b)[0]["trainings"]


def test_declared_looks_share_the_level_and_several_ledgers_are_joined(
    tmp_path: Path,
) -> None:
    a, b = sweep_of(tmp_path / "a", (1, 2, 3)), sweep_of(tmp_path / "b", (4, 5, 6))
    assert compared(a, declared=2).settings.level == LEVEL / 2
    assert compared(a, metric="ndcg@5").settings.level == LEVEL / 2
    assert compared(a, b).settings.level == after(3)
    assert [len(read_ledger(folder)) for folder in (a, b)] == [3, 1]


def test_looks_that_are_declared_after_the_first_one_do_not_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sweep = sweep_of(tmp_path / "s", (1, 2, 3))
    assert compared(sweep).settings.level == LEVEL
    assert caplog.text == ""
    for number, metric in enumerate(("ndcg@5", "map"), start=2):
        late = compared(sweep, declared=5, metric=metric)
        assert late.settings.level == after(number)
    time = read_ledger(sweep)[0]["time"]
    assert mentions(caplog.text, "looks=5", "ndcg@10", "3 seeds", time, "looks=1")
    # The first look keeps its level, also if it is repeated with a declaration.
    assert compared(sweep).settings.level == LEVEL
    assert compared(sweep, declared=5).settings.level == LEVEL
    assert compared(sweep, metric="map").settings.level == after(3)
    # More looks than were declared.
    more = sweep_of(tmp_path / "more", (1, 2, 3))
    caplog.clear()
    for metric in ("ndcg@10", "map"):
        first = compared(more, declared=2, metric=metric)
        assert first.settings.level == LEVEL / 2
    assert caplog.text == ""
    third = compared(more, declared=9, metric="ndcg@5")
    assert third.settings.level == after(3)


def test_a_row_without_some_of_its_planned_trainings_carries_no_claim(
    tmp_path: Path,
) -> None:
    sweep = sweep_of(tmp_path / "s", (1, 2, 3, 4, 5))
    of_native = [
        job.folder
        for job in read_plan(sweep).jobs.values()
        if "model=native" in job.overrides
    ]
    for folder in of_native[2:4]:
        shutil.rmtree(sweep / folder)
    partial = compared(sweep)
    for pair in partial.pairs:
        is_partial = "native" in (pair.a, pair.b)
        for claim in pair.claims:
            assert (claim.interval is None) == is_partial
            parts = ["2 of 5", "native", "seed 3", "seed 4"] if is_partial else []
            assert mentions(claim.reason, *parts)
            assert claim.state == UNDECIDED or not is_partial
    answer = answer_of(partial)
    assert mentions(" ".join(answer.remarks), "--selected")
    resume = f"python -m ltrbench resume {os.path.relpath(sweep)}"
    assert answer.next_step.command == resume
    assert mentions(answer.next_step.purpose, "2 of 15 jobs")
    selected = compared(sweep, selected="they crashed")
    assert all(pair.models.interval for pair in selected.pairs)
    assert mentions(about_the_look(selected), "they crashed", "2 of 5", "seed 3")
    assert selected.settings.level == after(2)
    # A comparison of fewer models is deliberate.
    others = [
        sweep / job.folder
        for job in read_plan(sweep).jobs.values()
        if job.folder not in of_native
    ]
    assert all(pair.models.interval for pair in compared(*others).pairs)


def test_a_comparison_that_nobody_sees_is_no_look_and_repeats_the_claims_of_one(
    tmp_path: Path,
) -> None:
    sweep = sweep_of(tmp_path / "s", (1, 2, 3))
    unseen = compared(sweep, declared=0)
    assert all(pair.models.interval is None for pair in unseen.claims)
    assert mentions(unseen.claims[0].models.reason, "printed", "compare")
    assert not (sweep / LEDGER_FILE).exists()
    seen = compared(sweep)
    assert compared(sweep, declared=0).claims == seen.claims
    assert seen.settings.level == LEVEL
    compared(sweep_of(sweep, (1, 2, 3, 4, 5)), declared=0)
    assert len(read_ledger(sweep)) == 1


def test_a_look_that_cannot_be_recorded_is_shown_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = sweep_of(tmp_path / "s", (1, 2, 3))
    opened = Path.open

    def refuse(path: Path, *args: Any, **options: Any) -> Any:
        if path.name == LEDGER_FILE:
            raise OSError(errno.EROFS, "Read-only file system")
        return opened(path, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refuse)
        assert mentions(compared(sweep).notes, sweep, "Read-only file system")
    (sweep / LEDGER_FILE).write_text("garbage{\n")
    with pytest.raises(
        ResultError, match=naming(f"{sweep / LEDGER_FILE}, line 1", "--looks 2")
    ):
        compared(sweep)


@pytest.mark.slow
def test_the_commands_of_one_table_are_no_looks_if_they_declare_none(
    tmp_path: Path,
) -> None:
    for model in ("random", "single_feature"):
        words = [*TINY, f"model={model}", "cv=3", "data.fold=1,2,3"]
        done = run(*words, "hydra.sweep.dir=s", "looks=0", "-m", folder=tmp_path)
        assert "ndcg@10, " not in done.stdout
    assert not (tmp_path / "s" / LEDGER_FILE).exists()
    done = run("compare", "s", "--json", folder=tmp_path)
    assert json.loads(done.stdout)["level"] == LEVEL


@pytest.mark.slow
def test_commands_write_nothing_but_the_ledger(tmp_path: Path) -> None:
    run(
        *TINY,
        "model=random,single_feature",
        "seed=1,2,3",
        "hydra.sweep.dir=s",
        "looks=4",
        "-m",
        folder=tmp_path,
    )
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = run("compare", "s", "--metric", "map", "--json", folder=tmp_path)
    assert json.loads(done.stdout)["level"] == LEVEL / 4
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    changed = [path.name for path in after if after[path] != before.get(path)]
    assert changed == [LEDGER_FILE]
    assert len(read_ledger(tmp_path / "s")) == 2

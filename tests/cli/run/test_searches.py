"""Searches on the command line: trials, the choice, resuming and extending, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run

from ltrbench.runs import read_run

TINY = (
    *(
        "data.num_queries=40",
        "params.num_trees=8",
        "tracking=none",
        "metrics=[ndcg@10]",
        "progress=none",
    ),
    *("importance=null", "hydra.sweep.dir=s", "num_threads=1"),
)
SEARCH = ("-m", "search=random", "search.trials=4", *TINY)


def record(folder: Path) -> dict[str, Any]:
    """Returns the record of a run."""
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a command that searched for two models, with a yardstick."""
    folder = tmp_path_factory.mktemp("searched")
    run("model=native,lightgbm,random", *SEARCH, folder=folder)
    return folder


@pytest.mark.slow
def test_the_final_run_has_the_settings_of_the_best_trial_on_validation(
    searched: Path,
) -> None:
    for name in ("0", "1"):
        final = read_run(searched / "s" / name)
        trials, search = final.trials(), final.result.search
        assert len(trials) == search["trials"] == 4
        best = trials[int(np.argmax([trial.value for trial in trials]))]
        assert (best.trial, best.low, best.high) == (search["chosen"], 0.0, 0.0)
        fields = final.result.ranker["fields"]
        assert {key: fields[key] for key in search["settings"]} == search["settings"]
        assert final.result.metrics["valid/ndcg@10"] == pytest.approx(best.value, abs=0)
        assert "test/ndcg@10" in final.result.metrics
        assert (final.result.command or ())[-1] == "-m"


@pytest.mark.slow
def test_a_trial_never_sees_test_and_stores_no_model(searched: Path) -> None:
    trials = [*searched.glob("s/trials/*")]
    assert len(trials) == 2 * 4
    for folder in trials:
        assert record(folder)["origin"] == {"kind": "trial"}
        assert set(record(folder)["metrics"]) == {"valid/ndcg@10"}
        assert not (folder / "model").exists()
        with np.load(folder / "scores.npz") as stored:
            assert not [key for key in stored if key.startswith("test")]


@pytest.mark.slow
def test_an_interrupted_search_resumes_to_the_same_result(
    searched: Path, tmp_path: Path
) -> None:
    shutil.copytree(searched / "s", tmp_path / "s")
    for name in ("1", "trials/4", "trials/8"):
        shutil.rmtree(tmp_path / "s" / name)
    (tmp_path / "s/plan/8.json").unlink()
    (tmp_path / "s/plan/9.json").unlink(missing_ok=True)
    run("resume", "s", folder=tmp_path)
    resumed, whole = (record(folder / "s/1") for folder in (tmp_path, searched))
    assert {**resumed["search"], "seconds": 0} == {**whole["search"], "seconds": 0}
    assert resumed["metrics"] == whole["metrics"]


@pytest.mark.slow
def test_trials_alone_are_the_first_trials_of_the_whole_command(
    searched: Path, tmp_path: Path
) -> None:
    command = ("model=native,lightgbm,random", *SEARCH)
    for number in (1, 4):
        words = ("only_trials=true", f"search.trials={number}")
        done = run(*command, *words, folder=tmp_path)
        assert f"the best of {number} trials" in done.stderr
        assert len([*tmp_path.glob("s/trials/*/result.json")]) == 2 * number
    assert not done.stdout
    assert not [*tmp_path.glob("s/[0-9]*")]
    times = {path: path.stat().st_mtime for path in tmp_path.glob("s/trials/*")}
    run(*command, folder=tmp_path)
    # After the trials 0 to 7, which are not trained again.
    native = record(tmp_path / "s/8")
    assert native["metrics"] == record(searched / "s/0")["metrics"]
    assert times == {path: path.stat().st_mtime for path in tmp_path.glob("s/trials/*")}


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["only_trials=true", "-m"], ["only_trials", "search=tpe"]),
        (["search=random"], ["search is set", "-m"]),
        (
            ["search=random", "search.trials=0", "-m"],
            ["search.trials is 0", "at least 1"],
        ),
        (
            ["search=random", "+search.space.shared.depth={low: 1, high: 2}", "-m"],
            ["depth", "shared"],
        ),
        # Validation queries of a fold are test queries of another one.
        (
            ["search=random", "cv=3", "search.choose=overall", "-m"],
            ["search.choose=per_fold"],
        ),
    ],
)
def test_what_a_search_cannot_do_is_refused_before_training(
    words: list[str], parts: list[str], tmp_path: Path
) -> None:
    done = run("model=native", *words, *TINY, folder=tmp_path, check=2)
    assert all(part in done.stderr for part in parts), done.stderr
    assert not list(tmp_path.glob("**/result.json"))

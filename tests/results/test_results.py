"""A run's folder: what is written is what is read, and half a run is none."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import naming
from toy_runs import keys_of, search_record

from ltrbench.cli import main
from ltrbench.compare import compare
from ltrbench.data import Judgments
from ltrbench.data.synthetic import Synthetic
from ltrbench.errors import ResultError
from ltrbench.experiment import ChosenSettings, Experiment, run
from ltrbench.metrics import evaluate
from ltrbench.rankers.random import RandomRanker
from ltrbench.runs.origin import Trial
from ltrbench.runs.record import (
    FAILED,
    FINISHED,
    TRIAL_COLUMNS,
    TRIALS_FILE,
    Run,
    RunResult,
    ScoredSplit,
    TrialRow,
    find_runs,
    find_runs_and_trials,
    read_run,
)
from ltrbench.runs.writing import claim, copy_run, write_run

RESULT = RunResult(
    status=FINISHED,
    model="native",
    params="matched",
    seed=3,
    data={
        "name": "toy",
        "train": {"fingerprint": "a", "features": 3},
        "test": {"fingerprint": "b", "queries_without_relevant_document": 0.0},
    },
    metrics={"test/ndcg@10": 0.5, "test/map": float("nan")},
    convention={"name": "default", "gain": "exponential_gain"},
    config={"model": {"_target_": "ltrbench.rankers.random.RandomRanker"}},
    seconds={"fit": 1.5},
)
JUDGMENTS = Judgments(
    labels=np.array([0, 1, 2]),
    query_start=np.array([0, 2, 3]),
    query_ids=np.array(["a", "ü"]),
    document_ids=np.array(["x", "y", ""]),
    query_weights=np.array([1.0, 2.0]),
)
SCORES = np.array([0.25, 1e-30, -3], dtype=np.float32)
KEYS = keys_of(JUDGMENTS)


def test_scores_come_back_bit_for_bit_with_everything_a_metric_needs(
    tmp_path: Path,
) -> None:
    write_run(tmp_path, RESULT, scored={"test": ScoredSplit(JUDGMENTS, SCORES, KEYS)})
    stored = read_run(tmp_path).scored("test")
    assert stored.scores.dtype == np.float32
    np.testing.assert_array_equal(stored.scores, SCORES)
    for name in ("labels", "query_start", "query_ids", "document_ids", "query_weights"):
        np.testing.assert_array_equal(
            getattr(stored.judgments, name), getattr(JUDGMENTS, name)
        )


def test_the_settings_of_a_run_are_those_of_the_ranker_that_ran_and_not_those_of_its_configuration() -> (
    None
):
    assert RESULT.settings["model"] == {
        "_target_": "ltrbench.rankers.random.RandomRanker"
    }
    ranker = {"class": "my.Ranker", "fields": {"depth": 3}}
    config = {"model": {"_target_": "my.Ranker", "depth": 2}, "seed": 1}
    ran = replace(
        RESULT,
        ranker=ranker,
        source={"class": "my.Source", "fields": {"name": "a"}},
        config=config,
    )
    assert ran.settings == {
        "model": {"_target_": "my.Ranker", "depth": 3},
        "data": {"_target_": "my.Source", "name": "a"},
        "seed": 1,
    }


def test_what_is_not_a_number_is_null_in_the_file(tmp_path: Path) -> None:
    write_run(tmp_path, RESULT)
    assert "NaN" not in (tmp_path / "result.json").read_text()
    assert read_run(tmp_path).result.metrics == {"test/ndcg@10": 0.5, "test/map": None}


def test_per_query_values_leave_skipped_queries_empty(tmp_path: Path) -> None:
    scored = {"test": ScoredSplit(JUDGMENTS, SCORES, KEYS)}
    write_run(
        tmp_path, RESULT, scored=scored, per_query={"mrr": np.array([1 / 2, np.nan])}
    )
    assert (
        tmp_path / "per_query.csv"
    ).read_text() == "query_id,num_documents,weight,mrr\na,2,1.0,0.5\nü,1,2.0,\n"


def test_means_follow_from_the_values_and_weights_of_queries(tmp_path: Path) -> None:
    weighted = replace(JUDGMENTS, query_weights=np.array([3.0, 1 / 3]))
    scored = {"test": ScoredSplit(weighted, SCORES, KEYS)}
    evaluation = evaluate(weighted, SCORES, ["mrr"])
    done = write_run(tmp_path, RESULT, scored=scored, per_query=evaluation.per_query)
    columns = done.per_query()
    mean = np.average(columns["mrr"], weights=columns["weight"])
    assert mean == pytest.approx(evaluation.means["mrr"], rel=1e-15)
    assert done.to_frame()["weight"].tolist() == [3.0, 1 / 3]


class Saved(RandomRanker):
    def save(self, folder: Path) -> None:
        (folder / "model.json").write_text("a model" * 30)


@pytest.fixture
def largest_file() -> Iterator[Callable[[int], None]]:
    """`largest_file(n)`: from now on, this process cannot write more than n bytes to a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("size", [0, 700])
def test_on_a_full_disk_no_part_of_a_run_is_kept_and_the_folder_can_be_used_afterwards(
    size: int, copied: bool, tmp_path: Path, largest_file: Callable[[int], None]
) -> None:
    scored = {"test": ScoredSplit(JUDGMENTS, SCORES, KEYS)}
    source = write_run(tmp_path / "source", RESULT, Saved(), scored)

    def write() -> Run:
        if copied:
            return copy_run(source, tmp_path / "run", RESULT)
        return write_run(tmp_path / "run", RESULT, Saved(), scored)

    with claim(tmp_path / "run"):
        largest_file(size)
        with pytest.raises(
            ResultError, match=naming(tmp_path / "run", "too large", "ulimit -f")
        ):
            write()
        assert [path.name for path in (tmp_path / "run").iterdir()] == [".lease-lock"]
    largest_file(resource.RLIM_INFINITY)
    with claim(tmp_path / "run"):
        write()
    names = sorted(path.name for path in source.path.iterdir())
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == names


def test_runs_are_found_in_the_order_in_which_they_ran(tmp_path: Path) -> None:
    for number in (10, 9, 2):
        write_run(tmp_path / "sweep" / str(number), RESULT)
    found = find_runs([tmp_path / "sweep" / "9", tmp_path])
    assert [run.path.name for run in found] == ["9", "2", "10"]


def test_a_folder_with_a_finished_run_is_not_written_over_but_a_failed_one_is(
    tmp_path: Path,
) -> None:
    write_run(tmp_path / "done", RESULT)
    with (
        pytest.raises(
            ResultError, match=naming(tmp_path / "done", "result.json", "hydra.run.dir")
        ),
        claim(tmp_path / "done"),
    ):
        raise AssertionError
    failed = RunResult(
        status=FAILED, model="native", params="matched", seed=0, data={"name": "toy"}
    )
    write_run(tmp_path / "failed", failed)
    with claim(tmp_path / "failed"):
        write_run(tmp_path / "failed", RESULT)
    assert read_run(tmp_path / "failed").result.status == FINISHED


def test_copies_of_runs_in_an_mlflow_store_and_hidden_folders_are_not_found_again(
    tmp_path: Path,
) -> None:
    for place in ("multirun/0", "mlruns/1/abc/artifacts", ".cache/0"):
        write_run(tmp_path / place, RESULT)
    assert [run.path for run in find_runs([tmp_path])] == [tmp_path / "multirun/0"]


# Trials of a search on disk: trials.csv of the final run, and the run folders of trials among other runs.


SEARCH = search_record()
TRIALS = (
    TrialRow(
        0, "complete", 0.5, 30, 1.5, -0.25, 0.125, {"l2": "0.0", 'a "b",\nc': "x,\r\ny"}
    ),
    TrialRow(1, "complete", 1 / 3, 12, 0.5, 0.0, 0.0, {"l2": "0.5", 'a "b",\nc': ""}),
    TrialRow(
        2,
        "failed",
        float("nan"),
        0,
        0.0,
        float("nan"),
        float("nan"),
        {"l2": "é", 'a "b",\nc': "|"},
    ),
)


def experiment(**settings: Any) -> Experiment:
    source = Synthetic(name="synthetic", num_queries=20)
    return Experiment(
        model="random",
        ranker=RandomRanker(),
        source=source,
        importance=None,
        **settings,
    )


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """A sweep with a final run and two trials."""
    run(experiment(chosen=ChosenSettings(SEARCH, TRIALS)), tmp_path / "sweep/0")
    for number in (0, 1):
        run(experiment(origin=Trial()), tmp_path / f"sweep/trials/{number}")
    return tmp_path / "sweep"


def test_trials_are_read_as_they_were_written_and_written_the_same_every_time(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        run(experiment(chosen=ChosenSettings(SEARCH, TRIALS)), tmp_path / name)
    assert (tmp_path / "a" / TRIALS_FILE).read_bytes() == (
        tmp_path / "b" / TRIALS_FILE
    ).read_bytes()
    header, *_ = (tmp_path / "a" / TRIALS_FILE).read_text().splitlines()
    assert header.replace('"', "").startswith(",".join([*TRIAL_COLUMNS, "l2"]))
    done = read_run(tmp_path / "a")
    assert done.result.search == SEARCH
    assert [replace(row, value=0, low=0, high=0) for row in done.trials()] == [
        replace(row, value=0, low=0, high=0) for row in TRIALS
    ]
    for name in ("value", "low", "high"):
        np.testing.assert_array_equal(
            [getattr(row, name) for row in done.trials()],
            [getattr(row, name) for row in TRIALS],
        )


def paths(runs: list[Run], sweep: Path) -> list[str]:
    return [str(each.path.relative_to(sweep)) for each in runs]


def test_trials_are_found_only_where_they_are_wanted(sweep: Path) -> None:
    assert paths(find_runs([sweep]), sweep) == ["0"]
    assert paths(find_runs_and_trials([sweep]), sweep) == ["0", "trials/0", "trials/1"]


VERBS = {
    "predict": (["predict", "{trial}", "{scores}"], "model"),
    "export": (["export", "{trial}", "--format", "scores"], "scores of test"),
    "reproduce": (["reproduce", "{trial}", "{trial}"], "metrics of test"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_needs_test_scores_or_a_model_refuses_a_trial_by_name(
    verb: str, sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores, (words, needed) = tmp_path / "scores.txt", VERBS[verb]
    scores.touch()
    trial = sweep / "trials/1"
    assert main([word.format(trial=trial, scores=scores) for word in words]) == 2
    error = capsys.readouterr().err
    assert all(
        part in " ".join(error.split()) for part in (needed, "of a search", "final run")
    ), error
    assert str(trial) in error.replace("\n", "")
    assert error.count("\n\n") == 0


def test_a_comparison_never_takes_a_trial(sweep: Path) -> None:
    with pytest.raises(
        ResultError, match=naming(sweep / "trials/1", "is a trial", "final run")
    ):
        compare([read_run(sweep / "0"), read_run(sweep / "trials/1")])
    with pytest.raises(
        ResultError, match=naming(sweep / "trials/1", "is a trial", "final run")
    ):
        read_run(sweep / "trials/1").to_frame()

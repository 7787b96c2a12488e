"""The verb final: the chosen settings on all labelled queries, and the verbs that ask for it."""

# mypy: strict-optional=False

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import run, statuses
from messages import naming
from shop_log import shop_log
from toy_runs import IMPORTED, mentions, search_record, write

from ltrbench.cli import main
from ltrbench.compare import compare
from ltrbench.compare.comparison import SweepState
from ltrbench.compare.final import final_fit, refuse_part
from ltrbench.compare.remarks import LeftOut
from ltrbench.errors import LtrbenchError
from ltrbench.runs import find_runs, load, read_run
from ltrbench.runs.origin import Final, Trained
from ltrbench.runs.record import Run
from ltrbench.runs.writing import rewrite_result


def runs_of(
    folder: Path, trees: list[int], model: str = "native", **fields: Any
) -> list[Run]:
    """Writes a run with each number of trees, in the folds 1, 2, ... of a sweep."""
    ranker = {"class": "x", "fields": {"num_leaves": 7}}
    more: dict[str, Any] = {
        "ranker": ranker,
        "sweep": "study",
        "validated": None,
        **fields,
    }
    return [
        write(
            folder / "study" / f"{model}{fold}",
            model,
            fold=fold,
            best_iteration=number,
            **more,
        )
        for fold, number in enumerate(trees, 1)
    ]


def test_the_trees_are_the_median_of_the_runs_with_the_chosen_settings_rounded_up(
    tmp_path: Path,
) -> None:
    runs = runs_of(tmp_path, [10, 21, 30, 40])
    comparisons = compare([*runs, *runs_of(tmp_path, [7] * 4, "xgboost")])
    fit = final_fit(comparisons, "native")
    assert (fit.num_trees, fit.origin.scale) == (ceil((21 + 30) / 2), 1.0)
    row = comparisons[0].row("native")
    interval = comparisons[0].intervals["native"]
    estimate = (row.metrics["ndcg@10"], interval.low, interval.high)
    origin = fit.origin
    assert (origin.estimate, origin.low, origin.high) == estimate
    # Trainings that the sweep has planned.
    left_out = [LeftOut(["native"], ["fold 5"], 5)]
    lacking = replace(comparisons[0], sweeps=SweepState(left_out=left_out))
    assert mentions(final_fit([lacking], "native").notes, "native", "fold 5", "resume")
    # The runs train on 90 queries each.
    assert final_fit(comparisons, "native", lambda _: 162).num_trees == ceil(
        25.5 * 162 / 90
    )
    # A search may choose other settings in each fold, to which the numbers of trees belong.
    tuned = [
        replace(
            item, result=replace(item.result, search=search_record(), ranker=ranker)
        )
        for item, leaves in zip(runs, (7, 9, 9, 7), strict=True)
        for ranker in [{"class": "x", "fields": {"l2": leaves}}]
    ]
    fit = final_fit(compare(tuned))
    assert fit.num_trees == ceil((10 + 40) / 2)
    # The estimate belongs to both settings.
    assert fit.origin.num_settings == 2
    assert mentions(fit.notes, "search", "2 different settings")
    # The settings that most folds chose.
    ranker = {"class": "x", "fields": {"l2": 9}}
    tuned[3] = replace(tuned[3], result=replace(tuned[3].result, ranker=ranker))
    fit = final_fit(compare(tuned))
    assert fit.run.path == tuned[1].path
    assert mentions(fit.origin.reason, "3 of 4 folds")
    assert fit.num_trees == median(run.result.best_iteration for run in tuned[1:])


@pytest.mark.parametrize(
    ("words", "resample"),
    [
        (("ship", "--to", "xgboost", "--output", "new"), False),
        (("serve",), True),
        (("sync", "--register", "shop"), False),
    ],
)
def test_a_model_of_a_part_is_not_deployed(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    resample: bool,
) -> None:
    (made,) = runs_of(tmp_path, [5], data_settings={"cv": 3}, ranker={})
    data = {**made.result.data, "fold": 2}
    if resample:
        drawn = {"kind": "bootstrap", "share": 1.0, "number": 5, "index": 1, "seed": 0}
        data["resample"] = {**drawn, "train": "all", "queries": 90}
    rewrite_result(made, replace(made.result, data=data))
    verb, *options = words
    assert main([verb, str(made.path), *options]) == 2
    part = "resample 1 of 5" if resample else "fold 2 of 3"
    command = shlex.join(["final", str(tmp_path / "study"), "--model", "native"])
    printed = capsys.readouterr().err
    assert all(text in printed for text in (str(made.path), part, command, "--anyway"))
    # The run of these tests has no model, which is the next thing that is noticed.
    main([verb, str(made.path), *options, "--anyway"])
    assert "no model" in capsys.readouterr().err


def test_the_command_for_a_part_names_the_row_of_its_settings(tmp_path: Path) -> None:
    made = {}
    for leaves in (7, 15):
        ranker = {"class": "x", "fields": {"num_leaves": leaves}}
        folder = tmp_path / "study" / str(leaves)
        (made[leaves],) = runs_of(
            folder, [5], ranker=ranker, data_settings={"cv": 3}, sweep=str(tmp_path)
        )
    command = shlex.join(["final", str(tmp_path), "--model", "native num_leaves=7"])
    with pytest.raises(LtrbenchError, match=naming(command)):
        refuse_part(made[7], "shipped")


def test_a_choice_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    natives, others = runs_of(tmp_path, [1]), runs_of(tmp_path, [1], "xgboost")
    imported = runs_of(tmp_path / "imported", [1], origin=IMPORTED)
    elsewhere = runs_of(tmp_path / "elsewhere", [1], name="other")
    cases: list[tuple[list[Run], str | None, list[str]]] = [
        (natives, "nativ", ["'nativ'", "native"]),
        ([*natives, *others], None, ["validation", "--model", "native, xgboost"]),
        (imported, None, ["native", "--model"]),
        ([*natives, *elsewhere], None, ["toy, other", "--table"]),
    ]
    for runs, model, parts in cases:
        with pytest.raises(LtrbenchError, match=naming(*parts)):
            final_fit(compare(runs), model)


def test_changed_data_are_refused_unless_the_command_names_other_data(
    tmp_path: Path,
) -> None:
    def write_table(name: str, num_queries: int) -> None:
        shop_log(num_queries, 8).to_csv(tmp_path / name, index=False)

    write_table("shop.csv", 30)
    features = "data.features=[text_match,stock]"
    options = ["importance=none", "tracking=none", "hydra.run.dir=chosen"]
    words = ["model=linear", "data=table", "data.train=shop.csv", features, *options]
    run(*words, folder=tmp_path)
    run("final", "chosen", "--output", "same", folder=tmp_path)
    write_table("shop.csv", 29)
    refused = run("final", "chosen", folder=tmp_path, check=2).stderr
    fingerprint = read_run(tmp_path / "chosen").result.fingerprint("train")
    assert re.search(naming("train", "chosen", str(fingerprint), "--data"), refused)
    assert not (tmp_path / "chosen/final").exists()

    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    words = ["final", "chosen", "--data", "other.csv"]
    assert "other.csv" in run(*words, folder=tmp_path, check=2).stderr
    assert not (tmp_path / "chosen/final").exists()

    write_table("newer.csv", 20)
    other = run("final", "chosen", "--data", "newer.csv", folder=tmp_path).stdout
    assert "newer.csv" in other
    finals = [read_run(tmp_path / name).result for name in ("same", "chosen/final")]
    assert [each.data["train"]["queries"] for each in finals] == [30, 20]
    assert finals[1].feature_names == ["text_match", "stock"]
    # The final run is checked on the data that it was trained on.
    run("ship", "chosen/final", "--to", "solr", "--output", "new", folder=tmp_path)


def test_encoded_columns_keep_their_categories_on_other_data(tmp_path: Path) -> None:
    shop = shop_log(30, 8)[["query_id", "label", "text_match", "device", "stock"]]
    shop.to_csv(tmp_path / "shop.csv", index=False)
    devices = sorted(shop.device.unique())
    newer = shop.assign(device=shop.device.replace(devices[0], "watch"))
    data = ["data=table", "data.train=shop.csv", "data.encode=[device]"]
    options = ["importance=none", "tracking=none", "hydra.run.dir=chosen"]
    run("model=linear", *data, *options, folder=tmp_path)
    # Relative paths of --data begin in the folder of the command, not in that of the run.
    shop.head(4).to_csv(tmp_path / "newer.csv", index=False)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    newer.to_csv(elsewhere / "newer.csv", index=False)
    words = ["final", "../chosen", "--data", "newer.csv", "--scale-trees"]
    said = run(*words, folder=elsewhere).stderr
    assert re.search(naming("newer.csv", "device", "'watch'", 0), said)
    results = [read_run(tmp_path / name).result for name in ("chosen", "chosen/final")]
    names = ["text_match", *(f"device={device}" for device in devices), "stock"]
    assert [result.feature_names for result in results] == [names, names]
    # The data of the final run are loaded again.
    run("monitor", "chosen/final", "elsewhere/newer.csv", folder=tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("migrated_store")
def test_from_a_table_by_cross_validation_to_the_model_that_is_deployed(
    tmp_path: Path,
) -> None:
    beside, features = ["query_id", "document_id", "device"], ["text_match", "stock"]
    shop = shop_log(40, 8)[[*beside, "label", *features]]
    shop.to_csv(tmp_path / "shop.csv", index=False)
    data = "data=table data.train=shop.csv cv=3 data.keep=[device] params.num_trees=12"
    models = (
        "model=native,single_feature",
        "early_stopping.patience=2",
        "importance=null",
    )
    run(*data.split(), *models, "-m", "hydra.sweep.dir=study", folder=tmp_path)
    run("final", "study", "--model", "native", folder=tmp_path)

    final = read_run(tmp_path / "study/final").result
    folds = [
        item
        for item in find_runs([tmp_path / "study"])
        if item.result.model == "native"
    ]
    trees = [
        item.result.best_iteration for item in folds if item.result.origin == Trained()
    ]
    assert (final.best_iteration, final.data["train"]["queries"]) == (
        ceil(median(trees)),
        40,
    )
    assert (final.metrics, [*final.data]) == ({}, ["name", "fold", "train"])
    assert isinstance(final.origin, Final)
    assert final.origin.low < final.origin.estimate < final.origin.high
    run(
        "predict",
        "study/final",
        "shop.csv",
        "--output",
        "scores.parquet",
        folder=tmp_path,
    )
    scored = pd.read_parquet(tmp_path / "scores.parquet")
    np.testing.assert_array_equal(
        scored["score"], load(tmp_path / "study/final").predict(shop[features])
    )
    assert scored[beside].equals(shop[beside].astype("str"))
    run("export", "study/0", "--format", "csv", "--output", "fold.csv", folder=tmp_path)
    exported = pd.read_csv(tmp_path / "fold.csv")
    assert [*exported] == [*beside, "label", "score"]
    np.testing.assert_array_equal(
        exported["score"], read_run(tmp_path / "study/0").scored("test").scores
    )
    joined = run(
        "compare", "study", "production=scores.parquet", folder=tmp_path
    ).stdout
    names = re.findall(r"^(\w+)(?: \(imported\))?  ", joined, re.MULTILINE)
    assert {"model", "native", "single_feature", "production"} <= {*names}

    run(
        "ship", "study/final", "--to", "xgboost", "--output", "shipped", folder=tmp_path
    )
    registered = run(
        "sync", "study/final", "--register", "shop", folder=tmp_path
    ).stdout
    assert "models:/shop@champion is version 1" in registered
    assert ("native on table", "FINISHED") in statuses(tmp_path)
    with pytest.raises(LtrbenchError, match=naming("study/final", "test", "study/")):
        read_run(tmp_path / "study/final").scored("test")

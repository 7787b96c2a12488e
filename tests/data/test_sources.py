"""Sources: a YAML of conf/data becomes Splits, and what is absent is explained."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import get_class, instantiate
from omegaconf import DictConfig, OmegaConf

from ltrbench.data.sources import DataSource, LetorFiles
from ltrbench.errors import DataError

CONF = Path(__file__).parents[2] / "conf"
YAMLS = sorted(path.stem for path in (CONF / "data").glob("*.yaml") if not path.stem.startswith("_"))


def composed(*overrides: str) -> DictConfig:
    """The `data` node alone, as Hydra composes it from conf/data."""
    with initialize_config_dir(str(CONF), version_base=None):
        node: DictConfig = compose(overrides=[f"+{overrides[0]}", *overrides[1:]]).data
        return node


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with train, vali and test of 10, 4 and 5 queries of two documents, numbered throughout."""
    first = 0
    for name, count in [("train", 10), ("vali", 4), ("test", 5)]:
        lines = [
            f"{label} qid:{query} 1:{query} 3:{label}\n"
            for query in range(first, first + count)
            for label in (0, 1)
        ]
        (tmp_path / f"{name}.txt").write_text("".join(lines))
        first += count
    return tmp_path


def test_three_files_are_the_three_splits(files: Path) -> None:
    source = LetorFiles(
        name="mine", train=f"{files}/train.txt", valid=f"{files}/vali.txt", test=f"{files}/test.txt"
    )
    assert [(name, split.num_queries) for name, split in source.load()] == [
        ("train", 10),
        ("valid", 4),
        ("test", 5),
    ]


def test_without_validation_a_share_of_the_training_queries_is_taken(files: Path) -> None:
    source = LetorFiles(name="mine", train=f"{files}/train.txt", test=f"{files}/test.txt", valid_share=0.3)
    assert [(name, split.num_queries) for name, split in source.load()] == [
        ("train", 7),
        ("valid", 3),
        ("test", 5),
    ]


def test_without_test_it_is_taken_first_so_that_it_does_not_depend_on_validation(files: Path) -> None:
    tests = []
    for valid_share in (0.0, 0.25, 0.5):
        splits = LetorFiles(
            name="mine", train=f"{files}/train.txt", valid_share=valid_share, test_share=0.2
        ).load()
        assert splits.test.num_queries == 2
        assert splits.train.num_queries == 8 * (1 - valid_share)
        tests.append(splits.test.fingerprint)
    assert len(set(tests)) == 1


def test_a_valid_share_of_0_goes_without_validation(files: Path) -> None:
    assert LetorFiles(name="mine", train=f"{files}/train.txt", valid_share=0.0).load().valid is None


def test_the_split_seed_changes_the_split_and_nothing_else_does(files: Path) -> None:
    loaded = [
        LetorFiles(name="mine", train=f"{files}/train.txt", split_seed=seed).load() for seed in (0, 0, 1)
    ]
    assert loaded[0].test.fingerprint == loaded[1].test.fingerprint
    assert loaded[0].test.fingerprint != loaded[2].test.fingerprint


def test_files_narrower_than_train_are_padded(files: Path) -> None:
    (files / "test.txt").write_text("0 qid:99 1:5\n")
    splits = LetorFiles(name="mine", train=f"{files}/train.txt", test=f"{files}/test.txt").load()
    assert splits.test.features.tolist() == [[5, 0, 0]]


def test_a_feature_that_training_does_not_have_is_an_error_unless_the_width_is_given(files: Path) -> None:
    (files / "test.txt").write_text("0 qid:99 4:5\n")
    source = LetorFiles(name="mine", train=f"{files}/train.txt", test=f"{files}/test.txt")
    with pytest.raises(
        DataError, match=r"test\.txt:1: feature index 4 is beyond the 3 features.*num_features"
    ):
        source.load()
    assert dataclasses.replace(source, num_features=4).load().train.num_features == 4


def test_a_query_of_training_in_the_test_file_is_a_leak(files: Path) -> None:
    (files / "test.txt").write_bytes((files / "train.txt").read_bytes())
    with pytest.raises(DataError, match="leak"):
        LetorFiles(name="mine", train=f"{files}/train.txt", test=f"{files}/test.txt").load()


def test_an_absent_file_is_named_in_full_with_what_to_obtain(files: Path) -> None:
    source = LetorFiles(
        name="mine",
        train=f"{files}/train.txt",
        valid=f"{files}/valid.txt",
        obtain="Get it there. Put it here.",
    )
    with pytest.raises(DataError) as caught:
        source.load()
    assert (
        str(caught.value) == f"data=mine: there is no file {files / 'valid.txt'}. Get it there. Put it here."
    )


def test_paths_start_in_the_current_folder_and_know_the_home_folder(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    monkeypatch.setenv("HOME", str(files))
    one, other = (
        LetorFiles(name="mine", train="train.txt").load(),
        LetorFiles(name="mine", train="~/train.txt").load(),
    )
    assert one.train.fingerprint == other.train.fingerprint


@pytest.mark.parametrize("fold", [0, 6])
def test_a_fold_that_does_not_exist_is_named(files: Path, fold: int) -> None:
    with pytest.raises(DataError, match=rf"data\.fold is {fold}, but mine has the folds 1 to 5"):
        LetorFiles(name="mine", train=f"{files}/train.txt", fold=fold).load()


# conf/data


@pytest.mark.parametrize("yaml", YAMLS)
def test_every_key_of_a_yaml_is_a_field_of_its_dataclass_and_of_its_type(yaml: str) -> None:
    node = composed(f"data={yaml}")
    values: dict[str, Any] = OmegaConf.to_container(node)  # type: ignore[assignment]
    source = get_class(values.pop("_target_"))
    assert issubclass(source, DataSource)
    assert values["name"] == yaml
    OmegaConf.merge(OmegaConf.structured(source), values)


@pytest.mark.parametrize("path", sorted((CONF / "data").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_key_of_a_yaml_has_its_reason_beside_it(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# ")
    for above, line in itertools.pairwise(lines):
        if line[:1].isalpha() and not line.startswith(("defaults:", "_target_:")):
            assert "# " in line or above.startswith("#"), f"{path.name}: {line}"


@pytest.mark.parametrize("yaml", ["mq2007", "mq2008"])
def test_a_named_data_set_that_is_absent_says_what_to_get_and_where_to_put_it(
    yaml: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTRBENCH_DATA", str(tmp_path))
    source: DataSource = instantiate(composed(f"data={yaml}", "data.fold=2"), _convert_="all")
    with pytest.raises(DataError) as caught:
        source.load()
    message = str(caught.value)
    for part in (
        f"data={yaml}",
        str(tmp_path / yaml.upper() / "Fold2" / "train.txt"),
        "LETOR 4.0 by Microsoft Research",
        "non-commercial",
        "https://www.microsoft.com/",
        f"{yaml.upper()}/Fold1/train.txt",
        "LTRBENCH_DATA",
        "data.root=",
    ):
        assert part in message


def test_without_the_variable_a_named_data_set_is_looked_for_in_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LTRBENCH_DATA", raising=False)
    assert composed("data=mq2008", "data.fold=4").test == "data/MQ2008/Fold4/test.txt"
    assert composed("data=mq2008", "data.root=/elsewhere").train == "/elsewhere/MQ2008/Fold1/train.txt"


def test_letor_files_of_ones_own_need_no_yaml(files: Path) -> None:
    node = composed("data=letor", f"data.train={files}/train.txt", f"data.test={files}/test.txt")
    splits = instantiate(node, _convert_="all").load()
    assert [split.num_queries for _, split in splits] == [8, 2, 5]


def test_a_letor_data_set_is_one_yaml_without_python(files: Path, tmp_path: Path) -> None:
    yaml = tmp_path / "mine.yaml"
    yaml.write_text(
        "_target_: ltrbench.data.sources.LetorFiles\nname: mine\n"
        f"root: {files}\ntrain: ${{.root}}/train.txt\ntest: ${{.root}}/test.txt\n"
    )
    splits = instantiate(OmegaConf.load(yaml), _convert_="all").load()
    assert np.array_equal(splits.test.query_ids, [str(query) for query in range(14, 19)])


@pytest.mark.parametrize("fold", range(1, 6))
def test_a_fold_of_mq2008_is_three_fifths_one_fifth_and_one_fifth(
    letor_data: Callable[[str], Path], fold: int
) -> None:
    root = letor_data("MQ2008").parent
    splits = instantiate(
        composed("data=mq2008", f"data.fold={fold}", f"data.root={root}"), _convert_="all"
    ).load()
    assert sum(split.num_queries for _, split in splits) == 784
    assert sum(split.num_documents for _, split in splits) == 15_211
    assert {split.num_features for _, split in splits} == {46}

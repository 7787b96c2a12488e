"""RankLib's model files: written, read, and refused if they are not what RankLib writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from golden_files import golden_file
from java_engine_cases import around_thresholds, random_ensemble
from messages import naming
from paths import ROOT

from ltrbench.errors import ResultError
from ltrbench.models.ranklib_file import read_ranklib_xml, write_ranklib_xml
from ltrbench.models.trees import MOST_LEVELS, ensemble_scores
from ltrbench.shapes import Features
from ltrbench.shipping.simulators.ranklib import simulated_ranklib_scores

FILE = Path("model.xml")
HEADER = "## LambdaMART\n## No. of trees = 1\n\n"
LEAF = "<output> 1.5 </output>"
SPLIT = (
    "<feature> 2 </feature><threshold> 0.5 </threshold>"
    f'<split pos="left">{LEAF}</split><split pos="right">{LEAF}</split>'
)


def model_of(split: str, weight: str = "0.1", header: str = HEADER) -> bytes:
    return (
        f'{header}<ensemble>\n<tree id="1" weight="{weight}">\n<split>{split}</split>\n</tree>\n</ensemble>\n'
    ).encode()


def golden_features() -> Features:
    """Returns the test documents of the golden scores."""
    path = ROOT / "data" / "MQ2008" / "Fold1" / "test.txt"
    if not path.is_file():
        pytest.skip("data/MQ2008 is not here")
    lines = [line.split("#")[0].split()[2:] for line in path.read_text().splitlines()]
    return np.array([[float(pair.split(":")[1]) for pair in line] for line in lines], dtype=np.float32)


def test_scores_are_those_of_ranklib_bit_for_bit() -> None:
    content = golden_file("ranklib_MQ2008_Fold1_model.xml").read_bytes()
    expected = np.loadtxt(golden_file("ranklib_MQ2008_Fold1_test_scores.txt"))
    np.testing.assert_array_equal(simulated_ranklib_scores(content, golden_features()), expected)


def test_the_reference_differs_from_ranklib_by_the_rounding_of_products() -> None:
    content, features = golden_file("ranklib_MQ2008_Fold1_model.xml").read_bytes(), golden_features()
    model = read_ranklib_xml(content, FILE)
    assert (len(model.trees.trees), model.num_features, model.feature_names) == (34, 46, ())
    reference = ensemble_scores(model.trees, features)
    scores = simulated_ranklib_scores(content, features)
    # Each product and each sum is rounded to float32; no partial sum is above 4.
    bound = len(model.trees.trees) * 2 * 2.0**-24 * 4
    assert np.abs(scores).max() < 4
    assert 0 < np.abs(scores - reference).max() <= bound


def test_a_model_that_was_read_is_written_with_the_scores_of_the_reference() -> None:
    model = read_ranklib_xml(golden_file("ranklib_MQ2008_Fold1_model.xml").read_bytes(), FILE)
    features = golden_features()
    written = simulated_ranklib_scores(write_ranklib_xml(model.trees), features)
    np.testing.assert_array_equal(written, ensemble_scores(model.trees, features))


def test_a_written_model_is_read_back() -> None:
    ensemble = random_ensemble()
    features = around_thresholds(ensemble, 3)
    model = read_ranklib_xml(write_ranklib_xml(ensemble), FILE)
    np.testing.assert_array_equal(ensemble_scores(model.trees, features), ensemble_scores(ensemble, features))
    assert model.num_features == 2


def test_models_of_mart_and_of_the_fork_with_statistics_are_read() -> None:
    statistics = "<psuedoResponse><sum> 0.1 </sum><sqSum> NaN </sqSum></psuedoResponse>"
    leaf = f"{LEAF}{statistics}"
    split = f"{SPLIT.replace(LEAF, leaf)}{statistics}"
    content = model_of(split, header="## MART\r\n\r\n")
    features = np.array([[0, 0.5], [0, 1]], dtype=np.float32)
    expected = np.full(2, np.float32(0.1) * np.float32(1.5))
    np.testing.assert_array_equal(ensemble_scores(read_ranklib_xml(content, FILE).trees, features), expected)
    np.testing.assert_array_equal(simulated_ranklib_scores(content, features), expected)


@pytest.mark.parametrize("name", ["Random Forests", "Coordinate Ascent", "AdaRank"])
def test_other_algorithms_are_refused_by_name(name: str) -> None:
    with pytest.raises(ResultError, match=naming(FILE, name, "LambdaMART", "MART", "-ranker 6")):
        read_ranklib_xml(model_of(LEAF, header=f"## {name}\n"), FILE)


HOSTILE = {
    "no trees": (f"{HEADER}<ensemble></ensemble>".encode(), "no trees"),
    "two ensembles": (model_of(LEAF) + b"<ensemble></ensemble>", "line 9"),
    "an unfinished file": (model_of(LEAF)[:-14], "line"),
    "no weight": (model_of(LEAF).replace(b'weight="0.1"', b""), "weight"),
    "a NaN weight": (model_of(LEAF, weight="NaN"), "finite"),
    "a NaN output": (model_of("<output>NaN</output>"), "finite"),
    "an output that is no number": (model_of("<output>a</output>"), "'a'"),
    "a long number": (model_of(f"<output>{'1' * 1000}</output>"), "100"),
    "feature 0": (model_of(SPLIT.replace("> 2 <", "> 0 <")), "'0'"),
    "feature 1.5": (model_of(SPLIT.replace("> 2 <", "> 1.5 <")), "'1.5'"),
    "no feature": (model_of(SPLIT.replace("<feature> 2 </feature>", "")), "<threshold>"),
    "three splits": (model_of(f"{SPLIT}<split>{LEAF}</split>"), "<split>"),
    "two roots": (model_of(f"{LEAF}</split><split>{LEAF}"), "no further element"),
    "a leaf with a split": (model_of(f"{LEAF}<split>{LEAF}</split>"), "<split>"),
    "right before left": (model_of(SPLIT.replace("left", "RIGHT")), "RIGHT"),
    "text between elements": (model_of(f"0.7 {LEAF}"), "0.7"),
    "an unknown element": (model_of(f"<gain>1</gain>{LEAF}"), "<gain>"),
    "a comment": (model_of(f"<!-- note -->{LEAF}"), "comment"),
    "a DOCTYPE": (model_of(LEAF).replace(b"<ensemble>", b"<!DOCTYPE ensemble>\n<ensemble>"), "DOCTYPE"),
    "an entity bomb": (
        model_of("<output>&h;</output>").replace(
            b"<ensemble>",
            b'<!DOCTYPE e [<!ENTITY a "1111111111">'
            + b"".join(
                f'<!ENTITY {name} "{f"&{inner};" * 10}">'.encode()
                for inner, name in zip("abcdefg", "bcdefgh", strict=True)
            )
            + b"]>\n<ensemble>",
            1,
        ),
        "DOCTYPE",
    ),
    "not UTF-8": (model_of(LEAF).replace(b"1.5", b"1.5\xff"), "line"),
    "a deep branch": (
        model_of("<feature>1</feature><threshold>1</threshold><split>" * 10**5),
        f"{MOST_LEVELS:,}",
    ),
}


REFUSED_BY_RANKLIB = {
    "a blank between elements of a line": model_of(f" {LEAF}"),
    "a comment before a feature": model_of(f"<!-- note -->{SPLIT}"),
    "another algorithm": model_of(LEAF, header="## AdaRank\n"),
    "a character beyond ASCII": model_of(LEAF, header="## LambdaMART\n## caf\u00e9\n"),
    "a tree in a tree": model_of(f"{LEAF}<tree weight='1'><split>{LEAF}</split></tree>"),
}


@pytest.mark.parametrize("case", REFUSED_BY_RANKLIB)
def test_the_simulator_refuses_what_ranklib_cannot_load(case: str) -> None:
    with pytest.raises(ResultError, match=naming("RankLib", "Export")):
        simulated_ranklib_scores(REFUSED_BY_RANKLIB[case], np.zeros((1, 3), dtype=np.float32))


def test_products_are_added_in_float64_and_the_sum_rounded() -> None:
    leaf, weight = np.float32(1.1), np.float32(0.1)
    ensemble = model_of(f"<output>{leaf}</output>")
    one = ensemble[ensemble.index(b"<tree") : ensemble.index(b"</ensemble>")]
    content = ensemble.replace(one, one * 3)
    expected = np.float32(0)
    for _ in range(3):
        expected = np.float32(float(expected) + float(leaf) * float(weight))
    assert simulated_ranklib_scores(content, np.zeros((1, 1), dtype=np.float32))[0] == expected

"""RankLib's model files: written, read, and refused if they are not what RankLib writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ensemble_cases import around_thresholds, ensemble_for_java
from golden_files import golden_file
from messages import naming
from paths import ROOT

from ltrbench.errors import ResultError
from ltrbench.models.files import read_model_file, read_ranklib_xml, write_ranklib_xml
from ltrbench.models.trees import ensemble_scores
from ltrbench.shapes import Features
from ltrbench.shipping.target import RANKLIB_ARITHMETIC

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


def simulated_ranklib_scores(content: bytes, features: Features) -> np.ndarray:
    return np.asarray(
        RANKLIB_ARITHMETIC.scores(read_ranklib_xml(content).trees, features)
    )


def golden_features() -> Features:
    """Returns the test documents of the golden scores."""
    path = ROOT / "data" / "MQ2008" / "Fold1" / "test.txt"
    if not path.is_file():
        pytest.skip("data/MQ2008 is not here")
    lines = [line.split("#")[0].split()[2:] for line in path.read_text().splitlines()]
    return np.array(
        [[float(pair.split(":")[1]) for pair in line] for line in lines],
        dtype=np.float32,
    )


def test_scores_are_those_of_ranklib_bit_for_bit() -> None:
    content = golden_file("ranklib_MQ2008_Fold1_model.xml").read_bytes()
    expected = np.loadtxt(golden_file("ranklib_MQ2008_Fold1_test_scores.txt"))
    np.testing.assert_array_equal(
        simulated_ranklib_scores(content, golden_features()), expected
    )


def test_the_reference_differs_from_ranklib_by_the_rounding_of_products() -> None:
    content, features = (
        golden_file("ranklib_MQ2008_Fold1_model.xml").read_bytes(),
        golden_features(),
    )
    model = read_ranklib_xml(content)
    assert (len(model.trees.trees), model.num_features, model.feature_names) == (
        34,
        46,
        (),
    )
    reference = ensemble_scores(model.trees, features)
    scores = simulated_ranklib_scores(content, features)
    # Each product and each sum is rounded to float32; no partial sum is above 4.
    bound = len(model.trees.trees) * 2 * 2.0**-24 * 4
    assert np.abs(scores).max() < 4
    assert 0 < np.abs(scores - reference).max() <= bound


def test_a_model_that_was_read_is_written_with_the_scores_of_the_reference() -> None:
    model = read_ranklib_xml(golden_file("ranklib_MQ2008_Fold1_model.xml").read_bytes())
    features = golden_features()
    written = simulated_ranklib_scores(write_ranklib_xml(model.trees), features)
    np.testing.assert_array_equal(written, ensemble_scores(model.trees, features))


def test_a_written_model_is_read_back() -> None:
    ensemble = ensemble_for_java()
    features = around_thresholds(ensemble, 3)
    model = read_ranklib_xml(write_ranklib_xml(ensemble))
    np.testing.assert_array_equal(
        ensemble_scores(model.trees, features), ensemble_scores(ensemble, features)
    )
    assert model.num_features == 2


def test_models_of_mart_and_of_the_fork_with_statistics_are_read() -> None:
    statistics = "<psuedoResponse><sum> 0.1 </sum><sqSum> NaN </sqSum></psuedoResponse>"
    leaf = f"{LEAF}{statistics}"
    split = f"{SPLIT.replace(LEAF, leaf)}{statistics}"
    content = model_of(split, header="## MART\r\n\r\n")
    features = np.array([[0, 0.5], [0, 1]], dtype=np.float32)
    expected = np.full(2, np.float32(0.1) * np.float32(1.5))
    np.testing.assert_array_equal(
        ensemble_scores(read_ranklib_xml(content).trees, features), expected
    )
    np.testing.assert_array_equal(simulated_ranklib_scores(content, features), expected)


DAMAGES = {
    "an unfinished file": model_of(LEAF)[:-14],
    "no weight": model_of(LEAF).replace(b'weight="0.1"', b""),
    "an output that is no number": model_of("<output>a</output>"),
    "feature 1.5": model_of(SPLIT.replace("> 2 <", "> 1.5 <")),
    "one split": model_of(SPLIT[: SPLIT.rindex("<split")]),
    "not UTF-8": model_of(LEAF).replace(b"1.5", b"1.5\xff"),
    "another algorithm": model_of(LEAF, header="## AdaRank\n"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_with_its_path(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(DAMAGES[damage])
    with pytest.raises(ResultError, match=naming(path, "RankLib", "save")):
        read_model_file(path)

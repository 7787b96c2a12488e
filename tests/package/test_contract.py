"""What semantic versioning covers: docs/concepts/guarantees.md."""

from __future__ import annotations

import re

from paths import ROOT

import ltrbench
from ltrbench.data.store import STORE_FORMAT
from ltrbench.rankers.estimator import MODEL_FORMAT
from ltrbench.runs.record import FORMAT
from ltrbench.shipping.certificate import CERTIFICATE_FORMAT
from ltrbench.shipping.shipment import CHECK_FORMAT

# A name that is missing here is new: add it. A name that is only here breaks programs of users.
PUBLIC_NAMES = [
    "Comparison",
    "Convention",
    "EarlyStopping",
    "Evaluation",
    "Experiment",
    "LetorFiles",
    "LightGBMRanker",
    "LinearRanker",
    "LoadedModel",
    "LtrbenchError",
    "NativeRanker",
    "RandomRanker",
    "Ranker",
    "RankingDataset",
    "Run",
    "Settings",
    "SingleFeatureRanker",
    "TableFiles",
    "XGBoostRanker",
    "__version__",
    "auto",
    "compare",
    "evaluate",
    "find_runs",
    "load",
    "preset",
    "read_data",
    "read_features",
    "read_letor",
    "read_run",
    "read_table",
    "render",
    "run",
    "split_queries",
    "with_settings",
    "write_letor",
    "write_table",
]


def test_the_public_names_are_those_of_the_contract() -> None:
    assert ltrbench.__all__ == PUBLIC_NAMES
    assert all(hasattr(ltrbench, name) for name in PUBLIC_NAMES)


def test_the_formats_of_files_begin_at_1() -> None:
    formats = (FORMAT, STORE_FORMAT, MODEL_FORMAT, CHECK_FORMAT, CERTIFICATE_FORMAT)
    assert set(formats) == {1}


def test_the_citation_names_the_version_of_the_package() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall("^version: (.*)$", citation, re.MULTILINE) == [
        ltrbench.__version__
    ]

"""OpenSearch with its Learning to Rank plug-in.

The simulators follow opensearch-project/opensearch-learning-to-rank-base, src/main/java/com/o19s/es/ltr/:
    rest/RestCreateModelFromSet.java, commit 41442a3ab63934e4bae1af022a710feef3b3d4ff;
    ranker/parser/XGBoostJsonParser.java, commit 3ebd19ae44748a0c4249781e16e89305f039d13a;
    ranker/SparseFeatureVector.java, commit 3d01de4d587ad49b609d142fa2aeea7c4a8402e0: an absent feature is
    NaN;
    ranker/dectree/NaiveAdditiveDecisionTree.java, commit 090f77e7bed904ae861f5a69d8e718419574ae0e, and
    release notes of 3.8.0.0, commit bbc3e7e7b7b1a82c240633dfcb51925fc90ebf77: from 3.8 on, NaN goes left if
    missing is yes, otherwise right;
    pull requests 206, 379 and 392: in 3.2 to 3.7, NaN goes right; before, an absent feature is 0;
    ranker/ranklib/RanklibModelParser.java, commit 948a2559a90df4fe27bde4ad937bb2d814873702,
    RanklibRanker.java, commit 41442a3ab63934e4bae1af022a710feef3b3d4ff, and DenseProgramaticDataPoint.java,
    commit 3d01de4d587ad49b609d142fa2aeea7c4a8402e0;
    ranker/parser/LinearRankerParser.java, commit 598e97e682d0f13a5438a32518193fc6626bcc93, and
    ranker/linear/LinearRanker.java, commit 948a2559a90df4fe27bde4ad937bb2d814873702.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ltrbench.shipping.targets.elasticsearch import AbsentFeatures, ElasticsearchTarget


@dataclass
class OpenSearchTarget(ElasticsearchTarget):
    """OpenSearch with its Learning to Rank plug-in.

    An absent feature is missing from 3.8 on, goes right in every split from 3.2 to 3.7, and is 0 in older
    versions. Reports differ on whether 3.2 or 3.3 was the first that sent it right.
    """

    version: str = "3.8"

    name = "opensearch"
    verified_against = (
        "the classes of the plug-in (head of 2026, tag 3.4.0.0) and RankyMcRankFace, run with OpenJDK 17 on "
        "2026-11-23, missing values with the head only. Linear models: sources read, not run"
    )
    engine_name = "OpenSearch"
    address = "OPENSEARCH"
    absent_since: ClassVar[Mapping[tuple[int, int], AbsentFeatures]] = {
        (0, 0): "zero",
        (3, 2): "right",
        (3, 8): "missing",
    }

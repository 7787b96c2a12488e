"""RankLib, on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ltrbench.models.files import read_ranklib_xml, write_ranklib_xml
from ltrbench.models.trees import float32_texts
from ltrbench.shipping.target import (
    RANKLIB_ARITHMETIC,
    CheckRequests,
    CheckRows,
    Engine,
    Export,
    ShippedModel,
    Target,
    json_file,
    limits_with_missing_as_zero,
)
from ltrbench.untrusted import MOST_JSON_BYTES, read_bytes, read_json

# ---- Rows as LETOR text for RankLib, and the scores that it writes.
#
# Each row is a query whose qid is the id of the row, because RankLib writes a line per document
# with the qid, the number of the document within the query, and the score, separated by tabs.
#
# Sources: codelibs/ranklib, src/main/java/ciir/umass/edu/:
#     eval/Evaluator.java, method score, commit 30b4ef65c51b6bccd45ec2a07318d39b3fe5b680: the lines of scores;
#     learning/DataPoint.java, commit 0cc17c81574469ef7d2d7df0e0e387038a55b969: the lines of rows;
#     features/FeatureManager.java, commit 00ab47e96fb6d455b45497cc77bbf5480a49c681: the queries.


_SCORE = "java -jar RankLib.jar -load model.xml -rank {} -score {} -missingZero"


def ranklib_answers(text: str) -> dict[str, float]:
    """Returns qid -> score of the lines that RankLib writes with -score.

    Raises:
        ValueError: A line is not a qid, a number and a score.
    """
    scores = {}
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            qid, _, score = line.split("\t")
            scores[qid] = float(score)
        except ValueError:
            raise ValueError(
                f"line {number} is {line[:60]!a}, not qid, number and score"
            ) from None
    return scores


# ---- The target. Its simulator follows codelibs/ranklib, src/main/java/ciir/umass/edu/:
#
#     learning/tree/Ensemble.java, commit 378a17db3ddca1af7583989a39a6ebfcc1d3cd1b: thresholds, outputs and
#     weights are float32; each output times the weight of its tree is added in float64, and the sum rounded
#     to float32;
#     learning/tree/Split.java, commit 378a17db3ddca1af7583989a39a6ebfcc1d3cd1b: a value goes left if it is at
#     most the threshold;
#     learning/DenseDataPoint.java, commit 0cc17c81574469ef7d2d7df0e0e387038a55b969: a missing value is 0;
#     after the last feature of a document, only with -missingZero.


@dataclass
class RankLibTarget(Target):
    """RankLib, which knows the model as LambdaMART."""

    name = "ranklib"
    verified_against = "RankLib itself (-rank), run with OpenJDK 17 on 2026-11-23"

    def export(self, model: ShippedModel) -> Export:
        trees = model.trees(self.name)
        ids = {name: number for number, name in enumerate(model.feature_names, start=1)}
        return Export(
            {"model.xml": write_ranklib_xml(trees), "features.json": json_file(ids)},
            request=_SCORE.format("test.txt", "scores.txt"),
            notes=(
                f"Features have the numbers 1 to {model.num_features} in the order of the training data; "
                "features.json has the number of each name.",
                "-missingZero lets a line of test.txt end before the last feature; a missing value is 0.",
            ),
            limits=limits_with_missing_as_zero(
                trees,
                "A missing value is 0 in RankLib, but the model sends it elsewhere in a split. Train with 0 "
                "instead of missing values.",
            ),
        )

    def check_requests(
        self, model: ShippedModel, export: Export, rows: CheckRows
    ) -> CheckRequests:
        """Returns the rows as LETOR text, and the command that scores them."""
        lines = []
        left_out = {}
        for identity, values in rows.values():
            if not values:
                left_out[identity] = "no value, and a line of RankLib needs one"
                continue
            texts = float32_texts(np.array(list(values.values()), dtype=np.float32))
            numbers = zip(values, texts, strict=True)
            pairs = " ".join(f"{index + 1}:{number}" for index, number in numbers)
            lines.append(f"0 qid:{identity} {pairs}\n")
        return CheckRequests(
            files={"check_rows.txt": "".join(lines).encode()},
            commands=(_SCORE.format("check_rows.txt", "answers.txt"),),
            left_out=left_out,
            answers="answers.txt",
        )

    def read_answers(self, path: Path) -> Any:
        """Returns qid -> score of the file that -score writes, or the content of a JSON file."""
        remedy = "Score the rows again"
        text = read_bytes(path, remedy, MOST_JSON_BYTES).decode("utf-8", "replace")
        if text.lstrip().startswith(("{", "[")):
            return read_json(path, remedy)
        return ranklib_answers(text)

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        trees = read_ranklib_xml(export.files["model.xml"]).trees
        return RANKLIB_ARITHMETIC.engine(trees, "RankLib")

"""RankLib, on the command line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ltrbench.rankers.models.formats.java.ranklib_xml import write_ranklib_xml
from ltrbench.shipping.certificate.limits import limits_with_missing_as_zero
from ltrbench.shipping.model import ShippedModel
from ltrbench.shipping.requests.letor import ranklib_answers, ranklib_requests
from ltrbench.shipping.simulators.ranklib import RANKLIB_RULES, parse_ranklib
from ltrbench.shipping.target import CheckRequests, CheckRows, Engine, Export, Target
from ltrbench.untrusted.reading import MOST_JSON_BYTES, read_bytes, read_json


@dataclass
class RankLibTarget(Target):
    """RankLib, which knows the model as LambdaMART."""

    name = "ranklib"

    def export(self, model: ShippedModel) -> Export:
        trees = model.trees(self.name)
        ids = {name: number for number, name in enumerate(model.feature_names, start=1)}
        return Export(
            {
                "model.xml": write_ranklib_xml(trees),
                "features.json": (json.dumps(ids, ensure_ascii=False, indent=1) + "\n").encode(),
            },
            request="java -jar RankLib.jar -load model.xml -rank test.txt -score scores.txt -missingZero",
            notes=(
                f"Features have the numbers 1 to {model.num_features} in the order of the training data; "
                "features.json has the number of each name.",
                "-missingZero lets a line of test.txt end before the last feature; a missing value is 0.",
            ),
            limits=limits_with_missing_as_zero(trees, "RankLib"),
        )

    def check_requests(self, model: ShippedModel, export: Export, rows: CheckRows) -> CheckRequests:
        return ranklib_requests(rows)

    def read_answers(self, path: Path) -> Any:
        """Returns qid -> score of the file that -score writes, or the content of a JSON file."""
        remedy = "Score the rows again"
        text = read_bytes(path, remedy, MOST_JSON_BYTES).decode("utf-8", "replace")
        if text.lstrip().startswith(("{", "[")):
            return read_json(path, remedy)
        return ranklib_answers(text)

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        forest = parse_ranklib(export.files["model.xml"])
        return Engine(forest.scores, "RankLib", rules=RANKLIB_RULES, score_dtype="float32")

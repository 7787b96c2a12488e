"""Vespa: an imported model of trees, or a linear ranking expression, with its rank profile.

A content node evaluates a sum of trees in one of three ways, which send a float32 to the same leaf if the
thresholds are float32, and round scores differently:

    compiled       float64 thresholds, leaves and sum: the usual way
    VM forest      float32 thresholds and leaves, float64 sum: for many or large trees
    fast forest    float32 thresholds, leaves and features, two alternating float64 sums: only with the rank
                   property vespa.eval.use_fast_forest
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from ltrbench.errors import ConfigError
from ltrbench.models.lightgbm_files import read_lightgbm_json, write_lightgbm_json
from ltrbench.models.trees import (
    Ensemble,
    InnerNode,
    Leaf,
    WeightedTree,
    base_score_as_tree,
    flat,
    splits_of,
    without_zero_missing,
)
from ltrbench.models.xgboost_files import (
    float64_text,
    read_xgboost_dump,
    write_xgboost_dump,
)
from ltrbench.shipping.target import (
    INFINITE_VALUES,
    MISSING_VALUES,
    Arithmetic,
    CheckRequests,
    CheckRows,
    Engine,
    Export,
    Linear,
    ShippedModel,
    Target,
    features_read,
    form_for,
    json_file,
    limits_of_infinity,
)

# ---- Requests for Vespa: an application whose documents are the rows.
#
# Each row is a document, and each feature of the model an attribute of it. The model is written again with
# these attributes as features.
#
# Sources: the pages of docs.vespa.ai on application packages, on schemas, on the document JSON format and on
# the commands `vespa feed` and `vespa query`. Nothing was run.

DOCUMENT_TYPE: Final = "ltrbench_check"
"""Type of the documents, and name of their schema."""

_SERVICES = f"""\
<services version="1.0">
  <container id="default" version="1.0">
    <document-api/>
    <search/>
    <nodes count="1"/>
  </container>
  <content id="{DOCUMENT_TYPE}" version="1.0">
    <min-redundancy>1</min-redundancy>
    <documents>
      <document type="{DOCUMENT_TYPE}" mode="index"/>
    </documents>
    <nodes count="1"/>
  </content>
</services>
"""
_APPLICATION = "check_application"


def attribute_of(index: int) -> str:
    """Returns the rank feature that reads a feature of a row.

    >>> attribute_of(0)
    'attribute(f1)'
    """
    return f"attribute({_field(index)})"


def _schema(rows: CheckRows, profile: str) -> str:
    fields = "".join(
        f"        field {_field(index)} type float {{\n            indexing: attribute\n        }}\n"
        for index in rows.columns
    )
    indented = "".join(f"    {line}\n" for line in profile.splitlines())
    return f"schema {DOCUMENT_TYPE} {{\n    document {DOCUMENT_TYPE} {{\n{fields}    }}\n{indented}}}\n"


def _field(index: int) -> str:
    return f"f{index + 1}"


# ---- How content nodes evaluate trees.
#
# Sources: vespa-engine/vespa, model-integration/src/main/java/ai/vespa/rankingexpression/importer/:
#     lightgbm/LightGBMParser.java, commit 089e1742fd1f960213130f059069d3c09fc53b75: a dump needs objective,
#     feature_names, tree_info and pandas_categorical; the objective lambdarank transforms no score; a value
#     goes left if it is smaller than the threshold, also where LightGBM means at most; a missing value goes
#     left with default_left, otherwise right; missing_type is ignored; the name of a feature becomes part of
#     a ranking expression as it is; numbers are printed by Double.toString, in which infinity and NaN would
#     be names;
#     xgboost/AbstractXGBoostParser.java, commit 503626cbb66e2469a7053630a20713707381d7cf, and
#     XGBoostTree.java, commit 6233deaa96a8de79e05d5f6417a1f7558f6c6062: a missing value goes left if missing
#     is yes; thresholds are rounded to float32; a base score is not read.
# searchlib/src/main/java/com/yahoo/searchlib/rankingexpression/transform/:
#     Simplifier.java, commit 0c55dc92a3bf889c67fac1ca855e6e33e1994904: constants next to each other in a sum
#     are added before the evaluation.
# eval/src/vespa/eval/eval/:
#     operator_nodes.h and basic_nodes.cpp, commit 035580e94f2acf26e90b3f8570e9a4fc69ae294c: a forest is a sum
#     of at least two trees; a constant in a sum is not a tree and ends the forest;
#     gbdt.cpp, commit 0c55dc92a3bf889c67fac1ca855e6e33e1994904, and vm_forest.cpp, commit
#     101ff2421151ded70dd6064f0b6583de98db8df3: trees are summed from the last one to the third, then the
#     first and the second; the limits of a VM forest below;
#     llvm/llvm_wrapper.cpp, commit abac32218be6c4cf361d38762e0f97b4e6807b0e: other expressions are compiled,
#     in float64 and in the order of the expression;
#     fast_forest.cpp, commit 0c55dc92a3bf889c67fac1ca855e6e33e1994904: with at most 64 leaves per tree, two
#     float64 sums take turns in blocks of four trees; with at most 2,048, there is one.
# searchlib/src/vespa/searchlib/:
#     features/rankingexpressionfeature.cpp, commit f606c6d91246e2f029da40c66a1f7ad827c7c14a, and
#     fef/indexproperties.cpp, commit 028ed2928b2e529d650e693d8c08e407bd6b078d: a fast forest is made only if
#     the rank property vespa.eval.use_fast_forest is true, and the expression is only a forest;
#     features/attributefeature.cpp, commit 05a27faaa88ee31ff94a292203cf46b66fc0a004, and queryfeature.cpp,
#     commit 035580e94f2acf26e90b3f8570e9a4fc69ae294c: a numeric attribute without a value is NaN; a query
#     feature without a value is 0.
# Pull request 31104 (Avoid compiling gbdt models with many conditions), of May 2024, was not read. Evaluation
# in the container (stateless models, global-phase) and the limits of Java's stack are not simulated.

_SMALL_TREE = 12
_SHORT_PATH = 2500.0
"""A forest whose largest tree has more leaves, and whose sum of average path lengths is larger, is a VM
forest."""
_MOST_COMPILED_LEAVES = 25_000
"""A forest with more leaves is a VM forest too."""
_MOST_FAST_LEAVES = 2048
"""Largest number of leaves of a tree in a fast forest."""


def _forest_order(num_trees: int) -> list[int]:
    if num_trees < 2:
        return list(range(num_trees))
    return [*range(num_trees - 1, 1, -1), 0, 1]


_FOREST = Arithmetic("<", product="float64", sum="float64", order=_forest_order)
COMPILED = "compiled"
VM_FOREST = "VM forest"
FAST_FOREST = "fast forest"
WAYS: Final[Mapping[str, Arithmetic]] = {
    COMPILED: Arithmetic("<", "float64", "float64", "float64"),
    VM_FOREST: _FOREST,
    # Two sums that take turns, which here are one: scores may differ by the rounding of float64.
    FAST_FOREST: _FOREST,
}


def way_of_vespa(trees: Ensemble, use_fast_forest: bool) -> str:
    """Returns how a content node evaluates trees.

    Args:
        use_fast_forest: whether the rank property vespa.eval.use_fast_forest is true.
    """
    leaves = []
    mean_depths = []
    for weighted in trees.trees:
        tree = flat(weighted.root)
        depth = np.zeros(len(tree.feature))
        # A parent comes before its children.
        for node in np.flatnonzero(~tree.is_leaf).tolist():
            children = [tree.left[node], tree.right[node]]
            depth[children] = depth[node] + 1
        leaves.append(int(tree.is_leaf.sum()))
        mean_depths.append(float(depth[tree.is_leaf].mean()))
    if len(leaves) < 2 or min(leaves) == 1:  # a constant is no tree
        return COMPILED
    if use_fast_forest and max(leaves) <= _MOST_FAST_LEAVES:
        return FAST_FOREST
    has_long_paths = max(leaves) > _SMALL_TREE and sum(mean_depths) > _SHORT_PATH
    if has_long_paths or sum(leaves) > _MOST_COMPILED_LEAVES:
        return VM_FOREST
    return COMPILED


# ---- The target.

FAST_FOREST_PROPERTY: Final = "vespa.eval.use_fast_forest"

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RANK_FEATURE = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)\([A-Za-z0-9_@., ]*[A-Za-z0-9_@][A-Za-z0-9_@., ]*\)"
    r"(\.[A-Za-z0-9_]+)*"
)
_PHASE_SCORES: Final = ("firstPhase", "firstPhaseRank", "secondPhase")
_WITHOUT_ARGUMENTS: Final = frozenset(
    (
        *_PHASE_SCORES,
        "globalSequence",
        "nativeAttributeMatch",
        "nativeFieldMatch",
        "nativeProximity",
        "nativeRank",
        "now",
        "queryTermCount",
        "random.match",
    )
)
"""Rank features that are no function of a field: docs.vespa.ai, Rank Feature Reference."""
_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        if in f true false abs acos asin atan atan2 bit ceil cos cosh elu erf exp fabs floor fmod hamming
        isNan ldexp log log10 max min mod pow relu round sigmoid sign sin sinh square sqrt tan tanh map
        map_subspaces reduce join merge rename concat tensor range diag random l1_normalize l2_normalize
        matmul softmax xw_plus_b argmax argmin avg count prod sum median cosine_similarity
        euclidean_distance expand cell_cast unpack_bits filter_subspaces switch let case default
        """,
    )
)
"""Names with a meaning in ranking expressions, which no feature can have."""


@dataclass
class VespaTarget(Target):
    """Vespa, with the model in the folder models of an application package.

    Attributes:
        form: "lightgbm" or "xgboost" for trees, as dumps of these libraries; "expression" for weights; None:
            the one that fits the model.
        schema: schema whose documents are ranked.
        phase: "first" or "second".
        fast_forest: whether the rank profile asks for fast forests, which round leaves to float32.
    """

    form: Literal["lightgbm", "xgboost", "expression"] | None = None
    schema: str = "SCHEMA"
    phase: Literal["first", "second"] = "first"
    fast_forest: bool = False

    name = "vespa"
    verified_against = (
        "Vespa's importers and its C++ evaluation of trees, run with OpenJDK 17 and compiled with g++ 12 on "
        "2026-11-23. The choice of the evaluation, and linear models: sources read, not run"
    )

    hits = ("root", "children", "id", "relevance")

    def __post_init__(self) -> None:
        if not _IDENTIFIER.fullmatch(self.schema):
            raise ConfigError(
                f"schema is '{self.schema}'; begin with a letter and use letters, digits and '_' only."
            )

    def export(self, model: ShippedModel) -> Export:
        names = names_in_vespa(model.feature_names)
        self._refuse_own_score(model)
        base = identifier(model.name)
        form = self._form(model)
        files = dict[str, bytes]()
        if isinstance(model.scorer, Linear):
            named = zip(
                model.scorer.weights.astype(np.float64).tolist(),
                model.feature_names,
                strict=True,
            )
            expression = " + ".join(
                f"{weight!r} * {names[name]}" for weight, name in named if weight
            )
            limits = {
                MISSING_VALUES: "A missing value has no score in a linear expression."
            }
        else:
            trees = model.trees(self.name)
            used = list(names.values())
            prepared = constants_as_splits(trees)
            expression = f'{form}("{base}.json")'
            files[f"{base}.json"] = (
                write_xgboost_dump(prepared, used, float64_text)
                if form == "xgboost"
                else write_lightgbm_json(prepared, used)
            )
            limits = _limits(trees, form)
        files[f"{base}.profile"] = self._profile(
            model, names, expression or "0.0"
        ).encode()
        files["features.json"] = json_file(names)
        return Export(
            files,
            self._request(list(files)),
            notes=self._notes(model, names),
            limits=limits,
        )

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        names = json.loads(export.files["features.json"])
        indices = {names[name]: index for name, index in model.indices.items()}
        base = identifier(model.name)
        form = self._form(model)
        if form == "expression":
            weights = _weights(export.files[f"{base}.profile"].decode(), indices)
            return WAYS[COMPILED].engine(weights, "Vespa")
        read = read_xgboost_dump if form == "xgboost" else read_lightgbm_json
        trees = read(export.files[f"{base}.json"], indices)
        way = way_of_vespa(trees, self.fast_forest)
        # A dump of XGBoost has float32 leaves. The order of the sum depends on the way of the forest.
        dtype = "float32"
        if form != "xgboost":
            dtype = WAYS[way].dtype
        return WAYS[way].engine(
            trees, f"Vespa ({way})", leaf_dtype=dtype, is_in_order=False
        )

    def check_requests(
        self, model: ShippedModel, export: Export, rows: CheckRows
    ) -> CheckRequests:
        """Returns the application, its documents, and the commands that deploy it and score the rows."""
        attributes = tuple(attribute_of(index) for index in range(model.num_features))
        copied = ShippedModel(f"{model.name}_check", attributes, model.scorer)
        # A second phase would score 100 documents only.
        files = replace(self, phase="first").export(copied).files
        name = identifier(copied.name)
        rows, left_out = rows.finite()
        profile = files[f"{name}.profile"].decode()
        models = {file: files[file] for file in files if file == f"{name}.json"}
        documents = list(itertools.starmap(_put, rows.values()))
        check_files = {
            "check_services.xml": _SERVICES.encode(),
            "check_schema.sd": _schema(rows, profile).encode(),
            **models,
            "check_documents.jsonl": "".join(documents).encode(),
        }
        commands = (
            f"mkdir -p {_APPLICATION}/schemas {_APPLICATION}/models",
            f"cp check_services.xml {_APPLICATION}/services.xml",
            f"cp check_schema.sd {_APPLICATION}/schemas/{DOCUMENT_TYPE}.sd",
            *(f"cp {file} {_APPLICATION}/models/" for file in models),
            f"vespa deploy --wait 300 {_APPLICATION}",
            "vespa feed check_documents.jsonl",
            f"vespa query 'yql=select * from {DOCUMENT_TYPE} where true' 'ranking={name}' "
            f"'hits={len(rows.ids)}' > answers.json",
        )
        notes = (
            _NOTE_ON_CHECKS,
            f"The rank profile {name} has the model, but its features read attributes of the documents. "
            "The commands check the model and the engine, not the expressions of your features.",
        )
        return CheckRequests(
            check_files,
            commands,
            cleanup=(f"rm -r {_APPLICATION}",),
            notes=notes,
            left_out=left_out,
        )

    def answered_scores(self, answers: Any) -> Mapping[str, float]:
        # The id of a row is the user-specified part of a document id.
        scores = super().answered_scores(answers)
        of_rows = {}
        for name, score in scores.items():
            *_, identity = name.rsplit("::", 1)
            of_rows[identity] = score
        return of_rows

    def _refuse_own_score(self, model: ShippedModel) -> None:
        """Raises ConfigError if the model reads the score of its own phase, or of a later one."""
        used = {model.feature_names[index] for index in features_read(model.scorer)}
        own = [name for name in _PHASE_SCORES if name in used]
        if self.phase == "second" and "secondPhase" not in own:
            return
        if own:
            remedy = "train without it: data.ignore"
            if "secondPhase" not in own:
                remedy = f"set {self.with_option('phase', 'second')}, or {remedy}"
            raise ConfigError(
                f"the model reads the feature {own[-1]}, which Vespa does not have before the model has "
                f"scored in the {self.phase} phase; {remedy}."
            )

    def _form(self, model: ShippedModel) -> str:
        return form_for(model, self.form, of_linear="expression", of_trees="lightgbm")

    def _profile(
        self, model: ShippedModel, names: Mapping[str, str], expression: str
    ) -> str:
        """Returns the rank profile, with a function for each used feature that is not a rank feature."""
        used = [model.feature_names[index] for index in features_read(model.scorer)]
        lines = [f"rank-profile {identifier(model.name)} inherits default {{"]
        for original in used:
            name = names[original]
            if _is_rank_feature(name):
                continue
            shown = re.sub(r"[^ -~]", "?", original)
            lines.append(
                f"    # {shown}: replace the expression if it is not this attribute"
            )
            lines += [
                f"    function {name}() {{",
                f"        expression: attribute({name})",
                "    }",
            ]
        if self.fast_forest:
            lines += [
                "    rank-properties {",
                f"        {FAST_FOREST_PROPERTY}: true",
                "    }",
            ]
        lines += [
            f"    {self.phase}-phase {{",
            f"        expression: {expression}",
            "    }",
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _request(self, files: Sequence[str]) -> str:
        profile = next(file for file in files if file.endswith(".profile"))
        lines = [f'mkdir -p "$APPLICATION/models" "$APPLICATION/schemas/{self.schema}"']
        if files[0] != profile:
            lines.append(f'cp {files[0]} "$APPLICATION/models/"')
        lines += [
            f'cp {profile} "$APPLICATION/schemas/{self.schema}/"',
            'vespa deploy "$APPLICATION"',
        ]
        return "\n".join(lines)

    def _notes(self, model: ShippedModel, names: Mapping[str, str]) -> tuple[str, ...]:
        used = [model.feature_names[index] for index in features_read(model.scorer)]
        renamed = [name for name in used if names[name] != name]
        of_vespa = [name for name in used if _is_rank_feature(name)]
        notes = [
            "APPLICATION is the folder of the application package. Before the upload, write the expression "
            "of each function in the rank profile; those in the file read the attribute of the same name.",
            "A numeric attribute without a value is missing, as in training. A query feature without a value "
            "is 0, and so is an element that an array does not have.",
            "Features are float32 in training: use attributes of type float. If Vespa computes a feature in "
            "float64, a value that is closer to a threshold than float32 can tell may go to the other side.",
            f"Query with ranking={identifier(model.name)}; the field relevance of a hit is the score.",
        ]
        if not isinstance(model.scorer, Linear):
            notes.append(
                "Vespa has several ways to evaluate trees. All send float32 features to the same leaves; for "
                f"many large trees, or with the rank property {FAST_FOREST_PROPERTY}, leaves are rounded to "
                "float32. certificate.json names the way that was simulated."
            )
        if of_vespa:
            notes.append(
                f"{len(of_vespa)} of {len(used)} used features are rank features, which Vespa computes. To "
                "log their values for training, put this line into the rank profile that answers queries and "
                "store the field matchfeatures of each hit with its query and document: "
                f"`match-features: {' '.join(of_vespa)}`"
            )
        if renamed:
            notes.append(
                f"{len(renamed)} of {len(used)} used features have names that are not possible in a ranking "
                "expression. features.json has the new names."
            )
        if self.phase == "second":
            notes.append(
                "Only the documents of the second phase get the scores of the model: see rerank-count."
            )
        return tuple(notes)


_NOTE_ON_CHECKS = (
    "vespa is the command-line client of Vespa. Use an instance for tests, such as a container "
    "of vespaengine/vespa: the application that is deployed replaces the one that is there."
)


def _put(identity: str, values: Mapping[int, float]) -> str:
    """Returns a line that feeds a row as a document."""
    document = {
        "put": f"id:{DOCUMENT_TYPE}:{DOCUMENT_TYPE}::{identity}",
        "fields": {_field(index): value for index, value in values.items()},
    }
    return f"{json.dumps(document)}\n"


def names_in_vespa(feature_names: Sequence[str]) -> dict[str, str]:
    """Returns feature name -> its text in ranking expressions: a rank feature, or the name of a function.

    >>> names_in_vespa(["bm25(title)", "nativeRank", "price-usd", "log(price)", "1"]).values()
    dict_values(['bm25(title)', 'nativeRank', 'price_usd', 'log_price', 'feature_1'])
    """
    names: dict[str, str] = {}
    taken = {name for name in feature_names if _is_usable(name)}
    for name in feature_names:
        names[name] = name
        if name not in taken:
            names[name] = _free(identifier(name), taken)
        taken.add(names[name])
    return names


def constants_as_splits(ensemble: Ensemble) -> Ensemble:
    """Returns the same model, in which the base score and each tree of one leaf are a split with two equal
    leaves: a constant in the sum would end Vespa's forest. In a model without splits, the base score becomes
    a tree."""
    ensemble = base_score_as_tree(without_zero_missing(ensemble))
    roots = (tree.root for tree in ensemble.trees)
    split = next((root for root in roots if isinstance(root, InnerNode)), None)
    if split is None:
        return ensemble

    def with_split(tree: WeightedTree) -> WeightedTree:
        is_leaf = isinstance(tree.root, Leaf)
        if is_leaf:
            return replace(tree, root=replace(split, left=tree.root, right=tree.root))
        return tree

    return replace(ensemble, trees=tuple(map(with_split, ensemble.trees)))


def _limits(ensemble: Ensemble, form: str) -> dict[str, str]:
    if form == "xgboost":
        return limits_of_infinity(ensemble)
    if any(split.threshold == np.inf for split in splits_of(ensemble)):
        return {
            INFINITE_VALUES: "Infinity goes to another side in Vespa than in a split of the model."
        }
    return {}


def _weights(profile: str, indices: Mapping[str, int]) -> dict[int, float]:
    """Returns feature -> weight of the expression of a linear model."""
    (expression,) = re.findall(r"-phase \{\n *expression: (.+)\n", profile)
    weights = {}
    for term in expression.split(" + "):
        weight, separator, name = term.partition(" * ")
        if separator:
            weights[indices[name]] = float(weight)
    return weights


def _is_usable(name: str) -> bool:
    return bool(_IDENTIFIER.fullmatch(name) and name not in _WORDS) or _is_rank_feature(
        name
    )


def _is_rank_feature(name: str) -> bool:
    if name in _WITHOUT_ARGUMENTS:
        return True
    match = _RANK_FEATURE.fullmatch(name)
    return match is not None and match["name"] not in _WORDS


def identifier(name: str) -> str:
    """Returns a name of letters, digits and underscores that has no other meaning in Vespa.

    >>> identifier("native-2.1")
    'native_2_1'
    """
    words = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    is_name = words[:1].isalpha() and words not in _WORDS | _WITHOUT_ARGUMENTS
    if is_name:
        return words
    return f"feature_{words}".rstrip("_")


def _free(name: str, taken: set[str]) -> str:
    free = name
    number = 1
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free

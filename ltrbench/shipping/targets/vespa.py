"""Requests for Vespa: an application of its own, whose documents are the rows.

Each row is a document, and each feature of the model an attribute of it. The model is written again with
these attributes as features.

Sources: the pages of docs.vespa.ai on application packages, on schemas, on the document JSON format and on
the commands `vespa feed` and `vespa query`. Nothing was run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ltrbench.errors import ConfigError, require_choice
from ltrbench.models.lightgbm_files import write_lightgbm_json
from ltrbench.models.trees import Ensemble, InnerNode, Leaf, WeightedTree, nodes_of, without_zero_missing
from ltrbench.models.xgboost_files import base_score_as_tree, float64_text, write_xgboost_dump
from ltrbench.shipping.probes import features_read, limits_of_infinity
from ltrbench.shipping.simulators.vespa import (
    VESPA_RULES,
    ImportedSum,
    functions_of_profile,
    import_lightgbm,
    import_xgboost,
    linear_scores,
    vespa_forest,
)
from ltrbench.shipping.target import (
    INFINITE_VALUES,
    MISSING_VALUES,
    CheckRequests,
    CheckRows,
    Engine,
    Export,
    Linear,
    ShippedModel,
    Target,
)

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


def vespa_requests(rows: CheckRows, name: str, files: Mapping[str, bytes]) -> CheckRequests:
    """Returns the application, its documents, and the commands that deploy it and score the rows.

    Args:
        name: name of the rank profile.
        files: the export of the model whose features are `attribute_of` their places.
    """
    rows, left_out = rows.finite()
    models = {file: content for file, content in files.items() if file == f"{name}.json"}
    return CheckRequests(
        files={
            "check_services.xml": _SERVICES.encode(),
            "check_schema.sd": _schema(rows, files[f"{name}.profile"].decode()).encode(),
            **models,
            "check_documents.jsonl": "".join(f"{json.dumps(each)}\n" for each in _documents(rows)).encode(),
        },
        commands=_commands(list(models), name, len(rows.ids)),
        cleanup=f"rm -r {_APPLICATION}",
        notes=(
            "vespa is the command-line client of Vespa. Use an instance for tests, such as a container of "
            "vespaengine/vespa: the application that is deployed replaces the one that is there.",
            f"The rank profile {name} has the model, but its features read attributes of the documents. The "
            "commands check the model and the engine, not the expressions of your features.",
        ),
        left_out=left_out,
    )


def attribute_of(place: int) -> str:
    """Returns the rank feature that reads a feature of a row.

    >>> attribute_of(0)
    'attribute(f1)'
    """
    return f"attribute({_field(place)})"


def _schema(rows: CheckRows, profile: str) -> str:
    fields = "".join(
        f"        field {_field(place)} type float {{\n            indexing: attribute\n        }}\n"
        for place in rows.columns
    )
    indented = "".join(f"    {line}\n" for line in profile.splitlines())
    return f"schema {DOCUMENT_TYPE} {{\n    document {DOCUMENT_TYPE} {{\n{fields}    }}\n{indented}}}\n"


def _documents(rows: CheckRows) -> list[dict[str, Any]]:
    return [
        {
            "put": f"id:{DOCUMENT_TYPE}:{DOCUMENT_TYPE}::{identity}",
            "fields": {_field(place): value for place, value in values.items()},
        }
        for identity, values in rows.values()
    ]


def _field(place: int) -> str:
    return f"f{place + 1}"


def _commands(models: Sequence[str], profile: str, num_rows: int) -> str:
    return "\n".join(
        (
            f"mkdir -p {_APPLICATION}/schemas {_APPLICATION}/models",
            f"cp check_services.xml {_APPLICATION}/services.xml",
            f"cp check_schema.sd {_APPLICATION}/schemas/{DOCUMENT_TYPE}.sd",
            *(f"cp {name} {_APPLICATION}/models/" for name in models),
            f"vespa deploy --wait 300 {_APPLICATION}",
            "vespa feed check_documents.jsonl",
            f"vespa query 'yql=select * from {DOCUMENT_TYPE} where true' 'ranking={profile}' "
            f"'hits={num_rows}' > answers.json",
        )
    )


# ---- Vespa: an imported model of trees, or a linear ranking expression, with its rank profile.

FORMS_OF_VESPA: Final = ("lightgbm", "xgboost", "expression")
FAST_FOREST_PROPERTY: Final = "vespa.eval.use_fast_forest"

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RANK_FEATURE = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)\([A-Za-z0-9_@., ]*[A-Za-z0-9_@][A-Za-z0-9_@., ]*\)"
    r"(\.[A-Za-z0-9_]+)*"
)
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

    form: str | None = None
    schema: str = "SCHEMA"
    phase: str = "first"
    fast_forest: bool = False

    name = "vespa"
    verified_against = (
        "Vespa's importers and its C++ evaluation of trees, run with OpenJDK 17 and compiled with g++ 12 on "
        "2026-11-23. The choice of the evaluation, and linear models: sources read, not run"
    )

    def __post_init__(self) -> None:
        require_choice("form", self.form, FORMS_OF_VESPA)
        require_choice("phase", self.phase, ("first", "second"))
        if not _IDENTIFIER.fullmatch(self.schema):
            raise ConfigError(
                f"schema is '{self.schema}'; begin with a letter and use letters, digits and '_' only."
            )

    def export(self, model: ShippedModel) -> Export:
        names = names_in_vespa(model.feature_names)
        base = profile_name(model.name)
        profile, model_file = f"{base}.profile", f"{base}.json"
        if self._form_of(model) == "expression":
            files = {profile: self._profile(model, names, _linear_expression(model, names)).encode()}
            limits = {MISSING_VALUES: "A missing value has no score in a linear model."}
        else:
            form = self._form_of(model)
            expression = f'{form}("{model_file}")'
            content = self._trees(model, list(names.values()))
            files = {model_file: content, profile: self._profile(model, names, expression).encode()}
            limits = _limits(model.trees(self.name), form)
        files["features.json"] = (json.dumps(names, ensure_ascii=False, indent=1) + "\n").encode()
        return Export(files, self._request(list(files)), notes=self._notes(model, names), limits=limits)

    def engine(self, model: ShippedModel, export: Export) -> Engine:
        names = json.loads(export.files["features.json"])
        base = profile_name(model.name)
        profile = export.files[f"{base}.profile"].decode()
        functions = set(functions_of_profile(profile))
        features = {
            names[name]: place
            for place, name in enumerate(model.feature_names)
            if names[name] in functions or _is_rank_feature(names[name])
        }
        content = export.files.get(f"{base}.json")
        if content is None:
            scores = linear_scores(profile, features)
            return Engine(scores, "Vespa", rules=VESPA_RULES, score_dtype="float64")
        imported = _imported(content, profile, features)
        forest = vespa_forest(imported, f"{FAST_FOREST_PROPERTY}: true" in profile)
        # A dump of XGBoost has float32 leaves. The order of the sum depends on the way of the forest.
        dtype = "float32" if self._form_of(model) == "xgboost" else forest.leaf_dtype
        name = f"Vespa ({forest.way})"
        return Engine(forest.scores, name, rules=VESPA_RULES, leaf_dtype=dtype, is_in_order=False)

    def check_requests(self, model: ShippedModel, export: Export, rows: CheckRows) -> CheckRequests:
        attributes = tuple(attribute_of(place) for place in range(model.num_features))
        copied = ShippedModel(f"{model.name}_check", attributes, model.scorer)
        # A second phase would score 100 documents only.
        files = replace(self, phase="first").export(copied).files
        return vespa_requests(rows, profile_name(copied.name), files)

    def answered_scores(self, answers: Any) -> Mapping[str, float]:
        """Returns document id -> relevance of a query's answer, or of an object.

        The id of a hit is the part after the last `::`, the user-specified part of a document id.
        """
        if isinstance(answers, dict) and isinstance(answers.get("root"), dict):
            hits = answers["root"].get("children")
            if not isinstance(hits, list) or not all(map(_is_hit, hits)):
                raise ValueError("expected root.children with id and relevance of each hit")
            answers = {str(hit["id"]).rsplit("::", 1)[-1]: hit["relevance"] for hit in hits}
        return super().answered_scores(answers)

    def _form_of(self, model: ShippedModel) -> str:
        is_linear = isinstance(model.scorer, Linear)
        form = self.form or ("expression" if is_linear else "lightgbm")
        if is_linear != (form == "expression"):
            kind = "linear model" if is_linear else "model of trees"
            raise ConfigError(f"form is '{form}', but {model.name} is a {kind}. Remove the option form.")
        return form

    def _trees(self, model: ShippedModel, names: Sequence[str]) -> bytes:
        prepared = constants_as_splits(model.trees(self.name))
        if self._form_of(model) == "xgboost":
            return write_xgboost_dump(prepared, names, float64_text)
        return write_lightgbm_json(prepared, names)

    def _profile(self, model: ShippedModel, names: Mapping[str, str], expression: str) -> str:
        """Returns the rank profile, with a function for each used feature that is not a rank feature."""
        used = [model.feature_names[place] for place in features_read(model.scorer)]
        lines = [f"rank-profile {profile_name(model.name)} inherits default {{"]
        for original in used:
            name = names[original]
            if _is_rank_feature(name):
                continue
            lines.append(f"    # {_visible(original)}: replace the expression if it is not this attribute")
            lines += [f"    function {name}() {{", f"        expression: attribute({name})", "    }"]
        if self.fast_forest:
            lines += ["    rank-properties {", f"        {FAST_FOREST_PROPERTY}: true", "    }"]
        lines += [f"    {self.phase}-phase {{", f"        expression: {expression}", "    }", "}"]
        return "\n".join(lines) + "\n"

    def _request(self, files: Sequence[str]) -> str:
        profile = next(file for file in files if file.endswith(".profile"))
        lines = [f'mkdir -p "$APPLICATION/models" "$APPLICATION/schemas/{self.schema}"']
        if files[0] != profile:
            lines.append(f'cp {files[0]} "$APPLICATION/models/"')
        lines += [f'cp {profile} "$APPLICATION/schemas/{self.schema}/"', 'vespa deploy "$APPLICATION"']
        return "\n".join(lines)

    def _notes(self, model: ShippedModel, names: Mapping[str, str]) -> tuple[str, ...]:
        used = [model.feature_names[place] for place in features_read(model.scorer)]
        renamed = [name for name in used if names[name] != name]
        notes = [
            "APPLICATION is the folder of the application package. Before the upload, write the expression "
            "of each function in the rank profile; those in the file read the attribute of the same name.",
            "A numeric attribute without a value is missing, as in training. A query feature without a value "
            "is 0, and so is an element that an array does not have.",
            "Features are float32 in training: use attributes of type float. If Vespa computes a feature in "
            "float64, a value that is closer to a threshold than float32 can tell may go to the other side.",
            f"Query with ranking={profile_name(model.name)}; the field relevance of a hit is the score.",
        ]
        if not isinstance(model.scorer, Linear):
            notes.append(
                "Vespa has several ways to evaluate trees. All send float32 features to the same leaves; for "
                f"many large trees, or with the rank property {FAST_FOREST_PROPERTY}, leaves are rounded to "
                "float32. certificate.json names the way that was simulated."
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


def names_in_vespa(feature_names: Sequence[str]) -> dict[str, str]:
    """Returns feature name -> its text in ranking expressions: a rank feature, or the name of a function.

    Raises:
        ConfigError: A name is given twice.

    >>> names_in_vespa(["bm25(title)", "price-usd", "log(price)", "1"])
    {'bm25(title)': 'bm25(title)', 'price-usd': 'price_usd', 'log(price)': 'log_price', '1': 'feature_1'}
    """
    names: dict[str, str] = {}
    taken = {name for name in feature_names if _is_usable(name)}
    for name in feature_names:
        if name in names:
            raise ConfigError(
                f"the feature name '{name}' is given twice, but features of Vespa are known by their names. "
                "Rename one of the features."
            )
        names[name] = name if name in taken else _free(_cleaned(name), taken)
        taken.add(names[name])
    return names


def profile_name(name: str) -> str:
    """Returns the name of the rank profile and of the model's file.

    >>> profile_name("native-2.1")
    'native_2_1'
    """
    return _cleaned(name)


def constants_as_splits(ensemble: Ensemble) -> Ensemble:
    """Returns the same model, in which the base score and each tree of one leaf are a split with two equal
    leaves: a constant in the sum would end Vespa's forest. In a model without splits, the base score becomes
    a tree."""
    ensemble = without_zero_missing(ensemble)
    roots = [tree.root for tree in ensemble.trees]
    split = next((root for root in roots if isinstance(root, InnerNode)), None)
    if split is None:
        return base_score_as_tree(ensemble)

    def with_split(tree: WeightedTree) -> WeightedTree:
        is_leaf = isinstance(tree.root, Leaf)
        return replace(tree, root=replace(split, left=tree.root, right=tree.root)) if is_leaf else tree

    first = [WeightedTree(1.0, Leaf(ensemble.base_score))] if ensemble.base_score else []
    trees = tuple(with_split(tree) for tree in (*first, *ensemble.trees))
    return replace(ensemble, trees=trees, base_score=0.0)


def _imported(content: bytes, profile: str, features: Mapping[str, int]) -> ImportedSum:
    """Returns the model as the pseudo-feature in the rank profile imports it."""
    is_xgboost = 'expression: xgboost("' in profile
    return import_xgboost(content, features) if is_xgboost else import_lightgbm(content, features)


def _limits(ensemble: Ensemble, form: str) -> dict[str, str]:
    if form == "xgboost":
        return limits_of_infinity(ensemble)
    nodes = (node for tree in ensemble.trees for node in nodes_of(tree.root))
    if any(isinstance(node, InnerNode) and node.threshold == np.inf for node in nodes):
        return {INFINITE_VALUES: "Infinity goes to another side in Vespa than in a split of the model."}
    return {}


def _linear_expression(model: ShippedModel, names: Mapping[str, str]) -> str:
    weights = model.scorer.weights if isinstance(model.scorer, Linear) else np.zeros(0)
    if not np.isfinite(weights).all():
        raise ConfigError(f"{model.name} has a weight that is not finite. Scale the features.")
    named = zip(weights.astype(np.float64).tolist(), model.feature_names, strict=True)
    return " + ".join(f"{weight!r} * {names[name]}" for weight, name in named if weight) or "0.0"


def _is_usable(name: str) -> bool:
    return bool(_IDENTIFIER.fullmatch(name) and name not in _WORDS) or _is_rank_feature(name)


def _is_rank_feature(name: str) -> bool:
    match = _RANK_FEATURE.fullmatch(name)
    return match is not None and match["name"] not in _WORDS


def _cleaned(name: str) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    is_name = words[:1].isalpha() and words not in _WORDS
    return words if is_name else f"feature_{words}".rstrip("_")


def _free(name: str, taken: set[str]) -> str:
    candidates = (name, *(f"{name}_{number}" for number in range(2, len(taken) + 3)))
    return next(candidate for candidate in candidates if candidate not in taken)


def _visible(name: str) -> str:
    return re.sub(r"[^ -~]", "?", name)


def _is_hit(hit: Any) -> bool:
    return isinstance(hit, dict) and "id" in hit and type(hit.get("relevance")) in (int, float)

"""LightGBM behind the Ranker contract.

The shared fields are in LightGBM's units: they are LightGBM's parameters under other names, and the other
backends translate them. LightGBM's metrics are off. Early stopping uses LightGBM's running scores (float64),
which only `Booster.eval` makes public.

Monitoring costs little [measured: 30,000 x 136 training documents, 10,000 validation documents, 2 cores]: an
iteration takes 21 ms, of which the validation scores take at most 1 ms and passing them on 0.3 ms; the
evaluator adds 1.1 ms. If a fit takes seconds longer, the cause is another one: LightGBM's threads spin while
they wait for each other. With another process on one of the two cores, 40 iterations took 8 to 28 s instead
of 0.9 s, monitored or not, and 1.0 s with OMP_WAIT_POLICY=passive. That variable must be set before LightGBM
is imported, and costs up to 10 % on idle cores.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import io
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.data import RankingDataset
from ltrbench.data.features import AnyFeatures, as_array, row_blocks, rows_of_block
from ltrbench.distributed import FitsTogether, PlacedShards, held
from ltrbench.errors import ConfigError, DataError
from ltrbench.models.lightgbm_files import ensemble_of_lightgbm, parse_lightgbm_text
from ltrbench.models.trees import Ensemble
from ltrbench.native.objectives.base import Objective, name_or_objective
from ltrbench.rankers.base import (
    ADDITIVE,
    NO_DEBIASING,
    WEIGHTS,
    Debiasing,
    Finding,
    FitCurve,
    FitSummary,
    Monitor,
    Severity,
    check_fitted,
    threads_of_workers,
)
from ltrbench.rankers.library import (
    Boosted,
    ImportedOnUse,
    LibraryRanker,
    array_or_csr,
    weights_of_documents,
)
from ltrbench.settings import BELOW_1, samples, setting
from ltrbench.shapes import Features, Scores

if TYPE_CHECKING:
    import lightgbm as lgb
else:
    lgb = ImportedOnUse(
        "lightgbm", "model=lightgbm needs LightGBM: pip install lightgbm"
    )


def _check_openmp() -> None:
    """Raises ImportError if LightGBM's wheel does not find the OpenMP runtime of the system."""
    spec = importlib.util.find_spec("lightgbm")
    if spec is None or spec.origin is None:
        return
    try:
        for library in Path(spec.origin).parent.glob("lib/lib_lightgbm.*"):
            ctypes.CDLL(str(library))
    except OSError as error:
        raise ImportError(
            f"LightGBM is installed, but its OpenMP runtime is missing ({error}): apt install libgomp1"
        ) from error


_check_openmp()

# ---- Features in the forms that LightGBM reads: SciPy's CSR for sparse rows with 0 where absent, and
# `BlockSequence` for any other FeatureMatrix. LightGBM chooses the same bins as for one array, so that the
# models are the same.

MOST_DOCUMENTS_BINNED = 200_000
"""Number of documents above which the bins are chosen on a sample (bin_construct_sample_cnt)."""


class BlockSequence:
    """Rows of a FeatureMatrix, which LightGBM reads in batches, as a `lightgbm.Sequence`."""

    def __init__(self, features: AnyFeatures) -> None:
        self.features = features
        self.batch_size = rows_of_block(features.shape[1])

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: Any) -> NDArray[Any]:
        rows = self.features[index]
        # LightGBM takes a sample of single rows in float64 only.
        if rows.ndim == 2:
            return rows
        return rows.astype(np.float64)


@functools.cache
def _data_class() -> type[lgb.Dataset]:
    """Returns a class of data sets; the bins of a BlockSequence are chosen as for an array, and in no more
    memory.

    The methods replace methods of LightGBM 4.6 and 4.7. If a later version has other names, its own methods
    choose the bins more slowly and in more than twice the memory.
    """
    lgb.Sequence.register(BlockSequence)

    class Data(lgb.Dataset):
        def get_params(self) -> dict[str, Any]:
            # By default without min_data_in_leaf, so that LightGBM would drop other features.
            return dict(self.params or {})

        def _Dataset__sample(  # noqa: N802
            self, seqs: list[BlockSequence], total_nrow: int
        ) -> tuple[list[NDArray[np.float64]], list[NDArray[np.int32]]]:
            """Returns the values of a sample by columns, without zeros, and their row numbers in it."""
            rows = self._create_sample_indices(total_nrow=total_nrow)
            return sampled_columns(seqs[0].features, rows)

    return Data


def sampled_columns(
    features: AnyFeatures, rows: NDArray[np.int32]
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.int32]]]:
    """Returns the values of some rows by columns, without zeros, and their positions in `rows`.

    Args:
        rows: row numbers, ascending.
    """
    shape = features.shape[1], len(rows)
    values = np.empty(shape)
    positions = np.empty(shape, dtype=np.int32)
    ends = [0] * shape[0]
    for start, block in row_blocks(features):
        ends_of_block = [start, start + len(block)]
        first, after = np.searchsorted(rows, ends_of_block)
        rows_of_block = rows[first:after] - start
        of_columns = block[rows_of_block].T.copy()
        is_zero = np.abs(of_columns) <= lgb.basic.ZERO_THRESHOLD
        for column, begin in enumerate(ends):
            kept = np.flatnonzero(~is_zero[column])
            end = begin + len(kept)
            values[column, begin:end] = of_columns[column, kept]
            positions[column, begin:end] = first + kept
            ends[column] = end
    values_of_columns = [values[column, :end] for column, end in enumerate(ends)]
    positions_of_columns = [positions[column, :end] for column, end in enumerate(ends)]
    return values_of_columns, positions_of_columns


# ---- LightGBM's fit on the workers of a Dask cluster, with `lightgbm.dask.DaskLGBMRanker`.
#
# Every worker turns its shard into one partition of each Dask array. The partitions stay on their workers,
# and the group sizes of a partition sum to its rows, because no query is divided. LightGBM then connects
# the workers by sockets and adds their histograms (tree_learner=data).


def fit_on_workers(
    workers: FitsTogether,
    train: PlacedShards,
    num_trees: int,
    parameters: Mapping[str, Any],
) -> str:
    """Returns the text of the model.

    Args:
        parameters: under LightGBM's names, as for a local fit.

    Raises:
        ImportError: A package that `lightgbm.dask` needs is missing.
    """
    try:
        from lightgbm.dask import DaskLGBMRanker
    except ImportError as error:
        raise ImportError(
            "a distributed fit of model=lightgbm needs Dask and scikit-learn: pip install "
            "'ltrbench[dask,sklearn]'"
        ) from error
    # lightgbm.dask sets it: each worker uses the threads that Dask gives it.
    settings = {
        name: value for name, value in parameters.items() if name != "num_threads"
    }
    ranker = DaskLGBMRanker(client=workers.client, n_estimators=num_trees, **settings)
    names = ["X", "y", "group"]
    if any(shard.dataset.query_weights is not None for shard in train.shards):
        names.append("sample_weight")
    arrays = {name: _array(workers, train, name) for name in names}
    data = train.shards[0].dataset
    # lightgbm.dask fails if a categorical feature has no category.
    names_of_categorical = [data.feature_names[f] for f in data.categorical_features]
    pairs = zip(data.categorical_features, names_of_categorical, strict=True)
    categorical = [feature for feature, name in pairs if data.categories[name]]
    if categorical:
        arrays["categorical_feature"] = categorical
    # lightgbm.dask prints how it chooses ports, and always warns of n_jobs, which has a default.
    with (
        workers.client.as_current(),
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "Parameter .* will be ignored")
        ranker.fit(arrays.pop("X"), arrays.pop("y"), **arrays)
    return str(ranker.booster_.model_to_string())


def check_threads(workers: FitsTogether, num_threads: int) -> None:
    """Raises ConfigError if the recorded number of threads would not be that of `lightgbm.dask`."""
    of_dask = workers.client.nthreads()
    wanted = threads_of_workers(workers, num_threads)
    for address, count in zip(workers.addresses, wanted, strict=True):
        if of_dask.get(address, count) != count:
            raise ConfigError(
                f"the Dask worker {address} has {of_dask[address]} threads, which lightgbm.dask uses, but "
                f"this fit is to use {count}. Set num_threads=0, and distributed.threads_per_worker=null for "
                "a running scheduler."
            )


def _part(key: str, name: str) -> Any:
    """Returns an argument of `DaskLGBMRanker.fit`, made from the shard that this worker holds."""
    data = held(key).dataset
    if name == "X":
        rows = array_or_csr(data.features, 0.0)
        if rows is None:
            return as_array(data.features)
        return rows
    return {
        "y": data.labels,
        "group": data.query_sizes,
        "sample_weight": weights_of_documents(data),
    }[name]


def _array(workers: FitsTogether, placed: PlacedShards, name: str) -> Any:
    """Returns a Dask array with one partition on each worker, made there from its shard."""
    import dask
    import dask.array

    parts = []
    for address, key, shard in zip(
        workers.addresses, placed.keys, placed.shards, strict=True
    ):
        future = workers.client.submit(_part, key, name, workers=[address], pure=False)
        shape = _shape_of_part(shard.dataset, name)
        part = dask.array.from_delayed(dask.delayed(future), shape, dtype=np.float64)
        parts.append(part)
    return dask.array.concatenate(parts)


def _shape_of_part(data: RankingDataset, name: str) -> tuple[int, ...]:
    if name == "X":
        return data.num_documents, data.num_features
    if name == "group":
        return (data.num_queries,)
    return (data.num_documents,)


MOST_DOCUMENTS_OF_QUERY = 10_000
"""Maximum number of documents of a query with lambdarank (kMaxPosition in LightGBM's dcg_calculator)."""
HIGHEST_GRADE = 30
"""Highest label in LightGBM's default gains, 2^l - 1."""

_OF_LAMBDARANK = {"objective": ("lambdarank",)}
"""What a setting of the pairs of documents depends on."""

_OF_BAGGING = {"bagging_fraction": BELOW_1}

# Observed with l2=5: LightGBM marks a feature as not splittable, and child leaves skip it.
_SKIPS_FEATURES = "LightGBM skips a feature in all leaves below a leaf where no split on it had enough gain."

_WITHOUT_SEED = {"lambda_l1", "max_depth", "min_data_in_bin", "path_smooth"}
"""Parameters of `extra` that are known not to draw random numbers."""

_MAIN_NAMES = {"random_forest": "rf", "gbrt": "gbdt", "+": "true", "-": "false"}
"""Other name of a value -> its name in LightGBM's documentation."""

_NOT_DISTRIBUTED = {
    "linear_tree",
    "tree_learner",
    "forcedsplits_filename",
    "num_machines",
    "machines",
}
"""Parameters of `extra` that a distributed fit does not support, or that `lightgbm.dask` sets."""


@dataclass(kw_only=True)
class LightGBMRanker(LibraryRanker):
    """LightGBM's LambdaMART, or its cross-entropy objective for NDCG.

    The weight of a query is the weight of each of its documents; weights may vary within a query.
    """

    objective: str | Objective = setting(
        "lambdarank",
        refuse=name_or_objective("lambdarank", "rank_xendcg"),
        names="objective objective_type app application loss num_class num_classes",
    )
    """lambdarank: pairs weighted by their change of NDCG; rank_xendcg: cross entropy, without pairs.
    rank_xendcg has NDCG's gains and requires truncation=null."""
    label_gain: list[float] | None = setting(
        None, names="label_gain", only_with=_OF_LAMBDARANK
    )
    """Gains of the labels 0, 1, 2, ...; None: 2^label - 1, for labels up to 30."""
    lambdarank_norm: bool = setting(
        True, names="lambdarank_norm", only_with=_OF_LAMBDARANK
    )
    """Divides a pair's weight by 0.01 + |score difference|, and scales a query's gradients. The scale is
    log2(1 + S) / S, where S is the sum of the gradients of its pairs."""
    sigmoid: float = setting(1.0, above=0, names="sigmoid", only_with=_OF_LAMBDARANK)
    """Slope of the logistic function of a pair's score difference; XGBoost's is always 1."""
    lambdarank_position_bias_regularization: float | None = setting(
        None,
        at_least=0,
        names="lambdarank_position_bias_regularization",
        only_with=_OF_LAMBDARANK,
    )
    """L2 penalty of learned position biases; None: positions are not used. A bias is learned for each
    position in `RankingDataset.positions`."""
    bagging_fraction: float = setting(
        1.0, above=0, at_most=1, names="bagging_fraction sub_row subsample bagging"
    )
    """Share of the documents, or queries, sampled per tree; below 1 requires bagging_freq."""
    bagging_freq: int = setting(
        0, at_least=0, names="bagging_freq subsample_freq", only_with=_OF_BAGGING
    )
    """Number of iterations between two samples; 0: no sampling."""
    bagging_by_query: bool = setting(
        False, names="bagging_by_query", only_with=_OF_BAGGING
    )
    """Samples whole queries instead of documents."""
    feature_fraction: float = setting(
        1.0, above=0, at_most=1, names="feature_fraction sub_feature colsample_bytree"
    )
    """Share of the features sampled per tree."""
    feature_fraction_bynode: float = setting(
        1.0,
        above=0,
        at_most=1,
        names="feature_fraction_bynode sub_feature_bynode colsample_bynode",
    )
    """Share of the tree's features sampled per split."""
    deterministic: bool = setting(True, names="deterministic")
    """Gives the same bits on any number of threads. Sums are taken in a fixed order, and histograms are built
    column-wise instead of by the method that is faster in a trial run."""

    library = "LightGBM"
    packages = ("lightgbm",)
    reads_blocks = True
    debiasing: ClassVar[Debiasing] = {
        NO_DEBIASING: {"lambdarank_position_bias_regularization": None},
        ADDITIVE: {"lambdarank_position_bias_regularization": 0.0},
        WEIGHTS: {"lambdarank_position_bias_regularization": None},
    }
    is_repeatable_on_workers: ClassVar[bool] = False
    model_file = "model.txt"
    metric_names = (
        "metric metrics metric_types eval_at ndcg_eval_at ndcg_at map_eval_at map_at"
    )
    refused_names: ClassVar[Mapping[str, str]] = {
        "categorical_feature": "name the columns in data.categorical",
        "data group_column header ignore_column label_column parser_config_file "
        "pre_partition precise_float_parser two_round valid weight_column": (
            "it describes the data files of LightGBM's command line, and has no effect on arrays; remove it"
        ),
    }

    @classmethod
    def library_error(cls) -> type[Exception]:
        return lgb.basic.LightGBMError

    @property
    def zero_is_missing(self) -> bool:
        return self._extra_as_read("zero_as_missing") == "true"

    @property
    def _has_linear_leaves(self) -> bool:
        return self._extra_as_read("linear_tree") == "true"

    def _extra_as_read(self, name: str) -> str:
        """Returns the value of a parameter of `extra` as LightGBM reads it: its first word in lower case, by
        its main name; empty if it is not set."""
        value = self.extra.get(name)
        if value is None:
            return ""
        if isinstance(value, list | tuple):
            value = ",".join(map(str, value))
        first, *_ = re.split(r"\s", str(value))
        word = first.strip("'\"").lower()
        return _MAIN_NAMES.get(word, word)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bagging_fraction < 1 and self.bagging_freq == 0:
            raise ConfigError(
                f"bagging_fraction is {self.bagging_fraction}, but bagging_freq is 0, so nothing would be "
                "sampled. Set bagging_freq=1 for a new sample in every iteration."
            )
        if self.extra:
            self._refuse_unknown(_parameter_names())
        is_dart = self._extra_as_read("boosting") == "dart"
        if is_dart and self.early_stopping is not None:
            raise ConfigError(
                "extra.boosting is dart, which rescales earlier trees, so early stopping cannot return to an "
                "earlier iteration. Set early_stopping=null."
            )
        if self.monotone:
            self._refuse_violations()

    def _refuse_violations(self) -> None:
        """Raises ConfigError for parameters with which LightGBM 4.7 violates monotone constraints [measured:
        falls of a score by 0.3 and more with linear_tree; by up to 0.19 with advanced and 0.02 with
        intermediate, if features have missing values; by 0 with basic, the default]."""
        method = self._extra_as_read("monotone_constraints_method")
        name = None
        if self._has_linear_leaves:
            name = "linear_tree"
        elif method not in ("", "basic"):
            name = "monotone_constraints_method"
        if name is not None:
            raise ConfigError(
                f"monotone is {self.monotone}, but LightGBM violates it with extra.{name}="
                f"{self.extra[name]}. Remove extra.{name}, or set monotone=null."
            )

    def check_distributed(self) -> None:
        super().check_distributed()
        alone = "or fit in one process with distributed=none"
        reasons = {
            "early_stopping": "has no early stopping (issue 3712 of LightGBM)",
            "lambdarank_position_bias_regularization": "takes no positions",
        }
        for name, reason in reasons.items():
            if getattr(self, name) is not None:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}, but LightGBM's distributed fit (lightgbm.dask) "
                    f"{reason}. Set {name}=null, {alone}."
                )
        for name in sorted(_NOT_DISTRIBUTED & self.extra.keys()):
            raise ConfigError(
                f"extra.{name} is {self.extra[name]}, but cannot be set in a distributed fit of LightGBM "
                f"(lightgbm.dask). Remove extra.{name}, {alone}."
            )

    def fit_distributed(
        self, workers: FitsTogether, train: PlacedShards, *_: object, **__: object
    ) -> FitCurve:
        check_threads(workers, self.num_threads)
        with self._refusing_extra():
            parameters = self._parameters_of(train.shards[0].dataset)
            model = fit_on_workers(workers, train, self.num_trees, parameters)
        self._model = lgb.Booster(model_str=model)
        self.summary = FitSummary(self._model.current_iteration(), self.num_trees)
        return [], {}  # lightgbm.dask reports no scores during a fit

    def _boosted(
        self, train: RankingDataset, valid: RankingDataset | None, monitor: Monitor
    ) -> Boosted:
        with self._refusing_extra():
            train_set = self._dataset(train)
            booster = lgb.Booster(self._parameters_of(train), train_set)
        self._refuse_without_features(booster)
        valid_set = None
        if valid is not None and monitor.wants_scores:
            valid_set = self._dataset(valid, reference=train_set)
            booster.add_valid(valid_set, "valid")

        gradients = self._gradients_of(train)

        def grow(_: int) -> int:
            # LightGBM drops a tree without a split; with sampling, the next tree may have one.
            booster.update(fobj=gradients)
            return booster.current_iteration()

        def scores_of(data: lgb.Dataset) -> Scores:
            return _running_scores(booster, data)

        num_iterations = self._boost(grow, scores_of, train_set, valid_set, monitor)
        kept = monitor.best_iteration or booster.current_iteration()
        # Via text, as lgb.train does: this drops the trimmed trees and releases the training data.
        model = lgb.Booster(model_str=booster.model_to_string(num_iteration=kept))
        return model, kept, num_iterations

    def _refuse_without_features(self, booster: lgb.Booster) -> None:
        """Raises DataError if LightGBM dropped all features, and would fail with gradients from outside."""
        head, _ = parse_lightgbm_text(booster.model_to_string().encode())
        infos = head["feature_infos"].split(" ")
        if self._own_objective is not None and set(infos) == {"none"}:
            raise DataError(
                f"LightGBM can split none of the {len(infos)} features: they are constant, or the "
                "training set has too few documents for min_docs_in_leaf. Add features, or set "
                "params.min_docs_in_leaf=1."
            )

    def _dataset(
        self, data: RankingDataset, reference: lgb.Dataset | None = None
    ) -> lgb.Dataset:
        learns_bias = self.lambdarank_position_bias_regularization is not None
        # With blocks, LightGBM would crash.
        features = data.features
        if self._has_linear_leaves:
            features = as_array(features)
        rows: Any = array_or_csr(features, 0.0)
        if rows is None:
            rows = BlockSequence(features)
        positions = None
        if learns_bias and reference is None:
            positions = data.positions
        dataset = _data_class()(
            rows,
            label=data.labels,
            group=data.query_sizes,
            weight=weights_of_documents(data),
            position=positions,
            categorical_feature=list(data.categorical_features) or "auto",
            reference=reference,
            params=self._parameters_of(data),
        )
        return dataset.construct()

    def _parameters_of(self, data: RankingDataset) -> dict[str, Any]:
        return {**self.library_parameters(), **self._monotone_signs(data)}

    def _num_features(self, model: lgb.Booster) -> int:
        return model.num_feature()

    def _scores(self, model: lgb.Booster, features: Any) -> NDArray[np.float64]:
        return np.asarray(model.predict(features, num_threads=self._threads))

    def _shap_values(
        self, model: lgb.Booster, features: Features
    ) -> NDArray[np.float64] | None:
        if self._has_linear_leaves:
            return None  # LightGBM does not support linear leaves here
        # LightGBM's random forest predicts the mean of its trees but explains their sum.
        divisor = 1
        if self._extra_as_read("boosting") == "rf":
            divisor = model.num_trees()
        return (
            np.asarray(
                model.predict(features, pred_contrib=True, num_threads=self._threads)
            )
            / divisor
        )

    def _to_bytes(self, model: lgb.Booster) -> bytes:
        return model.model_to_string().encode()

    def _from_bytes(self, content: bytes) -> lgb.Booster:
        return lgb.Booster(model_str=content.decode())

    def importance(self) -> dict[str, NDArray[np.float64]]:
        booster: lgb.Booster = check_fitted(self._model)
        return {
            kind: booster.feature_importance(importance_type=kind).astype(np.float64)
            for kind in ("split", "gain")
        }

    def trees(self) -> Ensemble:
        booster: lgb.Booster = check_fitted(self._model)
        head, trees = parse_lightgbm_text(booster.model_to_string().encode())
        if any(tree.is_linear for tree in trees):
            raise ConfigError(
                "trees with extra.linear_tree have linear models in their leaves, which cannot be shown. Fit "
                "without extra.linear_tree."
            )
        return ensemble_of_lightgbm(head, trees)

    def seed_matters(self, num_documents: int) -> bool:
        draws = self._draws(_WITHOUT_SEED) or self.objective == "rank_xendcg"
        return draws or not self.deterministic or num_documents > MOST_DOCUMENTS_BINNED

    def _departure_from_defaults(self) -> str:
        return ", but deterministic is true" if self.deterministic else ""

    def _departures(self) -> dict[str, bool]:
        limits = (self.l2, self.min_split_gain, self.max_delta_step)
        forgets = any(limit is not None and limit > 0 for limit in limits)
        return {
            "Bin edges differ from other backends: LightGBM bins features by its own algorithm, with at "
            "least 3 documents per bin.": True,
            "Missing values are treated as 0 if the feature had no missing values in training.": True,
            _SKIPS_FEATURES: forgets,
            "Samples differ from other backends: LightGBM samples documents and features by its own "
            "algorithm.": samples(self),
            "The objective is rank_xendcg (cross entropy), not LambdaMART on NDCG; truncation is not "
            "applied.": self.objective == "rank_xendcg",
            f"The objective is {self.objective}, not LambdaMART on NDCG.": self._own_objective
            is not None,
        }

    def _findings_in(self, train: RankingDataset) -> Iterator[Finding]:
        highest = HIGHEST_GRADE if self.label_gain is None else len(self.label_gain) - 1
        is_grade = (train.labels % 1 == 0) & (train.labels <= highest)
        if self._own_objective is not None:
            is_grade = np.ones(len(train.labels), dtype=np.bool_)
        remedy = (
            f"LightGBM accepts only the grades 0, 1, ..., {highest}. Map the labels to these grades; "
            "label_gain sets the gain of each grade."
        )
        yield from self._refused_labels(train.labels, ~is_grade, remedy)
        # Gains of splits on categories have an l2 penalty by default (cat_l2).
        has_categories = bool(train.categorical_features)
        if has_categories and _SKIPS_FEATURES not in self._all_departures():
            yield Finding(Severity.UNMATCHED, _SKIPS_FEATURES)
        longest = int(train.query_sizes.argmax())
        size = int(train.query_sizes[longest])
        if self.objective == "lambdarank" and size > MOST_DOCUMENTS_OF_QUERY:
            yield Finding(
                Severity.REFUSED,
                f"query {train.query_ids[longest]} has {size:,} documents, but LightGBM's "
                f"lambdarank takes at most {MOST_DOCUMENTS_OF_QUERY:,}. Divide the query, or set "
                "model.objective=rank_xendcg with params.truncation=null, or model=native.",
            )

    def library_parameters(self) -> dict[str, Any]:
        objective = self.objective
        if self._own_objective is not None:
            objective = "none"
        is_row_wise = self._extra_as_read("force_row_wise") == "true"
        return {
            **self._under_library_names(objective=objective),
            # Otherwise LightGBM times both methods of building histograms, and uses the faster one.
            "force_col_wise": self.deterministic and not is_row_wise,
            "metric": "none",
            "verbosity": -1,
            **self.extra,
        }


def _running_scores(booster: lgb.Booster, data: lgb.Dataset) -> Scores:
    """Returns the (D,) scores of the trees so far."""
    seen: list[Scores] = []

    def keep(scores: Scores, _: lgb.Dataset) -> tuple[str, float, bool]:
        # A copy, because LightGBM writes the next iteration's scores into the same array.
        seen.append(scores.copy())
        return "scores", 0.0, True

    booster.eval(data, "scores", keep)
    return seen[0]


@functools.cache
def _parameter_names() -> frozenset[str]:
    """Returns all parameters of this version of LightGBM, which it lists in the text of a model."""
    quiet = {"verbosity": -1, "num_threads": 1}
    features = np.zeros((2, 1), dtype=np.float32)
    empty = lgb.Dataset(features, label=np.zeros(2), params=quiet)
    text = lgb.Booster(quiet, empty).model_to_string()
    return frozenset(re.findall(r"^\[(\w+):", text, re.MULTILINE))

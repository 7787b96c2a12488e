"""Neural networks trained by the objectives of native: `ltrbench.models.networks` behind the Ranker contract.

The objective computes the gradient with respect to the scores in its own code; JAX takes it back to the
parameters (vector-Jacobian product). The forward pass and this step are compiled for each shape of a batch.
A batch is a table with a row of places for each of its queries, padded to few sizes; in prediction
without context, rows are blocks of documents of any queries.

A compiled function runs on one thread. Threads compute the two shares of a batch in a fit, and the batches of
a prediction, so that no bits depend on the number of threads [bench_networks.py, 222,000 documents, MLP
136-256-128-1, two cores: 0.7 s for an epoch, 0.7 microseconds for a score].

With attention, the last bits of a score depend on the number of rows of its batch, that is on the number of
queries of about its size that are scored together [measured, widths 16 to 256: differences up to 1e-6; the
bits are equal only if every batch has 64 rows, which would make the prediction of one query 64 times as
long].
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ltrbench.compilation import threads
from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError, DataError, DivergenceError, ResultError
from ltrbench.models.networks import (
    Layers,
    Network,
    Steps,
    forward,
    initial_arrays,
    is_fixed,
)
from ltrbench.native.objectives.base import LARGE, Objective, name_or_objective
from ltrbench.native.objectives.lambdarank import LambdaRank, RankNet
from ltrbench.native.objectives.lambdas import ObjectiveSettings, prepare
from ltrbench.native.objectives.squared_error import for_warm_up
from ltrbench.rankers.base import (
    EarlyStopping,
    Finding,
    FitSummary,
    Monitor,
    OnIteration,
    Ranker,
    Severity,
    check_features,
    check_fitted,
    moments,
    refuse,
    resolve_threads,
    uneven_scales,
)
from ltrbench.rankers.estimator import takes_tables
from ltrbench.rankers.library import (
    COPY_OR_FIT_AGAIN,
    ImportedOnUse,
    folders_to_continue,
    model_to_continue,
    read_model,
    write_model,
)
from ltrbench.settings import check_effects, part, setting
from ltrbench.shapes import QueryStart, Scores
from ltrbench.untrusted import load_npz

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import optax
else:
    _NEEDS = (
        "model=mlp needs the packages jax and optax: pip install 'ltrbench[neural]'"
    )
    jax = ImportedOnUse("jax", _NEEDS)
    jnp = ImportedOnUse("jax.numpy", _NEEDS)
    optax = ImportedOnUse("optax", _NEEDS)

# ---- The compiled functions.


_Function = Callable[..., Any]


def _jit(*static: str) -> Callable[[_Function], _Function]:
    """Compiles a function on its first call; `static` are its arguments that are no arrays."""

    def decorate(function: _Function) -> _Function:
        @functools.cache
        def compiled() -> Any:
            return jax.jit(
                function,
                static_argnames=static,
                compiler_options={"xla_cpu_multi_thread_eigen": False},
            )

        @functools.wraps(function)
        def call(*arguments: Any, **more: Any) -> Any:
            return compiled()(*arguments, **more)

        return call

    return decorate


_MOMENTUM = 0.9
"""Share of the earlier moments of a batch normalisation that a batch keeps, as in PyTorch."""

# Their settings are part of their state, so that another learning rate compiles nothing.
_OPTIMIZERS: dict[str, dict[str, float]] = {
    "adam": {"learning_rate": 1.0},
    "adamw": {"learning_rate": 1.0, "weight_decay": 0.0},
    "sgd": {"learning_rate": 1.0, "momentum": 0.9},
}


@functools.cache
def _optimizer(name: str) -> Any:
    return optax.inject_hyperparams(getattr(optax, name))(**_OPTIMIZERS[name])


class _TrainingSteps(Steps):
    """A forward pass in training; `rates` are the dropout and the standard deviation of the noise, and `uses`
    whether they are above 0. Afterwards, `arrays` has the moments for prediction."""

    def __init__(
        self, arrays: Any, mask: Any, seed: Any, rates: Any, uses: tuple[bool, bool]
    ) -> None:
        super().__init__(arrays, mask)
        self._seed = seed
        self._rates = rates
        self._uses = uses
        self._num_draws = 0

    def noisy(self, x: Any) -> Any:
        if not self._uses[1]:
            return x
        radius = self._uniform(x)
        angle = self._uniform(x)  # of Box and Muller, 1958
        length = jnp.sqrt(-2 * jnp.log(1 - radius))
        return x + self._rates[1] * length * jnp.cos(2 * np.pi * angle)

    def drop(self, h: Any) -> Any:
        if not self._uses[0]:
            return h
        is_kept = self._uniform(h) >= self._rates[0]
        return jnp.where(is_kept, h / (1.0 - self._rates[0]), 0.0)

    def _uniform(self, like: Any) -> Any:
        """Returns multiples of 2^-24 in [0, 1), by lowbias32 of Wellons' hash-prospector.

        jax.random would double the time of a step with dropout, and of compiling it.
        """
        self._num_draws += 1
        step = self._num_draws * 0x9E3779B9 % 2**32
        start = self._seed + jnp.uint32(step)
        x = jnp.arange(like.size, dtype=jnp.uint32) + start
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
            x = (x ^ (x >> shift)) * jnp.uint32(factor)
        bits = (x >> 8).reshape(like.shape)
        return bits * jnp.float32(2**-24)

    def moments(self, name: str, h: Any) -> tuple[Any, Any]:
        axes = tuple(range(h.ndim - 1))
        weights = self.mask[..., None] / self.mask.sum()
        mean = (h * weights).sum(axes)
        variance = (jnp.square(h - mean) * weights).sum(axes)
        for key, value in ((f"{name}.mean", mean), (f"{name}.variance", variance)):
            before = _MOMENTUM * self.arrays[key]
            self.arrays[key] = before + (1 - _MOMENTUM) * value
        return mean, variance


@_jit("layers", "uses")
def _forward(
    parameters: Any,
    fixed: Any,
    features: Any,
    mask: Any,
    seed: Any,
    rates: Any,
    layers: Any,
    uses: Any,
) -> Any:
    """Returns the scores, the function from their gradient to that of the parameters, and new moments."""

    def scores(parameters: Any) -> Any:
        steps = _TrainingSteps(parameters | fixed, mask, seed, rates, uses)
        outputs = forward(jnp, layers, steps, features)
        return outputs, {name: steps.arrays[name] for name in fixed}

    return jax.vjp(scores, parameters, has_aux=True)


@_jit()
def _backward(pull_back: Any, of_scores: Any) -> Any:
    """Returns the gradient of the parameters, given the function of `_forward` and that of the scores."""
    (gradient,) = pull_back(of_scores)
    return gradient


@_jit("optimizer")
def _update(parameters: Any, state: Any, gradients: Any, optimizer: str) -> Any:
    """Returns the parameters and the state of the optimiser after a step along the sum of the gradients."""
    gradient, *others = gradients
    for other in others:
        gradient = jax.tree.map(jnp.add, gradient, other)
    updates, state = _optimizer(optimizer).update(gradient, state, parameters)
    return optax.apply_updates(parameters, updates), state


@_jit("layers")
def _predict(arrays: Any, features: Any, mask: Any, layers: Any) -> Any:
    return forward(jnp, layers, Steps(arrays, mask), features)


# ---- Batches: tables with a row of places for each query, padded to few sizes.

Batch = tuple[NDArray[np.int64], int, int]
"""The queries, ascending, and the numbers of rows and of places in a row of their table."""

_ROW = 64
_LISTS = 64
"""Number of documents in a row, and largest number of rows, of a prediction without context [measured: from
64 documents on, the bits of a score do not depend on the number]."""


def _num_places(size: int, least: int = 8) -> int:
    """Returns the number of places of a query: a power of two, or from 48 on three quarters of one."""
    places = max(1 << (int(size) - 1).bit_length(), least)
    three_quarters = places * 3 // 4
    if places > max(least, 32) and size <= three_quarters:
        return three_quarters
    return places


_SHARED = 1024
"""Minimum number of places of a batch of a fit that is computed in two shares."""


def _num_shares(num_lists: int, num_places: int) -> int:
    """Returns the number of equal shares of a batch that threads compute at the same time in a fit."""
    is_even = num_lists % 2 == 0
    if is_even and num_lists * num_places >= _SHARED:
        return 2
    return 1


def _table(
    query_start: QueryStart, queries: NDArray[np.int64], num_lists: int, num_places: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Returns the row of the features at each place, 0 without a document, and whether there is one."""
    starts = query_start[queries, None]
    sizes = np.diff(query_start)[queries, None]
    places = np.arange(num_places)
    more = ((0, num_lists - len(queries)), (0, 0))
    is_document = places < sizes
    rows = np.where(is_document, starts + places, 0)
    return np.pad(rows, more), np.pad(is_document, more)


MODEL_FILE = "model.npz"


@dataclass(kw_only=True)
class MlpRanker(Layers, Ranker):
    """A multi-layer perceptron, or with `context=attention` a network that sees all documents of a query.

    With attention, the last bits of a score depend on the number of queries that are scored together.
    """

    objective: str | Objective = setting(
        "lambdarank", refuse=name_or_objective("lambdarank", "ranknet")
    )
    """lambdarank: pairs weighted by their change of NDCG; ranknet: not weighted by it. Or
    model/objective=NAME."""
    truncation: int | None = setting(
        None, at_least=1, only_with={"objective": ("lambdarank", "ranknet")}
    )
    """lambdarank and ranknet: a pair counts if a document is among the first truncation ranks; None: 30."""
    dropout: float = setting(0.2, at_least=0, at_most=0.99)
    """Probability that a hidden value is dropped in training."""
    noise: float = setting(0.0, at_least=0)
    """Standard deviation of Gaussian noise that training adds to the scaled features."""
    optimizer: str = setting("adamw", choices=tuple(_OPTIMIZERS))
    """Optimiser: adam, adamw or sgd (momentum 0.9)."""
    learning_rate: float = setting(1e-3, above=0)
    """Step size of the optimiser."""
    schedule: str = setting("constant", choices=("constant", "cosine"))
    """Learning rate over the steps: constant, or cosine: falls to 0 at the end of schedule_epochs."""
    schedule_epochs: int | None = setting(
        None, at_least=1, only_with={"schedule": ("cosine",)}
    )
    """Number of epochs of the schedule; None: num_epochs. A fit that stops earlier keeps this length."""
    weight_decay: float = setting(1e-4, at_least=0, only_with={"optimizer": ("adamw",)})
    """Decay of all parameters by adamw."""
    num_epochs: int = setting(100, at_least=1)
    """Maximum number of passes over the training set, the iterations of early stopping."""
    queries_per_batch: int = setting(32, at_least=1)
    """Maximum number of queries per step; those of a step are of similar size."""
    max_memory_mb: int = setting(2048, at_least=1)
    """Maximum memory of the layers and the attention of a batch; a batch of long lists has fewer queries."""
    warm_start: str | None = None
    """Saved network with the same layers, or its run folder, to start from; its feature scaling is kept."""
    early_stopping: EarlyStopping | None = None
    """Rule that ends a fit before num_epochs; needs a validation set."""
    patience: int | None = setting(None, at_least=1)
    """Number of epochs without improvement before early_stopping ends a fit; None: its own."""

    score_dtype: ClassVar[type[np.floating[Any]]] = np.float32
    packages: ClassVar[tuple[str, ...]] = ("jax", "jaxlib", "optax")
    iterations_field: ClassVar[str | None] = "num_epochs"
    is_slow: ClassVar[bool] = True
    compiles_in_fit: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._network: Network | None = None
        chosen = {name: str(value) for name, value in vars(self).items()}
        chosen["objective"] = type(self._objective()).__name__.lower()
        check_effects(self, chosen)

    def _objective(self) -> Objective:
        named = {"lambdarank": LambdaRank, "ranknet": RankNet}
        if isinstance(self.objective, str):
            return named[self.objective]()
        return self.objective

    def pairs_or_objective(self) -> ObjectiveSettings:
        """Returns the objective in the form of the engine."""
        objective = self._objective()
        if isinstance(objective, RankNet):
            return objective.pairs(self.truncation)
        return objective

    def with_iterations(self, number: int) -> Self:
        length = None
        if self.schedule == "cosine":
            length = self.schedule_epochs or self.num_epochs
        return replace(super().with_iterations(number), schedule_epochs=length)

    @property
    def is_listwise(self) -> bool:
        return self.as_fitted().context == "attention"

    @property
    def folders_read(self) -> Mapping[str, Path]:
        return folders_to_continue(self.warm_start)

    @takes_tables
    def fit(
        self,
        train: RankingDataset,
        valid: RankingDataset | None = None,
        on_iteration: OnIteration | None = None,
    ) -> Self:
        refuse(self, train)
        rule = self.early_stopping
        if isinstance(rule, EarlyStopping) and self.patience is not None:
            rule = replace(rule, patience=self.patience)
        monitor = Monitor(rule, valid, on_iteration)
        training = _Fit(self, train)
        best = None
        epoch = 0
        for epoch in range(1, self.num_epochs + 1):
            with threads(resolve_threads(self.num_threads)):
                self._network = training.epoch()
            if monitor.wants_scores:
                of_train = None
                if monitor.wants_train_scores:
                    of_train = self._scores_of(train)
                of_valid = None
                if valid is not None:
                    of_valid = self._scores_of(valid)
                training.check(
                    *(each for each in (of_train, of_valid) if each is not None)
                )
                stops = monitor.should_stop(epoch, of_train, of_valid)
                best = self._network if monitor.best_iteration == epoch else best
                if stops:
                    break
        self._network = best or self._network
        self.summary = FitSummary(
            monitor.best_iteration or epoch, epoch, monitor.seconds
        )
        return self

    def _scores_of(self, data: RankingDataset) -> Scores:
        return self.predict_lists(data.features, data.query_start)

    def predict(self, features: object) -> Scores:
        given = check_features(features, len(self.network().arrays["input.mean"]))
        return self.predict_lists(given, np.array([0, len(given)]))

    def predict_lists(self, features: Any, query_start: QueryStart) -> Scores:
        network = self.network()
        given = check_features(features, len(network.arrays["input.mean"]))
        if not self.is_listwise:
            starts = np.arange(0, len(given), _ROW)
            query_start = np.append(starts, len(given))
        scores = np.zeros(len(given), dtype=np.float32)

        def score(batch: Batch) -> None:
            rows, mask = _table(query_start, *batch)
            predicted = _predict(network.arrays, given[rows], mask, network.layers)
            scores[rows[mask]] = np.asarray(predicted)[mask]

        queries = np.flatnonzero(np.diff(query_start))
        least = 8 if self.is_listwise else _ROW
        num_features = given.shape[1]
        batches = self.batches(query_start, queries, num_features, _LISTS, least)
        with ThreadPoolExecutor(resolve_threads(self.num_threads)) as pool:
            list(pool.map(score, batches))
        return scores

    def batches(
        self,
        query_start: QueryStart,
        queries: NDArray[np.int64],
        num_features: int,
        most: int,
        least: int = 8,
        names: Any = None,
    ) -> Iterator[Batch]:
        """Yields batches of queries of similar size, which need little padding.

        Args:
            most: maximum number of queries of a batch.
            least: minimum number of places of a query.
            names: (Q,), names of the queries of a fit, which needs all blocks at once; None: prediction.

        Raises:
            DataError: a query does not fit into `max_memory_mb`.
        """
        sizes = np.diff(query_start)[queries]
        blocks = 0
        if self.is_listwise:
            blocks = self.num_blocks
        if names is None:
            blocks = min(blocks, 1)  # a prediction needs one at a time
        num_values = num_features + sum(self.widths)
        places = np.array([_num_places(size, least) for size in sizes])
        for size in np.unique(places).tolist():
            alike = queries[places == size]
            # Three float32 each: logits, shares and dropout of attention, or values, dropout and gradient of
            # layers; the smaller of the two is left out.
            num_floats = max(num_values, self.num_heads * blocks * size)
            memory = 12 * size * num_floats / 2**20
            if memory > self.max_memory_mb:
                name = "a query"
                if names is not None:
                    name = f"query {names[alike[0]]}"
                num_documents = np.diff(query_start)[alike[0]]
                smaller = "a smaller width"
                if blocks:
                    smaller = "fewer heads or blocks, context=none"
                raise DataError(
                    f"The {num_documents} documents of {name} need {memory:,.0f} MB, but "
                    f"max_memory_mb is {self.max_memory_mb}. Train with a higher model.max_memory_mb, "
                    f"{smaller}; or divide the query."
                )
            power_of_two = 1 << (len(alike) - 1).bit_length()
            fitting = self.max_memory_mb / (memory or 1e-9)
            step = int(min(most, power_of_two, fitting))
            for first in range(0, len(alike), step):
                yield np.sort(alike[first : first + step]), step, size

    def network(self) -> Network:
        return check_fitted(self._network)

    def save(self, folder: Path) -> None:
        content = io.BytesIO()
        arrays = dict[str, Any](self.network().arrays)
        np.savez(content, feature_names=np.array(self.feature_names), **arrays)
        write_model(folder, self, MODEL_FILE, content.getvalue())

    @classmethod
    def load(cls, folder: Path) -> Self:
        ranker, content = read_model(folder, cls, MODEL_FILE)
        arrays = load_npz(folder / MODEL_FILE, content, remedy=COPY_OR_FIT_AGAIN)
        names = arrays.pop("feature_names", np.empty(0))
        ranker.feature_names = tuple(names.tolist())
        layers = part(ranker, Layers)
        document = np.zeros((1, len(ranker.feature_names)))
        try:
            with np.errstate(all="ignore"):
                # Which compares the shapes.
                forward(np, layers, Steps(arrays), document)
        except (KeyError, TypeError, ValueError) as error:
            reason = f"does not have the arrays of its settings ({error}). {COPY_OR_FIT_AGAIN}."
            raise ResultError(f"{folder / MODEL_FILE} {reason}") from None
        ranker._network = Network(layers, arrays)
        return ranker

    def warm_up(self) -> None:
        """Imports and compiles what does not depend on the data; the shapes of batches do."""
        features = np.array([[0], [1]], dtype=np.float32)
        objective = for_warm_up(self._objective())
        tiny = RankingDataset(
            features=features, labels=np.array([0.0, 1.0]), query_start=np.array([0, 2])
        )
        ranker = type(self)(objective=objective, num_epochs=1, num_layers=1, width=1)
        ranker.fit(tiny)

    def findings(self, train: RankingDataset | None) -> Iterator[Finding]:
        only = "Network: only early stopping applies of the shared parameters, with its own patience."
        yield Finding(Severity.UNMATCHED, only)
        if self.warm_start is not None:
            yield Finding(
                Severity.UNMATCHED,
                f"Training starts from the saved model in {self.warm_start}.",
            )
        features = np.zeros((1, 1))
        if train is not None:
            features = np.asarray(train.features)
        if np.isnan(features).any():
            value = "the mean of the feature on the training data"
            if self.scaling == "none":
                value = "0"
            yield Finding(Severity.CAUTION, f"Missing values are replaced by {value}.")
        if train is None:
            return
        deviations = moments(features, self.input_transform)[1]
        if self.scaling == "none":
            yield from uneven_scales(deviations, train.feature_names)
            return
        smallest = np.finfo(np.float32).tiny
        is_small = (deviations > 0) & (deviations < smallest)
        for feature in np.flatnonzero(is_small)[:1]:
            yield Finding(
                Severity.REFUSED,
                f"feature {train.feature_names[feature]} has the standard deviation "
                f"{deviations[feature]:.3g}, but float32 numbers below {smallest:.3g} have few digits. "
                "Multiply its values, or leave the feature out.",
            )


def _arrays_to_continue(ranker: MlpRanker, network: Network) -> dict[str, Any]:
    """Returns the arrays of the network of `warm_start`.

    Raises:
        ConfigError: It has other layers than the ranker.
    """
    other = []
    for name, value in vars(network.layers).items():
        if value != getattr(ranker, name):
            other.append(f"model.{name}={value}")
    if other:
        reason = f"the network in {ranker.warm_start} has other layers"
        remedy = f"Set {' '.join(other)}, or fit without warm_start"
        raise ConfigError(f"warm_start: {reason}. {remedy}.")
    return dict(network.arrays)


class _Fit:
    """The training of one network: its arrays, the state of the optimiser, and the number of steps."""

    def __init__(self, ranker: MlpRanker, train: RankingDataset) -> None:
        self._ranker = ranker
        self._train = train
        self._layers = part(ranker, Layers)
        self._features = np.asarray(train.features)
        self._scores = np.zeros(train.num_documents)
        self._compute = prepare(train, ranker.pairs_or_objective())
        self._num_steps = 0
        self._rng = np.random.default_rng([ranker.seed, 0])
        self._draws = np.random.default_rng([ranker.seed, 1])
        arrays = initial_arrays(self._layers, train.num_features, self._rng)
        start = model_to_continue(ranker, train)
        if start is not None:
            arrays = _arrays_to_continue(ranker, start.network())
        elif ranker.scaling == "standard":
            means, deviations = moments(self._features, ranker.input_transform)
            varies = deviations > 0
            arrays["input.mean"] = means
            scale = np.where(varies, 1 / np.where(varies, deviations, 1), 0)
            arrays["input.scale"] = scale
        self._parameters: Any = {}
        self._fixed: Any = {}
        for name, array in arrays.items():
            of_kind = self._fixed if is_fixed(name) else self._parameters
            of_kind[name] = jnp.asarray(array)
        self._state = _optimizer(ranker.optimizer).init(self._parameters)

    def epoch(self) -> Network:
        """Takes a step for each batch of the training set; returns the network after them."""
        train = self._train
        ranker = self._ranker
        order = self._rng.permutation(train.num_queries)
        most = ranker.queries_per_batch
        names = train.query_ids
        batches = [
            *ranker.batches(
                train.query_start, order, train.num_features, most, names=names
            )
        ]
        with ThreadPoolExecutor(resolve_threads(ranker.num_threads)) as pool:
            for number in self._rng.permutation(len(batches)):
                self._step(batches[number], len(batches), pool)
        state = self._parameters | self._fixed
        arrays = {name: np.asarray(each) for name, each in state.items()}
        self.check(*arrays.values())
        return Network(self._layers, arrays)

    def _step(self, batch: Batch, steps_of_epoch: int, pool: Executor) -> None:
        ranker = self._ranker
        queries, num_lists, num_places = batch
        rows, mask = _table(self._train.query_start, *batch)
        num_shares = 1
        if ranker.norm != "batch":
            num_shares = _num_shares(num_lists, num_places)
        seeds = np.random.SeedSequence([ranker.seed, self._num_steps])
        shares = (
            np.split(rows, num_shares),
            np.split(mask, num_shares),
            seeds.generate_state(num_shares),
        )
        found = list(pool.map(self._forward_share, *shares))
        outputs, pull_backs, fixed = zip(*found, strict=True)
        # Only batch normalisation changes them, and its batches have one share.
        self._fixed = fixed[0]
        documents = rows[mask]
        self._scores[documents] = np.concatenate(outputs)[mask]
        largest = np.abs(self._scores[documents]).max()
        if self._num_steps == 0:
            highest_label = self._train.labels.max()
            self._limit = max(LARGE, 1000 * max(largest, highest_label))
        self.check(self._scores[documents], limit=self._limit)
        of_scores = np.zeros(mask.shape, dtype=np.float32)
        # The mean over the queries of the batch, in units of the mean weight.
        scale = 1.0 / (len(queries) * self._train.weight_of_document.mean())
        of_documents, _ = self._compute(self._scores, queries, self._draws)
        of_scores[mask] = of_documents[documents] * scale
        gradients = pool.map(_backward, pull_backs, np.split(of_scores, num_shares))
        known = {
            "learning_rate": self._learning_rate(steps_of_epoch),
            "weight_decay": ranker.weight_decay,
        }
        hyperparams = {
            name: known.get(name, value)
            for name, value in self._state.hyperparams.items()
        }
        self._parameters, self._state = _update(
            self._parameters,
            self._state._replace(hyperparams=hyperparams),
            tuple(gradients),
            optimizer=ranker.optimizer,
        )
        self._num_steps += 1

    def _forward_share(
        self, rows: NDArray[np.int64], mask: NDArray[np.bool_], seed: np.uint32
    ) -> Any:
        ranker = self._ranker
        return _forward(
            self._parameters,
            self._fixed,
            self._features[rows],
            mask,
            seed,
            rates=(ranker.dropout, ranker.noise),
            layers=self._layers,
            uses=(ranker.dropout > 0, ranker.noise > 0),
        )

    def _learning_rate(self, steps_of_epoch: int) -> float:
        """Returns the learning rate of the next step by the schedule."""
        ranker = self._ranker
        if ranker.schedule != "cosine":
            return ranker.learning_rate
        num_steps = steps_of_epoch * (ranker.schedule_epochs or ranker.num_epochs)
        progress = np.pi * min(self._num_steps, num_steps) / num_steps
        rate: float = ranker.learning_rate * ((1 + np.cos(progress)) / 2)
        return rate

    def check(self, *arrays: NDArray[Any], limit: float = np.inf) -> None:
        """Raises DivergenceError if an absolute value is not finite, or not below the limit."""
        largest = np.max([np.abs(each).max() for each in arrays])
        if not largest < limit:
            rate = self._ranker.learning_rate
            remedy = f"model.learning_rate={min(rate / 10, 1e-3):g}"
            if self._ranker.scaling == "none":
                remedy += " model.scaling=standard"
            raise DivergenceError(
                f"The training diverged at step {self._num_steps + 1}: with learning_rate={rate:g}, the "
                f"largest score or parameter is {largest:.3g}. Set {remedy}."
            )

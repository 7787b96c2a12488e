"""Neural networks that score documents, as plain functions of arrays.

`last_layer` is the one definition of the networks. Its argument `xp` computes: `jax.numpy` in training and
prediction, NumPy in certificates, and the builder of ONNX nodes in `ltrbench.shipping.targets.onnx`. The
layers of a network, with n documents, F features and W values in the last layer:

    input      x <- sign(x) log(1 + |x|), if input_transform=log1p; x <- clip((x - mean) * scale), missing: 0
    hidden i   h <- relu(norm(h A + b))
    context    z <- h; for each block: z <- z + attention(norm(z)); z <- z + feed_forward(norm(z)); norm(z)
    score      s <- z w + b

Self-attention over the documents of a query is that of Vaswani et al., 2017, "Attention Is All You Need", in
the order of allRank (allrank/models/transformer.py): normalisation first. With latent_cross, z starts with a
projection of the inputs instead of h, and the score is that of (1 + z) h: DASALC of Qin et al., 2021, "Are
Neural Rankers still Outperformed by Gradient Boosted Decision Trees?", section 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ltrbench.settings import setting
from ltrbench.shapes import Features

_EPSILON = 1e-5
"""Addition to variances, as in PyTorch."""
_FAR = -1e30
"""Logit of a place without a document; -inf would make NaN of a list without documents."""


_OF_ATTENTION = {"context": ("attention",)}


@dataclass(kw_only=True, unsafe_hash=True)
class Layers:
    """The settings of a network."""

    num_layers: int = setting(2, at_least=1)
    """Number of hidden layers; each has half the width of the previous one."""
    width: int = setting(256, at_least=1)
    """Width of the first hidden layer."""
    norm: str = setting("none", choices=("none", "batch", "layer"))
    """Normalisation of hidden layers before their activation: none, batch or layer."""
    input_transform: str = setting("none", choices=("none", "log1p"))
    """Transformation of features before scaling: none, or log1p: sign(x) log(1 + |x|)."""
    scaling: str = setting("standard", choices=("standard", "none"))
    """Scaling of features: standard: to mean 0 and standard deviation 1 on train, clipped at 10; or none."""
    context: str = setting("none", choices=("none", "attention"))
    """Other documents that a score depends on: none, or attention: all documents of the query."""
    num_blocks: int = setting(4, at_least=1, only_with=_OF_ATTENTION)
    """Number of self-attention blocks."""
    num_heads: int = setting(4, at_least=1, only_with=_OF_ATTENTION)
    """Number of heads of a block, which share the width of the last hidden layer."""
    feed_forward: int = setting(512, at_least=1, only_with=_OF_ATTENTION)
    """Width of the hidden layer in a block."""
    latent_cross: bool = setting(False, only_with=_OF_ATTENTION)
    """Multiplies the hidden layer by 1 + context (DASALC) instead of replacing it by the context."""

    @property
    def widths(self) -> Iterator[int]:
        """Widths of the hidden layers."""
        return (max(self.width >> i, 1) for i in range(self.num_layers))


class Steps:
    """The arrays of a forward pass, and what training does otherwise; this class predicts.

    Args:
        arrays: name -> array: the parameters, and what is known from the training data (`is_fixed`).
        mask: (Q, n), whether a place has a document; None: every place has one.
    """

    def __init__(self, arrays: Mapping[str, Any], mask: Any = None) -> None:
        self.arrays = dict(arrays)
        self.mask = mask

    def array(self, name: str, *shape: int, start: float | None = None) -> Any:
        """Returns an array; training starts with `start`, or without it with random values.

        Raises:
            KeyError, ValueError: There is none of this name, or it has another shape.
        """
        array = self.arrays[name]
        if array.shape != shape:
            raise ValueError(f"{name} has the shape {array.shape}, not {shape}")
        return array

    def noisy(self, x: Any) -> Any:
        """Returns inputs, in training with noise."""
        return x

    def drop(self, h: Any) -> Any:
        """Returns values, of which training drops some."""
        return h

    def moments(self, name: str, h: Any) -> tuple[Any, Any]:
        """Returns the (W,) means and variances of a batch normalisation, in training those of the batch."""
        width = h.shape[-1]
        means = self.array(f"{name}.mean", width, start=0)
        return means, self.array(f"{name}.variance", width, start=1)


class _Start(Steps):
    """Creates each array when it is used first. Random values are uniform in +-sqrt(6 / (inputs + outputs)),
    as in Glorot and Bengio, 2010."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__({})
        self._rng = rng

    def array(self, name: str, *shape: int, start: float | None = None) -> Any:
        self.arrays[name] = self._values(shape, start).astype(np.float32)
        return self.arrays[name]

    def _values(
        self, shape: tuple[int, ...], start: float | None
    ) -> NDArray[np.generic]:
        if start is not None:
            return np.full(shape, start)
        bound = np.sqrt(6 / max(sum(shape[-2:]), 1))
        return self._rng.uniform(-bound, bound, shape)


def initial_arrays(
    layers: Layers, num_features: int, rng: np.random.Generator
) -> dict[str, NDArray[np.float32]]:
    """Returns the arrays of a network before training."""
    steps = _Start(rng)
    one_document = np.zeros((1, num_features), dtype=np.float32)
    forward(np, layers, steps, one_document)
    return steps.arrays


def is_fixed(name: str) -> bool:
    """Returns whether an array is computed from the training data, and not learned by gradients."""
    return name.endswith((".mean", ".variance", ".scale"))


def forward(xp: Any, layers: Layers, steps: Steps, features: Any) -> Any:
    """Returns the (..., n) scores of (..., n, F) features; the n documents are those of one query."""
    last = last_layer(xp, layers, steps, features)
    weight = steps.array("output.weight", last.shape[-1])
    return last @ weight + steps.array("output.bias", start=0)


def last_layer(xp: Any, layers: Layers, steps: Steps, features: Any) -> Any:
    """Returns the (..., n, W) values whose weighted sum is the score."""
    x = features
    num_features = features.shape[-1]
    if layers.input_transform == "log1p":
        magnitude = xp.log(xp.abs(x) + 1.0)
        x = xp.sign(x) * magnitude
    mean = steps.array("input.mean", num_features, start=0)
    scale = steps.array("input.scale", num_features, start=1)
    limit = 10.0
    if layers.scaling != "standard":
        limit = float(np.finfo(np.float32).max)
    x = (x - mean) * scale
    x = xp.where(xp.isnan(x), 0.0, x)
    h = x = steps.noisy(xp.clip(x, -limit, limit))
    for i, width in enumerate(layers.widths):
        h = _dense(steps, f"hidden{i}", h, width)
        h = _normalised(xp, layers.norm, steps, f"hidden{i}", h)
        h = steps.drop(xp.maximum(h, 0.0))
    if layers.context == "none":
        return h
    z = h
    if layers.latent_cross:
        z = _dense(steps, "context", x, h.shape[-1])
    for i in range(layers.num_blocks):
        z = _block(xp, layers, steps, f"block{i}", z)
    z = _normalised(xp, "layer", steps, "context.norm", z)
    if layers.latent_cross:
        return (z + 1.0) * h
    return z


def _block(xp: Any, layers: Layers, steps: Steps, name: str, z: Any) -> Any:
    """Returns a block of attention and a network of two layers, each added to its input."""
    inputs = _normalised(xp, "layer", steps, f"{name}.before", z)
    attended = _attention(xp, layers.num_heads, steps, name, inputs)
    z = z + steps.drop(attended)
    inputs = _normalised(xp, "layer", steps, f"{name}.between", z)
    inner = _dense(steps, f"{name}.inner", inputs, layers.feed_forward)
    inner = steps.drop(xp.maximum(inner, 0.0))
    outer = _dense(steps, f"{name}.outer", inner, z.shape[-1])
    return z + steps.drop(outer)


def _dense(steps: Steps, name: str, h: Any, width: int) -> Any:
    weight = steps.array(f"{name}.weight", h.shape[-1], width)
    bias = steps.array(f"{name}.bias", width, start=0)
    return h @ weight + bias


def _normalised(xp: Any, norm: str, steps: Steps, name: str, h: Any) -> Any:
    if norm == "none":
        return h
    if norm == "batch":
        mean, variance = steps.moments(name, h)
    else:
        mean = xp.mean(h, axis=-1, keepdims=True)
        variance = xp.mean((h - mean) * (h - mean), axis=-1, keepdims=True)
    width = h.shape[-1]
    gain = steps.array(f"{name}.gain", width, start=1)
    shift = steps.array(f"{name}.shift", width, start=0)
    standard = (h - mean) / xp.sqrt(variance + _EPSILON)
    return standard * gain + shift


def _attention(xp: Any, num_heads: int, steps: Steps, name: str, z: Any) -> Any:
    """Returns the sum over heads of softmax(q k' / sqrt(d)) v mix, with d = W / heads."""
    width = z.shape[-1]
    d = max(width // num_heads, 1)
    queries = z.shape[:-2]

    def of_heads(kind: str) -> Any:
        # A product with the matrices of all heads side by side: half the time of one for each head.
        matrices = steps.array(f"{name}.{kind}", num_heads, width, d)
        matrix = matrices.swapaxes(0, 1).reshape(width, num_heads * d)
        products = xp.reshape(z @ matrix, (*queries, -1, num_heads, d))
        return xp.swapaxes(products, -2, -3)

    q, k, v = map(of_heads, ("query", "key", "value"))
    logits = q @ xp.swapaxes(k, -1, -2)
    logits = logits * float(d) ** -0.5
    if steps.mask is not None:
        is_document = steps.mask[..., None, None, :]
        logits = xp.where(is_document, logits, _FAR)
    shares = steps.drop(_softmax(xp, logits))
    of_documents = xp.swapaxes(shares @ v, -2, -3)
    joined = xp.reshape(of_documents, (*queries, -1, num_heads * d))
    mix = steps.array(f"{name}.mix", num_heads, d, width)
    return joined @ mix.reshape(num_heads * d, width)


def _softmax(xp: Any, logits: Any) -> Any:
    largest = xp.max(logits, axis=-1, keepdims=True)
    e = xp.exp(logits - largest)
    return e / xp.sum(e, axis=-1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network: its layers, and name -> float32 array."""

    layers: Layers
    arrays: Mapping[str, NDArray[np.float32]]

    score_dtype: ClassVar[str] = "float32"

    @property
    def num_terms(self) -> int:
        """Number of terms of all sums on the way from a feature to a score."""
        num_terms = 0
        for name, each in self.arrays.items():
            if each.ndim > 1 or "output.w" in name:
                num_terms += each.shape[-2:][0]
        return num_terms

    def terms(self, features: Features) -> NDArray[np.float64]:
        """Returns the (n, W + 1) terms of the scores of a query with (n, F) features, computed by NumPy."""
        with np.errstate(over="ignore", invalid="ignore"):
            last = last_layer(np, self.layers, Steps(self.arrays), features)
        bias = np.full((len(last), 1), self.arrays["output.bias"])
        terms = [last * self.arrays["output.weight"], bias]
        return np.concatenate(terms, axis=1, dtype=np.float64)

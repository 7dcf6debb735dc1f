# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportMissingImports=false
"""One training step of GPT-2 in JAX, as an expert writes it for a GPU: XLA, with cuDNN's causal attention.

Products and residuals are in bf16, normalisations, the loss and the state in f32. The vocabulary is padded to a
multiple of 64. Dropout is drawn by XLA's own generator, and not inside attention, where cuDNN's would draw it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

# Memory is taken as it is needed, since other systems run in the same process.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

Tree = dict[str, Any]
# The layers and heads of each model.
SIZES = {"gpt2_124m": (12, 12), "gpt2_355m": (24, 16)}
_PADDED = 64
_BETAS, _EPSILON = (0.9, 0.999), 1e-8
_IGNORED = -100


class XlaStep:
    """A step whose state stays on the device, called with i64[batch, length] `input_ids` and `labels`."""

    def __init__(
        self,
        sizes: tuple[int, int],
        parameters: Mapping[str, np.ndarray],
        dropout: float,
        settings: tuple[float, float, float],
        attention: str | None = "cudnn",
    ) -> None:
        """parameters: by the names of `transformers`. settings: learning rate, weight decay, norm to clip at.
        attention: JAX's name of an implementation. Raises ImportError where JAX is not installed."""
        import jax

        known = {name: np.asarray(each, np.float32) for name, each in parameters.items() if name != "lm_head.weight"}
        classes = len(known["transformer.wte.weight"])
        known["transformer.wte.weight"] = np.pad(known["transformer.wte.weight"], ((0, -classes % _PADDED), (0, 0)))
        start = jax.tree.map(jax.numpy.asarray, known)
        nothing = jax.tree.map(jax.numpy.zeros_like, start)
        self._state = (start, nothing, jax.tree.map(jax.numpy.zeros_like, start), jax.random.key(0, impl="rbg"), 0)
        loss = functools.partial(_loss, sizes=sizes, classes=classes, dropout=dropout, attention=attention)
        self._step = jax.jit(functools.partial(_stepped, loss, settings), donate_argnums=0)

    def __call__(self, batch: Mapping[str, np.ndarray]) -> Any:
        """Queues a step; its loss."""
        tokens, labels = (np.asarray(batch[name], np.int32) for name in ("input_ids", "labels"))
        self._state, loss = self._step(self._state, tokens, labels)
        return loss

    @staticmethod
    def peak_bytes() -> int:
        """The most memory of the device that JAX has used."""
        import jax

        return jax.local_devices()[0].memory_stats()["peak_bytes_in_use"]


def _stepped(
    loss_of: Callable[..., Any], settings: tuple[float, float, float], state: tuple[Any, ...], tokens: Any, labels: Any
) -> tuple[tuple[Any, ...], Any]:
    """AdamW (Loshchilov and Hutter, 2019) with gradients clipped by their norm."""
    import jax
    import jax.numpy as jnp

    parameters, means, squares, key, count = state
    rate, decay, clip = settings
    key, drawn = jax.random.split(key)
    loss, gradients = jax.value_and_grad(loss_of)(parameters, tokens, labels, drawn)
    norm = jnp.sqrt(sum(jnp.vdot(each, each) for each in jax.tree.leaves(gradients)))
    share, count = jnp.minimum(clip / (norm + 1e-6), 1.0), count + 1
    first, second = _BETAS

    def updated(parameter: Any, gradient: Any, mean: Any, square: Any) -> tuple[Any, Any, Any]:
        gradient = gradient * share
        mean, square = first * mean + (1 - first) * gradient, second * square + (1 - second) * gradient**2
        size = jnp.sqrt(square / (1 - second**count)) + _EPSILON
        return parameter * (1 - rate * decay) - rate * (mean / (1 - first**count)) / size, mean, square

    found = {name: updated(parameters[name], gradients[name], means[name], squares[name]) for name in parameters}
    return (*({name: each[i] for name, each in found.items()} for i in range(3)), key, count), loss


def _loss(
    parameters: Tree,
    tokens: Any,
    labels: Any,
    key: Any,
    *,
    sizes: tuple[int, int],
    classes: int,
    dropout: float,
    attention: str | None,
) -> Any:
    """The mean cross entropy of each token but the first, given those before it."""
    import jax
    import jax.numpy as jnp

    layers, heads = sizes
    narrow = {name: each.astype(jnp.bfloat16) for name, each in parameters.items()}
    net = _Network(parameters, narrow, heads, attention, dropout, iter(jax.random.split(key, 1 + 2 * layers)))
    table = narrow["transformer.wte.weight"]
    x = net.dropped(table[tokens] + narrow["transformer.wpe.weight"][: tokens.shape[1]])
    for layer in range(layers):
        x = net.block(x, f"transformer.h.{layer}")
    logits = (net.normal(x, "transformer.ln_f")[:, :-1] @ table.T).astype(jnp.float32)
    logits = jnp.where(jnp.arange(len(table)) < classes, logits, -jnp.inf)
    target = labels[:, 1:]
    chosen = jnp.take_along_axis(logits, jnp.maximum(target, 0)[..., None], -1)[..., 0]
    counted = target != _IGNORED
    return jnp.where(counted, jax.nn.logsumexp(logits, -1) - chosen, 0).sum() / counted.sum()


@dataclass(frozen=True)
class _Network:
    """The parts of the forward pass. narrow: the parameters in bf16. keys: of the draws, in their order."""

    parameters: Tree
    narrow: Tree
    heads: int
    attention: str | None
    dropout: float
    keys: Iterator[Any]

    def block(self, x: Any, name: str) -> Any:
        """One layer, of this name."""
        import jax
        import jax.numpy as jnp

        parts = self.linear(self.normal(x, f"{name}.ln_1"), f"{name}.attn.c_attn")
        q, k, v = (each.reshape(*x.shape[:2], self.heads, -1) for each in jnp.split(parts, 3, -1))
        mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=self.attention)
        x = x + self.dropped(self.linear(mixed.reshape(x.shape), f"{name}.attn.c_proj"))
        grown = jax.nn.gelu(self.linear(self.normal(x, f"{name}.ln_2"), f"{name}.mlp.c_fc"), approximate=True)
        return x + self.dropped(self.linear(grown, f"{name}.mlp.c_proj"))

    def dropped(self, x: Any) -> Any:
        """`x` with dropout."""
        import jax
        import jax.numpy as jnp

        key = next(self.keys)
        if not self.dropout:
            return x
        kept = jax.random.bernoulli(key, 1 - self.dropout, x.shape)
        return jnp.where(kept, x / (1 - self.dropout), 0).astype(x.dtype)

    def normal(self, x: Any, name: str) -> Any:
        """Layer norm, in f32, rounded to bf16."""
        import jax
        import jax.numpy as jnp

        wide = x.astype(jnp.float32)
        centred = wide - wide.mean(-1, keepdims=True)
        scaled = centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return (scaled * self.parameters[f"{name}.weight"] + self.parameters[f"{name}.bias"]).astype(jnp.bfloat16)

    def linear(self, x: Any, name: str) -> Any:
        """x · weight + bias, as `transformers` stores weights of GPT-2: [in, out]."""
        return x @ self.narrow[f"{name}.weight"] + self.narrow[f"{name}.bias"]

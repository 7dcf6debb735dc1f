"""Eager's random numbers, of the random bits of a compiled step."""

from __future__ import annotations

import inspect
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from dmc.dropout import Share, share_of, share_of_attention
from dmc.errors import EagerError
from dmc.importer.forward.memory_layout import as_in_eager
from dmc.importer.forward.random_numbers.distributions import DISTRIBUTIONS
from dmc.importer.forward.random_numbers.randomness import MAX_SITES
from dmc.importer.forward.random_numbers.streams import Stream
from dmc.importer.torch_internals import arguments_of
from dmc.verification.arrays import copy_of
from dmc.verification.philox import uniform_bits

aten = torch.ops.aten

_ATTENTION = (
    functional.scaled_dot_product_attention,
    aten.scaled_dot_product_attention,
    aten.scaled_dot_product_attention.default,
)
_MANY_HEADS = inspect.signature(functional.multi_head_attention_forward)


class Draws(TorchDispatchMode):
    """Inside, every draw uses the bits that a compiled step draws at the same site.

    All dropout, in Python or inside an operation, calls `bernoulli_`, and divides by the probability that it passed.
    Sites are counted in execution order, like in `dmc.importer.forward.random_numbers.randomness.Randomness`.
    """

    def __init__(self, seed: int, counter: int) -> None:
        super().__init__()
        self._seed, self._counter, self._sites = seed, counter, 0
        self._closed = False
        self._attention = _Attention()

    def __enter__(self) -> Self:
        super().__enter__()
        self._attention.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._attention.__exit__(*error)
        super().__exit__(*error)

    def close(self) -> None:
        """From here on nothing may draw: a draw in the backward pass is a recomputation of the forward pass."""
        self._closed = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is aten.bernoulli_.float:
            # One half is the default, and omitted.
            noise, keep = args[0], args[1] if len(args) > 1 else 0.5
            kept, share = self._kept(noise, 1.0 - keep)
            return noise.copy_(kept * (share.scale * keep) if self._attention.is_running else kept)
        if func is aten.native_dropout.default and args[2] is not False and 0.0 < args[1] < 1.0 and args[0].numel():
            x, p = args[:2]
            mask, share = self._kept(x, p)
            return x * mask * share.scale, mask
        if func in DISTRIBUTIONS and arguments_of(func, args, kwargs or {}).get("training") is not False:
            return self._drawn(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))

    def _drawn(self, func: Any, args: Any, kwargs: Any) -> Any:
        """In memory as PyTorch's own numbers, which are drawn first, of copies: invalid parameters raise its error."""
        with torch.random.fork_rng(devices=[]):
            recorded = func(*pytree.tree_map_only(Tensor, copy_of, args), **kwargs)
        stream = Stream(torch.tensor(self._seed), torch.tensor(self._next()))
        result = DISTRIBUTIONS[func](stream, *args, **kwargs)
        return result if any(result is each for each in args) else as_in_eager(result, recorded)

    def _kept(self, like: Tensor, p: float) -> tuple[Tensor, Share]:
        share = (share_of_attention if self._attention.is_running else share_of)(p)
        bits = uniform_bits(like.shape, self._seed, self._next(), share.bits)
        return torch.from_numpy(bits >= share.threshold), share

    def _next(self) -> int:
        """The draw of the next site."""
        if self._closed:
            fact = "draws random numbers in its backward pass, where eager cannot use the step's bits"
            raise EagerError("the model", fact, hint="verify it without checkpointing, or pass verify=False")
        self._sites += 1
        return self._counter * MAX_SITES + self._sites - 1


class _Attention(TorchFunctionMode):
    """Inside, tells whether attention runs, whose dropout has bits of its own."""

    is_running = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func is functional.multi_head_attention_forward:
            # While it runs, this mode does not see what it calls. With weights to return, it drops by itself.
            self.is_running = not _MANY_HEADS.bind(*args, **given).arguments.get("need_weights", True)
        else:
            self.is_running = func in _ATTENTION
        try:
            return func(*args, **given)
        finally:
            self.is_running = False

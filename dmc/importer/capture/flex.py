"""`flex_attention` while a model is exported: its functions of scores and indices become operations of the step.

PyTorch compiles it to a kernel of its own; what it means is `softmax(where(mask, modified(q·kᵀ·scale), -inf))·v`. The
functions are of single elements. They are called once, with indices that broadcast: what could mean something else for
many elements at once is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn.attention import flex_attention as flex
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from dmc.errors import ImportFailure
from dmc.importer.forward.attention.scores import ATTEND, SCORES

# Of batch, head, row and column; a function of scores takes these first.
Function = Callable[..., Tensor]
_UNCHANGED = flex._identity  # pyright: ignore[reportPrivateUsage]
# By name without underscores: functions of elements, and what says nothing about shapes.
_DECIDING = ("__bool__", "__int__", "__float__", "__index__")
_OF_ELEMENTS = frozenset(
    "eq ne lt le gt ge and or xor invert iand ior rand ror rxor logical_and logical_or logical_xor logical_not"
    " bitwise_and bitwise_or bitwise_xor bitwise_not isfinite isinf isnan isneginf isposinf bool float double half"
    " bfloat16 int long to type add sub mul div truediv floordiv mod pow radd rsub rmul rdiv rtruediv rfloordiv rmod"
    " rpow subtract multiply divide true_divide floor_divide remainder fmod neg negative pos abs absolute sign square"
    " sqrt rsqrt reciprocal exp exp2 expm1 log log2 log1p sin cos tanh sigmoid erf relu gelu silu softplus floor ceil"
    " round trunc minimum maximum fmin fmax clamp clamp_min clamp_max where masked_fill lerp zeros_like ones_like"
    " full_like new_ones new_zeros new_full new_tensor detach clone".split()
)
_KNOWN_ANYWHERE = ("dtype", "device", "requires_grad")


@contextmanager
def own_flex_attention() -> Generator[list[bool]]:
    """Lets `flex_attention`, under whatever name a model has imported it, call `_attention`; whether it has."""
    used: list[bool] = []

    def attention(*given: Any) -> tuple[Tensor, Any, Any]:
        used.append(True)
        return _attention(*given), _NotGiven(), _NotGiven()

    with (
        mock.patch.object(flex, "flex_attention_hop", attention),
        mock.patch.object(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True),
        mock.patch.object(flex, "_WARNINGS_SHOWN", {"flex_attention_performance"}),
        # It refuses gradients on a CPU.
        mock.patch.object(flex, "_validate_device"),
        mock.patch.object(flex, "create_mask", _whole_mask),
        # Lists of blocks for PyTorch's own backward pass.
        mock.patch.object(flex, "_transpose_ordered", return_value=(None, None)),
    ):
        yield used


def _attention(
    q: Tensor, k: Tensor, v: Tensor, score: Function, blocks: tuple[Any, ...], scale: float, _options: Any
) -> Tensor:
    """As the operator of PyTorch. blocks: the last is the function of the mask."""
    heads = q.shape[1] // k.shape[1]
    k, v = (each.repeat_interleave(heads, 1).expand(q.shape[0], -1, -1, -1) for each in (k, v))
    index = _indices((q.shape[0], q.shape[1], q.shape[2], k.shape[2]), q.device)
    mask = None if blocks[-1] is flex.noop_mask else _called(blocks[-1], index)
    if score is _UNCHANGED:
        return scaled_dot_product_attention(q, k, v, mask, scale=scale)
    scores = SCORES(q, k, scale)
    modified = _called(score, [scores, *index]).expand(scores.shape)
    return ATTEND(q, k, v, modified, mask, scale, False)


def _whole_mask(
    function: Function, b: int | None, h: int | None, rows: int, columns: int, device: Any = None
) -> Tensor:
    """`create_mask` of a function of indices, from which PyTorch makes lists of blocks."""
    shape = (b or 1, h or 1, rows, columns)
    return _called(function, _indices(shape, torch.device(device or "cpu"))).expand(shape)


def _indices(shape: tuple[int, ...], device: torch.device) -> list[Tensor]:
    """Batch, head, row and column of each element, which broadcast."""
    places = [torch.arange(size, device=device) for size in shape]
    return [place.view([-1 if i == dim else 1 for i in range(4)]) for dim, place in enumerate(places)]


def _called(function: Function, given: list[Tensor]) -> Tensor:
    with _OfElements():
        return function(*given)


class _OfElements(TorchFunctionMode):
    """Refuses what is not computed element by element."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "__get__":
            name = getattr(func.__self__, "__name__", "")
            _check(name in _KNOWN_ANYWHERE, f"reads .{name}")
        elif name == "__getitem__":
            _check_places(*args)
        else:
            _check(_of_elements(name), f"calls {name}")
        return func(*args, **(kwargs or {}))


def _of_elements(name: str) -> bool:
    """Whether a function computes elements, and writes none; `__bool__` and the like decide by one."""
    is_special = name.startswith("__") and name.endswith("__")
    return name not in _DECIDING and (name[2:-2] if is_special else name) in _OF_ELEMENTS


def _check_places(tensor: Tensor, places: Any) -> None:
    """One element is read, at as many places as the tensor has dimensions."""
    places = places if isinstance(places, tuple) else (places,)
    is_place = all(_is_place(each) for each in places)
    _check(is_place and len(places) == tensor.dim(), "reads more than one element of a tensor at once")


def _is_place(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point() and value.dtype != torch.bool
    return isinstance(value, int) and not isinstance(value, bool)


def _check(is_right: bool, what: str) -> None:
    if not is_right:
        hint = "use functions of elements there, and read a tensor at all its dimensions at once: table[h, i - j]"
        raise ImportFailure("", f"the function of scores or of a mask {what}, where it is of one element", hint)


class _NotGiven:
    """Stands for results that a compiled step does not have. PyTorch asks for their size where they are wanted."""

    def numel(self) -> int:
        """Raises ImportFailure."""
        fact = "flex_attention gives its output alone, not the sums of exponentials or the largest scores"
        raise ImportFailure("", fact, hint="leave out return_lse and return_aux")

"""While a model is exported, fake tensors have the strides of eager's: they decide what shares memory."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from dmc.importer.capture.eager_strides import eager_strides
from tests.interpreted import assert_trains_as_eager

# Gradients, which are read by gradients only, and what is changed where PyTorch's function is called.
_OTHERWISE = {"nn.functional.max_unpool2d", "nn.functional.one_hot"}


def test_operators_of_every_table_have_eagers_strides() -> None:
    """Samples of PyTorch's own, with their dimensions turned in memory."""
    compared, wrong = 0, dict[str, Any]()
    for op in op_db:
        for operands, order in itertools.product(_samples(op), (_reversed, _rotated)):
            turned = pytree.tree_map(lambda each, order=order: _turned(each, order), operands)
            found = _compared(lambda given, op=op: op.op(given[0], *given[1], **given[2]), turned)
            compared += found is not None
            if found and op.name not in _OTHERWISE:
                wrong[op.formatted_name] = found
    assert compared > 2000
    assert not wrong


_NUMBERED: dict[str, Callable[[Tensor], Tensor]] = {
    "power of a number": lambda x: 2.0**x,
    "float_power of a number": lambda x: torch.float_power(2.0, x),
    "ldexp of a row": lambda x: torch.ldexp(torch.ones(x.shape[-1]), x),
    "floor_divide by a row": lambda x: x // torch.ones(x.shape[-1]),
    "floor_divide of a number": lambda x: 2.0 // x,
    "isin": lambda x: torch.isin(x, torch.ones(3)),
    "logsigmoid": nn.functional.logsigmoid,
    "rows of a table": lambda x: torch.ones(7)[x.long()],
}


@pytest.mark.parametrize("name", _NUMBERED)
def test_numbers_and_rows_have_eagers_strides(name: str) -> None:
    x = _turned(torch.rand(4, 5, 6), _reversed)
    assert _compared(lambda given: _NUMBERED[name](given[0]), (x,)) == ""


@st.composite
def _reads(draw: st.DrawFn) -> tuple[Tensor, tuple[Tensor | slice, ...]]:
    shape = draw(st.lists(st.integers(2, 4), min_size=1, max_size=4))
    x = torch.rand(shape).permute(draw(st.permutations(range(len(shape)))))
    base = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))

    def index(size: int) -> Tensor:
        own = draw(st.permutations(range(len(base))))
        dense = torch.randint(0, size, [base[dim] if draw(st.booleans()) else 1 for dim in own])
        return dense.permute([own.index(dim) for dim in range(len(base))])

    kinds = draw(st.lists(st.booleans(), min_size=x.dim(), max_size=x.dim()).filter(any))
    return x, tuple(index(size) if is_index else slice(None) for size, is_index in zip(x.shape, kinds, strict=True))


@given(_reads())
def test_reads_at_computed_places_have_eagers_strides(read: tuple[Tensor, tuple[Tensor | slice, ...]]) -> None:
    assert _compared(lambda given: given[0][given[1]], read) == ""


class _Written(nn.Module):
    """Writes into a view, or a copy, of a result that is as its operand in memory."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.scale = function, nn.Parameter(torch.tensor([1.5, -2.0, 0.5, 3.0]))

    def forward(self, x: Tensor) -> Tensor:
        y = self.function(x, self.scale)
        y.reshape(-1)[-3:].mul_(0.0)
        return (y * torch.arange(64.0).reshape(4, 4, 4)).sum() + self.scale.square().sum()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, scale: torch.div(x, scale, rounding_mode="floor"),
        torch.copysign,
        lambda x, _: torch.pow(1.5, x),
        lambda x, scale: scale[x.abs().long() % 4],
        lambda x, _: nn.functional.one_hot(x[:, :, 0].abs().long() % 4, 4) * 1.0,
    ],
    ids=["floor", "copysign", "power", "index", "one_hot"],
)
def test_writes_through_reshape_go_where_eagers_do(context: Any, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    x = _turned(torch.linspace(-7.3, 9.1, 64).reshape(4, 4, 4), _reversed)
    assert_trains_as_eager(context, _Written(function), lambda y, _: y, [(x, x)] * 2)


def _samples(op: Any) -> Iterator[tuple[Any, ...]]:
    types = op.supported_dtypes("cpu")
    first = [each for each in (torch.float32, torch.int64, *types) if each in types][:1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = itertools.chain.from_iterable(op.sample_inputs("cpu", each) for each in first)
        for sample in itertools.islice(samples, 6):
            yield sample.input, sample.args, sample.kwargs


def _reversed(dims: list[int]) -> list[int]:
    return dims[::-1]


def _rotated(dims: list[int]) -> list[int]:
    return dims[1:] + dims[:1]


def _turned(value: Any, order: Callable[[list[int]], list[int]]) -> Any:
    """A tensor of equal elements whose dimensions are in this order in memory."""
    if not isinstance(value, Tensor) or value.dim() < 2 or value.layout != torch.strided:
        return value
    dims = order(list(range(value.dim())))
    return value.detach().permute(dims).contiguous().permute([dims.index(dim) for dim in range(len(dims))])


def _compared(function: Callable[[Any], Any], operands: Any) -> str | None:
    """How the strides of fake results differ from eager's; None where one of them refuses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eager = function(operands)
            with eager_strides(), FakeTensorMode(allow_non_fake_inputs=True) as mode:
                fake = function(
                    pytree.tree_map(lambda x: mode.from_tensor(x) if isinstance(x, Tensor) else x, operands)
                )
        except Exception:  # What PyTorch raises here is of many types, and not what is tested.
            return None
    for one, other in zip(pytree.tree_leaves(eager), pytree.tree_leaves(fake), strict=False):
        is_alike = isinstance(one, Tensor) and one.layout == torch.strided and one.shape == other.shape
        if is_alike and one.numel() and _strides(one) != _strides(other):
            return f"{_strides(other)}, eager's {_strides(one)}"
    return ""


def _strides(x: Tensor) -> list[int]:
    return [stride for stride, size in zip(x.stride(), x.shape, strict=True) if size > 1]

"""While a model is exported, fake tensors have the strides of eager's: they decide what shares memory."""

from __future__ import annotations

import contextlib
import itertools
import logging
import warnings
from collections.abc import Callable, Generator, Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.nn import functional
from torch.utils import _pytree as pytree

from dmc.importer.capture import eager_strides as rules
from dmc.importer.capture.eager_strides import eager_strides
from tests.interpreted import assert_trains_as_eager

aten = torch.ops.aten
Function = Callable[..., Any]
LAST, LAST_3D = torch.channels_last, torch.channels_last_3d


def _reversed(dims: list[int]) -> list[int]:
    return dims[::-1]


def _rotated(dims: list[int]) -> list[int]:
    return dims[1:] + dims[:1]


def _turned(value: Any, order: Callable[[list[int]], list[int]] = _reversed) -> Any:
    """A tensor of equal elements whose dimensions are in this order in memory."""
    if not isinstance(value, Tensor) or value.dim() < 2 or value.layout != torch.strided:
        return value
    dims = order(list(range(value.dim())))
    return value.detach().permute(dims).contiguous().permute([dims.index(dim) for dim in range(len(dims))])


ROW, WHOLE = torch.rand(6), torch.rand(4, 5, 6)
X = _turned(WHOLE)
ZEROS, ONES = torch.zeros(5), torch.ones(5)
LABELS = torch.randint(0, 3, (2, 4, 5))

# What needs each rule.
CASES: dict[Any, tuple[Function, tuple[Any, ...]]] = {
    aten.grid_sampler_2d.default: (
        lambda x, grid: functional.grid_sample(x, grid, align_corners=False),
        (_turned(torch.rand(2, 3, 4, 5)), _turned(torch.rand(2, 6, 7, 2))),
    ),
    aten.im2col.default: (lambda x: functional.unfold(x, 1), (torch.rand(3, 4, 5, 6).permute(3, 1, 0, 2),)),
    aten.isin.Tensor_Scalar: (torch.isin, (X, 2.0)),
    aten.isin.Tensor_Tensor: (torch.isin, (X, ROW)),
    aten.log_sigmoid_forward.default: (functional.logsigmoid, (X,)),
    aten.nll_loss2d_forward.default: (
        lambda x, labels: functional.nll_loss(x, labels, reduction="none"),
        (_turned(torch.rand(2, 3, 4, 5)), _turned(LABELS)),
    ),
    aten.normal.float_Tensor: (torch.normal, (2.0, X)),
    aten.normal.Tensor_Tensor: (torch.normal, (X, X)),
    aten.poisson.default: (torch.poisson, (X,)),
    aten.pow.Scalar: (torch.pow, (2.0, X)),
    aten.rrelu_with_noise.default: (lambda x: functional.rrelu(x, training=True), (X,)),
    aten.copysign.Tensor: (torch.copysign, (X, ROW)),
    aten.div.Tensor_mode: (lambda x, y: torch.div(x, y, rounding_mode="floor"), (X, ROW)),
    aten.heaviside.default: (torch.heaviside, (ROW, X)),
    aten.ldexp.Tensor: (torch.ldexp, (ROW, X)),
    aten.logaddexp.default: (torch.logaddexp, (ROW, X)),
    aten.logaddexp2.default: (torch.logaddexp2, (ROW, X)),
    aten.logical_and.default: (torch.logical_and, (ROW, X)),
    aten.logical_or.default: (torch.logical_or, (ROW, X)),
    aten.logical_xor.default: (torch.logical_xor, (ROW, X)),
    aten.native_dropout_backward.default: (
        lambda x, mask: aten.native_dropout_backward(x, mask, 2.0),
        (X, WHOLE > 0.5),
    ),
    aten.special_xlog1py.default: (torch.special.xlog1py, (X, WHOLE)),
    aten.xlogy.Tensor: (torch.xlogy, (X, WHOLE)),
    aten._batch_norm_with_update.default: (
        lambda x: aten._batch_norm_with_update(x, ONES, ZEROS, ZEROS.clone(), ONES.clone(), 0.1, 1e-5)[0],
        (_turned(torch.rand(4, 5, 6)),),
    ),
    aten._native_batch_norm_legit.default: (
        lambda x: aten._native_batch_norm_legit(x, None, None, ZEROS.clone(), ONES.clone(), True, 0.1, 1e-5)[0],
        (_turned(torch.rand(4, 5, 6)),),
    ),
    aten._native_batch_norm_legit.no_stats: (
        lambda x: aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5)[0],
        (_turned(torch.rand(4, 5, 6)),),
    ),
    aten.native_batch_norm.default: (
        lambda x: functional.batch_norm(x, ZEROS.clone(), ONES.clone(), training=True),
        (_turned(torch.rand(4, 5, 6)),),
    ),
    aten.channel_shuffle.default: (
        lambda x: functional.channel_shuffle(x, 2),
        (torch.rand(2, 4, 5, 6).to(memory_format=LAST),),
    ),
    aten.reflection_pad3d.default: (
        lambda x: functional.pad(x, (1,) * 6, mode="reflect"),
        (torch.rand(2, 3, 4, 5, 6).to(memory_format=LAST_3D),),
    ),
    aten.replication_pad3d.default: (
        lambda x: functional.pad(x, (1,) * 6, mode="replicate"),
        (torch.rand(2, 3, 4, 5, 6).to(memory_format=LAST_3D),),
    ),
    aten.angle.default: (torch.angle, (_turned(torch.rand(4, 5, 6, dtype=torch.complex64)),)),
    aten.binary_cross_entropy.default: (
        lambda x, y: functional.binary_cross_entropy(x, y, reduction="none"),
        (X, WHOLE),
    ),
    aten.index.Tensor: (lambda x, places: x[places], (ROW, (X * 6).long())),
}


@pytest.fixture(autouse=True)
def _quiet() -> Generator[None]:
    """PyTorch logs each operation that fake tensors refuse, and keeps the stack of each seed that is set."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    log.setLevel(logging.CRITICAL)
    with warnings.catch_warnings(), mock.patch("traceback.format_stack", return_value=[]):
        warnings.simplefilter("ignore")
        yield
    log.setLevel(level)


@pytest.mark.parametrize("op", rules.RULES, ids=str)
def test_a_rule_gives_the_strides_of_eager_which_are_other_ones_without_it(op: Any) -> None:
    function, operands = CASES[op]
    eager = _strides(function(*operands))
    assert _strides(_fake(function, operands)) == eager
    with mock.patch.dict(rules.RULES):
        del rules.RULES[op]
        assert _strides(_fake(function, operands)) != eager


# Gradients, which are read by gradients only, and what is changed where PyTorch's function is called.
_OTHERWISE = {"nn.functional.max_unpool2d", "nn.functional.one_hot"}


# All operands are turned in memory, or all but the first.
_TURNS: tuple[tuple[str, Callable[[list[int]], list[int]]], ...] = (("all", _reversed), ("others", _rotated))


def test_operators_of_every_table_have_eagers_strides() -> None:
    """Samples of PyTorch's own, whose dimensions are turned in memory. They take seconds to import."""
    from torch.testing._internal.common_methods_invocations import op_db

    compared, wrong = dict.fromkeys(_TURNS, 0), dict[str, Any]()
    for op in op_db:
        for operands, turn in itertools.product(_samples(op), _TURNS):
            turned, function = _with_turned(operands, turn[1], turn[0]), _called(op.op)
            try:
                eager = function(*turned)
            except Exception:  # PyTorch raises errors of many types for what an operator does not take.
                continue
            if (fake := _fake_unless_refused(function, turned)) is None:
                continue
            compared[turn] += 1
            if op.name not in _OTHERWISE and (found := _difference(eager, fake)):
                wrong[op.formatted_name] = found
    assert min(compared.values()) > 1000
    assert not wrong


@st.composite
def _reads(draw: st.DrawFn) -> tuple[Tensor, tuple[Tensor | slice | None, ...]]:
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    x = torch.rand(shape).permute(draw(st.permutations(range(len(shape)))))
    base = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))

    def index(size: int) -> Tensor:
        own = draw(st.permutations(range(len(base))))
        dense = torch.randint(0, size, [base[dim] if draw(st.booleans()) else 1 for dim in own])
        return dense.permute([own.index(dim) for dim in range(len(base))])

    kinds = draw(st.lists(st.booleans(), min_size=x.dim(), max_size=x.dim()).filter(any))
    every: list[Tensor | slice | None] = []
    for size, is_index in zip(x.shape, kinds, strict=True):
        every += [None] if draw(st.integers(0, 3)) == 0 else []
        every.append(index(size) if is_index else slice(None))
    return x, tuple(every)


@given(_reads())
@example(
    (_turned(torch.rand(2, 3, 4, 5)), (slice(None), torch.tensor([[0], [2]]), slice(None), torch.tensor([[1, 3]])))
)
@example((torch.rand(4, 3).T, (slice(None), None, torch.zeros(1, 3, 1, dtype=torch.long).transpose(1, 2))))
def test_reads_at_computed_places_have_eagers_strides(read: tuple[Tensor, tuple[Tensor | slice | None, ...]]) -> None:
    assert _difference(read[0][read[1]], _fake(lambda x, places: x[places], read)) == ""


class _Written(nn.Module):
    """Writes into a view, or a copy, of a result that is as its operand in memory."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function, self.scale = function, nn.Parameter(torch.tensor([1.5, -2.0, 0.5, 3.0]))

    def forward(self, x: Tensor) -> Tensor:
        y = self.function(x, self.scale)
        y.reshape(-1)[-4:].mul_(0.0)
        return (y * torch.arange(y.numel()).reshape(y.shape)).sum() + self.scale.square().sum()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, scale: torch.div(x, scale, rounding_mode="floor"),
        torch.copysign,
        lambda x, _: torch.pow(1.5, x),
        lambda x, scale: scale[x.abs().long() % 4],
        lambda _, scale: torch.outer(scale, scale).t()[None, torch.tensor([1, 3, 0])],
        lambda x, _: functional.one_hot(x[:, :, 0].abs().long() % 4, 4) * 1.0,
    ],
    ids=["floor", "copysign", "power", "index", "index_one", "one_hot"],
)
def test_writes_through_reshape_go_where_eagers_do(context: Any, function: Function) -> None:
    x = _turned(torch.linspace(-7.3, 9.1, 64).reshape(4, 4, 4))
    assert_trains_as_eager(context, _Written(function), lambda y, _: y, [(x, x)] * 2)


def _samples(op: Any) -> Iterator[tuple[Any, ...]]:
    types = op.supported_dtypes("cpu")
    first = [each for each in (torch.float32, torch.int64, *types) if each in types][:1]
    # PyTorch looks through the stack for its own test, which takes longer than all else.
    with mock.patch("torch.testing._internal.common_utils.extract_test_fn", return_value=None):
        samples = itertools.chain.from_iterable(op.sample_inputs("cpu", each) for each in first)
        drawn = list(itertools.islice(samples, 3))
    for sample in drawn:
        yield sample.input, sample.args, sample.kwargs


def _with_turned(operands: tuple[Any, ...], order: Callable[[list[int]], list[int]], which: str) -> tuple[Any, ...]:
    first, *others = operands
    turned = pytree.tree_map(lambda each: _turned(each, order), others)
    return (pytree.tree_map(lambda each: _turned(each, order), first) if which == "all" else first, *turned)


def _called(function: Function) -> Function:
    return lambda x, args, kwargs: function(x, *args, **kwargs)


def _fake_unless_refused(function: Function, operands: tuple[Any, ...]) -> Any:
    """None if PyTorch's own fake tensors refuse a call: our strides must not be the reason."""
    try:
        return _fake(function, operands)
    except Exception:  # PyTorch raises errors of many types.
        with contextlib.suppress(Exception):
            _faked(function, operands)
            pytest.fail("our strides are the reason of a refusal")
        return None


def _fake(function: Function, operands: tuple[Any, ...]) -> Any:
    with eager_strides():
        return _faked(function, operands)


def _faked(function: Function, operands: tuple[Any, ...]) -> Any:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = pytree.tree_map(lambda each: mode.from_tensor(each) if isinstance(each, Tensor) else each, operands)
        return function(*fakes)


def _difference(eager: Any, fake: Any) -> str:
    for one, other in zip(pytree.tree_leaves(eager), pytree.tree_leaves(fake), strict=False):
        is_alike = isinstance(one, Tensor) and one.layout == torch.strided and one.shape == other.shape
        if is_alike and one.numel() and _strides(one) != _strides(other):
            return f"{_strides(other)}, eager's {_strides(one)}"
    return ""


def _strides(x: Tensor) -> list[int]:
    return [stride for stride, size in zip(x.stride(), x.shape, strict=True) if size > 1]


def test_operations_of_numbers_alone_are_left_alone(context: Any) -> None:
    """As in the sliding windows of LED and Longformer."""

    class Chunked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.rand(4))

        def forward(self, x: Tensor) -> Tensor:
            count = torch.div(x.shape[0], 2, rounding_mode="trunc") - 1
            return (self.weight * x).sum() * count

    x = torch.rand(8, 4)
    assert_trains_as_eager(context, Chunked(), lambda y, _: y, [(x, x)] * 2)

"""What decompositions and rules write in place of an operation means what PyTorch means by it, in PyTorch itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dmc.importer import composites
from dmc.importer.decompositions import decompositions, power, selection
from dmc.importer.forward import losses
from dmc.importer.forward.images import upsampling
from dmc.importer.forward.random_numbers.randomness import Randomness

assert composites.dropout  # Importing the package has registered them all.
INF, NAN = math.inf, math.nan
ROWS = torch.tensor(
    [
        [5.0, -INF, -INF, -INF, 1.0],
        [NAN, 1.0, INF, NAN, 2.0],
        [-INF] * 5,
        [NAN] * 5,
        [INF, INF, -INF, NAN, 0.0],
        [1.0] * 5,
        [3.0, 2.0, 5.0, 5.0, 2.0],
    ]
)
LEAST, MOST = -(2**63), 2**63 - 1
INTEGERS = torch.tensor([[LEAST, 5, LEAST, MOST, 0], [3, 3, 3, 1, 2], [LEAST] * 5, [MOST] * 5])


def _same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, equal_nan=True)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("rows", [ROWS, INTEGERS], ids=["floats", "integers"])
def test_topk(rows: Tensor, k: int, largest: bool) -> None:
    values, places = selection.topk(rows, k, largest=largest)
    _same(values, rows.topk(k, largest=largest).values)
    _same(rows.gather(1, places), values)
    assert all(len(set(row)) == k for row in places.tolist()), "an element is taken twice"


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("rows", [ROWS, INTEGERS, ROWS > 1.0], ids=["floats", "integers", "booleans"])
def test_maxima_and_minima(rows: Tensor, dim: int) -> None:
    for own, reference in ((selection.max_dim, torch.max), (selection.min_dim, torch.min)):
        values, places = own(rows, dim)
        expected: Any = reference(rows, dim)
        _same(values, expected.values)
        _same(rows.gather(dim, places.unsqueeze(dim)).squeeze(dim), values)


def test_arguments_of_maxima_and_minima() -> None:
    for rows in (ROWS, INTEGERS):
        assert torch.equal(selection.argmax(rows, 1), rows.argmax(1))
        assert torch.equal(selection.argmin(rows, 1, keepdim=True), rows.argmin(1, keepdim=True))
        assert torch.equal(selection.argmax(rows), rows.argmax())


BASES = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, INF, -INF, NAN, 0.5, -0.5, 3.0])


def test_powers_by_tensors() -> None:
    own = power.OWN[torch.ops.aten.pow.Tensor_Tensor]
    _same(own(BASES.unsqueeze(1), BASES), BASES.unsqueeze(1) ** BASES)
    whole = torch.tensor([0, 1, 2, 3, -1, -2])
    _same(own(BASES.unsqueeze(1), whole), BASES.unsqueeze(1) ** whole)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, -1, -2.0, -3, 0.5, -0.5, 2.5, INF, -INF, NAN])
def test_powers_by_scalars(exponent: float) -> None:
    _same(power.OWN[torch.ops.aten.pow.Tensor_Scalar](BASES, exponent), BASES**exponent)


@pytest.mark.parametrize("base", [0.0, 1.0, -2.0, 2, INF, NAN])
def test_powers_of_scalars(base: float) -> None:
    _same(power.OWN[torch.ops.aten.pow.Scalar](base, BASES), torch.pow(base, BASES))


def test_powers_are_rounded_once_or_twice() -> None:
    generator = torch.Generator().manual_seed(0)
    largest = torch.finfo(torch.float32).max
    x = torch.exp(torch.linspace(-103.0, 88.0, 40_000))
    x = torch.cat([x, 1.0 + torch.linspace(-1e-3, 1e-3, 2_000)])
    y = 10.0 * torch.randn(x.shape, generator=generator)
    _in_units(power.OWN[torch.ops.aten.pow.Tensor_Tensor](x, y), x.double() ** y.double(), largest)
    # Large exponents show the last digits of logarithms between those of √½ and √2.
    for exponent in (1.7, -0.01, 63.0, -20.0, 250.0, -240.0):
        own = power.OWN[torch.ops.aten.pow.Tensor_Scalar](x, exponent)
        _in_units(own, x.double() ** torch.tensor(exponent).double(), largest)


def _in_units(actual: Tensor, exact: Tensor, largest: float) -> None:
    normal = (exact > torch.finfo(torch.float32).smallest_normal) & (exact < largest)
    assert normal.any()
    units = (actual.double() - exact).abs() / exact / torch.finfo(torch.float32).eps
    assert units[normal].max() < 1.5
    assert torch.equal(actual[exact > 2.0 * largest], torch.full_like(actual[exact > 2.0 * largest], INF))


def test_powers_of_integers_are_exact() -> None:
    x = torch.tensor([-7, 3, 16777217])
    assert torch.equal(power.OWN[torch.ops.aten.pow.Tensor_Scalar](x, 2), x**2)


@pytest.mark.parametrize("exponent", [0.5, -0.5, -1.0, -3.0])
def test_roots_and_reciprocals_of_float64_stay_in_float64(exponent: float) -> None:
    x = torch.tensor([1e60, 1e-60, 1 / 3], dtype=torch.float64)
    _same(power.OWN[torch.ops.aten.pow.Tensor_Scalar](x, exponent), x**exponent)


def test_integers_are_added_up_exactly() -> None:
    x, place = torch.tensor([2**24, 1, 1, -3]), torch.tensor([0, 0, 0, 1])
    for rows in (2, 9):
        zeros = torch.zeros(rows, dtype=torch.int64)
        put = decompositions.table()[torch.ops.aten.index_put.default](zeros, [place], x, True)
        assert torch.equal(put, zeros.index_put((place,), x, accumulate=True))
        scattered = decompositions.table()[torch.ops.aten.scatter_add.default](zeros, 0, place, x)
        assert torch.equal(scattered, zeros.scatter_add(0, place, x))


TARGETS = torch.tensor([0, 1, 2, 1, -100, 2, 1, 0])
WEIGHT = torch.tensor([1.0, 5.0, 0.2])
REDUCTIONS = ("none", "mean", "sum")


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("shape", [(3,), (8, 3), (2, 3, 2, 2)], ids=["vector", "rows", "image"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_losses(reduction: str, shape: tuple[int, ...], weight: Tensor | None) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
    target = TARGETS[1] if len(shape) == 1 else TARGETS.view(shape[0], *shape[2:])
    code = REDUCTIONS.index(reduction)
    for ignored in (-100, 1):
        options: dict[str, Any] = {"weight": weight, "reduction": reduction, "ignore_index": ignored}
        valid = target if ignored == -100 else target.clamp(min=0)
        if len(shape) == 1 and ignored == 1:
            continue
        _compare(losses.nll(x, valid, weight, code, ignored), functional.nll_loss(x, valid, **options), [x])
        own = losses.cross_entropy(x, valid, weight, code, ignored, 0.1)
        _compare(own, functional.cross_entropy(x, valid, label_smoothing=0.1, **options), [x])


def test_a_target_that_is_no_class_makes_the_loss_nan() -> None:
    x = torch.zeros(2, 3)
    for target in (-1, 3):
        assert losses.nll(x, torch.tensor([0, target]), WEIGHT, 1, -100).isnan()


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_upsampling(mode: str) -> None:
    offset = 0.5 if mode == "nearest-exact" else 0.0
    for size in (1, 3, 4, 7, 9, 13, 14, 100):
        x = _leaf(2, 3, 7)
        _compare(upsampling.nearest(x, [size], None, offset), functional.interpolate(x, size=size, mode=mode), [x])
    for scale in (0.5, 0.7, 1.3, 1.5, 2.0, 2.6, 3.0):
        x = _leaf(1, 2, 3, 5)
        expected = functional.interpolate(x, scale_factor=scale, mode=mode)
        _compare(upsampling.nearest(x, None, [scale] * 2, offset), expected, [x])
    x = _leaf(1, 2, 3, 5, 4)
    expected = functional.interpolate(x, scale_factor=1.5, mode=mode)
    _compare(upsampling.nearest(x, None, [1.5] * 3, offset), expected, [x])


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_the_nearest_element_is_found_in_single_precision(mode: str) -> None:
    offset = 0.5 if mode == "nearest-exact" else 0.0
    for length in range(1, 13):
        x = torch.arange(float(length)).view(1, 1, length)
        for factor in range(1, 61):
            size, scale = [length * factor], [float(factor)]
            sized, scaled = upsampling.nearest(x, size, None, offset), upsampling.nearest(x, None, scale, offset)
            assert torch.equal(sized, functional.interpolate(x, size, mode=mode)), (length, factor)
            assert torch.equal(scaled, functional.interpolate(x, scale_factor=scale, mode=mode)), (length, factor)


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("length", [31, 39, 70])
def test_nearly_doubled_images_are_those_of_eager(length: int, channels: int) -> None:
    for scale in (2.01, 1.01):
        for layout in (torch.contiguous_format, torch.channels_last):
            x = _leaf(1, channels, length, length).detach().round().to(memory_format=layout).requires_grad_()
            own = upsampling.nearest(x, None, [scale] * 2, 0.0)
            assert torch.equal(own, functional.interpolate(x, scale_factor=scale))
            (gradient,) = torch.autograd.grad(own.sum(), x)
            # Eager's own gradient doubles exactly where its result does not.
            _same((gradient * x).sum(), own.sum())


def test_channels_are_dropped_whole() -> None:
    kept = _randomness().feature_dropout(torch.ones(8, 16, 3, 2), 0.25).flatten(2)
    assert torch.equal(kept, kept[..., :1].expand_as(kept))
    assert kept.unique().tolist() == [0.0, pytest.approx(1.0 / 0.75)]
    assert abs(int((kept[..., 0] == 0).sum()) - 32) < 20


@pytest.mark.parametrize("by_channel", [True, False])
def test_alpha_dropout_puts_what_it_drops_where_selu_ends(by_channel: bool) -> None:
    torch.manual_seed(0)
    x = torch.full((40, 50, 4), 0.3)
    own = _randomness().alpha_dropout(x, 0.25, by_channel)
    drop = functional.feature_alpha_dropout if by_channel else functional.alpha_dropout
    _same(own.unique(), drop(x, 0.25, training=True).unique())
    channels = own == own.min()
    assert torch.equal(channels, channels[..., :1].expand_as(channels)) is by_channel
    assert abs(channels.float().mean().item() - 0.25) < 0.06


def _randomness() -> Randomness:
    return Randomness(torch.tensor(3), torch.tensor(1))


def _leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).requires_grad_()


def _compare(own: Tensor, reference: Tensor, inputs: Sequence[Tensor]) -> None:
    _same(own, reference)
    weights = torch.linspace(-1.0, 1.0, own.numel()).view(own.shape)
    both = [torch.autograd.grad((value * weights).sum(), inputs, retain_graph=True) for value in (own, reference)]
    for actual, expected in zip(*both, strict=True):
        _same(actual, expected)


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("rows", [ROWS, INTEGERS], ids=["floats", "integers"])
def test_sort(rows: Tensor, descending: bool) -> None:
    values, places = selection.sort(rows, 1, descending)
    expected = rows.sort(dim=1, descending=descending, stable=True)
    _same(values, expected.values)
    assert torch.equal(places, expected.indices)


@pytest.mark.parametrize("rows", [ROWS, INTEGERS], ids=["floats", "integers"])
def test_kthvalue(rows: Tensor) -> None:
    for k in (1, 3, 5):
        value, place = selection.kthvalue(rows, k)
        _same(value, rows.kthvalue(k).values)
        _same(rows.gather(1, place.unsqueeze(1)).squeeze(1), value)


def test_a_choice_between_one_tensor_and_itself_has_the_shape_of_the_choice() -> None:
    where = decompositions.table()[torch.ops.aten.where.self]
    mask, row, number = torch.ones(2, 3, dtype=torch.bool), torch.ones(3), torch.ones([])
    assert where(mask, row, row).shape == (2, 3)
    assert where(mask, number, number).shape == (2, 3)
    # As dropout chooses: masks are known by it.
    assert where(mask, number, torch.zeros([])) is NotImplemented

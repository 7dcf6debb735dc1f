"""Each composite means what PyTorch means by it: values and gradients, in PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from dmc.dropout import share_of_attention
from dmc.importer.composites.cross_entropy import cross_entropy
from dmc.importer.composites.dropout import keep_scale
from dmc.importer.composites.philox import philox4x32, uniform_bits

dmc = torch.ops.dmc  # Importing their package above has registered them all.
SEED, DRAW = torch.tensor(3), torch.tensor(1)
SCALE = 0.25


def _compare(own: Tensor, reference: Tensor, inputs: Sequence[Tensor]) -> None:
    torch.testing.assert_close(own, reference, rtol=1e-5, atol=1e-5)
    weights = torch.linspace(-1.0, 1.0, own.numel()).view(own.shape)
    gradients = [torch.autograd.grad((value * weights).sum(), inputs, retain_graph=True) for value in (own, reference)]
    for actual, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def _leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).requires_grad_()


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str) -> None:
    x = _leaf(4, 33)
    _compare(dmc.gelu(x, approximate), functional.gelu(x, approximate=approximate), [x])


@pytest.mark.parametrize("axes", [1, 2])
def test_layer_norm(axes: int) -> None:
    x = _leaf(3, 5, 16)
    shape = list(x.shape[-axes:])
    weight, bias = _leaf(*shape), _leaf(*shape)
    _compare(
        dmc.layer_norm(x, weight, bias, axes, 1e-5)[0],
        functional.layer_norm(x, shape, weight, bias),
        [x, weight, bias],
    )


def test_rms_norm() -> None:
    x, weight, eps = _leaf(3, 5, 16), _leaf(16), 0.1  # Large enough to count.
    _compare(dmc.rms_norm(x, weight, 1, eps)[0], functional.rms_norm(x, [16], weight, eps), [x, weight])


BIASES: dict[str, Callable[[], Tensor | None]] = {
    "plain": lambda: None,
    "bias": lambda: _leaf(1, 3, 7, 9),
    "bias-broadcast": lambda: _leaf(2, 1, 1, 9),
}


@pytest.mark.parametrize("bias", BIASES)
def test_attention(bias: str) -> None:
    q, k, v, b = _leaf(2, 3, 7, 8), _leaf(2, 3, 9, 8), _leaf(2, 3, 9, 8), BIASES[bias]()
    own = dmc.attention(q, k, v, b, SEED, DRAW, 0.0, SCALE, False)[0]
    inputs = [q, k, v] if b is None else [q, k, v, b]
    _compare(own, functional.scaled_dot_product_attention(q, k, v, b, scale=SCALE), inputs)


def test_causal_attention() -> None:
    q, k, v = _leaf(2, 3, 7, 8), _leaf(2, 3, 7, 9)[..., :8], _leaf(2, 3, 7, 10)
    own = dmc.attention(q, k, v, None, SEED, DRAW, 0.0, SCALE, True)[0]
    _compare(own, functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=SCALE), [q, k, v])


@pytest.mark.parametrize("causal", [True, False])
def test_attention_with_dropout(causal: bool) -> None:
    q, k, v, p = _leaf(2, 3, 7, 8), _leaf(2, 3, 9, 8), _leaf(2, 3, 9, 8), 0.3
    own = dmc.attention(q, k, v, None, SEED, DRAW, p, SCALE, causal)[0]
    scores = q @ k.transpose(-1, -2) * SCALE
    if causal:
        scores = scores.masked_fill(torch.ones(7, 9).tril() == 0, -torch.inf)
    _compare(own, (scores.softmax(-1) * keep_scale([2, 3, 7, 9], SEED, DRAW, share_of_attention(p))) @ v, [q, k, v])


def test_a_row_that_sees_nothing_gives_zeros() -> None:
    q, k, v = _leaf(1, 1, 2, 4), _leaf(1, 1, 3, 4), _leaf(1, 1, 3, 4)
    bias = torch.tensor([[0.0, 0.0, 0.0], [-torch.inf] * 3])
    out = dmc.attention(q, k, v, bias, SEED, DRAW, 0.0, SCALE, False)[0]
    assert out[0, 0, 1].tolist() == [0.0] * 4
    gradients = torch.autograd.grad(out.sum(), [q, k, v])
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("mean", [True, False])
def test_cross_entropy(smoothing: float, mean: bool) -> None:
    logits, target = _leaf(5, 11), torch.tensor([1, -100, 3, 10, 0])
    own = cross_entropy(logits, target, -100, smoothing, mean)
    reduction = "mean" if mean else "sum"
    _compare(own, functional.cross_entropy(logits, target, label_smoothing=smoothing, reduction=reduction), [logits])


@pytest.mark.parametrize("target", [-1, 11])
def test_a_target_out_of_range_makes_the_loss_nan(target: int) -> None:
    assert cross_entropy(_leaf(1, 11), torch.tensor([target]), -100, 0.0, True).isnan()


@pytest.mark.parametrize("padding", [None, 0, 2])
@pytest.mark.parametrize("rows", [9, 5])  # More rows than look-ups, and fewer: two ways to take the gradient.
def test_embedding(rows: int, padding: int | None) -> None:
    weight, index = _leaf(rows, 5), torch.tensor([[1, 2, 2], [rows - 1, 0, 1]])
    own = dmc.embedding(weight, index, -1 if padding is None else padding)
    _compare(own, functional.embedding(index, weight, padding_idx=padding), [weight])


@pytest.mark.parametrize("rows", [9, 5])
def test_the_gradient_of_a_row_is_its_own(rows: int) -> None:
    inf, nan = torch.inf, torch.nan
    index, weight = torch.tensor([1, 2, 2, rows - 1, 0, 1]), _leaf(rows, 3)
    dy = torch.tensor([[1, inf, nan], [inf, 2, 0], [-inf, inf, 1], [-inf, -0.5, 0], [3, 4, inf], [2, 1, 2.0]])
    own, expected = dmc.embedding(weight, index, -1), functional.embedding(index, weight)
    gradients = [torch.autograd.grad(each, weight, dy)[0] for each in (own, expected)]
    torch.testing.assert_close(*gradients, equal_nan=True)


@pytest.mark.parametrize("index", [-1, 9])
def test_a_row_out_of_range_is_nan(index: int) -> None:
    assert bool(dmc.embedding(_leaf(9, 5), torch.tensor([index]), -1).isnan().all())


def test_lstm_cell() -> None:
    cell = torch.nn.LSTMCell(6, 4)
    x, h, c = _leaf(3, 6), _leaf(3, 4), _leaf(3, 5)[:, :4]
    gates = functional.linear(x, cell.weight_ih, cell.bias_ih) + functional.linear(h, cell.weight_hh, cell.bias_hh)
    for own, reference in zip(dmc.lstm_cell(gates, c), cell(x, (h, c)), strict=True):
        _compare(own, reference, [x, h, c, cell.weight_ih])


def test_gru_cell() -> None:
    cell = torch.nn.GRUCell(6, 4)
    x, h = _leaf(3, 6), _leaf(3, 4)
    x_gates = functional.linear(x, cell.weight_ih, cell.bias_ih)
    h_gates = functional.linear(h, cell.weight_hh, cell.bias_hh)
    _compare(dmc.gru_cell(x_gates, h_gates, h), cell(x, h), [x, h, *cell.parameters()])


@given(
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padded=st.booleans(),
    ties=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_max_pool2d(
    kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int], padded: bool, ties: bool
) -> None:
    x = torch.randn(2, 3, 9, 8, generator=torch.Generator().manual_seed(0))
    x = (x.relu() if ties else x).requires_grad_()
    padding = [kernel[0] // 2, kernel[1] // 2] if padded else [0, 0]
    own = dmc.max_pool2d(x, list(kernel), list(stride), padding, list(dilation))
    _compare(own, functional.max_pool2d(x, kernel, stride, padding, dilation), [x])


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation"), [(3, 2, 1, 1), (3, 1, 1, 2), (2, 3, 1, 1)])
def test_gradients_of_gradients_of_max_pool2d(kernel: int, stride: int, padding: int, dilation: int) -> None:
    x = _leaf(2, 3, 9, 8)

    def thrice(pooled: Tensor) -> list[Tensor]:
        (once,) = torch.autograd.grad((pooled**3).sum(), x, create_graph=True)
        (twice,) = torch.autograd.grad((once**2).sum(), x, create_graph=True)
        return [once, twice, *torch.autograd.grad((twice**2).sum(), x)]

    own = dmc.max_pool2d(x, [kernel] * 2, [stride] * 2, [padding] * 2, [dilation] * 2)
    eager = functional.max_pool2d(x, kernel, stride, padding, dilation)
    torch.testing.assert_close(thrice(own), thrice(eager))


# The test vectors published with Random123 (kat_vectors, philox4x32 7).
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "5f6fb709 0d893f64 4f121f81 4f730a48"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "5207ddc2 45165e59 4d8ee751 8c52f662"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "4dfccaba 190a87f0 c47362ba b6b5242a"),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_known_answers(counter: str, key: str, answer: str) -> None:
    a, b, c, d = (torch.tensor(int(word, 16)) for word in counter.split())
    k0, k1 = (torch.tensor(int(word, 16)) for word in key.split())
    assert [int(word) for word in philox4x32((a, b, c, d), (k0, k1))] == [int(word, 16) for word in answer.split()]


@pytest.mark.parametrize(("seed", "draw"), [(3, 1), (5 + (7 << 32), 6 + (9 << 32))], ids=["small", "both-halves"])
def test_neighbours_share_a_word_and_pairs_eight_apart_a_block(seed: int, draw: int) -> None:
    bits = uniform_bits([2, 3, 15], torch.tensor(seed), torch.tensor(draw)).view(6, 15)
    block = torch.arange(24)
    zero = torch.zeros([], dtype=torch.int64)
    counter, key = (torch.tensor([number % 2**32, number >> 32]) for number in (draw, seed))
    words = torch.stack(philox4x32((block, zero, counter[0], counter[1]), (key[0], key[1])), 1)
    # Each row begins with new blocks.
    for row, values in enumerate(bits.tolist()):
        for element, value in enumerate(values):
            word, block_of_group, half = element // 8 % 4, element // 2 % 4, element % 2
            assert value == int(words[4 * row + block_of_group, word]) >> 16 * half & 0xFFFF


def test_what_elements_draw_is_even_and_independent_of_neighbours() -> None:
    count = 1 << 18
    bits = uniform_bits([count], SEED, DRAW)
    # Each of the 16 bits is set half of the time, for each place in a group of 32.
    for bit in range(16):
        share = ((bits >> bit) & 1).view(-1, 32).double().mean(0)
        assert ((share - 0.5).abs() < 5.0 * 0.5 * (count / 32) ** -0.5).all()
    values = (bits.double() + 0.5) / 2**16 - 0.5
    # Those that share a word, a block or a row are as little correlated as any.
    for distance in (1, 2, 3, 7, 8, 9, 16, 24, 31, 32, 33, 64, 1024):
        correlation = (values[:-distance] * values[distance:]).mean() * 12
        assert abs(float(correlation)) < 5.0 * (count - distance) ** -0.5, distance
    # A χ² of 255 degrees of freedom for the high and the low halves.
    for part in (bits >> 8, bits & 0xFF):
        found = torch.bincount(part, minlength=256).double()
        assert abs(float(((found - count / 256) ** 2).sum() * 256 / count) - 255) < 5.0 * (2 * 255) ** 0.5


def test_dropout_keeps_the_share_it_should_and_scales_it() -> None:
    count, p = 40_000, 0.2
    y = dmc.dropout(torch.full([count], 3.0), SEED, DRAW, p)
    assert sorted(set(y.tolist())) == pytest.approx([0.0, 3.0 / (1.0 - p)], rel=1e-6)
    deviations = (int((y == 0).sum()) - p * count) / (count * p * (1.0 - p)) ** 0.5
    assert abs(deviations) < 5.0
    assert not bool(dmc.dropout(torch.ones(9), SEED, DRAW, 1.0).any())


def test_a_mask_is_its_seed_and_draw() -> None:
    x = torch.ones(1000)
    masks = [dmc.dropout(x, seed, draw, 0.5) for seed, draw in [(SEED, DRAW), (DRAW, SEED), (SEED, SEED), (DRAW, DRAW)]]
    assert all(not torch.equal(masks[i], masks[j]) for i in range(4) for j in range(i))
    bits = uniform_bits([1000], SEED, DRAW)
    assert torch.equal(masks[0] != 0, bits >= 2**15), "the key is the seed, the counter has the draw"


def test_dropout_is_its_own_gradient() -> None:
    x = torch.ones(1000, requires_grad=True)
    y = dmc.dropout(x, SEED, DRAW, 0.25)
    (gradient,) = torch.autograd.grad(y.sum(), [x])
    assert torch.equal(gradient, y.detach())

"""NaN, infinities and signed zeros through every operator: the cases, and one model that holds many of them.

Used by tests, and on a GPU by `bench/gpu_nonfinite.py`: needs torch alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

NAN, INF = math.nan, math.inf
# No subnormal numbers: a GPU may take them for zero, and eager's flags say which.
SPECIAL = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.3, -2.5, 7.0, 1e30, -1e30, 2.0**-20)
Case = Callable[[Tensor, Tensor], Tensor]


def pairs(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Every pair of special numbers, as two tensors [169]."""
    special = torch.tensor(SPECIAL, dtype=dtype)
    count = len(SPECIAL)
    return special.repeat_interleave(count), special.repeat(count)


def rows(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Two tensors [rows, 9]: a row of ordinary numbers, with special ones at one or two places, and rows of one kind."""
    plain = torch.tensor([0.5, -1.0, 2.0, -0.25, 3.0, 1.5, -3.0, 0.75, -2.0])
    found = [plain]
    for value in (NAN, INF, -INF):
        for place in (0, 4, 8):
            found.append(plain.index_fill(0, torch.tensor([place]), value))
    for first, second in ((NAN, INF), (INF, NAN), (NAN, -INF), (-INF, NAN), (INF, -INF), (INF, INF), (-INF, -INF)):
        found.append(plain.index_fill(0, torch.tensor([2]), first).index_fill(0, torch.tensor([6]), second))
    found += [torch.full([9], value) for value in (NAN, INF, -INF)]
    x = torch.stack(found).to(dtype)
    return x, x.flip(0)


def _finite(x: Tensor) -> Tensor:
    """Heads [1, 1, rows, 9] for attention whose scores are all finite and small."""
    return 0.2 * torch.nan_to_num(x, 1.0, 2.0, -2.0)[None, None]


ELEMENTWISE: Mapping[str, Case] = {
    # Comparisons, and what is made of them.
    "eq_self": lambda a, b: a == a,
    "ne_self": lambda a, b: a != a,
    "le_self": lambda a, b: a <= a,
    "ge_self": lambda a, b: a >= a,
    "lt_self": lambda a, b: a < a,
    "gt_self": lambda a, b: a > a,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt_number": lambda a, b: a < 0.3,
    "ge_number": lambda a, b: a >= 0.3,
    "ne_number": lambda a, b: a != 0.0,
    "eq_number": lambda a, b: a == 1.0,
    "not_lt": lambda a, b: ~(a < b),
    "not_ge": lambda a, b: ~(a >= b),
    "eq_inf": lambda a, b: a == INF,
    "isfinite": lambda a, b: torch.isfinite(a),
    "isnan": lambda a, b: torch.isnan(a),
    "isinf": lambda a, b: torch.isinf(a),
    "isposinf": lambda a, b: torch.isposinf(a),
    "isneginf": lambda a, b: torch.isneginf(a),
    "logical_and": lambda a, b: torch.logical_and(a, b),
    "logical_or": lambda a, b: torch.logical_or(a, b),
    "logical_xor": lambda a, b: torch.logical_xor(a, b),
    "logical_not": lambda a, b: torch.logical_not(a),
    "to_bool": lambda a, b: a.bool(),
    "where_nan": lambda a, b: torch.where(a.isnan(), 9.0, a),
    "where_lt": lambda a, b: torch.where(a < b, a, b),
    "where_gt": lambda a, b: torch.where(a > b, a, b),
    "where_ge": lambda a, b: torch.where(a >= b, a, b),
    "where_le_swapped": lambda a, b: torch.where(a <= b, b, a),
    "where_lt_zero": lambda a, b: torch.where(a < 0, 0.0, a),
    "masked_fill": lambda a, b: a.masked_fill(b > 0, -INF),
    "isclose": lambda a, b: torch.isclose(a, b, equal_nan=True),
    # Minima and maxima.
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "maximum_number": lambda a, b: torch.maximum(a, torch.zeros_like(a)),
    "minimum_number": lambda a, b: torch.minimum(a, torch.zeros_like(a)),
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "clamp": lambda a, b: a.clamp(-0.5, 0.5),
    "clamp_min": lambda a, b: a.clamp(min=-0.5),
    "clamp_max": lambda a, b: a.clamp(max=0.5),
    "clamp_tensors": lambda a, b: torch.clamp(a, b, b + 1.0),
    "clamp_min_tensor": lambda a, b: torch.clamp(a, min=b),
    "clamp_max_tensor": lambda a, b: torch.clamp(a, max=b),
    "clamp_crossed": lambda a, b: a.clamp(0.5, -0.5),
    "clamp_inf": lambda a, b: a.clamp(-INF, INF),
    "nan_to_num": lambda a, b: torch.nan_to_num(a),
    "nan_to_num_given": lambda a, b: torch.nan_to_num(a, 3.0, 4.0, -5.0),
    # Activation functions.
    "relu": lambda a, b: functional.relu(a),
    "relu6": lambda a, b: functional.relu6(a),
    "hardtanh": lambda a, b: functional.hardtanh(a, -0.4, 0.6),
    "leaky_relu": lambda a, b: functional.leaky_relu(a, 0.1),
    "leaky_relu_zero": lambda a, b: functional.leaky_relu(a, 0.0),
    "prelu": lambda a, b: functional.prelu(a, torch.tensor([0.2], dtype=a.dtype)),
    "threshold": lambda a, b: functional.threshold(a, 0.2, 5.0),
    "elu": lambda a, b: functional.elu(a),
    "selu": lambda a, b: functional.selu(a),
    "celu": lambda a, b: functional.celu(a),
    "gelu": lambda a, b: functional.gelu(a),
    "gelu_tanh": lambda a, b: functional.gelu(a, approximate="tanh"),
    "silu": lambda a, b: functional.silu(a),
    "mish": lambda a, b: functional.mish(a),
    "sigmoid": lambda a, b: torch.sigmoid(a),
    "logsigmoid": lambda a, b: functional.logsigmoid(a),
    "softplus": lambda a, b: functional.softplus(a),
    "tanh": lambda a, b: torch.tanh(a),
    "hardsigmoid": lambda a, b: functional.hardsigmoid(a),
    "hardswish": lambda a, b: functional.hardswish(a),
    "hardshrink": lambda a, b: functional.hardshrink(a.detach(), 0.2),
    "softshrink": lambda a, b: functional.softshrink(a.detach(), 0.2),
    "softsign": lambda a, b: functional.softsign(a),
    # Arithmetic.
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "sub_self": lambda a, b: a - a,
    "mul": lambda a, b: a * b,
    "mul_zero": lambda a, b: a * 0.0,
    "add_zero": lambda a, b: a + 0.0,
    "div": lambda a, b: a / b,
    "div_self": lambda a, b: a / a,
    "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": lambda a, b: torch.remainder(a, b),
    "fmod": lambda a, b: torch.fmod(a, b),
    "abs": lambda a, b: a.abs(),
    "neg": lambda a, b: -a,
    "sign": lambda a, b: torch.sign(a),
    "sgn": lambda a, b: torch.sgn(a),
    "square": lambda a, b: a * a,
    "sqrt": lambda a, b: a.sqrt(),
    "rsqrt": lambda a, b: a.rsqrt(),
    "reciprocal": lambda a, b: a.reciprocal(),
    "exp": lambda a, b: a.exp(),
    "exp2": lambda a, b: a.exp2(),
    "expm1": lambda a, b: a.expm1(),
    "log": lambda a, b: a.log(),
    "log2": lambda a, b: a.log2(),
    "log10": lambda a, b: a.log10(),
    "log1p": lambda a, b: a.log1p(),
    "erf": lambda a, b: torch.erf(a),
    "sin": lambda a, b: a.clamp(-INF, 10.0).clamp(min=-10.0).sin(),
    "pow_two": lambda a, b: a**2,
    "pow_three": lambda a, b: a**3,
    "pow_half": lambda a, b: a.detach() ** 0.5,
    "pow_minus_one": lambda a, b: a**-1,
    "pow_zero": lambda a, b: a**0,
    "pow": lambda a, b: torch.pow(a, b),
    "floor": lambda a, b: a.floor(),
    "ceil": lambda a, b: a.ceil(),
    "trunc": lambda a, b: a.trunc(),
    "round": lambda a, b: a.round(),
    "frac": lambda a, b: a.frac(),
    "lerp": lambda a, b: torch.lerp(a, b, 0.25),
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=0.5),
    "addcdiv": lambda a, b: torch.addcdiv(a, a, b, value=0.5),
    "atan2": lambda a, b: torch.atan2(a, b),
    "logaddexp": lambda a, b: torch.logaddexp(a, b),
    # Losses.
    "mse": lambda a, b: functional.mse_loss(a, b, reduction="none"),
    "l1": lambda a, b: functional.l1_loss(a, b, reduction="none"),
    "smooth_l1": lambda a, b: functional.smooth_l1_loss(a, b, reduction="none"),
    "huber": lambda a, b: functional.huber_loss(a, b, reduction="none"),
    "bce_with_logits": lambda a, b: functional.binary_cross_entropy_with_logits(a, b, reduction="none"),
    "glu": lambda a, b: functional.glu(torch.stack([a, b], -1)),
    "where_zero_gradient": lambda a, b: torch.where(a > 0, a.sqrt(), 0.0),
}

REDUCTIONS: Mapping[str, Case] = {
    "amax": lambda x, y: x.amax(1),
    "amin": lambda x, y: x.amin(1),
    "amax_rows": lambda x, y: x.amax(0),
    "amax_all": lambda x, y: x[:3].amax(),
    "aminmax": lambda x, y: torch.stack(torch.aminmax(x, dim=1)),
    "max": lambda x, y: x[:1].max(),
    "max_nan": lambda x, y: x.max(),
    "min_nan": lambda x, y: x.min(),
    "max_values": lambda x, y: x.max(1).values,
    "max_indices": lambda x, y: x.max(1).indices,
    "min_values": lambda x, y: x.min(1).values,
    "min_indices": lambda x, y: x.min(1).indices,
    "argmax": lambda x, y: x.argmax(1),
    "argmin": lambda x, y: x.argmin(1),
    "argmax_all": lambda x, y: x.argmax(),
    "any": lambda x, y: x.any(1),
    "all": lambda x, y: x.all(1),
    "any_isnan": lambda x, y: x.isnan().any(1),
    "all_isfinite": lambda x, y: x.isfinite().all(),
    "count_nonzero": lambda x, y: torch.count_nonzero(x, 1),
    "sum": lambda x, y: x.sum(1),
    "mean": lambda x, y: x.mean(1),
    "prod": lambda x, y: x.detach().prod(1),
    "var": lambda x, y: x.var(1),
    "std": lambda x, y: x.std(1),
    "nansum": lambda x, y: torch.nansum(x, 1),
    "nanmean": lambda x, y: torch.nanmean(x, 1),
    "cumsum": lambda x, y: x.cumsum(1),
    "norm": lambda x, y: x.norm(dim=1),
    "norm_1": lambda x, y: x.norm(p=1, dim=1),
    "norm_inf": lambda x, y: x.norm(p=INF, dim=1),
    "norm_minus_inf": lambda x, y: x.norm(p=-INF, dim=1),
    "normalize": lambda x, y: functional.normalize(x, dim=1),
    "softmax": lambda x, y: x.softmax(1),
    "softmax_rows": lambda x, y: x.softmax(0),
    "log_softmax": lambda x, y: x.log_softmax(1),
    "logsumexp": lambda x, y: x.logsumexp(1),
    "softmin": lambda x, y: functional.softmin(x, 1),
    "layer_norm": lambda x, y: functional.layer_norm(x, [9]),
    "rms_norm": lambda x, y: functional.rms_norm(x, [9], eps=1e-6),
    "group_norm": lambda x, y: functional.group_norm(x, 3),
    "cross_entropy": lambda x, y: functional.cross_entropy(x, torch.arange(len(x)) % 9, reduction="none"),
    "cross_entropy_mean": lambda x, y: functional.cross_entropy(x[:1], torch.tensor([3])),
    "cross_entropy_nan": lambda x, y: functional.cross_entropy(x[:2], torch.tensor([3, 4])),
    "cross_entropy_inf": lambda x, y: functional.cross_entropy(x[7:8], torch.tensor([3])),
    "cross_entropy_inf_target": lambda x, y: functional.cross_entropy(x[7:8], torch.tensor([0])),
    "cross_entropy_smooth": lambda x, y: functional.cross_entropy(x[7:8], torch.tensor([3]), label_smoothing=0.1),
    "cross_entropy_ignored": lambda x, y: functional.cross_entropy(x[:2], torch.tensor([3, -100])),
    "cross_entropy_soft": lambda x, y: functional.cross_entropy(
        x, functional.one_hot(torch.arange(len(x)) % 9, 9).to(x.dtype), reduction="none"
    ),
    "nll": lambda x, y: functional.nll_loss(x, torch.arange(len(x)) % 9, reduction="none"),
    "kl_div": lambda x, y: functional.kl_div(x, y, reduction="none"),
    "matmul": lambda x, y: x @ y.T,
    "linear": lambda x, y: functional.linear(x, y),
    "bmm": lambda x, y: (x.unsqueeze(0) @ y.T.unsqueeze(0))[0],
    "attention": lambda x, y: functional.scaled_dot_product_attention(x[None, None], y[None, None], x[None, None] + y),
    "attention_finite": lambda x, y: functional.scaled_dot_product_attention(*(_finite(z) for z in (x, x + y, y))),
    "attention_causal_nan": lambda x, y: functional.scaled_dot_product_attention(
        *(_finite(z) for z in (x, x + 1)), y[None, None], is_causal=True
    ),
    "attention_mask": lambda x, y: functional.scaled_dot_product_attention(
        *(_finite(z) for z in (x, x + y, y)),
        attn_mask=(torch.arange(20)[:, None] % 3 != 1) & (torch.arange(20) % 2 == 0),
    ),
    "attention_bias": lambda x, y: functional.scaled_dot_product_attention(
        *(_finite(z) for z in (x, x + y, y)),
        attn_mask=torch.where(torch.arange(20)[:, None] % 3 != 1, 0.0, -INF).to(x.dtype).expand(20, 20),
    ),
    "softmax_masked": lambda x, y: (0.2 * y).masked_fill(torch.arange(9) != 4, -INF).softmax(-1),
    "softmax_masked_rows": lambda x, y: y.masked_fill(torch.arange(20)[:, None] % 3 == 1, -INF).softmax(-1),
    "max_pool1d": lambda x, y: functional.max_pool1d(x.detach()[None], 3),
    "max_pool2d": lambda x, y: functional.max_pool2d(x[None, None], 3, 2, 1),
    "max_pool2d_dilated": lambda x, y: functional.max_pool2d(x[None, None], 2, 1, 1, 2),
    "max_pool2d_ceil": lambda x, y: functional.max_pool2d(x.detach()[None, None], 2, ceil_mode=True),
    "max_pool3d": lambda x, y: functional.max_pool3d(x.detach()[None, None, :, None], (3, 1, 3)),
    "avg_pool2d": lambda x, y: functional.avg_pool2d(x.detach()[None, None], 3, 2, 1),
    #     "adaptive_max_pool2d": lambda x, y: functional.adaptive_max_pool2d(x.detach()[None, None], 3),
    #     "adaptive_avg_pool2d": lambda x, y: functional.adaptive_avg_pool2d(x.detach()[None, None], 3),
    "conv2d": lambda x, y: functional.conv2d(x[None, None], y[None, None, :3, :3], padding=1),
    "embedding": lambda x, y: functional.embedding(torch.arange(5), x),
    "gather": lambda x, y: x.gather(1, torch.arange(9).expand_as(x).flip(1)),
    "index_select": lambda x, y: x.index_select(0, torch.tensor([8, 0, 0])),
    "index": lambda x, y: x[torch.tensor([1, 1, 4])],
    "scatter_add": lambda x, y: torch.zeros_like(x).scatter_add(1, (torch.arange(9) % 4).expand_as(x), x),
    "triu": lambda x, y: x.triu(),
    "tril": lambda x, y: x.tril(),
    "pad": lambda x, y: functional.pad(x, [1, 1], value=NAN),
    "cosine": lambda x, y: functional.cosine_similarity(x, y),
    "interpolate": lambda x, y: functional.interpolate(x[None, None], scale_factor=2.0),
    "batch_norm": lambda x, y: functional.batch_norm(x, None, None, training=True),
    "diff": lambda x, y: x.diff(dim=1),
    "where_rows": lambda x, y: torch.where(x.isnan().any(1, keepdim=True), 0.0, x),
}


class Sweep(nn.Module):
    """Runs `cases` on (x + p, y + q), where each case has minus zeros of its own for p and q: they change nothing."""

    def __init__(self, cases: Mapping[str, Case], shape: torch.Size, dtype: torch.dtype) -> None:
        super().__init__()
        self.cases = dict(cases)
        self.p = nn.Parameter(torch.full([len(cases), *shape], -0.0, dtype=dtype))
        self.q = nn.Parameter(torch.full([len(cases), *shape], -0.0, dtype=dtype))

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """The result of each case by name."""
        parts = zip(self.cases.items(), self.p.unbind(), self.q.unbind(), strict=True)
        return {name: case(x + p, y + q) for (name, case), p, q in parts}


def loss(outputs: Mapping[str, Tensor], scale: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """A weighted sum of all results, so that each gets a finite gradient of its own, and the results themselves."""
    total = scale.sum()
    for value in outputs.values():
        if value.requires_grad:
            weights = (torch.arange(value.numel()) % 5 + 1.0).reshape(value.shape)
            total = total + (value.float() * weights).sum()
    return total, {name: value.detach() for name, value in outputs.items()}

"""Attention that cuDNN may compute: forward, of wide heads, without dropout and without a mask but the causal one.

There it is faster than dmc's own kernel (docs/performance.md); the tuning table decides. Where a plan does not align a
buffer, dmc's own kernel takes its place.
"""

from __future__ import annotations

from dmc.analysis.kernels.problems import PlacedProblem
from dmc.dtypes import NARROW
from dmc.kernels.attention_shape import Operands
from dmc.kernels.problem import TensorType
from dmc.program.code import Attention, Heads, Place

# Heads up to this width are faster by dmc's own kernel.
_NARROW, _WIDEST = 64, 128
# Of widths and strides, in elements: 16 bytes.
_ALIGNMENT = 8
# In bytes. The library asked for less for every shape that was measured.
_WORKSPACE = 1 << 20


def attention_of(placed: PlacedProblem) -> Attention | None:
    """The library's step for a problem; None where it is not one of these."""
    problem = placed.problem
    if problem.kind != "attention":
        return None
    named, causal = Operands.of(problem), bool(problem.get("causal", False))
    tensors, out = (named.q, named.k, named.v), named.out
    dtype = NARROW.get(named.q.dtype)
    if dtype is None or problem.number("p") or named.bias is not None:
        return None
    if not all(_is_supported(each) for each in (*tensors, out)):
        return None
    if causal and named.q.shape[2] != named.k.shape[2]:
        return None
    q, k, v = (_heads(place, type_) for place, type_ in zip(placed.operands, tensors, strict=False))
    made, level = placed.results[:2]
    scale, workspace = problem.number("scale"), Place("scratch", 0, 0, _WORKSPACE)
    return Attention(q, k, v, _heads(made, out), level, dtype, scale, causal, workspace)


def _is_supported(tensor: TensorType) -> bool:
    width, steps = tensor.shape[-1], tensor.steps()
    is_wide = _NARROW < width <= _WIDEST and width % _ALIGNMENT == 0
    return is_wide and steps[-1] == 1 and all(step > 0 and step % _ALIGNMENT == 0 for step in steps[:3])


def _heads(place: Place, type_: TensorType) -> Heads:
    (batch, heads, rows, width), (a, b, c, d) = type_.shape, type_.steps()
    return Heads(place, (batch, heads, rows, width), (a, b, c, d))

"""The lower bounds that a plan implies; see `dmc.program.movements.Bound` for definitions and references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from dmc.mesh import Mesh
from dmc.plans.resolved import ResolvedPlan
from dmc.plans.tensors import TensorPlan
from dmc.plans.uneven import local_shape
from dmc.program.movements import Bound

# The recipe names of the rules of `dmc/plans/megatron.py`.
_READY = "megatron"
# Bytes of one element, by the path of the moved value.
Widths = Mapping[str, int]


def bounds_of(plan: ResolvedPlan, widths: Widths) -> tuple[Bound, ...]:
    """The bounds of trained tensors, then those of tensor-parallel modules.

    widths: the element sizes in which the step moves tensors (all listed) and activations of modules.
    """
    return (*_of_tensors(plan, widths), *_of_modules(plan, widths))


def _of_tensors(plan: ResolvedPlan, widths: Widths) -> Iterator[Bound]:
    """One per tensor whose gradient is summed over several ranks."""
    for tensor in plan.tensors.values():
        axes = tuple(use.axis for use in tensor.gradient.partial) if tensor.gradient is not None else ()
        local = local_shape(tensor.spec.shape, tensor.used, plan.mesh, tensor.pads)
        size = prod(local) * widths[tensor.spec.name]
        if plan.mesh.group_size(axes) > 1:
            yield Bound(tensor.spec.name, axes, 2 * _to_others(plan.mesh, axes, size))


def _of_modules(plan: ResolvedPlan, widths: Widths) -> Iterator[Bound]:
    """One per module with matrices split by columns and by rows over one axis, if the activation is known."""
    tokens, narrowest = _tokens(plan), _narrowest(plan, widths)
    if tokens is None:
        return
    # Sequence parallelism also splits the values between these modules, and moves them there.
    uses = [use for each in plan.activations if each.side == "input" for uses in each.dims.values() for use in uses]
    uses += [use for each in plan.inputs.values() for use in each.layout.uses]
    others = {use.axis for use in uses}
    for (module, axis), matrices in _matrices(plan).items():
        # A matrix [in, out] or [out, in] is split along one dimension; the other is the width of the activation.
        dims, outer = {dim for dim, _ in matrices}, {tensor.spec.shape[1 - dim] for dim, tensor in matrices}
        is_known = module in narrowest and axis not in others
        if is_known and len(dims) == 2 and len(outer) == 1:
            size = tokens * outer.pop() * narrowest[module]
            yield Bound(module, (axis,), 2 * 2 * _to_others(plan.mesh, (axis,), size))


def _narrowest(plan: ResolvedPlan, widths: Widths) -> dict[str, int]:
    """By module path, the element size of the narrowest type in which its activations are moved."""
    narrowest: dict[str, int] = {}
    for path, width in widths.items():
        module = "" if path in plan.tensors else path
        while module:
            narrowest[module] = min(width, narrowest.get(module, width))
            module = module.rpartition(".")[0]
    return narrowest


def _matrices(plan: ResolvedPlan) -> dict[tuple[str, str], list[tuple[int, TensorPlan]]]:
    """By module and axis, the matrices of its layers that a ready-made plan splits over that axis only, and the split
    dimension."""
    found: dict[tuple[str, str], list[tuple[int, TensorPlan]]] = {}
    for name, tensor in plan.tensors.items():
        splits = [(dim, use) for dim, uses in enumerate(tensor.used.dims) for use in uses]
        # For other plans it is unknown which of two matrices splits columns: the one read first.
        if len(tensor.spec.shape) == 2 and len(splits) == 1 and splits[0][1].rule.startswith(_READY):
            (dim, use), module = splits[0], name.rpartition(".")[0].rpartition(".")[0]
            found.setdefault((module, use.axis), []).append((dim, tensor))
    return found


def _tokens(plan: ResolvedPlan) -> int | None:
    """The number of tokens per rank; None unless all inputs are tokens, [batch, length]."""
    inputs = [each for each in plan.inputs.values() if len(each.spec.shape) > 1]
    shapes = {local_shape(each.spec.shape, each.layout, plan.mesh, each.pads) for each in inputs}
    are_tokens = all(each.spec.dtype == "i64" for each in inputs)
    return prod(shapes.pop()) if are_tokens and len(shapes) == 1 else None


def _to_others(mesh: Mesh, axes: tuple[str, ...], size: int) -> int:
    """(n-1)T per group."""
    n = mesh.group_size(axes)
    return mesh.size // n * (n - 1) * size

"""The lower bounds that a plan implies; see `dmc.runtime.ledger.Bound` for what they are and who proved them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from dmc.mesh import Mesh
from dmc.plans.resolved import ResolvedPlan
from dmc.plans.tensors import TensorPlan
from dmc.runtime.movements import Bound

# What the rules of `dmc/plans/megatron.py` say they are of.
_READY = "megatron_"
# Bytes of one element, by the path of what is moved.
Widths = Mapping[str, int]


def bounds_of(plan: ResolvedPlan, widths: Widths) -> tuple[Bound, ...]:
    """The bounds of trained tensors, then those of tensor-parallel modules.

    widths: in which type the step moves a tensor or the activation of a module; of tensors all are there.
    """
    return (*_of_tensors(plan, widths), *_of_modules(plan, widths))


def _of_tensors(plan: ResolvedPlan, widths: Widths) -> Iterator[Bound]:
    """One for each tensor of which several ranks make a part of the gradient."""
    for tensor in plan.tensors.values():
        axes = tuple(use.axis for use in tensor.gradient.partial) if tensor.gradient is not None else ()
        local = tensor.used.placement().local_shape(plan.mesh, tensor.spec.shape)
        size = prod(local) * widths[tensor.spec.name]
        if plan.mesh.group_size(axes) > 1:
            yield Bound(tensor.spec.name, axes, 2 * _to_others(plan.mesh, axes, size))


def _of_modules(plan: ResolvedPlan, widths: Widths) -> Iterator[Bound]:
    """One for each module with matrices split by columns and by rows over one axis, where the activation is known."""
    tokens, narrowest = _tokens(plan), _narrowest(plan, widths)
    if tokens is None:
        return
    # Sequence parallelism also splits what stands between these modules, and moves it there.
    uses = [use for each in plan.activations if each.side == "input" for uses in each.dims.values() for use in uses]
    uses += [use for each in plan.inputs.values() for use in each.layout.uses]
    others = {use.axis for use in uses}
    for (module, axis), matrices in _matrices(plan).items():
        # A matrix [in, out] or [out, in] is split along one of both; the other is the width of the activation.
        dims, outer = {dim for dim, _ in matrices}, {tensor.spec.shape[1 - dim] for dim, tensor in matrices}
        is_known = module in narrowest and axis not in others
        if is_known and len(dims) == 2 and len(outer) == 1:
            size = tokens * outer.pop() * narrowest[module]
            yield Bound(module, (axis,), 2 * 2 * _to_others(plan.mesh, (axis,), size))


def _narrowest(plan: ResolvedPlan, widths: Widths) -> dict[str, int]:
    """By path of a module, the bytes of one element in the narrowest type in which activations in it are moved."""
    narrowest: dict[str, int] = {}
    for path, width in widths.items():
        module = "" if path in plan.tensors else path
        while module:
            narrowest[module] = min(width, narrowest.get(module, width))
            module = module.rpartition(".")[0]
    return narrowest


def _matrices(plan: ResolvedPlan) -> dict[tuple[str, str], list[tuple[int, TensorPlan]]]:
    """By module and axis, the matrices of its layers that a ready plan splits, over the axis alone, each with where."""
    found: dict[tuple[str, str], list[tuple[int, TensorPlan]]] = {}
    for name, tensor in plan.tensors.items():
        splits = [(dim, use) for dim, uses in enumerate(tensor.used.dims) for use in uses]
        # Of another plan nobody knows which of two matrices splits columns: that which is read first.
        if len(tensor.spec.shape) == 2 and len(splits) == 1 and splits[0][1].rule.startswith(_READY):
            (dim, use), module = splits[0], name.rpartition(".")[0].rpartition(".")[0]
            found.setdefault((module, use.axis), []).append((dim, tensor))
    return found


def _tokens(plan: ResolvedPlan) -> int | None:
    """How many tokens a rank computes; None where the inputs are not all of tokens, [batch, length]."""
    inputs = [each for each in plan.inputs.values() if len(each.spec.shape) > 1]
    shapes = {each.layout.placement().local_shape(plan.mesh, each.spec.shape) for each in inputs}
    are_tokens = all(each.spec.dtype == "i64" for each in inputs)
    return prod(shapes.pop()) if are_tokens and len(shapes) == 1 else None


def _to_others(mesh: Mesh, axes: tuple[str, ...], size: int) -> int:
    """(n-1)T in every group."""
    n = mesh.group_size(axes)
    return mesh.size // n * (n - 1) * size

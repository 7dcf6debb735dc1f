"""dm-lower-reshard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import singledispatch

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.dialect.labels import Label, label_of, place_of, put_label
from dmc.dialect.placements import mesh_of, placement_of
from dmc.passes.base import Pass
from dmc.passes.shared.reshapes import COLLAPSE, EXPAND, reshape
from dmc.placement.path import cheapest_path
from dmc.placement.steps import AllGather, AllReduce, AllSlice, AllToAll, Permute, ReduceScatter, Step
from dmc.placement.transitions import Tensor
from dmc.walk import listed


@dataclass(frozen=True)
class LowerReshard(Pass):
    """Replaces every `dm.reshard` by the sequence of collectives and local slices that moves the fewest bytes.

    `reshard(%x) from [], sum over dp to [dp]` becomes `reduce_scatter(%x) {dim = 0, group = dp}`. The steps and their
    costs are in `dmc/placement/transitions.py`. Sums of floats narrower than f32 are accumulated in f32. Its
    collectives inherit the reshard's labels (`dmc/dialect/labels.py`); without a reason, its reader is the reason.
    """

    name = "dm-lower-reshard"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError where a rule of the dialect does not hold, such as a reduction undefined for the element
        type."""
        dm.verify_symbols(module)
        symbols = dm.Symbols.of(module)
        for op in [op for op in listed(module.operation) if op.name == dm.ReshardOp.OPERATION_NAME]:
            _lower(op, symbols)


def _lower(op: ir.Operation, symbols: dm.Symbols) -> None:
    reshard = op.opview
    mesh = mesh_of(symbols.ops[reshard.source.mesh.value].opview)
    source, target = placement_of(reshard.source), placement_of(reshard.target)
    shape = source.whole_shape(mesh, reshard.input.type.shape)
    # The cheapest path does not depend on the element size.
    tensor = Tensor(mesh, shape, element_bytes=1)
    value = reshard.input
    with op.location, ir.InsertionPoint(op):
        for step in cheapest_path(source, target, tensor):
            group = dm.group(reshard.source.mesh.value, step.axes)
            result = ir.RankedTensorType.get(step.target.local_shape(mesh, shape), value.type.element_type)
            value = _emit_in_blocks(step, value, result, group)
    _put_label_down_to(reshard.input, value, _label(op))
    reshard.result.replace_all_uses_with(value)
    op.erase()


def _label(op: ir.Operation) -> Label:
    label = label_of(op)
    return label if label.why else replace(label, why=_reader(op))


def _reader(op: ir.Operation) -> str:
    """Module and operation of the result's reader, or "" where locations do not tell."""
    readers = [use.owner.operation for use in op.results[0].uses]
    if not readers:
        return ""
    # The latest use is listed first.
    if readers[-1].name == op.name:
        return _reader(readers[-1])
    place = place_of(readers[-1].location).partition(" (")[0]
    return place if "#" in place else ""


def _put_label_down_to(first: ir.Value, value: ir.Value, label: Label) -> None:
    """Labels the movements in the chain of operations from `first` to `value`."""
    while value != first:
        op = value.owner.operation
        if op.name.startswith("dm."):
            put_label(op, label)
        value = op.operands[0]


def _emit_in_blocks(step: Step, value: ir.Value, result: ir.RankedTensorType, group: dm.GroupAttr) -> ir.Value:
    """The result of `step`; a dimension of k blocks is temporarily two dimensions, and the step acts on the second."""
    blocks = dict(step.blocks)
    if not blocks:
        return _emit(step, value, result, group).result
    place = {dim: dim + sum(other <= dim for other in blocks) for dim in range(result.rank)}
    dims = {name: place[getattr(step, name)] for name in ("dim", "split_dim", "concat_dim") if hasattr(step, name)}
    groups = [[place[dim] - 1, place[dim]] if dim in blocks else [place[dim]] for dim in range(result.rank)]
    apart = reshape(EXPAND, value, _apart(value.type, blocks), groups)
    done = _emit(replace(step, **dims), apart, _apart(result, blocks), group)
    return reshape(COLLAPSE, done.result, result, groups)


def _apart(kind: ir.RankedTensorType, blocks: Mapping[int, int]) -> ir.RankedTensorType:
    shape: list[int] = []
    for dim, size in enumerate(kind.shape):
        shape += [blocks[dim], size // blocks[dim]] if dim in blocks else [size]
    return ir.RankedTensorType.get(shape, kind.element_type)


def _accumulate(element: ir.Type) -> ir.Type:
    is_narrow = isinstance(element, ir.FloatType) and element.width < 32
    return ir.F32Type.get() if is_narrow else element


@singledispatch
def _emit(step: Step, value: ir.Value, result: ir.Type, group: dm.GroupAttr) -> ir.OpView:
    """The op of `step`, at the current insertion point."""
    raise NotImplementedError(type(step).__name__)


@_emit.register
def _(step: AllGather, value: ir.Value, result: ir.Type, group: dm.GroupAttr) -> ir.OpView:
    return dm.all_gather(value, result=result, dim=step.dim, group=group)


@_emit.register
def _(step: AllSlice, value: ir.Value, result: ir.Type, group: dm.GroupAttr) -> ir.OpView:
    return dm.all_slice(value, result=result, dim=step.dim, group=group)


@_emit.register
def _(step: AllToAll, value: ir.Value, result: ir.Type, group: dm.GroupAttr) -> ir.OpView:
    return dm.all_to_all(value, result=result, split_dim=step.split_dim, concat_dim=step.concat_dim, group=group)


@_emit.register
def _(step: ReduceScatter, value: ir.Value, result: ir.Type, group: dm.GroupAttr) -> ir.OpView:
    accumulate = _accumulate(result.element_type)
    return dm.reduce_scatter(
        value, result=result, dim=step.dim, reduction=step.kind, accumulate=accumulate, group=group
    )


@_emit.register
def _(step: AllReduce, value: ir.Value, result: ir.Type, group: dm.GroupAttr) -> ir.OpView:
    return dm.all_reduce(value, reduction=step.kind, accumulate=_accumulate(result.element_type), group=group)


@_emit.register
def _(step: Permute, value: ir.Value, result: ir.Type, group: dm.GroupAttr) -> ir.OpView:
    return dm.permute(value, source_target_pairs=step.pairs, group=group)

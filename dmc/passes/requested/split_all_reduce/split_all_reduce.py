"""dm-split-all-reduce."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.ranks.sameness import Axes, differing_axes
from dmc.dialect.labels import Label, kernel_label_of, label_of, put_kernel_label, put_label
from dmc.dialect.plan import type_bytes
from dmc.errors import DmcError
from dmc.passes.base import Pass
from dmc.passes.requested.split_all_reduce.pieces import Pieces
from dmc.passes.requested.split_all_reduce.regions import Region, Regions
from dmc.passes.shared.kernel_functions import KernelFunctions
from dmc.passes.shared.report import named, print_table
from dmc.passes.shared.starts import starts_in
from dmc.step_function import find_step, functions, symbol

HEAD = ("movement", "bytes", "kernels on pieces", "gathered bytes", "why it stays")


@dataclass(frozen=True)
class SplitAllReduce(Pass):
    """Replaces an all-reduce by a reduce-scatter where what follows can be computed piece by piece.

    `update(%w, all_reduce(%g))` becomes `all_gather(update_piece(all_slice(%w), reduce_scatter(%g)))`: the same bytes
    are sent, each rank computes its piece only, and the gather can wait until the new value is read. Later slices
    become free. A kernel computes pieces where its loops allow (`analysis/loops/rows.py`) and all ranks would compute
    the same (`analysis/ranks/sameness.py`).

    The reduction stays where more bytes would be gathered than it returns (the state of Adam; plans place that), where
    nothing is computed in between, where its first dimension is not divisible by the ranks, and, unless nothing is
    gathered, where it is smaller than `min_bytes`: then latency dominates, and one movement is better than two.
    reasons: print the outcome of each on stderr. About linear in the number of operations.
    """

    name = "dm-split-all-reduce"
    min_bytes: int = 2**20
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for violated rules of `dm`, and for an all-reduce that is already started."""
        dm.verify_symbols(module)
        step = find_step(module)
        for start in starts_in(step.entry_block):
            if isinstance(dm.movement_of(start), dm.AllReduceOp):
                raise DmcError(
                    start.operation, "already starts an all-reduce", "run dm-split-all-reduce before dm-async"
                )
        every = frozenset(axis.value for op in module.body.operations if isinstance(op, dm.MeshOp) for axis in op.axes)
        differing = dict(differing_axes(step, every))
        bodies = {symbol(function): function for function in functions(module)}
        pieces = Pieces(bodies, KernelFunctions(module))
        regions = Regions(dm.Symbols.of(module), every, differing, pieces)
        rows: list[tuple[object, ...]] = []
        for view in [view for view in step.entry_block.operations if isinstance(view, dm.AllReduceOp)]:
            region = regions.find(view)
            if not region.obstacle and region.gathered and type_bytes(view.result.type) < self.min_bytes:
                region.obstacle = f"smaller than {self.min_bytes} bytes"
            rows.append(_row(region))
            if not region.obstacle and region.ops:
                _Splitting(region, pieces, differing).apply()
        if self.reasons:
            print_table(HEAD, rows)


def _row(region: Region) -> tuple[object, ...]:
    gathered = 0 if region.obstacle else sum(type_bytes(value.type) for value in region.gathered)
    size = type_bytes(region.reduced.result.type)
    return (named(region.reduced.operation), size, len(region.kernels), gathered, region.obstacle)


class _Splitting:
    """Replaces whole values by pieces. piece, gathered: those available, by the whole value."""

    def __init__(self, region: Region, pieces: Pieces, differing: dict[ir.Value, Axes]) -> None:
        self._region = region
        self._pieces = pieces
        self._differing = differing
        self._piece: dict[ir.Value, ir.Value] = {}
        self._gathered: dict[ir.Value, ir.Value] = {}

    def apply(self) -> None:
        """Rewrites the region; the reduction and the operations on whole values are erased."""
        reduced = self._region.reduced
        with reduced.operation.location, ir.InsertionPoint(reduced.operation):
            scattered = dm.reduce_scatter(
                reduced.input,
                result=self._type(reduced.result),
                dim=0,
                reduction=reduced.reduction.value,
                accumulate=reduced.accumulate.value,
                group=reduced.group,
            )
            put_label(scattered.operation, label_of(reduced.operation))
            self._made([reduced.result], [scattered.result])
        for op in self._region.ops:
            with op.location, ir.InsertionPoint(op):
                self._rewrite(op)
        for value, gathered in self._gathered.items():
            value.replace_all_uses_with(gathered)
        for op in reversed([reduced.operation, *self._region.ops]):
            op.erase()

    def _rewrite(self, op: ir.Operation) -> None:
        if isinstance(op.opview, dm.AllSliceOp):
            op.results[0].replace_all_uses_with(self._piece[op.operands[0]])
        elif op in self._region.kernels:
            self._made(list(op.results), self._kernel(op.opview))
        else:
            view = op.clone()
            view.operands[0] = self._piece[op.operands[0]]
            view.results[0].set_type(self._type(op.results[0]))
            if "static_output_shape" in view.attributes:
                view.attributes["static_output_shape"] = ir.DenseI64ArrayAttr.get(view.results[0].type.shape)
            self._made([op.results[0]], [view.results[0]])

    def _kernel(self, op: Any) -> list[ir.Value]:
        piece = self._region.kernels[op.operation]
        operands = [self._sliced(each) if i in piece.given else each for i, each in enumerate(op.inputs)]
        outputs = [self._type(each) for each in op.outputs]
        traffic = sum(map(type_bytes, (*(each.type for each in operands), *outputs)))
        flops = None if op.flops is None else op.flops.value // self._region.parts
        kernel = dm.kernel(operands, outputs=outputs, body=self._pieces.build(piece), flops=flops, bytes=traffic)
        put_kernel_label(kernel.operation, kernel_label_of(op.operation))
        return list(kernel.outputs)

    def _sliced(self, value: ir.Value) -> ir.Value:
        """This rank's piece of a value: a computed one, or a slice of the whole."""
        if value in self._piece:
            return self._piece[value]
        group = self._region.reduced.group
        return dm.all_slice(value, result=self._type(value), dim=0, group=group).result

    def _made(self, whole: list[ir.Value], pieces: list[ir.Value]) -> None:
        """Registers values that come in pieces from here on; those that others read whole are gathered at once."""
        for value, piece in zip(whole, pieces, strict=True):
            self._piece[value] = piece
            if value in self._region.gathered:
                gathered = dm.all_gather(piece, result=value.type, dim=0, group=self._region.reduced.group)
                put_label(gathered.operation, self._label(value))
                self._differing[gathered.result] = self._differing[value]
                self._gathered[value] = gathered.result

    def _label(self, value: ir.Value) -> Label:
        """A new value is named after the tensor of its gradient; a reduction that is gathered again keeps its name."""
        label = label_of(self._region.reduced.operation)
        is_gradient = value == self._region.reduced.result
        return label if is_gradient else Label(label.tensor.removeprefix("gradient of "), label.why)

    def _type(self, value: ir.Value) -> ir.Type:
        first, *others = value.type.shape
        return ir.RankedTensorType.get([first // self._region.parts, *others], value.type.element_type)

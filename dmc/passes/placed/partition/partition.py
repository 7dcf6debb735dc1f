"""dm-partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.kernels.graph import outer_reads
from dmc.analysis.labels.values import value_labels
from dmc.analysis.loops.rules import captured
from dmc.analysis.loops.splats import is_splat
from dmc.analysis.sharding import attributes as sharding_attributes
from dmc.analysis.sharding.decisions import LOOP, Decision, Ends, key_of
from dmc.analysis.sharding.ends import SHARDING, USED, ends_of, find_mesh, has_mesh
from dmc.analysis.sharding.views import is_view
from dmc.dialect.kinds import traits_of
from dmc.dialect.paddings import OWN_SIZES
from dmc.dialect.placements import sharding_of
from dmc.passes.base import Pass
from dmc.passes.placed.partition.composites import Parts, with_places
from dmc.passes.placed.partition.versions import Versions, View
from dmc.passes.placed.partition.vocabulary import look_up
from dmc.passes.shared.local_ops import iota_of, localise, read_places, retype
from dmc.placement.placement import Placement, replicated
from dmc.step_function import find_step


@dataclass(frozen=True)
class Partition(Pass):
    """Rewrites `@step` to the program of one rank, with a `dm.reshard` wherever a value is needed in another placement.

    `%y = matmul(%x, %w)` with `dm.loops = [["dp"], [], []]` (see dm-propagate-sharding) computes its rows of `%y` from
    its rows of `%x`; a `%w` that is split is gathered first. Arguments and results have the placements of their
    `dm.sharding`; an operation without attributes is computed on whole values. A reshard directly follows its operand,
    once for all readers. The index in a split loop (`linalg.index`) is read from a slice of 0, 1, 2 … instead. A split
    composite gets its own decomposition for one rank's part. Without a mesh nothing changes.
    """

    name = "dm-partition"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for several meshes, inconsistent attributes, and a composite whose part needs another rank's
        data."""
        if not has_mesh(module):
            return
        dm.verify_symbols(module)
        symbol, mesh = find_mesh(module)
        step = find_step(module)
        ends = ends_of(step, mesh)
        decisions = sharding_attributes.read(step, mesh)
        sharding_attributes.erase(step)
        parts = Parts(module)
        with step.operation.location:
            _Body(decisions, parts, Versions(mesh, symbol, value_labels(step)), step.entry_block).run(ends)
            retype(step)
            _state_ends(step, ends, symbol)
        parts.erase_unused()


@dataclass
class _Body:
    decisions: Mapping[ir.Value, Decision]
    parts: Parts
    versions: Versions
    entry: ir.Block
    iotas: dict[int, ir.Value] = field(default_factory=dict)

    def run(self, ends: Ends) -> None:
        placed = {
            argument: (stored, used or stored)
            for argument, stored, used in zip(self.entry.arguments, ends.arguments, ends.used, strict=True)
            if stored is not None
        }
        for argument, (stored, _) in placed.items():
            self.versions.define(argument, stored)
        # What is gathered first should arrive first.
        for argument in _as_read(self.entry, placed):
            self.versions.get(argument, placed[argument][1])
        splats = self.block(self.entry, ends.results)
        for op in reversed(splats):
            if all(next(iter(result.uses), None) is None for result in op.results):
                op.erase()

    def block(self, block: ir.Block, leaving: Sequence[Placement | None]) -> list[ir.Operation]:
        """Partitions every operation of `block`; returns those that produce splats, which may become unused."""
        *body, terminator = [view.operation for view in block.operations]
        splats: list[ir.Operation] = []
        for op in body:
            if len(op.results) == 1 and is_splat(op.results[0]):
                splats.append(op)
            elif op.name == LOOP:
                splats += self.loop(op)
            elif len(op.results) and key_of(op) in self.decisions:
                self.op(op)
        for i, placement in enumerate(leaving):
            if placement is not None:
                terminator.operands[i] = self.versions.get(terminator.operands[i], placement)
        return splats

    def op(self, op: ir.Operation) -> None:
        decision = self.decisions[key_of(op)]
        loops, split, given = decision.loops, decision.choice.split, tuple(op.operands)
        for inner, i in list(captured(op)) if len(op.regions) else ():
            value = inner.operands[i]
            inner.operands[i] = self.versions.get(value, replicated(value.type.rank))
        for i, dims in enumerate(loops.operands):
            if dims is not None:
                find = self.versions.shape_of if i in loops.unread else self.versions.get
                op.operands[i] = find(op.operands[i], loops.operand(i, split))
        if op.name == "linalg.generic":
            op = read_places(op, decision, self.iota)
        if op.name == dm.CompositeOp.OPERATION_NAME:
            op = self.numbered(op, decision)
            decision = replace(decision, op=op)
        tensors = [result for result in op.results if isinstance(result.type, ir.RankedTensorType)]
        for result, made in zip(tensors, decision.made, strict=True):
            self.versions.define(result, made)
        localise(op, decision)
        if op.name == dm.CompositeOp.OPERATION_NAME:
            self.parts.take(op, decision)
        if is_view(op):
            self.versions.views[op.results[0]] = View(loops, given)
        for result, kept in zip(tensors, decision.kept, strict=True):
            self.versions.kept(result, kept)

    def numbered(self, op: ir.Operation, decision: Decision) -> ir.Operation:
        """A composite that also takes the indices of a rank's iterations, if it needs them."""
        loops, split = decision.loops, decision.choice.split
        numbered = loops.numbered(split)
        own = list(ir.DenseI64ArrayAttr(op.attributes[OWN_SIZES])) if OWN_SIZES in op.attributes else []
        if own:
            del op.attributes[OWN_SIZES]
        if not numbered:
            return op
        sizes = [loops.loops[loop].size for loop in numbered]
        counts = [own[loop] for loop in numbered] if own else sizes
        places = [self.iota(size, split.along(loop)) for loop, size in zip(numbered, sizes, strict=True)]
        if not traits_of(op).is_lookup:
            return with_places(op, places, counts)
        self.parts.taken.add(ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value)
        (made,), (rows,), (count,) = decision.made, places, counts
        return look_up(op, rows, count, made.local_shape(self.versions.mesh, op.results[0].type.shape))

    def loop(self, op: ir.Operation) -> list[ir.Operation]:
        """Gives loop-carried values one placement before, in, between and after iterations."""
        (block,) = op.regions[0].blocks
        first = 3  # After the bounds and the step.
        tensors = [i for i, result in enumerate(op.results) if isinstance(result.type, ir.RankedTensorType)]
        carried: list[Placement | None] = [None] * len(op.results)
        for i, placement in zip(tensors, self.decisions[key_of(op)].made, strict=True):
            carried[i] = placement
            op.operands[first + i] = self.versions.get(op.operands[first + i], placement)
            self.versions.define(block.arguments[1 + i], placement)
            self.versions.define(op.results[i], placement)
        return self.block(block, carried)

    def iota(self, size: int, placement: Placement) -> ir.Value:
        if size not in self.iotas:
            self.iotas[size] = iota_of(self.entry, size)
            self.versions.define(self.iotas[size], replicated(1))
        return self.versions.get(self.iotas[size], placement)


def _state_ends(step: func.FuncOp, ends: Ends, symbol: str) -> None:
    """States the placement of every tensor argument and result of the step."""
    for name, placements in (("arg_attrs", ends.arguments), ("res_attrs", ends.results)):
        before = step.operation.attributes.get(name)
        given = [{} for _ in placements] if before is None else list(before)
        stated = [_stated(each, placement, symbol) for each, placement in zip(given, placements, strict=True)]
        step.operation.attributes[name] = ir.ArrayAttr.get(stated)


def _stated(given: Any, placement: Placement | None, symbol: str) -> ir.DictAttr:
    kept = {name: given[name] for name in _names(given) if name != USED}
    return ir.DictAttr.get(kept if placement is None else {**kept, SHARDING: sharding_of(placement, symbol)})


def _names(attributes: Any) -> list[str]:
    return [each.name for each in attributes]


def _as_read(block: ir.Block, arguments: Iterable[ir.Value]) -> list[ir.Value]:
    """Arguments of a block in the order in which its operations first read them."""
    first: dict[ir.Value, int] = {}
    for op in block.operations:
        for value in outer_reads(op.operation):
            first.setdefault(value, len(first))
    return sorted(arguments, key=lambda argument: first.get(argument, len(first)))

"""dm-pad-uneven."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dmc._mlir import func, ir
from dmc.analysis.sharding.ends import find_mesh, has_mesh
from dmc.analysis.sharding.pins import pins_in
from dmc.dialect.paddings import PADS, USED_PADS, pads_in
from dmc.passes.base import Pass
from dmc.passes.placed.pad_uneven.facts import COPIES, ZEROS
from dmc.passes.placed.pad_uneven.flow import Flow, Required
from dmc.passes.placed.pad_uneven.known import held_so
from dmc.passes.placed.pad_uneven.rewrite import Decompositions, Rewriter, functions_of
from dmc.passes.shared.local_ops import retype
from dmc.passes.shared.opened import decomposition, open_composites
from dmc.passes.shared.unread import erase_unread
from dmc.placement.pads import Pads
from dmc.program import HOST_ROLES
from dmc.step_function import arguments, find_step, results
from dmc.walk import terminator_of


@dataclass(frozen=True)
class PadUneven(Pass):
    """Pads dimensions of `@step` whose sizes the ranks do not divide, so that their parts are equal.

    `%y = matmul(%x, %w)`, with `%w: tensor<8x5xf32> {dm.pads = [[], [1, 5, 6]]}`, reads `%w: tensor<8x6xf32>`.
    State is padded with zeros and stays so; a batch with rows that it has already. What padding would change is kept
    from it: a sum reads zeros there, a maximum minus infinity, an operation that needs the size itself a slice; a cross
    entropy ignores such rows. State arrives and leaves with its padding, which the runtime adds and removes.
    """

    name = "dm-pad-uneven"

    def run(self, module: ir.Module) -> None:
        if not has_mesh(module):
            return
        step = find_step(module)
        own, used = _stated(step, PADS), _stated(step, USED_PADS)
        if own or any(any(pin.pads) for pin in pins_in(step).values()):
            _Step(module, step, own, used).run()


@dataclass
class _Step:
    """own: the padding of arguments, by index. used: that in which they are read, where it is another."""

    module: ir.Module
    step: func.FuncOp
    own: dict[int, Pads]
    used: dict[int, Pads]
    flow: Flow = field(init=False)

    def run(self) -> None:
        zeroes: dict[ir.Value, frozenset[int]] = {}
        while True:
            self._analyse(zeroes)
            names = {decomposition(op) for op in self.flow.opened.values()}
            if names:
                open_composites(self.module, self.step, names)
                zeroes = {}
                continue
            further = {value: dims | zeroes.get(value, frozenset()) for value, dims in self.flow.wanted.items()}
            if {**zeroes, **further} == zeroes:
                break
            zeroes |= further
        block = self.step.entry_block
        rewriter = Rewriter(self.flow, Decompositions(functions_of(self.module)))
        with self.step.operation.location:
            for index, pads in self.own.items():
                rewriter.versions.define(block.arguments[index], pads)
            rewriter.block(block, [None] * len(terminator_of(block).operands))
            self._return(rewriter)
            erase_unread(block)
            retype(self.step)
        self._erase(USED_PADS)

    def _analyse(self, zeroes: dict[ir.Value, frozenset[int]]) -> None:
        _, mesh = find_mesh(self.module)
        pins = {value: pin for value, pin in pins_in(self.step).items() if any(pin.pads)}
        required = {value: Required(pin.pads, pin.at.parts(mesh)) for value, pin in pins.items()}
        self.flow = Flow(functions_of(self.module), required=required, zeroes=zeroes)
        for index, pads in self.own.items():
            is_batch = arguments(self.step)[index].role in HOST_ROLES
            given = self.used.get(index, pads)
            argument = self.step.entry_block.arguments[index]
            if any(given):
                self.flow.held[argument] = held_so(given, COPIES if is_batch else ZEROS)
        self.flow.after(self.step.entry_block)

    def _return(self, rewriter: Rewriter) -> None:
        """State leaves as it came, its padding zero; other results have none."""
        returned = terminator_of(self.step.entry_block)
        names = {port.name: self.own[port.index] for port in arguments(self.step) if port.index in self.own}
        for port in results(self.step):
            value = returned.operands[port.index]
            if not isinstance(value.type, ir.RankedTensorType):
                continue
            pads = names[port.name] if port.name in names else (None,) * value.type.rank
            dims = tuple(
                dim for dim, pad in enumerate(pads) if pad is not None and not self.flow.known(value, dim, pad).is_zero
            )
            made = rewriter.versions.zeroed(value, pads, dims) if dims else rewriter.versions.get(value, pads)
            returned.operands[port.index] = made

    def _erase(self, name: str) -> None:
        every: list[Any] = list(self.step.operation.attributes["arg_attrs"])
        kept = [{each.name: each.attr for each in own if each.name != name} for own in every]
        self.step.operation.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in kept])


def _stated(step: func.FuncOp, name: str) -> dict[int, Pads]:
    attributes = step.operation.attributes.get("arg_attrs")
    every = () if attributes is None else list(attributes)
    return {index: pads_in(own[name]) for index, own in enumerate(every) if name in own}

"""The backward sweep: the splits of a value that all its readers prefer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from dmc._mlir import ir
from dmc.analysis.loops.loops import Loops, Split
from dmc.analysis.loops.rules import captured
from dmc.analysis.sharding.decisions import Decision
from dmc.analysis.sharding.pins import Pin
from dmc.placement.placement import Placement, replicated
from dmc.walk import terminator_of


def wishes_of(
    decisions: Sequence[Decision],
    returned: Sequence[tuple[ir.Value, Placement]],
    fixed: Mapping[ir.Value, Sequence[Placement]],
    pins: Mapping[ir.Value, Pin],
) -> dict[ir.Value, Placement]:
    """For each value the splits on which all its readers agree; a value that one reader needs whole is not split for
    another.

    `returned` are the function's results, with their placements. An operation not split over an axis passes its
    readers' preferences on to its operands. Along the axes to which a pin reshards a value, there are no preferences.
    """
    wishes: dict[ir.Value, Placement] = {}
    for value, placement in returned:
        _vote(wishes, value, placement)
    for decision in reversed(decisions):
        op = decision.op
        if op.name == "scf.for":
            _vote_of_loop(wishes, decision)
            continue
        for result in op.results:
            if result in pins and result in wishes:
                wishes[result] = wishes[result].without(pins[result].brought)
        wanted = fixed.get(op.results[0]) or [wishes.get(result) for result in op.results]
        split = _extended(decision.loops, decision.choice.split, wanted)
        for i, _ in decision.loops.read():
            _vote(wishes, op.operands[i], decision.loops.operand(i, split))
        for inner, i in captured(op) if len(op.regions) else ():
            _vote(wishes, inner.operands[i], replicated(inner.operands[i].type.rank))
    return wishes


def _vote_of_loop(wishes: dict[ir.Value, Placement], decision: Decision) -> None:
    (block,) = decision.op.regions[0].blocks
    for values in (list(decision.op.operands)[3:], list(terminator_of(block).operands)):
        tensors = [value for value in values if isinstance(value.type, ir.RankedTensorType)]
        for value, placement in zip(tensors, decision.made, strict=True):
            _vote(wishes, value, placement)


def _extended(loops: Loops, split: Split, wanted: Sequence[Placement | None]) -> Split:
    used = {axis for axes in split.axes for axis in axes} | {axis for axis, _ in split.partial}
    for axis in split.mesh.axes:
        for dims, wish in zip(loops.results, wanted, strict=False):
            further = None if wish is None or axis in used else loops.extended(split, dims, wish, axis)
            if further is not None and loops.fits(further):
                split = further
                break
    return split


def _vote(wishes: dict[ir.Value, Placement], value: ir.Value, placement: Placement) -> None:
    asked = placement.without([axis for axis, _ in placement.partial])
    wishes[value] = asked if value not in wishes else _common(wishes[value], asked)


def _common(one: Placement, other: Placement) -> Placement:
    """The splits that both have, major first."""
    dims: list[list[str]] = []
    for pair in zip(one.dims, other.dims, strict=True):
        same = takewhile(lambda axes: one.word(axes[0]) == other.word(axes[1]), zip(*pair, strict=False))
        dims.append([axis for axis, _ in same])
    return Placement(dims, blocks={axis: one.blocks_of(axis) for axes in dims for axis in axes})

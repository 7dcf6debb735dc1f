"""The lines that reduce values, shared by all schedules with reductions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dmc.dtypes import NARROW, is_floating
from dmc.kernels.generated.arithmetic import full, held_as
from dmc.kernels.generated.emitter import Emitter
from dmc.kernels.generated.launch import Launch
from dmc.kernels.generated.operations import Places, at, maps_of
from dmc.kernels.generated.structure import COMBINERS, Combiner, Loops, combined
from dmc.kernels.generated.value import Value, limits, literal


@dataclass(frozen=True)
class Reduction:
    """One result of a reduction. part: the value of its body that each iteration contributes. held: the type of
    accumulation."""

    value: Any
    part: Any
    name: str
    loops: Loops

    @staticmethod
    def of(value: Any) -> Reduction:
        """The reduction that computes `value`. Raises Declined if it is not a plain one."""
        name, part = combined(value)
        return Reduction(value, part, name, Loops.of(value.owner))

    @property
    def combiner(self) -> Combiner:
        """How two values become one."""
        return COMBINERS[self.name]

    @property
    def dtype(self) -> str:
        """The type of the result."""
        return str(self.value.type.element_type)

    @property
    def held(self) -> str:
        """The accumulation type: sums of narrow types are rounded once, at the end."""
        return "f32" if self.dtype in NARROW else "i32" if self.dtype in ("i1", "i8", "i16") else self.dtype

    @property
    def neutral(self) -> str:
        """The neutral element."""
        number = self.combiner.neutral
        if not is_floating(self.dtype) and abs(number) == float("inf"):
            return str(limits(self.dtype)[number > 0])
        return literal(number, "f32").text if is_floating(self.dtype) else str(int(number))

    def stem(self) -> str:
        """The name of its result."""
        stems = {"": "total", "maximum": "peak", "minimum": "least"}
        return stems.get(self.combiner.reduce.removeprefix("functions.").removesuffix("_number"), "combined")

    def contribution(self, emitter: Emitter, loops: Places) -> Value:
        """What one iteration contributes."""
        return emitter.inner_value(self.value.owner, self.part, loops)

    def result_places(self, loops: Places) -> Places:
        """The index of the result that an iteration contributes to."""
        op = self.value.owner
        number = len(op.operands) - len(op.results) + list(op.results).index(self.value)
        return at(maps_of(op)[number], loops)

    def start(self, emitter: Emitter, loops: Places) -> Value | None:
        """The initial value of the result, unless neutral."""
        op = self.value.owner
        first = op.operands[len(op.operands) - len(op.results) + list(op.results).index(self.value)]
        made = emitter.emit(first, self.result_places(loops))
        return None if made.constant is not None and literal(made.constant, self.dtype).text == self.neutral else made


def reduce_tile(launch: Launch, reduction: Reduction, tile: str, axis: int | None, variables: frozenset[str]) -> str:
    """The name of a tile reduced along an axis, kept with size 1; without an axis, to one number."""
    function = reduction.combiner.reduce
    along = f"{axis}, {function}" if function else str(axis)
    kept = ", keep_dims=True" if axis is not None else ""
    return launch.writer.line(
        reduction.stem(), f"tl.{'reduce' if function else 'sum'}({tile}, {along}{kept})", variables
    )


def tile_of(
    launch: Launch, reduction: Reduction, value: Value, shape: str, axes: frozenset[str], masked: frozenset[str]
) -> str:
    """`value` as a tile of this shape, along the variables `axes`, neutral where those of `masked` are out of range."""
    writer = launch.writer
    text = full(writer, value, reduction.held)
    variables = value.variables | axes
    masks = " & ".join(writer.mask(masked))
    is_zero = value.text in writer.zeroed and reduction.combiner.neutral == 0 and masked <= value.variables
    if masks and not is_zero:
        neutral = full(writer, literal_in(reduction), reduction.held)
        text = writer.line("counted", f"tl.where({masks}, {text}, {neutral})", variables)
    return text if axes <= value.variables else writer.line("spread", f"tl.broadcast_to({text}, {shape})", variables)


def literal_in(reduction: Reduction) -> Value:
    """The neutral number as a value."""
    return Value(reduction.neutral, reduction.dtype, reduction.held, constant=reduction.combiner.neutral)


def finished(launch: Launch, reduction: Reduction, name: str, variables: frozenset[str], loops: Places) -> Value:
    """The final result of a reduction: with its initial value, and in its own type."""
    writer, emitter = launch.writer, launch.emitter
    first = reduction.start(emitter, loops)
    if first is not None:
        name = writer.line(
            "total", reduction.combiner.join.format(held_as(writer, first, reduction.held), name), variables
        )
    made = Value(name, reduction.dtype, reduction.held, variables)
    if reduction.dtype in NARROW:
        return Value(held_as(writer, made, reduction.dtype), reduction.dtype, reduction.dtype, variables)
    if reduction.dtype == "i1":
        return Value(writer.line("holds", f"({name} & 1) != 0", variables), "i1", "i1", variables, bounds=(0, 1))
    return made

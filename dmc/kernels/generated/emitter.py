"""An element of a tensor → the lines that compute it, traced back from the result to values in memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from dmc._mlir import ir
from dmc.dtypes import is_floating
from dmc.kernels.generated import arithmetic, integers, words
from dmc.kernels.generated.beside_one import is_beside_one, is_inverse_above_one
from dmc.kernels.generated.index import ZERO, Index, Looked, linearise
from dmc.kernels.generated.movements import MOVEMENTS
from dmc.kernels.generated.operations import Places, at, is_parallel, maps_of, scalars, slice_of
from dmc.kernels.generated.shortened import shortened
from dmc.kernels.generated.value import Declined, Value, literal
from dmc.kernels.generated.writer import Writer

_LOGIC = ("arith.andi", "arith.ori", "arith.xori", "arith.addi", "arith.subi", "arith.muli")


class Unbound(Exception):
    """Reductions or products are read where they are not available: another launch must compute them first, at once."""

    def __init__(self, *values: Any) -> None:
        super().__init__(", ".join(map(str, values)))
        self.values = values


class Emitter:
    """Emits into `writer`. memory: the values in memory, by the stem of their pointer's name.

    `bound` holds, for each available result of a reduction or product, its place and name.
    """

    def __init__(self, writer: Writer, memory: dict[Any, str]) -> None:
        self.writer = writer
        self.memory = memory
        self.bound: dict[Any, tuple[Places, Value]] = {}
        self.conditions: tuple[Value, ...] = ()
        self.loads: list[tuple[Any, Index]] = []
        # The text of an element that is in shared memory, where it is.
        self.copied: Callable[[Any, Index], str | None] = lambda value, number: None

    def emit(self, value: Any, places: Sequence[Index]) -> Value:
        """The element of tensor `value` at `places`. Raises Unbound, or Declined if it cannot be computed here."""
        places = tuple(places)
        if value in self.bound:
            where, made = self.bound[value]
            if where != places:
                raise Unbound(value)
            return made
        key = (value, places, self.conditions)
        known = self.writer.find(key)
        return known or self.writer.keep(key, self._element(value, places))

    def _element(self, value: Any, places: Places) -> Value:
        if value in self.memory:
            return self.load(value, places)
        op = value.owner
        match op.name:
            case "linalg.generic" if is_parallel(op):
                return words.unpacked(self, op, places) or self._generic(op, list(op.results).index(value), places)
            case "linalg.generic" if (word := words.packed(self, op, places)) is not None:
                return word
            case "linalg.generic" | "linalg.reduce":
                raise Unbound(value)
            case "arith.constant":
                return self._constant(op, places)
            case "linalg.fill" | "tensor.splat":
                return self.scalar(op.operands[0])
            case "tensor.empty":
                return literal(0, str(value.type.element_type))
            case _:
                if op.name in MOVEMENTS:
                    return MOVEMENTS[op.name](self, op, places)
                if op.name.startswith("linalg."):
                    raise Unbound(value)
                raise Declined(f"{op.name} of tensors")

    def load(self, value: Any, places: Places) -> Value:
        """An element in memory."""
        number = linearise(places, value.type.shape)
        self.loads.append((value, number))
        writer, name, dtype = self.writer, self.memory[value], str(value.type.element_type)
        address, variables = writer.index(number), number.variables
        fitting = [each for each in self.conditions if each.variables <= variables]
        masks = [*writer.mask(variables), *(each.text for each in fitting)]
        for each in self.conditions:
            if each not in fitting:
                # A mask has no more axes than the masked value: if the condition is false, the first element is read.
                variables |= each.variables
                address = writer.line("safe", f"tl.where({each.text}, {address}, 0)", variables)
        place = f"{name}_at" if address == "0" else f"{name}_at + {address}"
        masked = f", mask={' & '.join(masks)}, other=0" if masks else ""
        ahead = None if self.conditions else self.copied(value, number)
        text = writer.line(name, ahead or f"tl.load({place}{masked})", variables)
        if masks:
            writer.zeroed.add(text)
        made = Value(text, dtype, dtype, variables, bounds=(0, 1) if dtype == "i1" else None)
        return integers.narrow(writer, made) if dtype in ("i8", "i16") else made

    @contextmanager
    def where(self, condition: Value) -> Generator[None]:
        """Values read inside are needed only where `condition` holds, and need not exist elsewhere."""
        before = self.conditions
        if condition.constant is None:
            self.conditions = (*before, condition)
        yield
        self.conditions = before

    def inside(self, place: Index, low: int, high: int) -> Value:
        """Whether a place is at least `low` and below `high`."""
        first, last = place.bounds
        if first >= low and last < high:
            return literal(True, "i1")
        if last < low or first >= high:
            return literal(False, "i1")
        text = self.writer.index(place)
        parts = [f"({text} >= {low})"] if first < low else []
        parts += [f"({text} < {high})"] if last >= high else []
        name = self.writer.line("inside", " & ".join(parts), place.variables)
        return Value(name, "i1", "i1", place.variables, bounds=(0, 1))

    def all_of(self, conditions: Sequence[Value]) -> Value:
        """Whether all conditions hold."""
        if any(each.constant is False for each in conditions):
            return literal(False, "i1")
        open_ = [each for each in conditions if each.constant is None]
        if not open_:
            return literal(True, "i1")
        variables = frozenset(name for each in open_ for name in each.variables)
        text = open_[0].text
        if len(open_) > 1:
            text = self.writer.line("inside", " & ".join(each.text for each in open_), variables)
        return Value(text, "i1", "i1", variables, bounds=(0, 1))

    def choose(self, condition: Value, first: Value, second: Value) -> Value:
        """A selection by a condition."""
        if condition.constant is not None:
            return first if condition.constant else second
        if first.dtype == "i1":
            texts = [arithmetic.full(self.writer, each, "i1") for each in (first, second)]
            variables = condition.variables | first.variables | second.variables
            text = self.writer.line("chosen", f"tl.where({condition.text}, {', '.join(texts)})", variables)
            return Value(text, "i1", "i1", variables, bounds=(0, 1))
        if is_floating(first.dtype):
            return arithmetic.select_floats(self.writer, [condition, first, second])
        return integers.select_integers(self.writer, [condition, first, second])

    def scalar(self, value: Any) -> Value:
        """A scalar of the function."""
        if value in self.bound:
            return self.bound[value][1]
        assert not isinstance(value.owner, ir.Block), "a function takes tensors only"
        known = self.writer.find(value)
        return known or self.writer.keep(value, self.apply(value.owner, [self.scalar(each) for each in scalars(value)]))

    def _constant(self, op: Any, places: Places) -> Value:
        content, dtype = op.attributes["value"], str(op.results[0].type.element_type)
        if not isinstance(content, ir.DenseElementsAttr):
            raise Declined("a constant in a resource")
        if content.is_splat:
            return literal(content.get_splat_value().value, dtype)
        values = [literal(each, dtype) for each in content]
        return self.pick(linearise(places, op.results[0].type.shape), values)

    def pick(self, number: Index, values: list[Value]) -> Value:
        """The constant of this index, from a few distinct numbers."""
        if len(values) > 32:
            raise Declined(f"a constant of {len(values)} different numbers")
        made = values[-1]
        for i in range(len(values) - 2, -1, -1):
            made = self.choose(self.inside(number, i, i + 1), values[i], made)
        return made

    def _generic(self, op: Any, result: int, places: Places) -> Value:
        each = maps_of(op)[len(op.operands) - len(op.results) + result]
        loops = [ZERO] * each.n_dims
        for place, expression in zip(places, each.results, strict=True):
            if isinstance(expression, ir.AffineDimExpr):
                loops[expression.position] = place
        *_, terminator = op.regions[0].blocks[0].operations
        return self.inner_value(op, terminator.operation.operands[result], tuple(loops))

    def inner_value(self, op: Any, wanted: Any, loops: Places) -> Value:
        """A value of the body of a `linalg` operation in one iteration."""
        inner = [view.operation for view in op.regions[0].blocks[0].operations]
        needed = slice_of(wanted, inner)
        for each in (each for each in inner if len(each.results) and each.results[0] in needed):
            key = (each.results[0], loops, self.conditions)
            if self.writer.find(key) is None:
                self.writer.keep(key, self._inner(op, each, loops))
        return self._operand(op, wanted, loops)

    def _inner(self, op: Any, inner: Any, loops: Places) -> Value:
        if inner.name == "linalg.index":
            return integers.index_value(self.writer, loops[inner.attributes["dim"].value], "index")
        if inner.name == "tensor.extract":
            source, *numbers = inner.operands
            return self.emit(source, [self.place(self._operand(op, each, loops)) for each in numbers])
        short = shortened(self.writer, inner, lambda each: self._operand(op, each, loops))
        if short is not None:
            return short
        return self.apply(inner, [self._operand(op, each, loops) for each in inner.operands])

    def _operand(self, op: Any, value: Any, loops: Places) -> Value:
        if not isinstance(value.owner, ir.Block):
            return self.writer.find((value, loops, self.conditions)) or self.scalar(value)
        number = ir.BlockArgument(value).arg_number
        return self.emit(op.operands[number], at(maps_of(op)[number], loops))

    def place(self, value: Value) -> Index:
        """An integer as an index into a tensor."""
        known = integers.as_index(value)
        if known is not None:
            return known
        bounds = value.bounds or (0, 2**63 - 1)
        return Index(((Looked(value.text, bounds, value.variables), 1),))

    def apply(self, op: Any, values: list[Value]) -> Value:
        """The result of an operation on scalars."""
        writer, dtype = self.writer, str(op.results[0].type)
        match op.name:
            case "arith.constant":
                return literal(op.attributes["value"].value, dtype)
            case "tensor.extract":
                source, *_ = op.operands
                return self.emit(source, [self.place(each) for each in values])
            case "arith.cmpf":
                return arithmetic.compare_floats(writer, op, values)
            case "arith.cmpi":
                return integers.compare_integers(writer, op, values)
            case "arith.select":
                return self.choose(*values)
            case "arith.fptosi":
                return integers.whole(writer, values[0], dtype)
            case "math.absi":
                return integers.absolute(writer, values[0])
            case "math.tanh" if is_beside_one(op):
                return arithmetic.float_op(writer, op, values, "tanh_beside_one")
            case "math.erf" if is_beside_one(op):
                return arithmetic.float_op(writer, op, values, "erf_beside_one")
            case "arith.divf" if is_inverse_above_one(op):
                return arithmetic.float_op(writer, op, values[1:], "inverse")
            case name if name in arithmetic.FLOAT:
                return arithmetic.float_op(writer, op, values)
            case name if name in arithmetic.TO_FLOAT:
                return arithmetic.to_float(writer, op, values[0])
            case name if name in integers.CASTS:
                return integers.cast_integer(writer, op, values[0])
            case name if name in _LOGIC and dtype == "i1":
                return arithmetic.logic(writer, op, values)
            case name if len(values) == 2 and name.startswith("arith."):
                return integers.integer_op(writer, op, values)
            case name:
                raise Declined(name)

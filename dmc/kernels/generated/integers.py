"""Integer operations → Triton expressions, in the narrowest type that holds their values.

MLIR from PyTorch indexes elements in 64 bits, but most tensors need only 32; indices stay expressions that simplify,
and comparisons decided by sizes are folded here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dmc.kernels.generated.arithmetic import full, held_as, operands
from dmc.kernels.generated.index import Index, constant
from dmc.kernels.generated.value import TRITON, Bounds, Declined, Value, held_for, limits, literal, variables_of
from dmc.kernels.generated.writer import Writer

_SYMBOLS = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
_DECIDED: tuple[Callable[[Bounds, Bounds], bool | None], ...] = (
    lambda a, b: False if a[1] < b[0] or b[1] < a[0] else None,
    lambda a, b: True if a[1] < b[0] or b[1] < a[0] else None,
    lambda a, b: True if a[1] < b[0] else False if a[0] >= b[1] else None,
    lambda a, b: True if a[1] <= b[0] else False if a[0] > b[1] else None,
    lambda a, b: True if a[0] > b[1] else False if a[1] <= b[0] else None,
    lambda a, b: True if a[0] >= b[1] else False if a[1] < b[0] else None,
)
_FIRST_UNSIGNED = 6
_NARROW_BITS = 32
_SIMPLE = {
    "arith.addi": ("sum", "{} + {}"),
    "arith.subi": ("difference", "{} - {}"),
    "arith.muli": ("product", "{} * {}"),
    "arith.andi": ("both", "{} & {}"),
    "arith.ori": ("either", "{} | {}"),
    "arith.xori": ("differ", "{} ^ {}"),
    "arith.shli": ("shifted", "{} << {}"),
    "arith.shrsi": ("shifted", "{} >> {}"),
    "arith.divsi": ("ratio", "{} // {}"),
    "arith.remsi": ("rest", "{} % {}"),
    "arith.maxsi": ("maximum", "tl.maximum({}, {})"),
    "arith.minsi": ("minimum", "tl.minimum({}, {})"),
}
# Equal to a signed operation if nothing is negative.
_UNSIGNED = {
    "arith.divui": "arith.divsi",
    "arith.remui": "arith.remsi",
    "arith.maxui": "arith.maxsi",
    "arith.minui": "arith.minsi",
    "arith.shrui": "arith.shrsi",
    "arith.floordivsi": "arith.divsi",
}
CASTS = ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui")


def index_value(writer: Writer, index: Index, dtype: str) -> Value:
    """An integer with a known expression."""
    if not index.terms:
        return literal(index.constant, dtype)
    held = held_for(dtype, index.bounds)
    text = writer.index(index)
    if not text.isidentifier():
        text = writer.line("number", text, index.variables)
    return Value(text, dtype, held, index.variables, bounds=index.bounds, index=index)


def integer_op(writer: Writer, op: Any, values: list[Value]) -> Value:
    """An operation with two operands."""
    dtype = str(op.results[0].type)
    name = op.name
    if name in _UNSIGNED:
        if any(_bounds(value)[0] < 0 for value in values):
            raise Declined(f"{name} of a possibly negative integer")
        name = _UNSIGNED[name]
    if name not in _SIMPLE:
        raise Declined(name)
    if all(value.constant is not None for value in values):
        return literal(_wrapped(_computed(name, *(int(_known(value)) for value in values)), dtype), dtype)
    found = _as_index(writer, name, values, dtype) or _extreme(name, values)
    return found or _computed_in_kernel(writer, name, values, dtype)


def _computed_in_kernel(writer: Writer, name: str, values: list[Value], dtype: str) -> Value:
    bounds = _result_bounds(name, [_bounds(value) for value in values])
    low, high = limits(dtype)
    if bounds is not None and not (low <= bounds[0] and bounds[1] <= high):
        bounds = None
    if bounds is not None and bounds[0] == bounds[1]:
        return literal(bounds[0], dtype)
    # A shift by all bits of a type or more means nothing there.
    is_far = name in ("arith.shli", "arith.shrsi") and _bounds(values[1])[1] >= _NARROW_BITS
    held = dtype if is_far else held_for(dtype, bounds, *(value.bounds for value in values))
    stem, template = _SIMPLE[name]
    texts = [text if text.isidentifier() else f"({text})" for text in operands(writer, values, held)]
    variables = variables_of(values)
    text = writer.line(stem, template.format(*texts), variables)
    made = Value(text, dtype, held, variables, bounds=bounds)
    # A value that has become small is kept in a narrow type from here on.
    return narrow(writer, made)


def narrow(writer: Writer, value: Value) -> Value:
    """The integer in the narrowest type that holds it."""
    held = held_for(value.dtype, value.bounds)
    return Value(held_as(writer, value, held), value.dtype, held, value.variables, None, value.bounds, value.index)


def compare_integers(writer: Writer, op: Any, values: list[Value]) -> Value:
    """`arith.cmpi`."""
    predicate = op.attributes["predicate"].value
    unsigned = predicate >= _FIRST_UNSIGNED and any(_bounds(value)[0] < 0 for value in values)
    decided = (
        None
        if unsigned
        else _DECIDED[predicate if predicate < _FIRST_UNSIGNED else predicate - 4](
            _bounds(values[0]), _bounds(values[1])
        )
    )
    if decided is not None:
        return literal(decided, "i1")
    held = held_for(values[0].dtype, *(value.bounds for value in values))
    texts = operands(writer, values, held)
    if unsigned:
        texts = [f"{full(writer, value, 'i64')}.to(tl.uint64, bitcast=True)" for value in values]
    texts = [text if text.isidentifier() else f"({text})" for text in texts]
    variables = variables_of(values)
    text = writer.line("holds", f"{texts[0]} {_SYMBOLS[predicate]} {texts[1]}", variables)
    return Value(text, "i1", "i1", variables, bounds=(0, 1))


def select_integers(writer: Writer, values: list[Value]) -> Value:
    """`arith.select` between integers."""
    condition, *rest = values
    bounds = [_bounds(value) for value in rest]
    joined = min(low for low, _ in bounds), max(high for _, high in bounds)
    dtype = rest[0].dtype
    held = held_for(dtype, joined)
    texts = operands(writer, rest, held)
    variables = variables_of(values)
    text = writer.line("chosen", f"tl.where({condition.text}, {', '.join(texts)})", variables)
    return Value(text, dtype, held, variables, bounds=joined)


def cast_integer(writer: Writer, op: Any, value: Value) -> Value:
    """A conversion between integer types, a no-op if the value fits."""
    dtype = str(op.results[0].type)
    bounds = _bounds(value)
    if value.dtype == "i1" and op.name != "arith.extui":
        if op.name == "arith.trunci":
            return value
        raise Declined("the sign of a boolean")
    if value.constant is not None:
        return literal(_wrapped(int(value.constant), dtype), dtype)
    low, high = limits(dtype)
    if dtype == "i1":
        text = writer.line("bit", f"({value.text} & 1) != 0", value.variables)
        return Value(text, dtype, dtype, value.variables, bounds=(0, 1))
    if op.name == "arith.extui" and bounds[0] < 0:
        raise Declined("zero extension of possibly negative integers")
    if low <= bounds[0] and bounds[1] <= high:
        return narrow(writer, Value(value.text, dtype, value.held, value.variables, None, bounds, value.index))
    text = writer.line("low", f"{value.text}.to({TRITON[dtype]})", value.variables)
    return Value(text, dtype, dtype, value.variables)


def absolute(writer: Writer, value: Value) -> Value:
    """`math.absi`."""
    if value.constant is not None:
        return literal(abs(int(value.constant)), value.dtype)
    low, high = _bounds(value)
    bounds = None if value.bounds is None else (0, max(abs(low), abs(high)))
    text = writer.line("size", f"tl.abs({value.text})", value.variables)
    return Value(text, value.dtype, value.held, value.variables, None, bounds)


def whole(writer: Writer, value: Value, dtype: str) -> Value:
    """`arith.fptosi`."""
    held = held_for(dtype, None)
    text = writer.line("whole", f"{full(writer, value, value.held)}.to({TRITON[held]})", value.variables)
    return Value(text, dtype, held, value.variables)


def as_index(value: Value) -> Index | None:
    """The integer as an expression, if known."""
    return constant(int(value.constant)) if value.constant is not None else value.index


def _known(value: Value) -> int | float | bool:
    assert value.constant is not None
    return value.constant


def _bounds(value: Value) -> Bounds:
    return limits(value.dtype) if value.bounds is None else value.bounds


def _as_index(writer: Writer, name: str, values: list[Value], dtype: str) -> Value | None:
    """The result as an expression, if the operands are."""
    first, second = (as_index(value) for value in values)
    if first is None or second is None:
        return None
    match name:
        case "arith.addi":
            made = first + second
        case "arith.subi":
            made = first + second * -1
        case "arith.muli" if not first.terms or not second.terms:
            made = first * second.constant if not second.terms else second * first.constant
        case "arith.divsi" | "arith.remsi" if not second.terms and second.constant > 0 and first.bounds[0] >= 0:
            made = first // second.constant if name == "arith.divsi" else first % second.constant
        case "arith.shrsi" if not second.terms:
            made = first // 2**second.constant
        case "arith.andi" if not second.terms and second.constant >= 0 and not second.constant & (second.constant + 1):
            made = first % (second.constant + 1)
        case _:
            return None
    low, high = limits(dtype)
    return index_value(writer, made, dtype) if low <= made.bounds[0] and made.bounds[1] <= high else None


def _extreme(name: str, values: list[Value]) -> Value | None:
    """The larger or smaller of two, if known."""
    if name not in ("arith.maxsi", "arith.minsi"):
        return None
    for one, other in (values, values[::-1]):
        if (_bounds(one)[0] >= _bounds(other)[1]) if name == "arith.maxsi" else (_bounds(one)[1] <= _bounds(other)[0]):
            return one
    return None


def _computed(name: str, a: int, b: int) -> int:
    match name:
        case "arith.divsi" | "arith.remsi":
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return quotient if name == "arith.divsi" else a - quotient * b
        case "arith.maxsi" | "arith.minsi":
            return max(a, b) if name == "arith.maxsi" else min(a, b)
        case "arith.shli" | "arith.shrsi":
            return a << b if name == "arith.shli" else a >> b
        case "arith.addi" | "arith.subi":
            return a + b if name == "arith.addi" else a - b
        case "arith.muli":
            return a * b
        case _:
            return {"arith.andi": a & b, "arith.ori": a | b, "arith.xori": a ^ b}[name]


def _wrapped(value: int, dtype: str) -> int:
    if dtype == "i1":
        return value & 1
    low, high = limits(dtype)
    return (value - low) % (high - low + 1) + low


def _result_bounds(name: str, bounds: list[Bounds]) -> Bounds | None:
    (a, b), (c, d) = bounds
    if name in ("arith.andi", "arith.ori", "arith.xori"):
        return _bit_bounds(name, (a, b), (c, d))
    if name in ("arith.divsi", "arith.remsi") and (a < 0 or c <= 0):
        return None
    if name == "arith.remsi":
        return 0, min(b, d - 1)
    if name in ("arith.shli", "arith.shrsi") and (c != d or c < 0):
        return None
    ends = [_computed(name, x, y) for x in (a, b) for y in (c, d)]
    return min(ends), max(ends)


def _bit_bounds(name: str, first: Bounds, second: Bounds) -> Bounds | None:
    if name == "arith.andi" and (first[0] >= 0 or second[0] >= 0):
        return 0, min(high for low, high in (first, second) if low >= 0)
    if first[0] < 0 or second[0] < 0:
        return None
    return 0, 2 ** max(first[1], second[1]).bit_length() - 1

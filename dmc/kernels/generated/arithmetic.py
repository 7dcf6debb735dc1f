"""One operation of `arith` or `math` on floating-point numbers or booleans → a Triton expression."""

from __future__ import annotations

from typing import Any

from dmc.dtypes import NARROW
from dmc.kernels.generated.value import TRITON, Declined, Value, literal, variables_of
from dmc.kernels.generated.writer import Writer

_NAN = "propagate_nan=tl.PropagateNan.ALL"
# By the number of the predicate in `arith`; Triton's own are ordered, except `!=`.
_COMPARISONS = (
    "({0} != {0}) & ({0} == {0})",
    "{0} == {1}",
    "{0} > {1}",
    "{0} >= {1}",
    "{0} < {1}",
    "{0} <= {1}",
    "({0} < {1}) | ({0} > {1})",
    "({0} == {0}) & ({1} == {1})",
    "~(({0} < {1}) | ({0} > {1}))",
    "~({0} <= {1})",
    "~({0} < {1})",
    "~({0} >= {1})",
    "~({0} > {1})",
    "{0} != {1}",
    "({0} != {0}) | ({1} != {1})",
    "({0} == {0}) | ({0} != {0})",
)
# Stem of the name, then the expression; `functions` is `dmc.kernels.jit.functions`.
FLOAT: dict[str, tuple[str, str]] = {
    "arith.addf": ("sum", "{} + {}"),
    "arith.subf": ("difference", "{} - {}"),
    "arith.mulf": ("product", "{} * {}"),
    "arith.divf": ("ratio", "{} / {}"),
    "arith.remf": ("rest", "functions.rest({}, {})"),
    # Triton's minus is 0 - x, which has no negative zero.
    "arith.negf": ("negative", "-1.0 * {}"),
    "arith.maximumf": ("maximum", f"tl.maximum({{}}, {{}}, {_NAN})"),
    "arith.minimumf": ("minimum", f"tl.minimum({{}}, {{}}, {_NAN})"),
    "arith.maxnumf": ("maximum", "tl.maximum({}, {})"),
    "arith.minnumf": ("minimum", "tl.minimum({}, {})"),
    "math.absf": ("absolute", "tl.abs({})"),
    "math.ceil": ("ceiling", "tl.ceil({})"),
    "math.floor": ("floor", "tl.floor({})"),
    "math.cos": ("cosine", "tl.cos({})"),
    "math.sin": ("sine", "tl.sin({})"),
    "math.erf": ("erf", "tl.erf({})"),
    "math.exp": ("exponential", "functions.exp({})"),
    "math.exp2": ("exponential", "tl.exp2({})"),
    "math.expm1": ("exponential", "functions.expm1({})"),
    "math.log": ("logarithm", "tl.log({})"),
    "math.log2": ("logarithm", "tl.log2({})"),
    "math.log1p": ("logarithm", "functions.log1p({})"),
    "math.powf": ("power", "functions.power({}, {})"),
    "math.rsqrt": ("inverse_root", "tl.rsqrt({})"),
    "math.sqrt": ("root", "tl.sqrt_rn({})"),
    "math.tanh": ("tanh", "functions.tanh({})"),
    # Not of MLIR: see `dmc.kernels.generated.beside_one`.
    "share_by_power": ("share", "functions.share_by_power({})"),
    "share_by_erf": ("share", "functions.share_by_erf({})"),
    "without_square": ("rest", "functions.without_square({})"),
    "inverse": ("inverse", "functions.inverse({})"),
    "tanh_beside_one": ("tanh", "functions.tanh_beside_one({})"),
    "erf_beside_one": ("erf", "functions.erf_beside_one({})"),
    "math.fma": ("sum", "tl.fma({}, {}, {})"),
}
_BITWISE = {"arith.andi": ("both", "{} & {}"), "arith.ori": ("either", "{} | {}"), "arith.xori": ("differ", "{} ^ {}")}
TO_FLOAT = ("arith.extf", "arith.truncf", "arith.sitofp", "arith.uitofp")


def held_as(writer: Writer, value: Value, held: str) -> str:
    """The text of `value` in another type of the kernel."""
    if value.held == held or value.constant is not None:
        return value.text
    if (narrow := writer.widened.get(value.text)) is not None and narrow.held == held:
        return narrow.text
    text = f"{value.text}.to({TRITON[held]})"
    if (value.held, held) == ("bf16", "f32") and value.variables:
        text = f"functions.widened({value.text})"
    if held == "f32" and value.text in writer.narrowed and value.variables:
        # Pairs at once, where two conversions of each element, there and back, are slow.
        text = f"functions.nearest({writer.narrowed[value.text]})"
    name = writer.line(f"{_stem(value)}_{held}", text, value.variables)
    if (value.held, held) == ("f32", "bf16"):
        writer.narrowed[name] = value.text
    return name


def full(writer: Writer, value: Value, held: str) -> str:
    """A constant as a typed value."""
    if value.constant is None:
        return held_as(writer, value, held)
    return writer.line("constant", f"tl.full([], {value.text}, {TRITON[held]})", frozenset())


def operands(writer: Writer, values: list[Value], held: str) -> list[str]:
    """The texts of operands in one type, determined by at least one of them."""
    texts = [held_as(writer, value, held) for value in values]
    if all(value.constant is not None for value in values):
        texts[0] = full(writer, values[0], held)
    return texts


def float_op(writer: Writer, op: Any, values: list[Value], name: str = "") -> Value:
    """A floating-point operation, or the one called `name` in its place.

    Narrow types are computed in f32 and rounded after each, as PyTorch does.
    """
    dtype = str(op.results[0].type)
    stem, template = FLOAT[name or op.name]
    held = "f32" if dtype in NARROW else dtype
    variables = variables_of(values)
    made = writer.line(stem, template.format(*operands(writer, values, held)), variables)
    return rounded(writer, Value(made, held, held, variables), dtype)


def rounded(writer: Writer, value: Value, dtype: str) -> Value:
    """`value` in another floating-point type."""
    if value.constant is not None:
        return literal(value.constant, dtype)
    made = Value(held_as(writer, value, dtype), dtype, dtype, value.variables)
    if value.held in NARROW and dtype == "f32":
        writer.widened[made.text] = value
    return made


def to_float(writer: Writer, op: Any, value: Value) -> Value:
    """A conversion to a floating-point type."""
    dtype = str(op.results[0].type)
    if value.constant is not None:
        number = -value.constant if op.name == "arith.sitofp" and value.dtype == "i1" else value.constant
        return literal(_as_held(number, dtype), dtype)
    if op.name == "arith.uitofp" and value.dtype != "i1" and (value.bounds is None or value.bounds[0] < 0):
        raise Declined("conversion of unsigned integers")
    if op.name in ("arith.extf", "arith.truncf"):
        return rounded(writer, value, dtype)
    name = held_as(writer, value, dtype)
    if op.name == "arith.sitofp" and value.dtype == "i1":
        name = writer.line("negative", f"-1.0 * {name}", value.variables)
    return Value(name, dtype, dtype, value.variables)


def _as_held(number: float, dtype: str) -> float:
    """The number rounded to f32; Triton rounds a literal to narrower types on use."""
    import numpy as np

    return number if dtype == "f64" else float(np.float32(number))


def compare_floats(writer: Writer, op: Any, values: list[Value]) -> Value:
    """`arith.cmpf`."""
    held = "f32" if values[0].dtype in NARROW else values[0].dtype
    texts = operands(writer, values, held)
    template = _COMPARISONS[op.attributes["predicate"].value]
    variables = variables_of(values)
    return Value(writer.line("holds", template.format(*texts), variables), "i1", "i1", variables, bounds=(0, 1))


def logic(writer: Writer, op: Any, values: list[Value]) -> Value:
    """An operation on booleans."""
    known = [value for value in values if value.constant is not None]
    if known and op.name in ("arith.andi", "arith.ori"):
        (other,) = [value for value in values if value is not known[0]] or [known[0]]
        absorbs = known[0].constant == (op.name == "arith.ori")
        return known[0] if absorbs else other
    names = {"arith.addi": "arith.xori", "arith.subi": "arith.xori", "arith.muli": "arith.andi"}
    name = names.get(op.name, op.name)
    if name not in _BITWISE:
        raise Declined(f"{op.name} of booleans")
    stem, template = _BITWISE[name]
    variables = variables_of(values)
    text = writer.line(stem, template.format(*operands(writer, values, "i1")), variables)
    return Value(text, "i1", "i1", variables, bounds=(0, 1))


def select_floats(writer: Writer, values: list[Value]) -> Value:
    """`arith.select` between floating-point numbers."""
    condition, first, second = values
    dtype = first.dtype
    texts = operands(writer, [first, second], dtype)
    variables = variables_of(values)
    return Value(
        writer.line("chosen", f"tl.where({condition.text}, {', '.join(texts)})", variables), dtype, dtype, variables
    )


def _stem(value: Value) -> str:
    return value.text if value.text.isidentifier() and len(value.text) < 24 else "value"

"""Builders of ops, checked on construction, and of attributes from plain Python values.

Attributes are created in the current context (that of the insertion point or location in use).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from dmc._mlir import ir
from dmc.dialect.rules import Violation
from dmc.dialect.runs import attribute_name, lengths
from dmc.dialect.spec import OpSpec, check, check_regions
from dmc.errors import DmcError

Plain = TypeVar("Plain")
Value = ir.Value | Sequence[ir.Value] | None
Type = ir.Type | Sequence[ir.Type] | None
Body = Callable[..., Sequence[ir.Value]]


def build(
    cls: type,
    *,
    operands: Sequence[Value],
    results: Sequence[Type],
    attributes: Mapping[str, ir.Attribute | None],
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
    body: Callable[[ir.Block], None] | None = None,
) -> Any:
    """Builds an op of the dialect: one entry of `operands` and `results` for each field of its ODS record.

    `body` fills the op's only region, whose block takes the first field of the operands. Raises DmcError, without
    leaving anything behind, if the op violates a rule.
    """
    record: OpSpec = cls.SPEC  # type: ignore[attr-defined]
    present = {name: value for name, value in attributes.items() if value is not None}
    for kind, values in (("operand", operands), ("result", results)):
        if kind in record.segmented:
            present[attribute_name(kind)] = _segments(values)
    op = ir.Operation.create(
        cls.OPERATION_NAME,  # type: ignore[attr-defined]
        operands=_flat(operands),
        results=_flat(results),
        attributes=present,
        regions=len(record.regions),
        loc=loc,
        ip=ip,
    )
    try:
        if body is not None:
            body(op.regions[0].blocks.append(*(value.type for value in _listed(operands[0]))))
        _check_built(op.opview)
    except Violation as violation:
        error = DmcError(op, str(violation))
        op.erase()
        raise error from None
    except BaseException:
        op.erase()
        raise
    return op.opview


def _check_built(op: Any) -> None:
    check(op)
    for kind in op.SPEC.mixed:
        lengths(op, kind)
    check_regions(op)


def optional(convert: Callable[[Plain], ir.Attribute], value: Plain | None) -> ir.Attribute | None:
    """`convert(value)`, or None for None."""
    return None if value is None else convert(value)


def i64(value: int) -> ir.Attribute:
    """A 64-bit integer."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def string(value: str) -> ir.Attribute:
    """A string."""
    return ir.StringAttr.get(value)


def symbol(name: str) -> ir.Attribute:
    """A reference to the symbol of this name (without the @)."""
    return ir.FlatSymbolRefAttr.get(name)


def type_(value: ir.Type) -> ir.Attribute:
    """A type as an attribute."""
    return ir.TypeAttr.get(value)


def dictionary(values: Mapping[str, ir.Attribute]) -> ir.Attribute:
    """A dictionary."""
    return ir.DictAttr.get(dict(values))


def i64_array(values: Sequence[int]) -> ir.Attribute:
    """A dense array of 64-bit integers."""
    return ir.DenseI64ArrayAttr.get(list(values))


def pairs(values: Sequence[tuple[int, int]]) -> ir.Attribute:
    """A dense tensor of 64-bit integers with one row for each pair."""
    flat = memoryview(array("q", [index for pair in values for index in pair]))
    if not values:
        return ir.Attribute.parse("dense<> : tensor<0x2xi64>")
    return ir.DenseElementsAttr.get(flat.cast("B").cast("q", shape=[len(values), 2]))


def array_of(convert: Callable[[Plain], ir.Attribute]) -> Callable[[Sequence[Plain]], ir.Attribute]:
    """A converter of sequences to arrays, element by element."""
    return lambda values: ir.ArrayAttr.get([convert(value) for value in values])


def _segments(values: Sequence[Any]) -> ir.Attribute:
    return ir.DenseI32ArrayAttr.get([len(_listed(value)) for value in values])


def _flat(values: Sequence[Any]) -> list[Any]:
    return [each for value in values for each in _listed(value)]


def _listed(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    return (value,) if isinstance(value, ir.Value | ir.Type) else value

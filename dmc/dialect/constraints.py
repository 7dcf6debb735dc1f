"""ODS's constraints, as predicates on attributes and types. The generated dialect refers to them by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dmc._mlir import ir
from dmc.memo import once

Check = Callable[[Any], bool]


def is_static_tensor(type_: Any) -> bool:
    """A ranked tensor without dynamic dimensions."""
    return isinstance(type_, ir.RankedTensorType) and type_.has_static_shape


def is_flat_tensor(type_: Any) -> bool:
    """A ranked tensor of rank 1 without a dynamic dimension."""
    return is_static_tensor(type_) and type_.rank == 1


def is_float(type_: Any) -> bool:
    """A floating-point type."""
    return isinstance(type_, ir.FloatType)


def is_signless_integer(type_: Any) -> bool:
    """A signless integer type."""
    return isinstance(type_, ir.IntegerType) and type_.is_signless


def is_index(type_: Any) -> bool:
    """The type `index`."""
    return isinstance(type_, ir.IndexType)


def is_none(type_: Any) -> bool:
    """The type `none`."""
    return isinstance(type_, ir.NoneType)


def is_i64(attribute: Any) -> bool:
    """A signless 64-bit integer."""
    return isinstance(attribute, ir.IntegerAttr) and is_signless_integer(attribute.type) and attribute.type.width == 64


def is_non_negative(attribute: Any) -> bool:
    """An integer attribute that is at least 0."""
    return attribute.value >= 0


def is_string(attribute: Any) -> bool:
    """A string."""
    return isinstance(attribute, ir.StringAttr)


def is_type(attribute: Any) -> bool:
    """A type."""
    return isinstance(attribute, ir.TypeAttr)


def is_symbol(attribute: Any) -> bool:
    """A reference to a symbol by one name."""
    return isinstance(attribute, ir.FlatSymbolRefAttr)


def is_dictionary(attribute: Any) -> bool:
    """A dictionary."""
    return isinstance(attribute, ir.DictAttr)


def is_i64_array(attribute: Any) -> bool:
    """A dense array of 64-bit integers."""
    return isinstance(attribute, ir.DenseI64ArrayAttr)


def is_i64_elements(attribute: Any) -> bool:
    """A dense tensor of signless 64-bit integers."""
    if not isinstance(attribute, ir.DenseIntElementsAttr):
        return False
    element = attribute.type.element_type
    return is_signless_integer(element) and element.width == 64


def is_a(cls: type) -> Check:
    """An attribute or type of this class of the dialect, with valid parameters."""
    return lambda value: isinstance(value, cls) and (not hasattr(cls, "parameters_hold") or value.parameters_hold())


def any_of(*checks: Check) -> Check:
    """At least one of these."""
    return lambda value: any(check(value) for check in checks)


def all_of(*checks: Check) -> Check:
    """Every one of these, tried in this order."""
    return lambda value: all(check(value) for check in checks)


def array_of(check: Check) -> Check:
    """An array whose elements all satisfy `check`."""
    return lambda value: isinstance(value, ir.ArrayAttr) and all(once(check, element) for element in value)

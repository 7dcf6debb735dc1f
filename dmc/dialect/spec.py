"""The checks that every op and attribute of the dialect gets from its ODS record.

IRDL, which registers the dialect, checks only after these and without naming the op; so every constraint of ODS is
checked here, on construction (`build`) and whenever MLIR verifies (on parse, after each pass).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from dmc._mlir import ir
from dmc.dialect.constraints import Check
from dmc.dialect.rules import REGION_RULES, RULES, Rule, Violation
from dmc.dialect.runs import attribute_name, join
from dmc.memo import once

Class = TypeVar("Class", bound=type)
KINDS = ("operand", "result")


@dataclass(frozen=True)
class Constraint:
    """ODS's constraint on a value, in words and as a predicate."""

    text: str
    holds: Check


@dataclass(frozen=True)
class Field:
    """An operand, a result, an attribute or a parameter."""

    name: str
    must_be: Constraint
    arity: Literal["one", "optional", "many"] = "one"


@dataclass(frozen=True)
class OpSpec:
    """One op's ODS record. `same_types` are groups of operands and results of one type; `parents` are op names."""

    operands: tuple[Field, ...] = ()
    results: tuple[Field, ...] = ()
    attributes: tuple[Field, ...] = ()
    regions: tuple[str, ...] = ()
    same_types: tuple[tuple[str, ...], ...] = ()
    parents: tuple[str, ...] = ()
    # The kinds ("operand", "result") of which the op says how many belong to each field.
    segmented: tuple[str, ...] = field(init=False, default=())
    # The kinds that are one list of values of several types.
    mixed: tuple[str, ...] = field(init=False, default=())
    # The attributes that the op may have.
    names: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        segmented = tuple(kind for kind in KINDS if is_segmented(self.fields(kind)))
        mixed = tuple(kind for kind in KINDS if [each.arity for each in self.fields(kind)] == ["many"])
        names = {attribute.name for attribute in self.attributes} | {attribute_name(kind) for kind in segmented}
        object.__setattr__(self, "segmented", segmented)
        object.__setattr__(self, "mixed", mixed)
        object.__setattr__(self, "names", frozenset(names))

    def fields(self, kind: str) -> tuple[Field, ...]:
        """The fields of a kind, "operand" or "result"."""
        return self.operands if kind == "operand" else self.results


def spec(record: OpSpec) -> Callable[[Class], Class]:
    """Gives an op class its spec, its accessors and its verifier's rules."""

    def decorate(cls: Class) -> Class:
        members: dict[str, Any] = {"SPEC": record, "__init__": _refuse_construction}
        for attribute in record.attributes:
            if attribute.arity == "optional":
                members[attribute.name] = property(lambda self, name=attribute.name: self.attributes.get(name))
        for kind in KINDS:
            for i, each in enumerate(record.fields(kind)):
                members[each.name] = property(_accessor(kind, record.fields(kind), i))
        for name, value in members.items():
            setattr(cls, name, value)
        return cls

    return decorate


def is_segmented(fields: tuple[Field, ...]) -> bool:
    """Whether an op needs segment sizes to separate these operands or results."""
    return sum(each.arity != "one" for each in fields) > 1


def check(op: Any) -> None:
    """Checks everything except what depends on the ops inside `op`; raises Violation."""
    record: OpSpec = op.SPEC
    _check_attributes(op, record)
    _check_values(op, "operand", record.operands, op.operands)
    _check_values(op, "result", record.results, op.results)
    for names in record.same_types:
        _check_same_types(op, names)
    if record.regions or len(op.regions):
        _check_regions_are_single_blocks(op, record)
    if record.parents:
        _check_parent(op, record)
    _apply(RULES, op)


def check_regions(op: Any) -> None:
    """Checks what depends on the ops inside `op`, which have been verified; raises Violation."""
    _apply(REGION_RULES, op)


def check_attribute(attribute: Any) -> None:
    """Checks the rules of an attribute of the dialect; raises Violation."""
    _apply(RULES, attribute)


def groups(op: Any, kind: str, fields: tuple[Field, ...], values: Sequence[ir.Value]) -> Iterator[Sequence[ir.Value]]:
    """The values of each field, in order. Raises Violation if the numbers do not match."""
    sizes = _sizes(op, kind, fields, len(values))
    start = 0
    for size in sizes:
        yield values[start : start + size]
        start += size


def _apply(table: dict[type, tuple[Rule, ...]], subject: Any) -> None:
    for rule in table.get(type(subject), ()):
        rule(subject)


def _check_attributes(op: Any, record: OpSpec) -> None:
    # Left behind if another op failed while this one was being verified.
    join(op, record.mixed)
    attributes, known = op.attributes, 0
    for each in record.attributes:
        value = attributes.get(each.name)
        if value is None:
            if each.arity == "optional":
                continue
            raise Violation(f"attribute '{each.name}' is missing; it must be {each.must_be.text}")
        if not once(_is_sound, each.must_be.holds, value):
            raise Violation(f"attribute '{each.name}' is {value}; it must be {each.must_be.text}")
        known += 1
    if known == len(attributes):
        return
    for name in attributes:
        if name not in record.names and "." not in name:
            taken = ", ".join(sorted(record.names)) or "none"
            raise Violation(f"takes no attribute '{name}' (it takes: {taken}); others need a dialect's prefix")


def _is_sound(holds: Check, attribute: Any) -> bool:
    """Whether an attribute is what it must be. Raises Violation where a rule of its own is violated."""
    if not holds(attribute):
        return False
    check_attribute(attribute)
    return True


def _check_values(op: Any, kind: str, fields: tuple[Field, ...], values: Sequence[ir.Value]) -> None:
    if not fields and not len(values):
        return
    for each, group in zip(fields, groups(op, kind, fields, values), strict=True):
        for value in group:
            if not once(each.must_be.holds, value.type):
                raise Violation(f"{kind} '{each.name}' is {value.type}; it must be {each.must_be.text}")


def _sizes(op: Any, kind: str, fields: tuple[Field, ...], total: int) -> list[int]:
    if kind in op.SPEC.segmented:
        return _segment_sizes(op, kind, fields, total)
    fixed = sum(each.arity == "one" for each in fields)
    rest = total - fixed
    arities = {each.arity for each in fields}
    if rest < 0 or (rest > 0 and "many" not in arities and not (rest == 1 and "optional" in arities)):
        bound = "at least " if "many" in arities else "at most " if "optional" in arities and rest > 0 else ""
        wanted = fixed + (1 if bound == "at most " else 0)
        raise Violation(f"takes {bound}{wanted} {kind}{'' if wanted == 1 else 's'}, got {total}")
    return [1 if each.arity == "one" else rest for each in fields]


def _segment_sizes(op: Any, kind: str, fields: tuple[Field, ...], total: int) -> list[int]:
    name = attribute_name(kind)
    attribute = op.attributes.get(name)
    names = ", ".join(each.name for each in fields)
    if not isinstance(attribute, ir.DenseI32ArrayAttr):
        raise Violation(f"attribute '{name}' is missing; it must say how many {kind}s are: {names}")
    sizes = list(attribute)
    fits = len(sizes) == len(fields) and sum(sizes) == total and min(sizes) >= 0
    if not fits or any(size != 1 for size, each in zip(sizes, fields, strict=True) if each.arity == "one"):
        raise Violation(f"attribute '{name}' is {attribute}, which does not match {total} {kind}s for: {names}")
    return sizes


def _check_same_types(op: Any, names: tuple[str, ...]) -> None:
    first = getattr(op, names[0])
    for name in names[1:]:
        if getattr(op, name).type != first.type:
            raise Violation(
                f"'{names[0]}' is {first.type} but '{name}' is {getattr(op, name).type}; they must be the same type"
            )


def _check_regions_are_single_blocks(op: Any, record: OpSpec) -> None:
    if len(op.regions) != len(record.regions):
        raise Violation(f"has {len(op.regions)} regions; it must have {len(record.regions)}")
    for name, region in zip(record.regions, op.regions, strict=True):
        blocks = len(region.blocks)
        if blocks != 1:
            raise Violation(f"region '{name}' has {blocks} blocks; it must have one")


def _check_parent(op: Any, record: OpSpec) -> None:
    parent = op.operation.parent
    # A detached op that is still being built has no parent yet.
    if parent is not None and parent.operation.name not in record.parents:
        raise Violation(f"is in {parent.operation.name}; it belongs directly in {' or '.join(record.parents)}")


def _accessor(kind: str, fields: tuple[Field, ...], index: int) -> Callable[[Any], Any]:
    arity = fields[index].arity
    if all(each.arity == "one" for each in fields[:index]) and arity == "one":
        return lambda self: getattr(self, f"{kind}s")[index]

    def get(self: Any) -> Any:
        group = list(groups(self, kind, fields, getattr(self, f"{kind}s")))[index]
        if arity == "many":
            return tuple(group)
        return group[0] if len(group) else None

    return get


def _refuse_construction(self: Any, *_: Any, **__: Any) -> None:
    raise TypeError(f"build {self.OPERATION_NAME} with its builder in dmc.dialect, which checks what it builds")

"""Groups and shardings: builders, readers and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dmc._mlir import ir
from dmc.dialect._dm_gen import GroupAttr, ReductionAttr, ShardingAttr
from dmc.dialect.rules import Violation, rule
from dmc.dialect.spec import check_attribute
from dmc.errors import DmcError


def group(mesh: str, axes: Sequence[str]) -> GroupAttr:
    """The group of ranks that differ along `axes` of `@mesh`. Raises DmcError on no axis or a repeated one."""
    return _checked(GroupAttr.get(ir.FlatSymbolRefAttr.get(mesh), _strings(axes)))


def sharding(mesh: str, dims: Sequence[Sequence[str]], partial: Mapping[str, str] | None = None) -> ShardingAttr:
    """A sharding over `@mesh`: for each tensor dimension the axes that split it, and axis to reduction for partials.

    The number of blocks may precede an axis: `3*tp`. Raises DmcError if an axis is used twice or a reduction does not
    exist.
    """
    split = ir.ArrayAttr.get([_strings(axes) for axes in dims])
    reductions = ir.DictAttr.get({axis: ReductionAttr.of(kind) for axis, kind in (partial or {}).items()})
    return _checked(ShardingAttr.get(ir.FlatSymbolRefAttr.get(mesh), split, reductions))


def group_axes(attribute: GroupAttr) -> tuple[str, ...]:
    """The axes of a group, major first."""
    return tuple(axis.value for axis in attribute.axes)


def split_axes(attribute: ShardingAttr) -> tuple[tuple[str, ...], ...]:
    """For each tensor dimension the axes that split it, major first."""
    return tuple(tuple(axis_and_blocks(axis.value)[0] for axis in axes) for axes in attribute.dims)


def split_blocks(attribute: ShardingAttr) -> dict[str, int]:
    """Axis to number of blocks, for the axes that split."""
    return dict(axis_and_blocks(axis.value) for axes in attribute.dims for axis in axes)


def axis_word(axis: str, blocks: int) -> str:
    """The inverse of `axis_and_blocks`."""
    return axis if blocks == 1 else f"{blocks}*{axis}"


def axis_and_blocks(word: str) -> tuple[str, int]:
    """`dp` is ("dp", 1), `3*tp` is ("tp", 3). Raises ValueError for an invalid number."""
    blocks, star, axis = word.rpartition("*")
    return (axis, int(blocks)) if star else (word, 1)


def partial_axes(attribute: ShardingAttr) -> dict[str, str]:
    """Axis to kind of reduction, for the axes over which the value is partial."""
    return {named.name: named.attr.value for named in attribute.partial}


@rule(GroupAttr)
def group_has_distinct_axes(attribute: GroupAttr) -> None:
    """`#dm.group<@m, ["dp", "dp"]>` is refused."""
    axes = group_axes(attribute)
    if not axes:
        raise Violation(f"{attribute} has no axis; a group needs at least one")
    _check_distinct(axes, attribute)


@rule(ShardingAttr)
def blocks_of_a_sharding_are_numbers(attribute: ShardingAttr) -> None:
    """`#dm.sharding<@m, [["0*dp"]], {}>` and `[["x*dp"]]` are refused."""
    for word in (axis.value for axes in attribute.dims for axis in axes):
        blocks, star, _ = word.rpartition("*")
        if star and (not blocks.isdecimal() or int(blocks) < 1):
            raise Violation(f"{attribute}: '{word}' must be an axis, or a number of blocks and an axis as in '3*tp'")


@rule(ShardingAttr)
def sharding_uses_an_axis_once(attribute: ShardingAttr) -> None:
    """`#dm.sharding<@m, [["dp"], ["dp"]], {}>` is refused."""
    for named in attribute.partial:
        if not (isinstance(named.attr, ReductionAttr) and named.attr.parameters_hold()):
            raise Violation(f"{attribute}: partial axis '{named.name}' must give a #dm.reduction, got {named.attr}")
    axes = [axis for split in split_axes(attribute) for axis in split] + list(partial_axes(attribute))
    _check_distinct(axes, attribute)


@rule(ShardingAttr)
def reductions_of_a_sharding_commute(attribute: ShardingAttr) -> None:
    """A sum of maxima is not a maximum of sums, so a value is partial in one way; sum and mean are both linear."""
    kinds = sorted(set(partial_axes(attribute).values()))
    if len(kinds) > 1 and kinds != ["mean", "sum"]:
        raise Violation(
            f"{attribute} is partial by {' and '.join(kinds)}; their order would matter, so complete one first"
        )


def _check_distinct(axes: Sequence[str], attribute: ir.Attribute) -> None:
    for i, axis in enumerate(axes):
        if axis in axes[:i]:
            raise Violation(f"{attribute} uses axis '{axis}' twice; an axis is used at most once")


def _checked(attribute: GroupAttr | ShardingAttr) -> GroupAttr | ShardingAttr:
    try:
        check_attribute(attribute)
    except Violation as violation:
        raise DmcError(None, str(violation)) from None
    return attribute


def _strings(values: Sequence[str]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.StringAttr.get(value) for value in values])

"""Values side by side: computed at once from operands side by side, or concatenated."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import ir, linalg
from dmc.analysis.kernels.casts import NARROW, is_cast
from dmc.passes.shared.slices import concatenated, joint_type, slice_from
from dmc.walk import walk

Values = tuple[ir.Value, ...]

EMPTY, FILL = "tensor.empty", "linalg.fill"
# Bits of an element up to which gathered matrices are copied.
_NARROW = 16


@dataclass(frozen=True)
class Leaf:
    """Values concatenated along a dimension, and the operation that reads them so; None for what nothing computes."""

    values: Values
    dim: int
    reader: ir.Operation | None


@dataclass(frozen=True)
class Family:
    """What is computed at once if values are: `members`, by the values that each replaces, along a dimension.

    leaves: values that must be concatenated.
    """

    members: Mapping[Values, int]
    leaves: tuple[Leaf, ...]

    @property
    def ops(self) -> set[ir.Operation]:
        """The operations that become one."""
        return {value.owner.operation for values in self.members for value in values}


@dataclass(frozen=True)
class SideBySide:
    """Creates values side by side along a dimension, each once.

    `%a = f(%x, %v)`, `%b = f(%x, %w)` are slices of `%ab = f(%x, concat(%v, %w))`, for f a product, a cast, a sum over
    rows, …, whose operands' dimensions correspond to the result's.
    """

    known: dict[tuple[Values, int], ir.Value] = field(default_factory=dict)

    def family(self, values: Values, dim: int) -> Family:
        """What would be computed at once for `values` along `dim`; changes nothing."""
        members: dict[Values, int] = {}
        leaves: list[Leaf] = []
        pending: list[tuple[Values, int, ir.Operation | None]] = [(values, dim, None)]
        while pending:
            some, along, reader = pending.pop()
            if some in members or (some, along) in self.known:
                continue
            dims = alike(some, along)
            if dims is None:
                leaves.append(Leaf(some, along, reader))
                continue
            members[some] = along
            pending += ((_operands(some, i), own, some[0].owner.operation) for i, own in dims.items())
        return Family(members, tuple(leaves))

    def of(self, values: Values, dim: int) -> ir.Value:
        """`values` side by side along `dim`, at the insertion point."""
        if (values, dim) not in self.known:
            dims = alike(values, dim)
            self.known[values, dim] = concatenated(values, dim) if dims is None else self._computed(values, dim, dims)
        return self.known[values, dim]

    def replace(self, family: Family, roots: Values, dim: int) -> None:
        """Computes `roots`, along `dim`, at once: whoever else reads values of the family reads slices."""
        self.of(roots, dim)
        for values, along in family.members.items():
            if values == roots or (along == 0 and values[0].owner.name not in (EMPTY, FILL)):
                self._slice(values, along, family.ops)

    def _slice(self, values: Values, dim: int, inside: Collection[ir.Operation]) -> None:
        uses = [[use for use in value.uses if use.owner.operation not in inside] for value in values]
        if not any(uses):
            return
        whole = self.of(values, dim)
        slices = tuple(_part(whole, values, dim, i) for i in range(len(values)))
        self.known[slices, dim] = whole
        for own, new in zip(uses, slices, strict=True):
            for use in own:
                use.owner.operands[use.operand_number] = new

    def _computed(self, values: Values, dim: int, dims: Mapping[int, int]) -> ir.Value:
        operands = {i: self.of(_operands(values, i), own) for i, own in dims.items()}
        copy = values[0].owner.operation.clone()
        copy.location = ir.Location.fused([value.owner.location for value in values])
        for i, operand in operands.items():
            copy.operands[i] = operand
        copy.results[0].set_type(joint_type(values, dim))
        return copy.results[0]


def alike(values: Values, dim: int) -> Mapping[int, int] | None:
    """The operands that must be side by side, and along which dimension, so that `values` are along `dim`.

    None where they are not computed alike from operands of which the others are the same.
    """
    if any(isinstance(value.owner, ir.Block) for value in values) or not _fit(values, dim):
        return None
    first, *others = (value.owner.operation for value in values)
    dims = _operand_dims(first, dim)
    if dims is None or not all(_is_like(first, op) and _operand_dims(op, dim) == dims for op in others):
        return None
    shared = [i for i in range(len(first.operands)) if i not in dims]
    return dims if all(op.operands[i] == first.operands[i] for op in others for i in shared) else None


def is_given(family: Family, concatenated: Values = ()) -> bool:
    """Whether values side by side cost little: they are vectors, cast from the step's arguments anyway, or gathered.

    Gathered weights are copied, in narrow types. concatenated: values that stand side by side in any case.
    """
    return all(
        _fit(leaf.values, leaf.dim) and (leaf.values == concatenated or _is_given(leaf)) for leaf in family.leaves
    )


def _is_given(leaf: Leaf) -> bool:
    type_, is_narrowed = leaf.values[0].type, leaf.reader is not None and is_cast(leaf.reader, NARROW)
    if len(type_.shape) == 1 or is_narrowed:
        return all(isinstance(value.owner, ir.Block) or _is_gathered(value) for value in leaf.values)
    return type_.element_type.width <= _NARROW and all(map(_is_gathered, leaf.values))


def _is_gathered(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == dm.AllGatherOp.OPERATION_NAME


def is_read_inside(family: Family, roots: Values, ops: set[ir.Operation]) -> bool:
    """Whether none but `ops` read what is only computed at once from now on: else it would be computed twice.

    A part along dimension 0 is a view, which anyone may read.
    """
    inner = (value for values, dim in family.members.items() if values != roots and dim for value in values)
    computed = (value for value in inner if value.owner.name not in (EMPTY, FILL))
    return all(use.owner.operation in ops for value in computed for use in value.uses)


def _fit(values: Values, dim: int) -> bool:
    """Whether values differ at most in their size along the dimension."""
    types = [value.type for value in values]
    others = [[size for i, size in enumerate(each.shape) if i != dim] for each in types]
    return all(each == others[0] for each in others) and len({str(each.element_type) for each in types}) == 1


def _operand_dims(op: ir.Operation, dim: int) -> Mapping[int, int] | None:
    if op.name == EMPTY:
        return {}
    if not op.name.startswith("linalg.") or len(op.results) != 1:
        return None
    maps = [ir.AffineMapAttr(each).value for each in linalg.get_indexing_maps(op) or ()]
    if not maps or any(inner.name == "linalg.index" for inner in walk(op)):
        return None
    place = maps[-1].results[dim]
    if not isinstance(place, ir.AffineDimExpr):
        return None
    found: dict[int, int] = {}
    for i, each in enumerate(maps):
        having = [own for own, other in enumerate(each.results) if _uses(other, place)]
        if any(each.results[own] != place for own in having) or len(having) > 1:
            return None
        if having:
            found[i] = having[0]
    return found


def _uses(expression: ir.AffineExpr, loop: ir.AffineDimExpr) -> bool:
    return re.search(rf"\bd{loop.position}\b", str(expression)) is not None


def _is_like(one: ir.Operation, other: ir.Operation) -> bool:
    """Whether two operations are the same but for their operands and types."""
    return _signature(one) == _signature(other)


def _signature(op: ir.Operation) -> object:
    attributes = _attributes(op)
    types = [getattr(value.type, "element_type", value.type) for value in (*op.operands, *op.results)]
    return op.name, attributes, list(map(str, types)), [_body(block) for region in op.regions for block in region]


def _body(block: ir.Block) -> object:
    """The computation of a block, with its own values numbered."""
    numbers: dict[ir.Value, object] = {value: i for i, value in enumerate(block.arguments)}
    found: list[object] = []
    for view in block.operations:
        op = view.operation
        numbers.update({value: len(numbers) + i for i, value in enumerate(op.results)})
        attributes = _attributes(op)
        operands = [numbers.get(value, value) for value in op.operands]
        # What is nested in a body is like nothing else.
        inner = object() if len(op.regions) else None
        found.append((op.name, attributes, operands, [str(value.type) for value in op.results], inner))
    return found


def _attributes(op: ir.Operation) -> list[tuple[str, str]]:
    return sorted((name, str(op.attributes[name])) for name in op.attributes)


def _operands(values: Values, index: int) -> Values:
    return tuple(value.owner.operands[index] for value in values)


def _part(whole: ir.Value, values: Values, dim: int, index: int) -> ir.Value:
    type_ = values[index].type
    before = sum(value.type.shape[dim] for value in values[:index])
    return slice_from(whole, [before if i == dim else 0 for i in range(len(type_.shape))], type_)

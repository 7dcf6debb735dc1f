"""Fuses `linalg.generic`s over the same loops into one with all their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dmc._mlir import func, ir
from dmc.analysis.kernels.clusters import Clusters
from dmc.analysis.kernels.cost import loop_sizes
from dmc.analysis.kernels.graph import outer_reads
from dmc.kernels.bits import packed_width, unpacked_width
from dmc.passes.shared.loops import copy_with
from dmc.passes.shared.unread import erase_unread
from dmc.walk import is_parallel, reads

_GENERIC = "linalg.generic"


def merge_generics(function: func.FuncOp) -> None:
    """Fuses generics of a straight-line function that have the same loops.

    `%a = generic(%x)`, `%b = generic(%a, %y)` become `%a, %b = generic(%x, %y)` where `%b` reads `%a` at the index at
    which it is written; independent reductions become one with several results. A backend then makes one pass instead
    of one per generic. What nobody reads is erased: its readers may all compute it themselves.
    """
    erase_unread(function.entry_block)
    *ops, terminator = [view.operation for view in function.entry_block.operations]
    clusters = _clusters(ops)
    members: dict[int, list[int]] = {}
    for number in range(len(ops)):
        members.setdefault(clusters.find(number), []).append(number)
    if len(members) == len(ops):
        return
    with ir.InsertionPoint(terminator):
        for node in sorted(members, key=clusters.order.__getitem__):
            several = [ops[number] for number in members[node]]
            for op in several:
                op.move_before(terminator)
            if len(several) > 1:
                _merged(several)


def _clusters(ops: Sequence[ir.Operation]) -> Clusters:
    made_by = {result: number for number, op in enumerate(ops) for result in op.results}
    after: list[set[int]] = [set() for _ in ops]
    for number, op in enumerate(ops):
        for value in outer_reads(op):
            if value in made_by:
                after[made_by[value]].add(number)
    clusters = Clusters(after)
    alike: dict[object, list[int]] = {}
    for number, op in enumerate(ops):
        key = _key(op)
        if key is None:
            continue
        found = alike.setdefault(key, [])
        elsewhere = {made_by[value] for value in _read_elsewhere(op) if value in made_by}
        for other in found:
            node = clusters.find(other)
            apart = any(clusters.find(each) == node for each in elsewhere)
            if not apart and clusters.merge(node, clusters.find(number)):
                break
        else:
            found.append(number)
    return clusters


def _key(op: ir.Operation) -> object:
    """What fusible generics have in common: loops and result maps; None for other operations.

    Packings and unpackings stay as they are recognised.
    """
    if packed_width(op) is not None or unpacked_width(op) is not None:
        return None
    if op.name != _GENERIC or not all(isinstance(value.type, ir.RankedTensorType) for value in op.operands):
        return None
    written = _maps(op)[len(op.operands) - len(op.results) :]
    is_reduction = not is_parallel(op)
    if any(each != written[0] for each in written[1:]):
        return None
    arguments = list(op.regions[0].blocks[0].arguments)[len(op.operands) - len(op.results) :]
    if not is_reduction and any(list(argument.uses) for argument in arguments):
        return None
    if not is_reduction and not _is_identity(written[0]):
        return None
    return tuple(loop_sizes(op)), str(op.attributes["iterator_types"]), str(written[0])


def _read_elsewhere(op: ir.Operation) -> set[ir.Value]:
    """The values that a generic reads otherwise than at the index of its loops: by another map, or in its region."""
    inputs = len(op.operands) - len(op.results)
    operands = zip(op.operands, _maps(op), strict=True)
    elsewhere = {value for i, (value, each) in enumerate(operands) if i >= inputs or not _is_identity(each)}
    return elsewhere.union(value for inner in op.regions[0].blocks[0].operations for value in reads(inner))


Operand = tuple[ir.Value, ir.AffineMap]


def _merged(ops: Sequence[ir.Operation]) -> None:
    """Replaces generics by one at the position of the last; results that only they read disappear."""
    own = {result for op in ops for result in op.results}
    members = set(ops)
    # In order.
    inputs: dict[Operand, None] = {}
    outputs: list[Operand] = []
    kept: list[ir.Value] = []
    # Generics that are merged have the same loops.
    is_reduction = not is_parallel(ops[0])
    for op in ops:
        count = len(op.operands) - len(op.results)
        operands = list(zip(op.operands, _maps(op), strict=True))
        inputs |= dict.fromkeys(each for each in operands[:count] if each[0] not in own)
        for result, output in zip(op.results, operands[count:], strict=True):
            if is_reduction or any(use.owner.operation not in members for use in result.uses):
                kept.append(result)
                outputs.append(output)
    generic = _create(ops[-1], list(inputs), outputs)
    _fill(generic.regions[0].blocks[0], ops, list(inputs), kept)
    for old, new in zip(kept, generic.results, strict=True):
        old.replace_all_uses_with(new)
    for op in reversed(ops):
        op.erase()


def _create(like: ir.Operation, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> ir.Operation:
    operands = [*inputs, *outputs]
    attributes = {
        "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for _, each in operands]),
        "iterator_types": like.attributes["iterator_types"],
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(inputs), len(outputs)]),
    }
    generic = ir.Operation.create(
        _GENERIC,
        results=[value.type for value, _ in outputs],
        operands=[value for value, _ in operands],
        attributes=attributes,
        regions=1,
        loc=like.location,
        ip=ir.InsertionPoint(like),
    )
    elements = [value.type.element_type for value, _ in operands]
    generic.regions[0].blocks.append(*elements, arg_locs=[like.location] * len(elements))
    return generic


def _fill(block: ir.Block, ops: Sequence[ir.Operation], inputs: Sequence[Operand], kept: Sequence[ir.Value]) -> None:
    """The scalar computations of the old generics, in sequence."""
    arguments: list[ir.Value] = list(block.arguments)
    made: dict[ir.Value, ir.Value] = {}
    at_input = dict(zip(inputs, arguments, strict=False))
    at_output = dict(zip(kept, arguments[len(inputs) :], strict=True))
    with ir.InsertionPoint(block):
        for op in ops:
            *body, terminator = [view.operation for view in op.regions[0].blocks[0].operations]
            values = _elements(op, at_input, made, at_output)
            for inner in body:
                copy_with(inner, values)
            yielded = [values.get(value, value) for value in terminator.operands]
            made.update(zip(op.results, yielded, strict=True))
        ir.Operation.create("linalg.yield", operands=[made[value] for value in kept], loc=ops[-1].location)


def _elements(
    op: ir.Operation,
    at_input: Mapping[Operand, ir.Value],
    made: Mapping[ir.Value, ir.Value],
    at_output: Mapping[ir.Value, ir.Value],
) -> dict[ir.Value, ir.Value]:
    """The values for the arguments of the body of `op`: elements just computed, read, or accumulated into."""
    arguments = list(op.regions[0].blocks[0].arguments)
    count = len(op.operands) - len(op.results)
    values: dict[ir.Value, ir.Value] = {}
    for argument, operand, each in zip(arguments[:count], op.operands, _maps(op), strict=False):
        values[argument] = made[operand] if operand in made else at_input[operand, each]
    for argument, result in zip(arguments[count:], op.results, strict=True):
        values[argument] = at_output.get(result, argument)
    return values


def _maps(op: ir.Operation) -> list[ir.AffineMap]:
    return [ir.AffineMapAttr(each).value for each in op.attributes["indexing_maps"]]


def _is_identity(each: ir.AffineMap) -> bool:
    return each == ir.AffineMap.get_identity(each.n_dims)

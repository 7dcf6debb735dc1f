"""The order in which a dispatch reads and writes its buffers, as far as its operations show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import iree_tensor_ext, stream

Pairs = frozenset[tuple[int, int]]


def ordered_bindings(executable: Any) -> Pairs:
    """The pairs (read, written) of bindings of a `stream.executable` where all reads of one contribute to the values
    stored in the other.

    Then elementwise code has read an element before it overwrites it. Where IREE recomputes a value, an operation may
    read a buffer after another has overwritten it. So may the copy that IREE makes of a loop's result that is one of
    its operands, unchanged.
    """
    block = code_of(executable)
    buffers: dict[Any, int] = {}
    readers: dict[int, set[int]] = {}
    stores: list[tuple[int, Any]] = []
    loads: list[tuple[int, Any]] = []
    copied: set[Any] = set()
    for view in block.operations:
        copied |= {load for value in _passed_on(view.operation) for load in _sources(value.owner.operation)}
        match view:
            case stream.BindingSubspanOp():
                buffers[view.result] = ir.BlockArgument(view.binding).arg_number
            case iree_tensor_ext.DispatchTensorLoadOp():
                readers.setdefault(buffers[view.source], set()).update(_users(view.result, block))
                loads.append((buffers[view.source], view.operation))
            case iree_tensor_ext.DispatchTensorStoreOp():
                stores.append((buffers[view.target], view.operation))
            case _:
                continue
    for read, load in loads:
        if load in copied:
            readers.pop(read, None)
    pairs: set[tuple[int, int]] = set()
    for written, store in stores:
        needed = _sources(store)
        pairs.update((read, written) for read, users in readers.items() if users <= needed)
    return frozenset(pairs)


def code_of(executable: Any) -> Any:
    """The block of the only function of an executable."""
    (module,) = [op for op in executable.regions[0].blocks[0].operations if op.operation.name == "builtin.module"]
    (function,) = list(module.operation.regions[0].blocks[0].operations)
    return function.operation.regions[0].blocks[0]


def _passed_on(op: Any) -> list[Any]:
    """The operands that a loop with several results gives as one of them."""
    if op.name != "linalg.generic" or len(op.results) == 1:
        return []
    (body,) = op.regions[0].blocks
    arguments = list(body.arguments)
    yielded = [each for each in body.operations[len(body.operations) - 1].operands if each in arguments]
    return [op.operands[arguments.index(each)] for each in yielded]


def _users(value: Any, block: Any) -> set[Any]:
    """The operations of `block` that use a value, directly or nested."""
    return {_within(use.owner, block) for use in value.uses}


def _within(op: Any, block: Any) -> Any:
    while op.operation.block != block:
        op = op.operation.parent
    return op.operation


def _sources(op: Any) -> set[Any]:
    """`op` and all operations from which its operands are computed."""
    seen: set[Any] = set()
    todo = [op]
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        todo += [value.owner.operation for value in _reads(current) if not isinstance(value.owner, ir.Block)]
    return seen


def _reads(op: Any) -> Iterator[Any]:
    """The operands of an operation and of those nested in it."""
    yield from op.operands
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _reads(inner.operation)

"""A step as forward and backward pass, and what the one leaves to the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.kernels.cheap import is_cheap
from dmc.analysis.kernels.cost import is_contraction
from dmc.analysis.kernels.graph import outer_reads
from dmc.analysis.kernels.inlined import is_of_windows
from dmc.analysis.storage.pieces import is_view
from dmc.dialect.labels import module_path
from dmc.program.labels import BACKWARD, UPDATE

_LOOPS = ("linalg.generic", "linalg.broadcast", "linalg.reduce")

_Readers = Mapping[ir.Value, Sequence[ir.Operation]]


@dataclass(frozen=True)
class Step:
    """ops: in order. users, readers: by value of the forward pass, the operations of the forward and of the backward
    pass that read it, also through views. depths: by value, the most products and movements on the way to it from batch
    and state; none for what depends on neither, such as draws. constants: what each kernel makes for itself.
    """

    ops: tuple[ir.Operation, ...]
    users: _Readers
    readers: _Readers
    depths: Mapping[ir.Value, int]
    constants: frozenset[ir.Value]

    @staticmethod
    def of(step: func.FuncOp) -> Step:
        """Reads `@step`. Linear. What depends on the backward pass belongs to it, wherever it comes from."""
        *views, _ = step.entry_block.operations
        ops = tuple(view.operation for view in views)
        backward: set[ir.Value] = set()
        constants: set[ir.Value] = set()
        # Seeds and rates are scalars.
        depths = {value: 0 for value in step.arguments if ir.RankedTensorType(value.type).rank}
        users: dict[ir.Value, list[ir.Operation]] = {}
        readers: dict[ir.Value, list[ir.Operation]] = {}
        for op in ops:
            # What starts later than a movement does not depend on what that moves.
            read = [value for value in outer_reads(op) if not isinstance(value.type, dm.TokenType)]
            found = [depths[value] for value in read if value in depths]
            # What another stage sends is the batch's, though nothing here is read for it.
            is_received = op.name == dm.StartOp.OPERATION_NAME
            if found or is_received:
                depths.update(dict.fromkeys(op.results, max(found, default=0) + _is_deep(op)))
            is_constant = not is_received and all(value in constants for value in read)
            constants.update(op.results if is_constant else ())
            # Both passes may share a constant, which has one of their names.
            is_behind = any(value in backward for value in read) or (not is_constant and _is_backward(op))
            backward.update(op.results if is_behind else ())
            for base in dict.fromkeys(map(base_of, read)):
                (readers if is_behind else users).setdefault(base, []).append(op)
        own = backward | constants
        passed = {value: some for value, some in readers.items() if value not in own}
        return Step(ops, users, passed, depths, frozenset(constants))

    @cached_property
    def numbers(self) -> dict[ir.Operation, int]:
        """The place of each operation among them."""
        return {op: number for number, op in enumerate(self.ops)}

    def is_shared(self, value: ir.Value) -> bool:
        """Whether both passes read the same value: arguments, and constants and scalars, which each kernel makes."""
        is_tensor = isinstance(value.type, ir.RankedTensorType)
        return isinstance(value.owner, ir.Block) or value in self.constants or not is_tensor

    def is_join(self, op: ir.Operation) -> bool:
        """Whether an operation combines whole tensors between which there is a product, like a residual sum.

        Made again, it would need the sum before it, and that the one before.
        """
        size = prod(op.results[0].type.shape)
        whole = [value for value in outer_reads(op) if _elements(value) == size and value in self.depths]
        return len({self.depths[value] for value in whole}) > 1

    def is_written(self, value: ir.Value) -> bool:
        """Whether the forward pass needs a value in memory: else it is only passed on inside of a kernel."""
        maker = value.owner
        if isinstance(maker, ir.Block) or not (is_cheap(maker.operation) or is_contraction(maker.operation)):
            return True
        users = self.users.get(value, ())
        return self.is_join(maker.operation) or any(not is_loop(each) or self.is_join(each) for each in users)


def is_loop(reader: ir.Operation) -> bool:
    """Whether an operation can share a kernel with loops over the same elements."""
    return reader.name in _LOOPS and not is_contraction(reader)


def base_of(value: ir.Value) -> ir.Value:
    """The value in memory of which this one is a view."""
    while _is_view_here(value):
        value = value.owner.operands[0]
    return value


def views_of(value: ir.Value) -> Iterator[ir.Operation]:
    """The views between a value's base and the value, the last first."""
    while _is_view_here(value):
        yield value.owner.operation
        value = value.owner.operands[0]


def _is_view_here(value: ir.Value) -> bool:
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    # Kernels read windows where the image lies.
    return op.name.startswith("tensor.") and (is_view(op) or is_of_windows(op))


def _is_deep(op: ir.Operation) -> bool:
    return op.name.startswith("dm.") or is_contraction(op)


def _is_backward(op: ir.Operation) -> bool:
    return module_path(op.location).endswith((BACKWARD, UPDATE))


def _elements(value: ir.Value) -> int:
    return prod(value.type.shape) if isinstance(value.type, ir.RankedTensorType) else 1

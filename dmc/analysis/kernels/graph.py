"""`@step` as a graph: which operations compute, which are views, and which every kernel recomputes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.kernels.alike import Alike
from dmc.analysis.kernels.inlined import Inlined
from dmc.analysis.storage.pieces import is_view
from dmc.dialect.iree import FUSION_BARRIER
from dmc.errors import DmcError
from dmc.walk import is_parallel, walk

Fact = TypeVar("Fact")


class Kind(Enum):
    """The role of an operation of `@step` for kernels."""

    CONSTANT = auto()  # constants, and elementwise computations on them: rematerialised in every kernel
    SCALAR = auto()  # computes scalars: part of the kernels that read them
    INLINED = auto()  # a cast or movement of elements that is part of each kernel that reads it (`Inlined`)
    VIEW = auto()  # its result aliases its operand
    COMPUTE = auto()
    MOVEMENT = auto()  # stays in the step: collectives, each rank's contiguous slice, kernels of whole composites
    BARRIER = auto()  # separates the producer and the readers of a value


_ALL_SLICE, _FILL = dm.AllSliceOp.OPERATION_NAME, "linalg.fill"


@dataclass(frozen=True)
class Graph:
    """The operations of `@step` but its terminator, in order.

    reads: the values each uses from outside, operands first, then those of its regions. made_by: for each result the
    index of its operation. returned: the values that the step returns. alike: for each operation a number that those
    which are alike have in common.
    """

    ops: tuple[ir.Operation, ...]
    kinds: tuple[Kind, ...]
    reads: tuple[tuple[ir.Value, ...], ...]
    made_by: dict[ir.Value, int]
    returned: tuple[ir.Value, ...]
    alike: tuple[int, ...]
    facts: Alike

    def fact(self, function: Callable[..., Fact], number: int, *arguments: Any) -> Fact:
        """`function(op, *arguments)` of operation `number`, where it depends on nothing but the operation itself."""
        return self.facts.fact(self.alike[number], function, self.ops[number], *arguments)

    def kind_of(self, value: ir.Value) -> Kind | None:
        """The producer of the value; None for an argument."""
        number = self.made_by.get(value)
        return None if number is None else self.kinds[number]

    def base(self, value: ir.Value) -> ir.Value:
        """The value that this one aliases, through views and barriers."""
        while self.kind_of(value) in (Kind.VIEW, Kind.BARRIER):
            value = self.ops[self.made_by[value]].operands[0]
        return value


def step_graph(step: func.FuncOp, own: bool = False, kinds_only: bool = False) -> Graph:
    """The graph of a straight-line step. own: whether dmc's own code computes its kernels, not IREE's. kinds_only:
    leave `reads` and `alike` out, which take most of the time.

    Raises DmcError for an operation that cannot be part of a kernel.
    """
    *views, terminator = step.entry_block.operations
    ops = tuple([view.operation for view in views])
    made_by: dict[ir.Value, int] = {}
    kinds: list[Kind] = []
    reads: list[tuple[ir.Value, ...]] = []
    alike: list[int] = []
    facts = Alike()
    constants: set[ir.Value] = set()
    for number, op in enumerate(ops):
        if kinds_only:
            # Most operations read something else.
            kind = _kind(op, constants.issuperset(op.operands) and constants.issuperset(outer_reads(op)))
        else:
            like, read = facts.read(op)
            kind = facts.fact(like, _kind, op, constants.issuperset(read))
            reads.append(read)
            alike.append(like)
        kinds.append(kind)
        for result in op.results:
            made_by[result] = number
            if kind is Kind.CONSTANT:
                constants.add(result)
    _inline(ops, kinds, made_by, Inlined(own))
    returned = tuple(terminator.operation.operands)
    return Graph(ops, tuple(kinds), tuple(reads), made_by, returned, tuple(alike), facts)


def _inline(ops: Sequence[ir.Operation], kinds: list[Kind], made_by: Mapping[ir.Value, int], inlined: Inlined) -> None:
    """Finds the operations that are inlined."""
    for number, op in reversed(list(enumerate(ops))):
        if kinds[number] is Kind.COMPUTE and inlined.takes(op):
            kinds[number] = Kind.INLINED
    # A view of what is not in memory is none.
    for number, op in enumerate(ops):
        source = made_by.get(op.operands[0]) if kinds[number] is Kind.VIEW else None
        if source is not None and kinds[source] is Kind.INLINED:
            kinds[number] = Kind.INLINED


def outer_reads(op: ir.Operation) -> Iterator[ir.Value]:
    """The values that `op` and its regions use from outside it, each once."""
    seen: set[ir.Value] = set()
    for inner in walk(op):
        for operand in inner.operands:
            if operand not in seen:
                seen.add(operand)
                yield operand
        seen.update(inner.results)
        if len(inner.regions):
            seen.update(argument for region in inner.regions for block in region for argument in block.arguments)


def _kind(op: ir.Operation, is_of_constants: bool) -> Kind:
    if op.name == FUSION_BARRIER:
        return Kind.BARRIER
    if op.name == _ALL_SLICE:
        return Kind.MOVEMENT if is_view(op) else Kind.COMPUTE
    if op.name.startswith("dm."):
        return Kind.MOVEMENT
    if op.name.startswith(("scf.", "func.")):
        hint = "run dm-unroll-loops and dm-inline-composites first"
        raise DmcError(op, "cannot be part of a kernel: a step must be straight-line code here", hint)
    makes_constant = op.name in ("arith.constant", "tensor.empty", _FILL) or is_view(op)
    is_plain = op.name in ("linalg.transpose", "linalg.broadcast") or (op.name == "linalg.generic" and is_parallel(op))
    if (makes_constant or is_plain) and is_of_constants:
        return Kind.CONSTANT
    if not any(isinstance(result.type, ir.RankedTensorType) for result in op.results):
        return Kind.SCALAR
    return Kind.VIEW if is_view(op) else Kind.COMPUTE

"""Which values of a computation split into equal pieces along their first dimension, if some of its arguments do."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from dmc._mlir import ir
from dmc.analysis.loops.loops import PARALLEL, Dims, Loops
from dmc.analysis.loops.rules import loops_of
from dmc.walk import walk

# For these, a piece is the same operation on pieces; others would need sizes and offsets scaled.
_DIALECTS = ("linalg", "arith", "math")
_OPS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.concat")


def rows_in(block: ir.Block, given: Collection[int], parts: int) -> Rows | None:
    """The values of `block` in pieces if the arguments `given` are; None if a reader needs the whole.

    Other arguments may have to be in pieces, too. Loops relate dimensions (`loops_of`).
    Linear in the number of uses.
    """
    rows = Rows(parts)
    waiting = [block.arguments[i] for i in given]
    while waiting:
        value = waiting.pop()
        if value in rows.values:
            continue
        more = rows.add(value)
        if more is None:
            return None
        waiting += more
    return rows


def is_done_in_pieces(op: ir.Operation, parts: int) -> bool:
    """Whether a unary operation maps a piece of its operand to a piece of its result."""
    needed = Rows(parts).add(op.operands[0], (op,))
    return needed is not None and op.results[0] in needed and op.results[0].type.shape[0] % parts == 0


def is_filler(op: ir.Operation) -> bool:
    """Whether the operation returns a splat or an uninitialised tensor: so is a piece of it."""
    if op.name == "tensor.empty":
        return True
    if op.name != "arith.constant":
        return False
    value: ir.Attribute = op.attributes["value"]
    return isinstance(value, ir.DenseElementsAttr) and value.is_splat


@dataclass
class Rows:
    """Values in `parts` equal pieces along their first dimension, all others being whole.

    values: these; a filler among them may also be read whole. loops: the split loop of each reader.
    """

    parts: int
    values: set[ir.Value] = field(default_factory=set[ir.Value])
    loops: dict[ir.Operation, int] = field(default_factory=dict[ir.Operation, int])

    def reads_piece(self, op: ir.Operation, operand: int) -> bool:
        """Whether `op` works on a piece of this operand."""
        dims = loops_of(op).operands[operand] if op in self.loops else None
        return dims is not None and _place(self.loops[op], dims) == 0

    def add(self, value: ir.Value, readers: Iterable[ir.Operation] | None = None) -> list[ir.Value] | None:
        """Adds a value; returns those that must be in pieces with it, or None if it must be whole.

        readers: those considered; by default all.
        """
        if not isinstance(value.type, ir.RankedTensorType) or not value.type.rank or value.type.shape[0] % self.parts:
            return None
        self.values.add(value)
        ops = [use.owner.operation for use in value.uses] if readers is None else list(readers)
        if readers is None and not isinstance(value.owner, ir.Block):
            maker = value.owner.operation
            ops = [] if is_filler(maker) else [maker, *ops]
        more: list[ir.Value] = []
        for op in ops:
            if op.name == "func.return":
                continue
            needed = self._needed(op, value)
            if needed is None:
                return None
            more += needed
        return more

    def _needed(self, op: ir.Operation, value: ir.Value) -> list[ir.Value] | None:
        """The operands and results of `op` in pieces, including `value`."""
        if op.name.partition(".")[0] not in _DIALECTS and op.name not in _OPS:
            return None
        loops = loops_of(op)
        places = [*zip(op.operands, loops.operands, strict=True), *zip(op.results, loops.results, strict=True)]
        own = [dims for each, dims in places if each == value and dims is not None]
        firsts = {dims[0][0] if dims[0] else None for dims in own}
        loop = self.loops.setdefault(op, next(iter(firsts)) or 0)
        if firsts != {loop} or not self._splits(op, loops, loop):
            return None
        having = [each for each, dims in places if dims is not None and _has(loop, dims)]
        wanted = [dims for _, dims in places if dims is not None and _has(loop, dims)]
        if any(_place(loop, dims) != 0 for dims in (*wanted, *loops.results)):
            return None
        return having

    def _splits(self, op: ir.Operation, loops: Loops, loop: int) -> bool:
        """Whether a loop can be split: its index is not read."""
        if any(inner.name == "linalg.index" for inner in walk(op)):
            return False
        return loops.loops[loop].kind == PARALLEL and loops.loops[loop].size % self.parts == 0


def _has(loop: int, dims: Dims) -> bool:
    return any(loop in each for each in dims)


def _place(loop: int, dims: Dims | None) -> int | None:
    """The dimension of which `loop` is the major part; None if there is none."""
    return next((i for i, each in enumerate(dims or ()) if each and each[0] == loop), None)

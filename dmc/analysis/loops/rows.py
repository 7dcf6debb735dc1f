"""Which values of a computation fall into equal pieces along their first dimension, if some of its arguments do."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from dmc._mlir import ir
from dmc.analysis.loops.loops import PARALLEL, Dims, Loops
from dmc.analysis.loops.rules import loops_of
from dmc.walk import walk

# Of these a piece is the same operation on pieces; a table of sizes or places would have to be scaled with others.
_DIALECTS = ("linalg", "arith", "math")
_OPS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.concat")


def rows_in(block: ir.Block, given: Collection[int], parts: int) -> Rows | None:
    """What comes in pieces in `block` if the arguments `given` do; None where a piece would not do for a reader.

    Other arguments may have to come in pieces with them. Loops say which dimensions belong together (`loops_of`).
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
    """Whether an operation with one operand and one result gives a piece of its result for a piece of its operand."""
    needed = Rows(parts).add(op.operands[0], (op,))
    return needed is not None and op.results[0] in needed and op.results[0].type.shape[0] % parts == 0


def is_filler(op: ir.Operation) -> bool:
    """Whether the operation gives a tensor that has one value everywhere, or none: a piece of it is another such."""
    if op.name == "tensor.empty":
        return True
    if op.name != "arith.constant":
        return False
    value: ir.Attribute = op.attributes["value"]
    return isinstance(value, ir.DenseElementsAttr) and value.is_splat


@dataclass
class Rows:
    """Values that come in `parts` equal pieces along their first dimension, all else being computed whole.

    values: they; a filler among them may be read whole as well. loops: which loop of their readers is in parts.
    """

    parts: int
    values: set[ir.Value] = field(default_factory=set[ir.Value])
    loops: dict[ir.Operation, int] = field(default_factory=dict[ir.Operation, int])

    def reads_piece(self, op: ir.Operation, operand: int) -> bool:
        """Whether `op` works on a piece of this operand."""
        dims = loops_of(op).operands[operand] if op in self.loops else None
        return dims is not None and _place(self.loops[op], dims) == 0

    def add(self, value: ir.Value, readers: Iterable[ir.Operation] | None = None) -> list[ir.Value] | None:
        """Takes in one value more; gives those that must come in pieces with it, or None where a piece will not do.

        readers: those that count; all, unless given.
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
        """The operands and results of `op` that come in pieces, `value` among them."""
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
        """Whether a loop can be done in parts: no index of it is read."""
        if any(inner.name == "linalg.index" for inner in walk(op)):
            return False
        return loops.loops[loop].kind == PARALLEL and loops.loops[loop].size % self.parts == 0


def _has(loop: int, dims: Dims) -> bool:
    return any(loop in each for each in dims)


def _place(loop: int, dims: Dims | None) -> int | None:
    """The dimension that `loop` is the major part of; None where there is none."""
    return next((i for i, each in enumerate(dims or ()) if each and each[0] == loop), None)

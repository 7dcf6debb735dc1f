"""dm-recompute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dmc._mlir import ir
from dmc.analysis.kernel_cost import is_contraction
from dmc.analysis.pieces import RESHAPES
from dmc.analysis.settings import target_of
from dmc.dialect.plan import type_bytes
from dmc.passes.base import Pass, run_passes
from dmc.step_function import find_step
from dmc.target import CUDA, targets

# What a GPU computes in less time than it reads the result: a few dozen instructions for four bytes.
_CHEAP = frozenset(
    "linalg.yield arith.constant arith.extf arith.truncf arith.sitofp arith.uitofp arith.extsi arith.extui arith.trunci "
    "arith.addf arith.subf arith.mulf arith.divf arith.negf arith.maximumf arith.minimumf arith.select arith.cmpf "
    "arith.cmpi arith.andi arith.ori arith.xori math.exp math.tanh math.erf math.sqrt math.rsqrt math.absf".split()
)
# Smaller values are not worth a thought.
_LEAST_BYTES = 1 << 16
# So much more than the value, in parts of it, may its operands take: weights and statistics beside one large operand.
_SLACK = 16


@dataclass(frozen=True)
class Recompute(Pass):
    """Computes cheap values anew for each operation that reads them, where the operands take no more memory.

    `%w = extf %x : bf16 to f32`, read by two kernels, would stand in memory as f32; each reads `%x` instead. Casts,
    arithmetic, comparisons and functions such as tanh are cheap. A value that must be in memory all the same, because a matrix product,
    a movement or the caller reads it, stays one. Bits do not change. On CUDA only: a CPU computes more slowly than it
    reads from its caches.
    """

    name = "dm-recompute"
    target: str = ""

    def run(self, module: ir.Module) -> None:
        if CUDA.name not in {each.name for each in targets(target_of(module, self.target))}:
            return
        run_passes(module, ("convert-elementwise-to-linalg",))
        block = find_step(module).entry_block
        # The last first: what is computed anew reads its operands once more.
        for view in reversed(list(block.operations)):
            if _is_cheap(view.operation):
                _give_each_reader_its_own(view.operation, block)


def _is_cheap(op: ir.Operation) -> bool:
    if op.name != "linalg.generic" or len(op.results) != 1:
        return False
    if any("parallel" not in str(each) for each in op.attributes["iterator_types"]):
        return False
    body = op.regions[0].blocks[0]
    made = type_bytes(op.results[0].type)
    if made < _LEAST_BYTES or any(each.operation.name not in _CHEAP for each in body.operations):
        return False
    pairs = zip(op.operands, body.arguments, strict=True)
    read = {value for value, argument in pairs if list(argument.uses)}
    tensors = [value for value in read if isinstance(value.type, ir.RankedTensorType)]
    return len(tensors) == len(read) and sum(type_bytes(each.type) for each in tensors) <= made + made // _SLACK


Path = tuple[ir.Operation, ...]


def _give_each_reader_its_own(op: ir.Operation, block: ir.Block) -> None:
    uses = list(_uses(op.results[0]))
    readers = {reader for reader, _, _ in uses}
    if len(readers) < 2 or not all(_can_compute(each, block) for each in readers):
        return
    for reader in readers:
        with ir.InsertionPoint(reader):
            new = op.clone()
            for _, index, path in (use for use in uses if use[0] == reader):
                reader.operands[index] = _reshaped(new, path)
    for view in reversed(dict.fromkeys(each for _, _, path in uses for each in path)):
        view.erase()
    op.erase()


def _uses(value: ir.Value, path: Path = ()) -> Iterator[tuple[ir.Operation, int, Path]]:
    """The operations that read a value, by which operand, and the reshapes on the way, in order."""
    for use in value.uses:
        owner = use.owner.operation
        if owner.name in RESHAPES:
            yield from _uses(owner.results[0], (*path, owner))
        else:
            yield owner, use.operand_number, path


def _can_compute(reader: ir.Operation, block: ir.Block) -> bool:
    """Whether a reader can do without the value in memory."""
    is_loop = reader.name in ("linalg.generic", "linalg.broadcast", "linalg.reduce")
    return is_loop and reader.block == block and not is_contraction(reader)


def _reshaped(op: ir.Operation, path: Path) -> ir.Value:
    value = op.results[0]
    for view in path:
        copy = view.clone()
        copy.operands[0] = value
        value = copy.results[0]
    return value

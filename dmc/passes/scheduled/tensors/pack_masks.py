"""dm-pack-masks."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from dmc._mlir import ir
from dmc.analysis.kernels.cheap import cheap_reads, is_cheap
from dmc.analysis.storage.pieces import RESHAPES
from dmc.dialect.iree import fusion_barrier
from dmc.dialect.labels import module_path
from dmc.kernels.bits import WIDTHS
from dmc.passes.base import NESTED, Pass, run_passes
from dmc.passes.shared.loops import PARALLEL, loops, scalar
from dmc.passes.shared.report import print_table, starred
from dmc.passes.shared.reshapes import COLLAPSE, EXPAND, reshape
from dmc.passes.shared.splats import behind
from dmc.passes.shared.step import Step, base_of, is_loop
from dmc.step_function import find_step

HEAD = ("mask of", "masks", "bytes", "bytes as bits", "decision")
_PACKED, _ODD, _READ = "packed", "kept: rows of no whole bytes", "kept: not only loops read it"


@dataclass(frozen=True)
class PackMasks(Pass):
    """Keeps masks of dropout as bits, of which a byte holds eight, from the forward to the backward pass.

    `%m = draw : tensor<64x96xi1>` becomes `%w = barrier(pack(%m)) : tensor<64x3xi32>`, and what reads %m reads
    `unpack(%w)`, which each kernel does for itself (`dm-recompute`). Bit j of a word is its element j. So a thread
    draws and writes a whole word, whose bits share their random numbers.

    A mask is what is drawn, or computed from draws alone, and read by both passes: only its own kernel makes it. Words
    have 32 bits, or 8 where rows are no multiple of that; masks of other rows stay as they are. On CUDA only: a CPU
    spends longer on bits than on bytes.

    least: how many elements a mask must have. reasons: print on stderr the masks, with bytes, and the decision.
    """

    name = "dm-pack-masks"
    least: int = 1 << 16
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        run_passes(module, ("convert-elementwise-to-linalg",), NESTED)
        step = Step.of(find_step(module))
        masks = {value: _decision(value) for value in _made_from(step) if _is_mask(value, step, self.least)}
        if self.reasons:
            _print_reasons(masks)
        for mask in [each for each, decision in masks.items() if decision == _PACKED]:
            _pack(mask)


def _made_from(step: Step) -> list[ir.Value]:
    """What the backward pass reads of the forward pass, and what that could be made from again."""
    found = dict.fromkeys(step.readers)
    pending = list(found)
    while pending:
        value = pending.pop()
        is_made = not isinstance(value.owner, ir.Block) and is_cheap(value.owner.operation)
        read = [base_of(each) for each in (cheap_reads(value.owner.operation) if is_made else ())]
        pending += [each for each in read if each not in found]
        found.update(dict.fromkeys(read))
    return list(found)


def _is_mask(value: ir.Value, step: Step, least: int) -> bool:
    """Whether a value is drawn, and true or false."""
    is_tensor = isinstance(value.type, ir.RankedTensorType) and not isinstance(value.owner, ir.Block)
    if not is_tensor or str(value.type.element_type) != "i1" or prod(value.type.shape) < least:
        return False
    return value not in step.depths and value not in step.constants


def _decision(mask: ir.Value) -> str:
    if _width(mask.type) is None:
        return _ODD
    return _PACKED if all(map(is_loop, _readers(mask))) else _READ


def _readers(value: ir.Value) -> Iterator[ir.Operation]:
    """What reads a value, also through views."""
    for use in value.uses:
        reader = use.owner.operation
        if reader.name in RESHAPES:
            yield from _readers(reader.results[0])
        else:
            yield reader


def _width(mask: ir.RankedTensorType) -> int | None:
    """The bits of a word, if rows have a whole number of words."""
    return next((width for width in WIDTHS if mask.shape and mask.shape[-1] % width == 0), None)


def _pack(mask: ir.Value) -> None:
    """Lets the readers of a mask read it from words."""
    uses = [(use.owner.operation, use.operand_number) for use in mask.uses]
    with behind(mask):
        words = _words(mask)
    kept = fusion_barrier(words)
    with behind(kept):
        bits = _bits(kept, mask.type)
    for reader, number in uses:
        reader.operands[number] = bits


def _words(mask: ir.Value) -> ir.Value:
    """The words of a mask, at the insertion point."""
    expanded = _expanded(mask.type)
    kind = ir.IntegerType.get_signless(expanded.shape[-1])
    type_ = ir.RankedTensorType.get(expanded.shape[:-1], kind)
    zeros = {"value": ir.DenseElementsAttr.get_splat(type_, ir.IntegerAttr.get(kind, 0))}
    start = ir.Operation.create("arith.constant", [type_], attributes=zeros).results[0]
    bits = reshape(EXPAND, mask, expanded, _groups(mask.type))

    def joined(bit: ir.Value, word: ir.Value) -> ir.Value:
        wide = ir.Operation.create("arith.extui", [kind], [bit]).results[0]
        return scalar("arith.ori", scalar("arith.shli", wide, _place(expanded, kind)), word)

    places = _places(expanded)
    kinds = [*[PARALLEL] * len(type_.shape), "reduction"]
    return loops([bits, start], [places, places[:-1]], kinds, joined).results[0]


def _bits(words: ir.Value, mask: ir.RankedTensorType) -> ir.Value:
    """The mask that words hold, at the insertion point."""
    expanded, kind = _expanded(mask), words.type.element_type
    empty = ir.Operation.create("tensor.empty", [expanded]).results[0]

    def bit(word: ir.Value, _: ir.Value) -> ir.Value:
        shifted = scalar("arith.shrsi", word, _place(expanded, kind))
        return ir.Operation.create("arith.trunci", [mask.element_type], [shifted]).results[0]

    places = _places(expanded)
    made = loops([words, empty], [places[:-1], places], [PARALLEL] * len(places), bit).results[0]
    return reshape(COLLAPSE, made, mask, _groups(mask))


def _expanded(mask: ir.RankedTensorType) -> ir.RankedTensorType:
    """The type of a mask with a dimension for the bits of a word."""
    *outer, columns = mask.shape
    width = _width(mask)
    assert width is not None, "its rows are words"
    return ir.RankedTensorType.get([*outer, columns // width, width], mask.element_type)


def _groups(mask: ir.RankedTensorType) -> Sequence[Sequence[int]]:
    last = len(mask.shape) - 1
    return [*([dim] for dim in range(last)), [last, last + 1]]


def _places(expanded: ir.RankedTensorType) -> list[ir.AffineExpr]:
    return [ir.AffineExpr.get_dim(dim) for dim in range(len(expanded.shape))]


def _place(expanded: ir.RankedTensorType, kind: ir.Type) -> ir.Value:
    """The place of a bit in its word."""
    last = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(expanded.shape) - 1)
    index = ir.Operation.create("linalg.index", [ir.IndexType.get()], attributes={"dim": last}).results[0]
    return ir.Operation.create("arith.index_cast", [kind], [index]).results[0]


def _print_reasons(masks: dict[ir.Value, str]) -> None:
    """Prints on stderr each mask, equal ones as one row, the largest first; and the sum."""
    rows = Counter(
        (starred(module_path(each.owner.location)), prod(each.type.shape), why) for each, why in masks.items()
    )
    ordered = sorted(rows.items(), key=lambda row: (-row[0][1] * row[1], row[0]))
    print_table(
        HEAD,
        [
            (label, count, f"{size * count:,}", f"{size * count // 8:,}" if why == _PACKED else "-", why)
            for (label, size, why), count in ordered
        ],
    )
    saved = sum(size * count * 7 // 8 for (_, size, why), count in rows.items() if why == _PACKED)
    print(f"{saved:,} bytes less between the passes", file=sys.stderr)

"""Masks as words of bits: the two loops between them, recognised by what they compute.

*Packing* turns a mask [..., n, w] of i1 into words [..., n] of w bits: bit j of a word is its element j. *Unpacking* is
the inverse. `dm-pack-masks` writes both, generated kernels compute them a word at a time, and V11 knows that what was
packed and unpacked is what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmc._mlir import ir
from dmc.memo import once
from dmc.walk import loop_kinds

# The bits of a word, the most first.
WIDTHS = (32, 8)


def packed_width(op: Any) -> int | None:
    """The bits of a word, if an operation is a packing."""
    if not _is_of_words(op, mask=0, word=1, last="reduction") or not _is_zero(op.operands[1]):
        return None
    bit, word = op.regions[0].blocks[0].arguments
    names = ("linalg.index", "arith.index_cast", "arith.extui", "arith.shli", "arith.ori", "linalg.yield")
    made = _made(op, names)
    if made is None:
        return None
    place, wide, shifted = made["arith.index_cast"], made["arith.extui"], made["arith.shli"]
    is_wired = (
        list(wide.operands) == [bit]
        and list(shifted.operands) == [wide.results[0], place.results[0]]
        and list(made["arith.ori"].operands) == [shifted.results[0], word]
        and list(made["linalg.yield"].operands) == list(made["arith.ori"].results)
    )
    return _width(op.operands[1]) if is_wired else None


def unpacked_width(op: Any) -> int | None:
    """The bits of a word, if an operation is an unpacking."""
    if not _is_of_words(op, mask=1, word=0, last="parallel"):
        return None
    word, _ = op.regions[0].blocks[0].arguments
    made = _made(op, ("linalg.index", "arith.index_cast", "arith.shrsi", "arith.trunci", "linalg.yield"))
    if made is None:
        return None
    place, shifted = made["arith.index_cast"], made["arith.shrsi"]
    is_wired = (
        list(shifted.operands) == [word, place.results[0]]
        and list(made["arith.trunci"].operands) == list(shifted.results)
        and list(made["linalg.yield"].operands) == list(made["arith.trunci"].results)
    )
    return _width(op.operands[0]) if is_wired else None


def _is_of_words(op: Any, mask: int, word: int, last: str) -> bool:
    """Whether an operation is loops over a mask in order, the `last` of which is not over words."""
    # Few operations read or write bits, and this is asked of all.
    if op.name != "linalg.generic" or len(op.operands) != 2 or not once(_is_of_bits, op.operands[mask].type):
        return False
    types = [operand.type for operand in op.operands]
    if not isinstance(types[word], ir.RankedTensorType) or set(loop_kinds(op)[:-1]) - {"parallel"}:
        return False
    width, shape = _width(op.operands[word]), list(types[mask].shape)
    if width not in WIDTHS or shape[-1:] != [width] or list(types[word].shape) != shape[:-1]:
        return False
    identity = ir.AffineMap.get_identity(len(shape))
    maps = [ir.AffineMapAttr(each).value for each in op.attributes["indexing_maps"]]
    is_in_order = maps[mask] == identity and maps[word] == identity.get_submap(list(range(len(shape) - 1)))
    return is_in_order and loop_kinds(op)[-1] == last


def _is_of_bits(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and str(type_.element_type) == "i1"


def _made(op: Any, names: Sequence[str]) -> dict[str, Any] | None:
    """The operations of a body by their names, if it has these, each once, and casts the index of the last loop."""
    found = {view.operation.name: view.operation for view in op.regions[0].blocks[0].operations}
    if len(op.regions[0].blocks[0].operations) != len(names) or found.keys() != set(names):
        return None
    index, place = found["linalg.index"], found["arith.index_cast"]
    is_last = index.attributes["dim"].value == len(loop_kinds(op)) - 1
    return found if is_last and list(place.operands) == list(index.results) else None


def _width(words: Any) -> int | None:
    element = words.type.element_type
    return element.width if isinstance(element, ir.IntegerType) else None


def _is_zero(value: Any) -> bool:
    """Whether a tensor is filled with zeros."""
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    if op.name == "linalg.fill":
        number = op.operands[0].owner
        is_known = not isinstance(number, ir.Block) and number.name == "arith.constant"
        return is_known and number.attributes["value"].value == 0
    content: Any = op.attributes["value"] if op.name == "arith.constant" else None
    return isinstance(content, ir.DenseElementsAttr) and content.is_splat and content.get_splat_value().value == 0

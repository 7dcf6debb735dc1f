"""Masks as words of bits (`dmc.kernels.bits`): a thread packs whole words, and a tile reads each of its words once."""

from __future__ import annotations

import re
from typing import Any

from dmc.kernels.bits import packed_width, unpacked_width
from dmc.kernels.generated.index import Index, Variable, constant, linearise
from dmc.kernels.generated.operations import Places
from dmc.kernels.generated.value import Value, variables_of
from dmc.kernels.generated.writer import Writer

# A tile's elements along its last axis, and, where the layout of a product is to be kept, along its first. A tile
# begins at a multiple of its size.
_ALONG = re.compile(r"(?:(?P<start>.+) \+ )?tl\.arange\(0, (?P<count>\d+)\)(?P<axis>\[None, :\])?")
_PLACED = re.compile(r"(?P<start>.+) \+ ping_pong\.(?P<axis>rows|columns)\(like\)")
_FACTOR = re.compile(r"(?<=[*+] )\d+")
# Words that are joined in a line.
_JOINED = 4


def packed(emitter: Any, op: Any, places: Places) -> Value | None:
    """A word of a packing, from all its bits; None for another operation."""
    width = packed_width(op)
    if width is None:
        return None
    body = [view.operation for view in op.regions[0].blocks[0].operations]
    shifted = next(each.results[0] for each in body if each.name == "arith.shli")
    bits = [emitter.inner_value(op, shifted, (*places, constant(place))) for place in range(width)]
    variables, texts = variables_of(bits), [each.text for each in bits]
    while len(texts) > 1:
        joined = [" | ".join(texts[i : i + _JOINED]) for i in range(0, len(texts), _JOINED)]
        texts = [emitter.writer.line("word", each, variables) for each in joined]
    return Value(texts[0], str(op.results[0].type.element_type), "i32", variables)


def unpacked(emitter: Any, op: Any, places: Places) -> Value | None:
    """A tile of an unpacking, from a tile of words; None for another operation, or where words do not fill tiles."""
    width, writer = unpacked_width(op), emitter.writer
    if width is None or op.operands[0] not in emitter.memory or emitter.conditions:
        return None
    number = linearise(places, op.results[0].type.shape)
    found = _words(writer, number, width)
    if found is None:
        return None
    place, masks = found
    emitter.loads.append((op.operands[0], number // width))
    name = emitter.memory[op.operands[0]]
    masked = f", mask={' & '.join(masks)}, other=0" if masks else ""
    words = writer.line(name, f"tl.load({name}_at + {writer.index(place)}{masked})", number.variables)
    is_placed = any(_is_placed(writer, each) for each in number.variables)
    function = f"ping_pong.bits({words}, like, {width})" if is_placed else f"functions.bits({words}, {width})"
    return Value(writer.line("bits", function, number.variables), "i1", "i1", number.variables, bounds=(0, 1))


def _words(writer: Writer, number: Index, width: int) -> tuple[Index, list[str]] | None:
    """The words of a tile's elements, and their masks; None where the last axis is not whole words."""
    along = [atom for atom, factor in number.terms if factor == 1]
    others = [(atom, factor) for atom, factor in number.terms if factor != 1]
    is_whole = all(factor % width == 0 for _, factor in others) and number.constant % width == 0
    if len(along) != 1 or not is_whole or any(along[0].variables & atom.variables for atom, _ in others):
        return None
    terms: list[tuple[Any, int]] = []
    masks: list[str] = []
    for atom, factor in number.terms:
        made = _beside(writer, atom, width, is_along=factor == 1)
        if made is None:
            return None
        terms.append((made, 1 if factor == 1 else factor // width))
        is_masked = isinstance(made, Variable) and made != atom and atom.name in writer.masks
        masks += [f"({made.name} < {made.size})"] if is_masked else writer.mask(made.variables)
    return Index(tuple(terms), number.constant // width), masks


def _beside(writer: Writer, atom: Any, width: int, is_along: bool) -> Any:
    """What stands in the place of a word for this in the place of an element; None where there is no such thing."""
    text = writer.declared.get(atom.name, "") if isinstance(atom, Variable) else ""
    placed, tile = _PLACED.fullmatch(text), _ALONG.fullmatch(text)
    if not is_along:
        if placed:
            return Variable(
                writer.beside(atom.name, f"{placed['start']} + ping_pong.word_rows(like, {width})"), atom.size
            )
        return None if any(_is_placed(writer, name) for name in atom.variables) else atom
    made = ""
    if placed and placed["axis"] == "columns":
        is_aligned = all(int(each) % width == 0 for each in _FACTOR.findall(placed["start"]))
        made = f"({placed['start']}) // {width} + ping_pong.word_columns(like, {width})" if is_aligned else ""
    elif tile and int(tile["count"]) % width == 0:
        first = f"({tile['start']}) // {width} + " if tile["start"] else ""
        made = f"{first}tl.arange(0, {int(tile['count']) // width}){tile['axis'] or ''}"
    if not made or atom.size % width:
        return None
    return Variable(writer.beside(atom.name, made), atom.size // width)


def _is_placed(writer: Writer, name: str) -> bool:
    return _PLACED.fullmatch(writer.declared.get(name, "")) is not None

"""Accesses of a PTX entry through its parameters: what it may write, and its assumptions about addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from dmc.memo import kept

_ENTRY = re.compile(r"\.entry\s+([\w$.]+)\s*\(([^)]*)\)")
_FUNCTION = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+|\.extern\s+)*\.(?:entry|func)\b", re.MULTILINE)
# Lines of debug information end without a semicolon.
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|^\s*\.loc\b[^\n]*", re.DOTALL | re.MULTILINE)
# Labels and scopes may precede a statement, and a predicate an instruction.
_BEFORE = r"(?:[{}\s]|[\w$]+:)*"
_INSTRUCTION = re.compile(_BEFORE + r"(?:@!?%?\w+\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
_DIRECTIVE = re.compile(_BEFORE + r"(?:\.|$)")
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,{}\[\]\s]+")
# `tmp`: LLVM's name for the discarded half of a number, in its own scope.
_REGISTER = re.compile(r"%(?:[a-z]+\d+|SPL?\b)|\btmp\b|__local_depot")
_NAME = re.compile(r"[\w$.]+")
# Instructions that only read at an address; any other with an address may write there.
_READS = ("ld", "ldu", "ldmatrix", "tex", "tld4", "suld", "prefetch", "prefetchu", "mapa", "isspacep")
# Registers of any type except predicates, in their declarations.
_DECLARED = re.compile(r"\.reg\s+\.(?!pred)\w+\s+([^;]+);")
# The types of an instruction come last: `.v4.b32`, `.f16x2`.
_TYPE = re.compile(r"(?:\.v(\d))?\.[a-z]+(\d+)(?:x(\d))?$")
_ALIGNMENT = re.compile(r"\.align\s+(\d+)")
# The largest alignment in bytes of any instruction: that of `wmma.load`, for any element type.
_WIDEST = 32
# Memory that no other launch sees.
_OWN = ("shared", "local", "param")
# A tensor map as a parameter, and the alignment of what it maps.
_MAP = re.compile(r"\.align\s+64\s+\.b8\s+([\w$.]+)\[128\]")
_MAP_ALIGNMENT = 16
# An entry's private stack frame: its name, and its stand-in among the parameters.
_FRAME_NAME, _FRAME = "__local_depot", -1
# Stands for the values that an entry stores in its own memory.
_SPILLED = "spilled"


@dataclass(frozen=True)
class Accesses:
    """The accesses of an entry through its parameters, by number.

    written: the pointers and tensor maps through which it may write. cached: those through which it reads as read-only
    memory (`ld.global.nc`, and copies by the copy engine). alignments: the required alignment of each parameter,
    declared or of the widest access; 1 for non-pointers. is_known: whether every address that it writes was computed
    from one of its pointers. maps: the tensor maps.
    """

    written: frozenset[int]
    cached: frozenset[int]
    alignments: tuple[int, ...]
    is_known: bool
    maps: frozenset[int] = frozenset()


@kept(1024)
def parameter_accesses(ptx: str) -> Mapping[str, Accesses]:
    """The accesses of each entry, by name. Kept: a kernel is checked when it is chosen, and in the whole step.

    An address computed from a parameter, on any path, may be in its buffer. Values loaded from a buffer are not
    addresses, since buffers contain numbers.
    """
    text = _COMMENT.sub("", ptx)
    starts = [match.start() for match in _FUNCTION.finditer(text)]
    found: dict[str, Accesses] = {}
    for first, end in pairwise([*starts, len(text)]):
        if head := _ENTRY.search(text, first, end):
            parameters = head[2].split(",") if head[2].strip() else []
            found[head[1]] = _accesses(parameters, text[text.index("{", head.end()) : end])
    return found


def _accesses(parameters: Sequence[str], lines: str) -> Accesses:
    """The accesses of an entry with these parameters and this body."""
    pointers = {each.split()[-1]: i for i, each in enumerate(parameters) if ".ptr" in each}
    maps = {match[1]: i for i, each in enumerate(parameters) if (match := _MAP.search(each))}
    body = _Body(pointers | maps, list(_instructions(lines)), frozenset(maps.values()))
    written, is_known = body.writes()
    # Registers of inline assembly may have any name, and are not tracked.
    names = [name.strip() for each in _DECLARED.findall(lines) for name in each.split(",")]
    is_named = all(name.startswith("%") or _REGISTER.fullmatch(name) for name in names)
    widths = body.widths()
    alignments = tuple(
        _MAP_ALIGNMENT if i in body.maps else max(_declared(each), widths.get(i, 1))
        for i, each in enumerate(parameters)
    )
    return Accesses(frozenset(written), frozenset(body.cached()), alignments, is_known and is_named, body.maps)


def _declared(parameter: str) -> int:
    """The declared alignment of a buffer; PTX assumes 4 by default."""
    if ".ptr" not in parameter:
        return 1
    match = _ALIGNMENT.search(parameter)
    return int(match[1]) if match else 4


class _Instruction(NamedTuple):
    name: str
    operands: Sequence[str]

    @property
    def kind(self) -> str:
        """The operation, without types and spaces."""
        return self.name.partition(".")[0]

    @property
    def space(self) -> str:
        """The state space that it accesses, if stated; a copy names that of the target first."""
        parts = (part.partition("::")[0] for part in self.name.split("."))
        return next((part for part in parts if part in (*_OWN, "global", "const")), "")

    @property
    def addresses(self) -> Sequence[str]:
        """Its operands that are, or may be, addresses."""
        return self.operands if self.kind == "call" else [each for each in self.operands if each.startswith("[")]

    @property
    def width(self) -> int:
        """The size of its access, to which its address must be aligned."""
        if self.name.startswith(("cp.async.ca", "cp.async.cg")):
            return int(self.operands[2], 0)
        match = _TYPE.search(self.name)
        if match is None or self.kind == "wmma":
            return _WIDEST
        count, bits, more = (int(each or 1) for each in match.groups())
        return count * bits * more // 8

    @property
    def is_cached(self) -> bool:
        """Whether it reads as read-only memory; the copy engine is not coherent with the writes of threads."""
        parts = self.name.split(".")
        return "nc" in parts or self.kind == "ldu" or ("tensor" in parts and self.space == "shared")

    @property
    def is_load(self) -> bool:
        """Whether its result comes from memory."""
        return self.name.startswith(("ld", "wmma.load", "atom"))


def _instructions(body: str) -> Iterator[_Instruction]:
    for statement in body.split(";"):
        if match := _INSTRUCTION.match(statement):
            yield _Instruction(match[1], _OPERAND.findall(match[2]))
        elif not _DIRECTIVE.match(statement):
            yield _Instruction("unknown", ("[anywhere]",))


class _Flow(NamedTuple):
    """made: the registers to which an instruction gives values, computed from those in `read`, and from the pointers
    and tensor maps in `given`."""

    made: Sequence[str]
    read: Sequence[str]
    given: frozenset[int] = frozenset()


@dataclass
class _Body:
    """pointers: parameters by name; maps: those that are tensor maps, which are used by their own address.

    sources: for each register, the pointers from which it may be computed; likewise for the private stack frame's
    address, and for the values that the entry stores in its own memory.
    """

    pointers: dict[str, int]
    instructions: Sequence[_Instruction]
    maps: frozenset[int]
    sources: dict[str, set[int]] = field(default_factory=lambda: {_FRAME_NAME: {_FRAME}})

    def __post_init__(self) -> None:
        flows = [flow for each in self.instructions if (flow := self._flow(each)) is not None]
        stores = [each for each in self.instructions if each.kind == "st"]
        # Loops carry addresses backwards, so this iterates to a fixed point.
        while sum(map(self._learns, flows)) + sum(map(self._spills, stores)):
            pass
        # Each with what it may access.
        self._accesses = [(each, self._taken(_names(each.addresses))) for each in self.instructions if each.addresses]

    def cached(self) -> set[int]:
        """The pointers that are read without coherence with writes of the same launch."""
        return set().union(*(taken for each, taken in self._accesses if each.is_cached)) - {_FRAME}

    def widths(self) -> dict[int, int]:
        """The size of the widest access through each pointer."""
        found: dict[int, int] = {}
        for each, taken in self._accesses:
            for pointer in taken:
                found[pointer] = max(found.get(pointer, 1), each.width)
        return found

    def writes(self) -> tuple[set[int], bool]:
        """The pointers that are written through, and whether all written addresses are known."""
        written: set[int] = set()
        is_known = True
        for each, taken in self._accesses:
            if each.kind not in _READS and each.space not in _OWN and not _is_of_registers(each):
                is_known = is_known and (bool(taken) or each.kind == "call")
                written |= taken - {_FRAME}
        return written, is_known

    def _flow(self, each: _Instruction) -> _Flow | None:
        """How an instruction computes its results; None if it has none that may be an address."""
        # An instruction with an address first has no result, and those of comparisons are not addresses.
        if not each.operands or each.operands[0].startswith("["):
            return None
        made = [name for name in _names(each.operands[:1]) if not name.startswith("%p")]
        if each.is_load:
            return self._loaded(made, each)
        operands = each.operands[1:]
        return _Flow(made, _names(operands), self._named(operands) & self.maps)

    def _loaded(self, made: Sequence[str], load: _Instruction) -> _Flow | None:
        if load.space == "param" and (named := self._named(_NAME.findall(load.operands[1]))):
            return _Flow(made, (), named)
        return None if load.space in ("global", "const") else _Flow(made, (_SPILLED,))

    def _named(self, names: Iterable[str]) -> frozenset[int]:
        return frozenset(self.pointers[name] for name in names if name in self.pointers)

    def _learns(self, flow: _Flow) -> int:
        """The number of new facts about the results of an instruction."""
        taken = self._taken(flow.read) | flow.given
        # Most instructions compute numbers.
        return sum(self._add(name, taken) for name in flow.made) if taken else 0

    def _spills(self, store: _Instruction) -> int:
        """The number of new facts about what the entry's own memory holds."""
        is_own = store.space in _OWN or _FRAME in self._taken(_names(store.addresses))
        return self._add(_SPILLED, self._taken(_names(store.operands[1:]))) if is_own else 0

    def _taken(self, names: Iterable[str]) -> set[int]:
        return set().union(*(self.sources[name] for name in names if name in self.sources))

    def _add(self, name: str, taken: set[int]) -> int:
        known = self.sources.setdefault(name, set())
        count = len(known)
        known |= taken
        return len(known) - count


def _names(operands: Iterable[str]) -> Sequence[str]:
    """The registers that operands mention, and the private stack frame."""
    return _REGISTER.findall(" ".join(operands))


def _is_of_registers(each: _Instruction) -> bool:
    return each.name.startswith(("wmma.load", "wmma.mma"))

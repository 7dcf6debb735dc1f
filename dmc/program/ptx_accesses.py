"""What an entry of PTX does through its parameters: what it may write, and what it takes for granted of addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_ENTRY = re.compile(r"\.entry\s+([\w$.]+)\s*\(([^)]*)\)")
_FUNCTION = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+|\.extern\s+)*\.(?:entry|func)\b", re.MULTILINE)
# Lines of debug information end without a semicolon.
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|^\s*\.loc\b[^\n]*", re.DOTALL | re.MULTILINE)
# Labels and scopes may stand before a statement, and a predicate before an instruction.
_BEFORE = r"(?:[{}\s]|[\w$]+:)*"
_INSTRUCTION = re.compile(_BEFORE + r"(?:@!?%?\w+\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
_DIRECTIVE = re.compile(_BEFORE + r"(?:\.|$)")
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,{}\[\]\s]+")
# `tmp`: what LLVM calls the half of a number that it throws away, in a scope of its own.
_REGISTER = re.compile(r"%(?:[a-z]+\d+|SPL?\b)|\btmp\b")
_NAME = re.compile(r"[\w$.]+")
# What reads at an address; whatever else has one may write there.
_READS = ("ld", "ldu", "ldmatrix", "tex", "tld4", "suld", "prefetch", "prefetchu", "mapa", "isspacep")
# Registers of any type but predicates, in their declarations.
_DECLARED = re.compile(r"\.reg\s+\.(?!pred)\w+\s+([^;]+);")
# The types of an instruction come last: `.v4.b32`, `.f16x2`.
_TYPE = re.compile(r"(?:\.v(\d))?\.[a-z]+(\d+)(?:x(\d))?$")
_ALIGNMENT = re.compile(r"\.align\s+(\d+)")
# The alignment in bytes that no instruction exceeds: what `wmma.load` wants, whatever the type of its elements is.
_WIDEST = 32
# Memory that no other launch sees.
_OWN = ("shared", "local", "param")
# A tensor map, as a parameter; what it maps begins at a multiple of 16 bytes.
_MAP = re.compile(r"\.align\s+64\s+\.b8\s+([\w$.]+)\[128\]")
_MAP_ALIGNMENT = 16
# The frame of an entry, which is its own too: what it is called, and what stands for it among the parameters.
_FRAME_NAME, _FRAME = "__local_depot", -1


@dataclass(frozen=True)
class Accesses:
    """What an entry does through its parameters, which are known by number.

    written: the pointers and tensor maps through which it may write. cached: those through which it reads as if nobody
    wrote there while it runs (`ld.global.nc`, and copies of boxes). alignments: of each parameter what its address must
    be a multiple of, as it is declared or as the widest access needs; 1 of what is no pointer.
    is_known: whether every address that it writes to was computed from one of its pointers. maps: the tensor maps.
    """

    written: frozenset[int]
    cached: frozenset[int]
    alignments: tuple[int, ...]
    is_known: bool
    maps: frozenset[int] = frozenset()


def parameter_accesses(ptx: str) -> dict[str, Accesses]:
    """What each entry does, by the entry's name.

    An address that was computed from a parameter, on any path, may lie in its buffer. What is loaded from a buffer is
    no address, since buffers hold numbers.
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
    """Of an entry with these parameters and this body."""
    pointers = {each.split()[-1]: i for i, each in enumerate(parameters) if ".ptr" in each}
    maps = {match[1]: i for i, each in enumerate(parameters) if (match := _MAP.search(each))}
    body = _Body(pointers | maps, list(_instructions(lines)), frozenset(maps.values()))
    written, is_known = body.writes()
    # Those of inline assembly may be called anything, and are not followed.
    names = [name.strip() for each in _DECLARED.findall(lines) for name in each.split(",")]
    is_named = all(name.startswith("%") or _REGISTER.fullmatch(name) for name in names)
    widths = body.widths()
    alignments = tuple(
        _MAP_ALIGNMENT if i in body.maps else max(_declared(each), widths.get(i, 1))
        for i, each in enumerate(parameters)
    )
    return Accesses(frozenset(written), frozenset(body.cached()), alignments, is_known and is_named, body.maps)


def _declared(parameter: str) -> int:
    """What the address of a buffer is said to be a multiple of; PTX takes 4 where nothing is said."""
    if ".ptr" not in parameter:
        return 1
    match = _ALIGNMENT.search(parameter)
    return int(match[1]) if match else 4


@dataclass(frozen=True)
class _Instruction:
    name: str
    operands: Sequence[str]

    @property
    def kind(self) -> str:
        """What it does, without its types and spaces."""
        return self.name.partition(".")[0]

    @property
    def space(self) -> str:
        """The memory that it accesses, where it says so; what copies names that of the target first."""
        parts = (part.partition("::")[0] for part in self.name.split("."))
        return next((part for part in parts if part in (*_OWN, "global", "const")), "")

    @property
    def addresses(self) -> Sequence[str]:
        """Its operands that are addresses, or may be."""
        return [operand for operand in self.operands if operand.startswith("[") or self.kind == "call"]

    @property
    def width(self) -> int:
        """The bytes of its access, of which its address must be a multiple."""
        if self.name.startswith(("cp.async.ca", "cp.async.cg")):
            return int(self.operands[2], 0)
        match = _TYPE.search(self.name)
        if match is None or self.kind == "wmma":
            return _WIDEST
        count, bits, more = (int(each or 1) for each in match.groups())
        return count * bits * more // 8

    @property
    def is_cached(self) -> bool:
        """Whether it reads as if nobody wrote there in the meantime; the copy engine sees no writes of threads."""
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


@dataclass
class _Body:
    """pointers: parameters by name; maps: those that are tensor maps, to which their own address leads.

    sources: for each register those that it may be computed from. spilled: those from which anything was computed that
    the entry keeps in its own memory.
    """

    pointers: dict[str, int]
    instructions: Sequence[_Instruction]
    maps: frozenset[int]
    sources: dict[str, set[int]] = field(default_factory=dict)
    spilled: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        # Loops carry addresses back to what stands before, so this goes on until nothing is learnt any more.
        while sum(map(self._learns, self.instructions)):
            pass

    def cached(self) -> set[int]:
        """The pointers that are read in a way which sees no writes of the same launch."""
        loads = (each for each in self.instructions if each.is_cached)
        return set().union(*(self._taken(each.addresses) for each in loads)) - {_FRAME}

    def widths(self) -> dict[int, int]:
        """Of each pointer the bytes of the widest access through it."""
        found: dict[int, int] = {}
        for each in self.instructions:
            for pointer in self._taken(each.addresses):
                found[pointer] = max(found.get(pointer, 1), each.width)
        return found

    def writes(self) -> tuple[set[int], bool]:
        """The pointers that are written through, and whether there is nothing else."""
        written: set[int] = set()
        is_known = True
        for each in self.instructions:
            if each.kind not in _READS and each.addresses and each.space not in _OWN and not _is_of_registers(each):
                targets = self._taken(each.addresses)
                is_known = is_known and (bool(targets) or each.kind == "call")
                written |= targets - {_FRAME}
        return written, is_known

    def _learns(self, each: _Instruction) -> int:
        """How much more the instruction tells of what it computes."""
        if each.kind == "st":
            is_own = each.space in _OWN or _FRAME in self._taken(each.addresses)
            return _add(self.spilled, self._taken(each.operands[1:]) if is_own else set[int]())
        # What has an address first computes nothing.
        if not each.operands or each.operands[0].startswith("["):
            return 0
        made = self._loaded(each) if each.is_load else self._taken(each.operands[1:]) | self._mapped(each)
        # What comparisons give is no address.
        registers = [name for name in _REGISTER.findall(each.operands[0]) if not name.startswith("%p")]
        return sum(_add(self.sources.setdefault(name, set()), made) for name in registers)

    def _mapped(self, each: _Instruction) -> set[int]:
        """The tensor maps of which an instruction takes the address."""
        if not self.maps or each.kind != "mov":
            return set()
        return {self.pointers[name] for name in each.operands[1:] if name in self.pointers} & self.maps

    def _loaded(self, load: _Instruction) -> set[int]:
        if load.space == "param":
            named = {self.pointers[name] for name in _NAME.findall(load.operands[1]) if name in self.pointers}
            return named or self.spilled
        return set() if load.space in ("global", "const") else self.spilled

    def _taken(self, operands: Sequence[str]) -> set[int]:
        text = " ".join(operands)
        found = set().union(*(self.sources.get(register, set[int]()) for register in _REGISTER.findall(text)))
        return found | {_FRAME} if _FRAME_NAME in text else found


def _is_of_registers(each: _Instruction) -> bool:
    return each.name.startswith(("wmma.load", "wmma.mma"))


def _add(known: set[int], more: set[int]) -> int:
    """Adds `more` to `known`; how many of these are new."""
    count = len(known)
    known |= more
    return len(known) - count

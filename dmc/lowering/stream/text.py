"""The text of IREE's stream dialect at command level: kernels bound to byte ranges, and the executables they call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dmc.errors import DmcError
from dmc.lowering.kernel_code import Copy, Dispatch, Fill, Group, KernelCode, KernelCommand
from dmc.program import Range
from dmc.program.code import Place

# The alignment that IREE's code assumes of buffers.
ALIGNMENT = 64
_ALIGNED = "stream.alignment = 64 : index"


@dataclass(frozen=True, order=True)
class Arena:
    """The memory of one rank in one space."""

    rank: int
    space: str

    @property
    def name(self) -> str:
        """Its name in the text."""
        return f"{self.space}{self.rank}"


@dataclass(frozen=True)
class Span:
    """Bytes [offset, offset + length) of an arena."""

    arena: Arena
    offset: int
    length: int

    def part(self, place: Place) -> Span:
        """The bytes of `place` in this range; raises DmcError if it is too small."""
        if place.end > self.length:
            fact = f"{place.role} {place.index} has {self.length} bytes, but {place.end} are used"
            raise DmcError(self.arena.name, fact, hint="please report this")
        return Span(self.arena, self.offset + place.offset, place.length)


@dataclass(frozen=True)
class Bound:
    """A kernel, and the ranges of its operands, results and scratch."""

    code: KernelCode
    reads: Sequence[Span | None]
    writes: Sequence[Span | None]
    scratch: Span | None = None

    def span(self, place: Place) -> Span:
        """The range of a place of the kernel."""
        given = self.scratch if place.role == "scratch" else getattr(self, f"{place.role}s")[place.index]
        if given is None:
            raise DmcError(
                f"kernel @{self.code.name}", f"has no range for its {place.role} {place.index}", "please report this"
            )
        return given.part(place)

    def spans(self) -> Iterator[Span]:
        """All of them."""
        yield from (span for span in (*self.reads, *self.writes, self.scratch) if span is not None)


def span(rank: int, given: Range | None) -> Span | None:
    """A range of a rank's program."""
    return None if given is None else Span(Arena(rank, given.space), given.offset, given.length)


@dataclass
class Text:
    """Collects what the text of a module needs besides its commands.

    known: all executables. arenas: bytes of each. used: the texts of called executables; constants: those named.
    """

    known: Mapping[str, str]
    arenas: Mapping[Arena, int]
    used: dict[str, str] = field(default_factory=dict)
    constants: set[str] = field(default_factory=set)

    def constant(self, value: int | str) -> str:
        """The name of a constant, by its text (`5 : i32`) or of an index."""
        text = f"{value} : index" if isinstance(value, int) else value
        self.constants.add(text)
        return _constant_name(text)

    def take_definitions(self) -> list[str]:
        """Defines all constants named since the last call, as each function needs its own."""
        taken, self.constants = sorted(self.constants), set()
        return [f"{_constant_name(text)} = arith.constant {text}" for text in taken]

    def commands(self, bound: Bound) -> list[str]:
        """The commands of a kernel."""
        return list(self._commands(bound.code.commands, bound))

    def resource(self, arena: Arena) -> str:
        """The type of an arena's resource, with its size."""
        return f"!stream.resource<external>{{{self.constant(self.arenas[arena])}}}"

    def _commands(self, commands: Sequence[KernelCommand], bound: Bound) -> Iterator[str]:
        for command in commands:
            match command:
                case Group():
                    inside = list(self._commands(command.commands, bound))
                    yield from ["stream.cmd.concurrent {", *(f"  {line}" for line in inside), "}"] if inside else []
                case Fill():
                    yield self._fill(command.value, bound.span(command.target))
                case Copy():
                    yield from self._copy(bound.span(command.source), bound.span(command.target))
                case Dispatch():
                    yield from self._dispatch(command, bound)

    def _fill(self, value: str, target: Span) -> str:
        where = f"%{target.arena.name}[{self.constant(target.offset)} for {self.constant(target.length)}]"
        kind = value.rpartition(" : ")[2]
        return f"stream.cmd.fill {self.constant(value)}, {where} : {kind} -> {self.resource(target.arena)}"

    def _copy(self, source: Span, target: Span) -> Iterator[str]:
        # A member's own piece of a gathered whole may already be in place.
        if source == target:
            return
        ends = [f"%{end.arena.name}[{self.constant(end.offset)}]" for end in (source, target)]
        kinds = f"{self.resource(source.arena)} -> {self.resource(target.arena)}"
        yield f"stream.cmd.copy {', '.join(ends)}, {self.constant(source.length)} : {kinds}"

    def _dispatch(self, command: Dispatch, bound: Bound) -> Iterator[str]:
        spans = [bound.span(binding.place) for binding in command.bindings]
        executable = self._executable(command.executable, math.gcd(ALIGNMENT, *(each.offset for each in spans)))
        entry = f"{executable}{command.entry.removeprefix(command.executable)}"
        workload = ", ".join(self.constant(each) for each in command.workload)
        types = ", ".join(each.rpartition(" : ")[2] for each in command.scalars)
        scalars = ", ".join(self.constant(each) for each in command.scalars)
        scalars = f"{scalars} : {types}" if scalars else ""
        called = f"@{executable}::@{entry}{_around('[', workload, ']')}{_around('(', scalars, ')')}"
        yield f"stream.cmd.dispatch {called} {{"
        last = len(spans) - 1
        for index, (binding, each) in enumerate(zip(command.bindings, spans, strict=True)):
            where = f"%{each.arena.name}[{self.constant(each.offset)} for {self.constant(each.length)}]"
            yield f"  {binding.access} {where} : {self.resource(each.arena)}{',' if index < last else ''}"
        yield "}"

    def _executable(self, name: str, alignment: int) -> str:
        """The executable of that name, or a variant for buffers of smaller alignment."""
        if name not in self.known:
            raise DmcError(f"executable @{name}", "is not in the code of the job", hint="please report this")
        variant = at_alignment(name, alignment)
        if variant == name:
            self.used[name] = self.known[name]
            return name
        text = self.known[name].replace(f"@{name}", f"@{variant}")
        self.used[variant] = text.replace(_ALIGNED, f"stream.alignment = {alignment} : index")
        return variant


def at_alignment(executable: str, alignment: int) -> str:
    """The name of an executable's variant for this alignment."""
    return executable if alignment == ALIGNMENT else f"aligned_{alignment}_{executable}"


def indented(lines: Sequence[str], spaces: int) -> list[str]:
    """The lines, indented."""
    return [f"{' ' * spaces}{line}" for line in lines]


def _constant_name(text: str) -> str:
    value, _, kind = text.rpartition(" : ")
    return f"%c_{value.replace('-', 'n')}_{kind}"


def _around(before: str, text: str, after: str) -> str:
    return f"{before}{text}{after}" if text else ""

"""What IREE makes of a kernel: the dispatches, fills and copies that carry it out, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Role = Literal["read", "write", "scratch"]


@dataclass(frozen=True)
class Place:
    """Bytes [offset, offset + length) of operand `index` ("read"), of result `index` ("write"), or of the scratch."""

    role: Role
    index: int
    offset: int
    length: int

    def touches(self, other: Place) -> bool:
        """Whether the two have a byte in common, as long as no two of a kernel's ranges have."""
        if (self.role, self.index) != (other.role, other.index):
            return False
        return self.offset < other.offset + other.length and other.offset < self.offset + self.length


@dataclass(frozen=True)
class Binding:
    """A buffer of a dispatch; `access` is "ro", "wo" or "rw"."""

    access: str
    place: Place


@dataclass(frozen=True)
class Dispatch:
    """Runs entry `entry` of the executable `executable`. workload, scalars: constants, as MLIR writes them.

    ordered: the pairs (read, written) of bindings of which the one may lie on the other where the code goes element by
    element (`ordered_bindings`).
    """

    executable: str
    entry: str
    workload: tuple[str, ...]
    scalars: tuple[str, ...]
    bindings: tuple[Binding, ...]
    ordered: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Fill:
    """Writes a pattern, `value` as MLIR writes it (`0 : i32`), all over a place."""

    value: str
    target: Place


@dataclass(frozen=True)
class Copy:
    """Copies the bytes of one place to another."""

    source: Place
    target: Place


@dataclass(frozen=True)
class Group:
    """Commands that may run at the same time."""

    commands: tuple[KernelCommand, ...]


KernelCommand: TypeAlias = Dispatch | Fill | Copy | Group


@dataclass(frozen=True)
class KernelCode:
    """A kernel as commands, one after another. scratch: bytes that it needs beside operands and results."""

    name: str
    commands: tuple[KernelCommand, ...]
    scratch: int


@dataclass(frozen=True)
class CodeLibrary:
    """The code of the kernels of a job.

    device: the executable target, as IREE writes it. executables: the text of each `stream.executable`, by symbol.
    """

    device: str
    kernels: Mapping[str, KernelCode]
    executables: Mapping[str, str]

    def joined(self, other: CodeLibrary) -> CodeLibrary:
        """The code of other kernels beside this."""
        return replace(
            self,
            kernels={**self.kernels, **other.kernels},
            executables={**self.executables, **other.executables},
        )


def leaves(commands: Sequence[KernelCommand]) -> Iterator[Dispatch | Fill | Copy]:
    """The commands themselves, in order, without the groups around them."""
    for command in commands:
        if isinstance(command, Group):
            yield from leaves(command.commands)
        else:
            yield command


def reads_and_writes(command: Dispatch | Fill | Copy) -> tuple[list[Place], list[Place]]:
    """What a command reads and what it writes; IREE binds results for both."""
    match command:
        case Fill():
            return [], [command.target]
        case Copy():
            return [command.source], [command.target]
        case Dispatch():
            reads = [each.place for each in command.bindings if "r" in each.access]
            return reads, [each.place for each in command.bindings if "w" in each.access]


def is_safe_in_place(code: KernelCode, read: int, write: int) -> bool:
    """Whether result `write` may lie where operand `read` does, as far as the order of the commands goes.

    Nothing may read the operand once something has written the result, or while something else may be writing it. A
    dispatch that reads and writes them at once must do so element by element: that is for the caller to know.
    """
    written = False
    for command in code.commands:
        parts = list(leaves([command]))
        readers = [part for part in parts if _has(reads_and_writes(part)[0], "read", read)]
        writers = [part for part in parts if _has(reads_and_writes(part)[1], "write", write)]
        if readers and written:
            return False
        if readers and writers and not (readers == writers and _is_ordered(readers, read, write)):
            return False
        written = written or bool(writers)
    return True


def _is_ordered(commands: Sequence[Dispatch | Fill | Copy], read: int, write: int) -> bool:
    """Whether the only command is a dispatch that has read an element before it writes the one in its place."""
    (first, *others) = commands
    if others or not isinstance(first, Dispatch):
        return False
    places = [binding.place for binding in first.bindings]
    taken = [number for number, place in enumerate(places) if (place.role, place.index) == ("read", read)]
    made = [number for number, place in enumerate(places) if (place.role, place.index) == ("write", write)]
    return all((i, j) in first.ordered for i in taken for j in made)


def without_copy_out(code: KernelCode) -> KernelCode:
    """A kernel that makes a result in its scratch, which holds nothing else, and copies it out makes it in place."""
    out = next((each for each in leaves(code.commands) if isinstance(each, Copy) and _copies_all_out(each, code)), None)
    if out is None:
        return code
    commands = _renamed(code.commands, out)
    return KernelCode(code.name, commands, 0)


def _copies_all_out(copy: Copy, code: KernelCode) -> bool:
    source, target = copy.source, copy.target
    if (source.role, source.offset, target.role, target.offset) != ("scratch", 0, "write", 0):
        return False
    # IREE rounds the only value of the scratch up to 64 bytes; another would begin behind that.
    if not source.length <= code.scratch < source.length + 64:
        return False
    every = list(leaves(code.commands))
    later = [place for each in every[every.index(copy) + 1 :] for place in reads_and_writes(each)[1]]
    touched = [place for each in every if each != copy for place in _places(each)]
    return not any(place.touches(target) for place in touched) and not any(place.touches(source) for place in later)


def _renamed(commands: Sequence[KernelCommand], out: Copy) -> tuple[KernelCommand, ...]:
    """`commands` with what `out` copies to in the place of the scratch, without `out` and without empty groups."""

    def place(given: Place) -> Place:
        if given.role != "scratch":
            return given
        return Place("write", out.target.index, given.offset, min(given.length, out.target.length - given.offset))

    kept: list[KernelCommand] = []
    for command in commands:
        match command:
            case Group():
                inside = _renamed(command.commands, out)
                kept += [Group(inside)] if len(inside) > 1 else inside
            case Fill():
                kept.append(replace(command, target=place(command.target)))
            case Copy() if command != out:
                kept.append(Copy(place(command.source), place(command.target)))
            case Dispatch():
                bindings = tuple(Binding(each.access, place(each.place)) for each in command.bindings)
                kept.append(replace(command, bindings=bindings))
            case _:
                continue
    return tuple(kept)


def _places(command: Dispatch | Fill | Copy) -> list[Place]:
    reads, writes = reads_and_writes(command)
    return [*reads, *writes]


def _has(places: Sequence[Place], role: Role, index: int) -> bool:
    return any(place.role == role and place.index == index for place in places)

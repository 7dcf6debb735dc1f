"""The code of kernels as data: IREE's dispatches, fills and copies, or compiled steps for a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

from dmc.lowering.native_kernel import NativeKernel
from dmc.program import aligned
from dmc.program.code import Binding, CodeModule, Place
from dmc.program.contract import Effect, Phase, effect_of


@dataclass(frozen=True)
class Dispatch:
    """Runs entry `entry` of the executable `executable`. workload, scalars: constants, as MLIR writes them.

    ordered: the pairs (read, written) of bindings that may alias, as the code is elementwise (`ordered_bindings`).
    """

    executable: str
    entry: str
    workload: tuple[str, ...]
    scalars: tuple[str, ...]
    bindings: tuple[Binding, ...]
    ordered: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Fill:
    """Fills a place with a pattern, `value` in MLIR syntax (`0 : i32`)."""

    value: str
    target: Place


@dataclass(frozen=True)
class Copy:
    """Copies the bytes of one place to another."""

    source: Place
    target: Place


@dataclass(frozen=True)
class Group:
    """Commands that may run concurrently."""

    commands: tuple[KernelCommand, ...]


KernelCommand: TypeAlias = Dispatch | Fill | Copy | Group


@dataclass(frozen=True)
class KernelCode:
    """A kernel as a sequence of commands. scratch: bytes that it needs besides operands and results."""

    name: str
    commands: tuple[KernelCommand, ...]
    scratch: int
    implementation: ClassVar[str] = "iree"
    reason: ClassVar[str] = "the implementation of last resort"

    def phases(self) -> tuple[Phase, ...]:
        """The memory accesses of its commands; the commands of a group are concurrent."""
        return tuple(tuple(effect(each) for each in leaves([command])) for command in self.commands)


@dataclass(frozen=True)
class CodeLibrary:
    """The code of the kernels of a job.

    device: the executable target, in IREE's syntax. kernels: IREE's code for them. executables: the text of each
    `stream.executable`, by symbol. native: the kernels that are not IREE's; modules: their code. ways: the number of
    the way in which IREE compiled each kernel (`dmc.lowering.kernels.kernels.WAYS`).
    """

    device: str
    kernels: Mapping[str, KernelCode]
    executables: Mapping[str, str]
    native: Mapping[str, NativeKernel] = field(default_factory=dict)
    modules: Mapping[str, CodeModule] = field(default_factory=dict)
    ways: Mapping[str, int] = field(default_factory=dict)

    def code_of(self, name: str) -> KernelCode | NativeKernel:
        """The code of a kernel. Raises KeyError."""
        return self.native[name] if name in self.native else self.kernels[name]

    def joined(self, other: CodeLibrary) -> CodeLibrary:
        """This code, with that of other kernels added."""
        return replace(
            self,
            device=self.device or other.device,
            kernels={**self.kernels, **other.kernels},
            executables={**self.executables, **other.executables},
            native={**self.native, **other.native},
            modules={**self.modules, **other.modules},
            ways={**self.ways, **other.ways},
        )


def leaves(commands: Sequence[KernelCommand]) -> Iterator[Dispatch | Fill | Copy]:
    """The commands themselves, in order, without the groups around them."""
    for command in commands:
        if isinstance(command, Group):
            yield from leaves(command.commands)
        else:
            yield command


def effect(command: Dispatch | Fill | Copy) -> Effect:
    """A command's reads and writes."""
    match command:
        case Fill():
            return Effect((), (command.target,))
        case Copy():
            return Effect((command.source,), (command.target,))
        case Dispatch():
            return effect_of(command.bindings, command.ordered)


def with_copies_in(code: KernelCode) -> KernelCode:
    """Makes a kernel that writes an operand, which others may read, write a copy in its scratch instead.

    IREE updates a tensor in place if nothing in the kernel reads it later.
    """
    every = [place for each in leaves(code.commands) for place in _places(each)]
    written = {place.index for each in leaves(code.commands) for place in effect(each).writes if place.role == "read"}
    copies: dict[int, Copy] = {}
    scratch = code.scratch
    for index in sorted(written):
        size = max(place.end for place in every if (place.role, place.index) == ("read", index))
        copies[index] = Copy(Place("read", index, 0, size), Place("scratch", 0, scratch, size))
        scratch += aligned(size)
    if not copies:
        return code

    def place(given: Place) -> Place:
        if given.role != "read" or given.index not in copies:
            return given
        return Place("scratch", 0, copies[given.index].target.offset + given.offset, given.length)

    return KernelCode(code.name, (*copies.values(), *_moved(code.commands, place)), scratch)


def without_copy_out(code: KernelCode) -> KernelCode:
    """Makes a kernel that computes a result in its scratch, and copies it out, compute it directly in the result."""
    out = next((each for each in leaves(code.commands) if isinstance(each, Copy) and _copies_all_out(each, code)), None)
    if out is None:
        return code
    target = out.target

    def place(given: Place) -> Place:
        if given.role != "scratch":
            return given
        return Place("write", target.index, given.offset, min(given.length, target.length - given.offset))

    return KernelCode(code.name, _moved(_without(code.commands, out), place), 0)


def _copies_all_out(copy: Copy, code: KernelCode) -> bool:
    source, target = copy.source, copy.target
    if (source.role, source.offset, target.role, target.offset) != ("scratch", 0, "write", 0):
        return False
    every = list(leaves(code.commands))
    # IREE rounds the size of the only scratch value up to 64 bytes; another would begin after that.
    held = max(place.end for each in every for place in _places(each) if place.role == "scratch")
    if held >= source.length + 64:
        return False
    later = [place for each in every[every.index(copy) + 1 :] for place in effect(each).writes]
    touched = [place for each in every if each != copy for place in _places(each)]
    return not any(place.touches(target) for place in touched) and not any(place.touches(source) for place in later)


def _without(commands: Sequence[KernelCommand], out: Copy) -> tuple[KernelCommand, ...]:
    """`commands` without `out` and without empty groups."""
    kept: list[KernelCommand] = []
    for command in commands:
        if isinstance(command, Group):
            inside = _without(command.commands, out)
            kept += [Group(inside)] if len(inside) > 1 else inside
        elif command != out:
            kept.append(command)
    return tuple(kept)


def _moved(commands: Sequence[KernelCommand], place: Callable[[Place], Place]) -> tuple[KernelCommand, ...]:
    """`commands` on other memory: `place` maps each place to its new one."""
    return tuple(_on_other_memory(command, place) for command in commands)


def _on_other_memory(command: KernelCommand, place: Callable[[Place], Place]) -> KernelCommand:
    match command:
        case Group():
            return Group(_moved(command.commands, place))
        case Fill():
            return replace(command, target=place(command.target))
        case Copy():
            return Copy(place(command.source), place(command.target))
        case Dispatch():
            bindings = tuple(Binding(each.access, place(each.place)) for each in command.bindings)
            return replace(command, bindings=bindings)


def _places(command: Dispatch | Fill | Copy) -> tuple[Place, ...]:
    done = effect(command)
    return (*done.reads, *done.writes)

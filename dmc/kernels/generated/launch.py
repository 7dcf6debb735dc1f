"""One launch under construction: its pointers, its lines, and the resulting call."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dmc.kernels.generated.arithmetic import full
from dmc.kernels.generated.emitter import Emitter
from dmc.kernels.generated.index import Index, delinearise
from dmc.kernels.generated.value import TRITON, Value
from dmc.kernels.generated.writer import Writer
from dmc.kernels.recipe import Buffer, Call, View

_FENCE = "tl.debug_barrier()"
_STEMS = {"operand": "x", "result": "y", "scratch": "part"}


@dataclass(frozen=True)
class Root:
    """A tensor that a launch computes, and its destination."""

    value: Any
    buffer: Buffer

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its dimensions."""
        return tuple(self.value.type.shape)


def stem_of(buffer: Buffer) -> str:
    """The name of a buffer's values in a kernel; its pointer's has the suffix `_at`."""
    return f"{_STEMS[buffer.role]}{buffer.index}"


@dataclass
class Launch:
    """`memory`: the buffers of values computed before."""

    name: str
    title: str
    memory: dict[Any, Buffer]
    writer: Writer = field(default_factory=Writer)
    # Buffers read besides values of the region: parts of reductions.
    reads: list[Buffer] = field(default_factory=list)
    # The destinations of each root's elements, the written buffers, and the pending store lines.
    stores: list[tuple[Root, Index]] = field(default_factory=list)
    written: list[Buffer] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    # Whether a loop reads ahead of what it writes: then no result may be in an operand's memory.
    reads_ahead: bool = False
    # By name, what is copied in tiles.
    descriptors: dict[str, tuple[Buffer, View]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.emitter = Emitter(self.writer, {value: stem_of(buffer) for value, buffer in self.memory.items()})

    def variable(self, stem: str, text: str, mask: str = "") -> str:
        """Declares a variable of the kernel; `mask`: the bounds condition, a format of its name."""
        name = self.writer.name(stem)
        self.declare(name, stem, text, mask)
        return name

    def declare(self, name: str, stem: str, text: str, mask: str) -> None:
        """Declares a variable of this name."""
        self.writer.declare(name, text)
        if mask:
            self.writer.masks[name] = self.writer.name(f"{stem}_inside")
            self.writer.raw(f"{self.writer.masks[name]} = {mask.format(name)}")

    def descriptor(self, buffer: Buffer, view: View) -> str:
        """The name of the tensor descriptor of a buffer."""
        known = next((name for name, each in self.descriptors.items() if each == (buffer, view)), None)
        name = known or self.writer.name(f"{stem_of(buffer)}_tiles")
        self.descriptors[name] = buffer, view
        return name

    def root(self, root: Root, number: Index) -> None:
        """Emits and stores the element of this number of a root."""
        self.store(root.buffer, number, self.emitter.emit(root.value, delinearise(number, root.shape)))
        self.stores.append((root, number))

    def store(self, buffer: Buffer, number: Index, value: Value) -> None:
        """Stores an element at the next `flush`."""
        self.waiting.append(self._store(buffer, number, value))

    def leave(self, buffer: Buffer, number: Index, value: Value) -> None:
        """Stores an element at once: no operand may be in the same memory."""
        self.writer.raw(self._store(buffer, number, value))

    def _store(self, buffer: Buffer, number: Index, value: Value) -> str:
        address = self.writer.index(number)
        masks = self.writer.mask(number.variables)
        place = f"{stem_of(buffer)}_at" + ("" if address == "0" else f" + {address}")
        masked = f", mask={' & '.join(masks)}" if masks else ""
        self.written.append(buffer)
        return f"tl.store({place}, {full(self.writer, value, value.held)}{masked})"

    def flush(self) -> None:
        """Writes the pending stores, after all reads of the same iteration.

        Tiles need no fence: each is complete in shared memory before it is copied from there.
        """
        by_threads = any(line.startswith("tl.store") for line in self.waiting)
        for line in (_FENCE, *self.waiting) if by_threads else self.waiting:
            self.writer.raw(line)
        self.waiting = []

    def read_buffers(self) -> set[Buffer]:
        """The buffers of the values that are read."""
        return {self.memory[value] for value, _ in self.emitter.loads}

    def in_place(self) -> list[tuple[Buffer, Buffer]]:
        """Pairs (result, operand) that may alias: each element is read only where it is written.

        A barrier separates the threads that read it from the one that writes it.
        """
        if self.reads_ahead:
            return []
        written, read = _places(self.stores), _places(self.emitter.loads)
        return [
            (root.buffer, self.memory[value])
            for root, to in written.items()
            for value, of in read.items()
            if to == of and (root.buffer.role, self.memory[value].role) == ("result", "operand")
            if _kind(root.value) == _kind(value)
        ]

    def call(self, programs: int, warps: int, stages: int) -> Call:
        """The call of the finished kernel."""
        self.flush()
        is_fenced = bool(self.in_place())
        lines = [line for line in self.writer.lines() if is_fenced or line.strip() != _FENCE]
        found = self.parameters(lines)
        source = _source(self.name, self.title, tuple(found), lines)
        buffers, views = (tuple(each) for each in zip(*found.values(), strict=True)) if found else ((), ())
        views = views if any(views) else ()
        return Call(f"generated.{self.name}", programs, buffers, None, warps, stages, source, views)

    def parameters(self, lines: Sequence[str]) -> dict[str, tuple[Buffer, View | None]]:
        """What occurs in `lines` by name: pointers to buffers, and descriptors of their tiles."""
        used = dict.fromkeys([*self.memory.values(), *self.reads, *self.written])
        pointers = {f"{stem_of(each)}_at": (each, None) for each in used}
        found: dict[str, tuple[Buffer, View | None]] = {**self.descriptors, **pointers}
        text = "\n".join(lines)
        return {name: each for name, each in found.items() if re.search(rf"\b{name}\b", text)}


def _places(accesses: Sequence[tuple[Any, Index]]) -> dict[Any, set[Index]]:
    """For each accessed buffer, the indices."""
    places: dict[Any, set[Index]] = {}
    for each, number in accesses:
        places.setdefault(each, set()).add(number)
    return places


def _kind(value: Any) -> tuple[str, int]:
    """The type and the number of a tensor's elements."""
    return str(value.type.element_type), math.prod(value.type.shape)


def _source(name: str, title: str, parameters: Sequence[str], lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    imports = "\nfrom dmc.kernels.jit import functions\n" if "functions." in text else ""
    body = "\n".join("    " + line for line in lines)
    head = "import triton\nimport triton.language as tl\n"
    return f'{head}{imports}\n\n@triton.jit\ndef {name}({", ".join(parameters)}):\n    """{title}"""\n{body}\n'


def zeros(shape: str, neutral: str, held: str) -> str:
    """A tile filled with one number."""
    return f"tl.full({shape}, {neutral}, {TRITON[held]})"


def power_of_two(number: int) -> int:
    """The least power of two that is at least `number`."""
    return 1 << max(number - 1, 0).bit_length()

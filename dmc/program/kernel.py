"""Kernels of a job: their types, and what their time depends on."""

from __future__ import annotations

import re

import msgspec

from dmc.program.limits import Count, ElementType, Shape

_NUMBER = re.compile(r"_\d+$")


class Operand(msgspec.Struct, frozen=True, array_like=True):
    """The type of one operand or result of a kernel: MLIR's name of the element type, and the shape."""

    dtype: ElementType
    shape: Shape


def types_of(reads: tuple[Operand, ...], writes: tuple[Operand, ...]) -> str:
    """The types of a kernel, as text."""
    given, made = (
        ", ".join("x".join([*map(str, each.shape), each.dtype]) for each in side) for side in (reads, writes)
    )
    return f"{given} -> {made}"


class Kernel(msgspec.Struct, frozen=True, array_like=True):
    """A computation as one unit of work, shared by all its launches.

    flops: floating-point operations of a launch. traffic: bytes that it reads from and writes to device memory.
    scratch: bytes it needs besides its operands. implementation: the source of its code ("iree").
    kind: what dominates its time: "matmul" (matrix units), "reduction", "elementwise" or "other".
    """

    name: str
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    flops: Count
    traffic: Count
    scratch: Count = 0
    implementation: str = "iree"
    kind: str = "other"

    @property
    def family(self) -> str:
        """The implementation, and the name without its number: "triton attention_backward"."""
        return f"{self.implementation} {_NUMBER.sub('', self.name)}"

    @property
    def key(self) -> str:
        """What its time depends on, in any job: `triton matmul 4x8xbf16, 8x8xbf16 -> 4x8xbf16`."""
        return f"{self.family} {types_of(self.reads, self.writes)}"

"""How an implementation computes a problem: a few launches over named buffers, as plain data.

A recipe is independent of Triton. `dmc.kernels.code` compiles it for a GPU; the tests interpret it on a CPU.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from dmc.kernels.problem import Problem, TensorType

Role = Literal["operand", "result", "scratch"]


@dataclass(frozen=True)
class Buffer:
    """The problem's operand or result `index`, or the recipe's scratch tensor."""

    role: Role
    index: int


@dataclass(frozen=True)
class View:
    """A buffer as an array of `shape`, its elements `strides` apart, which a kernel copies a `tile` of at a time.

    The GPU's copy engine does that (TMA): the last dimension is contiguous, the other strides and the buffer's address
    are multiples of 16 bytes, and what lies outside of `shape` is read as 0 and not written.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    tile: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """One launch of a number of programs.

    function: "module.name" in `dmc.kernels.jit`; its parameters are a pointer for each of `buffers`, then `shape`, the
    frozen dataclass of static parameters. source: the text of a module that defines the function instead; it contains
    the static parameters, so there is no `shape`. views: for each buffer the view that the kernel gets as a tensor
    descriptor instead of a pointer, or None. plain: the launch for when such a buffer is not aligned. registers: the
    most per thread; 0 for no limit.
    """

    function: str
    programs: int
    buffers: tuple[Buffer, ...]
    shape: Any
    warps: int = 4
    stages: int = 2
    source: str = ""
    views: tuple[View | None, ...] = ()
    plain: Call | None = None
    registers: int = 0

    def parameters(self) -> tuple[tuple[Buffer, View | None], ...]:
        """Each buffer, and how the kernel sees it if not by a pointer."""
        return tuple(zip(self.buffers, self.views or (None,) * len(self.buffers), strict=True))

    def aligned(self, loose: Collection[Buffer]) -> Call:
        """The launch for buffers of which those in `loose` are not aligned."""
        mapped = (buffer for buffer, view in self.parameters() if view is not None)
        return self.plain if self.plain is not None and any(each in loose for each in mapped) else self


@dataclass(frozen=True)
class Recipe:
    """The launches in order. `in_place`: pairs (result, operand) that may alias."""

    calls: tuple[Call, ...]
    scratch: tuple[TensorType, ...] = ()
    in_place: tuple[tuple[int, int], ...] = ()


def operands(*indices: int) -> tuple[Buffer, ...]:
    """Buffers of the problem's operands."""
    return tuple(Buffer("operand", index) for index in indices)


def results(*indices: int) -> tuple[Buffer, ...]:
    """Buffers of the problem's results."""
    return tuple(Buffer("result", index) for index in indices)


def scratch(*indices: int) -> tuple[Buffer, ...]:
    """Buffers of the recipe's scratch memory."""
    return tuple(Buffer("scratch", index) for index in indices)


def type_of(buffer: Buffer, problem: Problem, recipe: Recipe) -> TensorType:
    """The type of a buffer's contents."""
    match buffer.role:
        case "operand":
            return problem.operands[buffer.index]
        case "result":
            return problem.results[buffer.index]
        case "scratch":
            return recipe.scratch[buffer.index]

"""What a step computes, apart from when and where, as plain data: what a job is checked against.

The values of a body are numbered: its arguments first, then the results of its nodes, in order. A value is a dense
row-major tensor of which only the elements count, not the shape: a reshape is the value that it is of. Sizes and places
are in bytes. What is the same at every place has no size of its own: a scalar stands for all tensors filled with it.
"""

from __future__ import annotations

import hashlib
from typing import Literal, TypeAlias

import msgspec

# In `Rows`: bytes that nobody has written.
NOBODY = -1

Movement = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "permute"]


class Pointwise(msgspec.Struct, frozen=True, array_like=True, tag="pointwise"):
    """Element by element: `code` says of what elements at one place the element at that place is made, and how."""

    code: str
    operands: tuple[int, ...]
    size: int


class Read(msgspec.Struct, frozen=True, array_like=True, tag="read"):
    """Elements of one value at other places, as `code` says; `everywhere`: the same at every place."""

    code: str
    operand: int
    size: int
    everywhere: bool = False


class Transpose(msgspec.Struct, frozen=True, array_like=True, tag="transpose"):
    """A value of this shape with its dimensions in another order: `order[i]` is which of them dimension `i` becomes."""

    operand: int
    shape: tuple[int, ...]
    order: tuple[int, ...]
    element: str
    size: int


class Apply(msgspec.Struct, frozen=True, array_like=True, tag="apply"):
    """Any other computation: `code` names it, with all that decides it but the elements of its operands."""

    code: str
    operands: tuple[int, ...]
    sizes: tuple[int, ...]


class Rows(msgspec.Struct, frozen=True, array_like=True, tag="rows"):
    """Pieces of values, one behind the other: each is a value (or `NOBODY`), its first byte, and how many."""

    pieces: tuple[tuple[int, int, int], ...]


class Call(msgspec.Struct, frozen=True, array_like=True, tag="call"):
    """What a function gives. `label` says, to people, where in the model it comes from."""

    function: str
    operands: tuple[int, ...]
    label: str = ""


Local: TypeAlias = Pointwise | Read | Transpose | Apply | Rows | Call


class Choice(msgspec.Struct, frozen=True, array_like=True, tag="choice"):
    """Each rank does the one of its place in its group along `axes`; all give equally many results."""

    axes: tuple[str, ...]
    choices: tuple[Local, ...]


class Moving(msgspec.Struct, frozen=True, array_like=True):
    """How a movement does what its kind says. size: bytes that each member gives.

    reduction: how values are combined, the type in which they add up, and that of the elements. root: of a broadcast.
    pairs: of a permute, as (source, target).
    """

    size: int
    reduction: tuple[str, ...] = ()
    root: int = 0
    pairs: tuple[tuple[int, int], ...] = ()


class Moved(msgspec.Struct, frozen=True, array_like=True, tag="moved"):
    """What a movement within groups along `axes` gives each rank; pieces are along the first dimension."""

    kind: Movement
    axes: tuple[str, ...]
    operand: int
    how: Moving


Node: TypeAlias = Local | Choice | Moved


class Body(msgspec.Struct, frozen=True, array_like=True):
    """A function: how many values it takes, what it does, and which of its values it gives."""

    arguments: int
    nodes: tuple[Node, ...]
    results: tuple[int, ...]


class Step(msgspec.Struct, frozen=True, array_like=True):
    """A step of every rank: arguments by name and size, and what state and outputs hold at the end, as values.

    functions: what it calls, but the kernels of a job.
    """

    arguments: tuple[tuple[str, int], ...]
    nodes: tuple[Node, ...]
    state: dict[str, int]
    outputs: dict[str, int]
    functions: dict[str, Body]


class Dataflow(msgspec.Struct, frozen=True, array_like=True):
    """What a step computes on its way to a job, and what each kernel of the job computes.

    placed: form placed. opened: the same without composites. simplified: behind upstream's canonicalize and cse, and
    dm-pad-classes. scheduled: form scheduled, kernel by kernel in the order of issue.
    """

    placed: Step
    opened: Step
    simplified: Step
    scheduled: Step
    kernels: dict[str, Body]

    def digest(self) -> str:
        """SHA-256 of what it says, in hexadecimal."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).hexdigest()

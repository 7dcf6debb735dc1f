"""What a step computes, regardless of when and where, as plain data: the reference for checking a job.

The values of a body are numbered: its arguments first, then the results of its nodes, in order. A value is a dense
row-major tensor of which only the elements count, not the shape: a reshape is its operand. Sizes and offsets are in
bytes. A splat has no size: a scalar stands for all tensors filled with it.
"""

from __future__ import annotations

import hashlib
from typing import Literal, TypeAlias

import msgspec

# In `Rows`: uninitialised bytes.
NOBODY = -1

Movement = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "permute"]


class Pointwise(msgspec.Struct, frozen=True, array_like=True, tag="pointwise"):
    """An elementwise operation: `code` says how each element is computed from the operands' elements at the same
    index."""

    code: str
    operands: tuple[int, ...]
    size: int


class Read(msgspec.Struct, frozen=True, array_like=True, tag="read"):
    """The elements of one value, rearranged according to `code`; `everywhere`: a splat."""

    code: str
    operand: int
    size: int
    everywhere: bool = False


class Transpose(msgspec.Struct, frozen=True, array_like=True, tag="transpose"):
    """A value of this shape with permuted dimensions: dimension `i` of the result is dimension `order[i]`."""

    operand: int
    shape: tuple[int, ...]
    order: tuple[int, ...]
    element: str
    size: int


class Packed(msgspec.Struct, frozen=True, array_like=True, tag="packed"):
    """A mask, a byte an element, as words of so many bits (`dmc.kernels.bits`)."""

    operand: int
    width: int
    size: int


class Unpacked(msgspec.Struct, frozen=True, array_like=True, tag="unpacked"):
    """The mask that words of so many bits hold: of a packed one, that mask."""

    operand: int
    width: int
    size: int


class Apply(msgspec.Struct, frozen=True, array_like=True, tag="apply"):
    """Any other computation: `code` identifies it, up to the elements of its operands."""

    code: str
    operands: tuple[int, ...]
    sizes: tuple[int, ...]


class Rows(msgspec.Struct, frozen=True, array_like=True, tag="rows"):
    """Concatenated pieces of values: each is a value (or `NOBODY`), its first byte, and its length."""

    pieces: tuple[tuple[int, int, int], ...]


class Call(msgspec.Struct, frozen=True, array_like=True, tag="call"):
    """The results of a function. `label` is its readable origin in the model."""

    function: str
    operands: tuple[int, ...]
    label: str = ""


Local: TypeAlias = Pointwise | Read | Transpose | Packed | Unpacked | Apply | Rows | Call


class Choice(msgspec.Struct, frozen=True, array_like=True, tag="choice"):
    """Each rank runs the one for its place in its group along `axes`; all have the same number of results."""

    axes: tuple[str, ...]
    choices: tuple[Local, ...]


class Moving(msgspec.Struct, frozen=True, array_like=True):
    """The parameters of a movement. size: bytes that each member sends.

    reduction: how values are combined, the accumulation type, and the element type. root: of a broadcast. pairs: of a
    permute, as (source, target).
    """

    size: int
    reduction: tuple[str, ...] = ()
    root: int = 0
    pairs: tuple[tuple[int, int], ...] = ()


class Moved(msgspec.Struct, frozen=True, array_like=True, tag="moved"):
    """The result of a movement within groups along `axes` on each rank; pieces are along the first dimension."""

    kind: Movement
    axes: tuple[str, ...]
    operand: int
    how: Moving


class Sent(msgspec.Struct, frozen=True, array_like=True, tag="sent"):
    """A message of this number from each rank to the one that is member `peer` of its group along `axes`; no value."""

    number: int
    axes: tuple[str, ...]
    peer: int
    operand: int


class Received(msgspec.Struct, frozen=True, array_like=True, tag="received"):
    """What arrives as the message of this number."""

    number: int


Node: TypeAlias = Local | Choice | Moved | Sent | Received


class Body(msgspec.Struct, frozen=True, array_like=True):
    """A function: its number of arguments, its nodes, and the values it returns."""

    arguments: int
    nodes: tuple[Node, ...]
    results: tuple[int, ...]


class Step(msgspec.Struct, frozen=True, array_like=True):
    """A step of every rank: arguments by name and size, and the final state and outputs, as values.

    functions: those it calls, except the kernels of a job. ranks: those that run it, a stage of a pipeline; none stands
    for all.
    """

    arguments: tuple[tuple[str, int], ...]
    nodes: tuple[Node, ...]
    state: dict[str, int]
    outputs: dict[str, int]
    functions: dict[str, Body]
    ranks: tuple[int, ...] = ()


class Dataflow(msgspec.Struct, frozen=True, array_like=True):
    """The dataflow of a step at points on the way to a job, and of each kernel of the job.

    placed: form placed. opened: the same without composites. simplified: after upstream's canonicalize and cse,
    dm-chunk-head, dm-pad-classes and dm-merge-products. scheduled: form scheduled, kernel by kernel in the order of
    issue. Each but the first is a step for each stage of a pipeline.
    """

    placed: Step
    opened: tuple[Step, ...]
    simplified: tuple[Step, ...]
    scheduled: tuple[Step, ...]
    kernels: dict[str, Body]

    def digest(self) -> str:
        """SHA-256 of the dataflow, in hexadecimal."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).hexdigest()

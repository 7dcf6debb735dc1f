"""Arguments and results of a compiled step: the contract between the compiler and the runtime, stored as JSON.

`@step(state…, controls…, batch…) -> (new state…, outputs…)`. State tensors that the step mutates are returned in the
same order, each aliasing its argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

import msgspec

from dmc.program import StateRole
from dmc.program.limits import MAX_RANKS, Axis, AxisSize, Count, ElementType, Name, Shape

Role: TypeAlias = StateRole

# A nested container of batch tensors: an index into `Signature.batch`, a constant, or a container of trees.
# {"leaf": 3} · {"constant": true} · {"tuple": [...]} · {"list": [...]} · {"dict": {"name": ...}}
Tree = Mapping[str, Any]

Blocks = Annotated[int, msgspec.Meta(ge=1, le=1 << 32)]
# For each dimension of a tensor the mesh axes that split it, major first, each as (axis, blocks): what earlier axes
# left of the dimension is viewed as [blocks, n, rest], with n the size of the axis, and the rank with index i along it
# has [:, i, :].
Splits = tuple[tuple[tuple[Axis, Blocks], ...], ...]
# For each dimension of a tensor that a step pads, its blocks, and the size of each with padding; (1, size) where it has
# none. What is there of a block stands first in it.
Paddings = tuple[tuple[Blocks, Count], ...]

# Ranks, ascending.
Holders = Annotated[tuple[Annotated[int, msgspec.Meta(ge=0, lt=MAX_RANKS)], ...], msgspec.Meta(max_length=MAX_RANKS)]


@dataclass(frozen=True)
class TensorSpec:
    """A tensor by name; `dtype` is MLIR's name (f32, bf16, f16, f64, i1, i8, i32, i64), `shape` in elements."""

    name: Name
    dtype: ElementType
    shape: Shape


@dataclass(frozen=True)
class StateSpec(TensorSpec):
    """A tensor of the step's persistent state.

    `name` is the module path for parameters and buffers, `<parameter path>.<slot>` for optimizer state (role
    "optimizer"), `counter_of(phase)` for a counter (i64, number of steps done) and "seed" (i64). `aliases` are other
    names of the same tensor (tied weights). `mutated`: whether the program returns it; all programs of a step have the
    same state, and those that do not change a tensor leave it as it is. `transient` are those of its names that the
    model's `state_dict()` does not have: buffers that are not persistent, and tensors of the loss.
    """

    role: Role = "parameter"
    mutated: bool = True
    aliases: tuple[Name, ...] = ()
    transient: tuple[Name, ...] = ()


def counter_of(phase: str) -> str:
    """The name of the counter of a phase; "" of a step without phases."""
    return f"step.{phase}" if phase else "step"


@dataclass(frozen=True)
class IndexBound:
    """What reads an input as indices, and how many there are to choose from.

    reader: for people, such as "the embedding (module 'wte' (model.py:12))". size: indices are below it. ignored: a
    value that is allowed beside them. box: for each dimension of the input, from where to where it is read. least: the
    smallest index, -size where negative ones count from the end.
    """

    input: Name
    reader: Name
    size: Count
    ignored: int | None
    box: tuple[tuple[Count, Count], ...]
    least: Annotated[int, msgspec.Meta(ge=-(1 << 62), le=0)] = 0


@dataclass(frozen=True)
class Signature:
    """The whole calling convention of `@step`. Shapes are those of whole tensors.

    controls: `lr` f32[number of groups] and `guard` i32[] (non-zero: leave the state unchanged if the loss is not
    finite). outputs: `loss` first, then `finite` i32[] (non-zero: the loss is finite), then the auxiliary outputs of
    the loss. args, kwargs: the tree of positional inputs (a "tuple" tree) and of keyword inputs (a "dict" tree) of a
    call. aux: the tree of auxiliary outputs over `outputs[2:]`, or None. learning_rates: the default learning rate of
    each parameter group. mesh: axis to number of ranks along it, major first; ranks count row-major. None where the
    step is not for a mesh; otherwise a session takes and returns, for each tensor, one per rank: `<name>@<rank>`
    (`dmc.runtime.tensors.ranks`). splits: by name of a state tensor, input or output, how it is split; others are
    replicated. paddings: by name, how it is padded before it is split, so that the parts are equal. holders: by name of
    a state tensor, control, input or output, the ranks that have a part of it; what is not named, all have.
    bounds: inputs that are read as indices; a call with one out of range is refused. phase: whose program it is, of a
    step with phases.
    """

    state: tuple[StateSpec, ...]
    controls: tuple[TensorSpec, ...]
    batch: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    args: Tree
    kwargs: Tree
    aux: Tree | None
    learning_rates: tuple[float, ...]
    mesh: Mapping[Axis, AxisSize] | None = None
    splits: Mapping[Name, Splits] = field(default_factory=dict)
    paddings: Mapping[Name, Paddings] = field(default_factory=dict)
    bounds: tuple[IndexBound, ...] = ()
    holders: Mapping[Name, Holders] = field(default_factory=dict)
    phase: str = ""

    def splits_of(self, spec: TensorSpec) -> Splits:
        """How a tensor of the step is split, dimension by dimension."""
        return self.splits.get(spec.name, ((),) * len(spec.shape))

    def layout_of(self, spec: TensorSpec) -> tuple[Splits, Paddings | None]:
        """How a tensor of the step is split, and how it is padded before."""
        return self.splits_of(spec), self.paddings.get(spec.name)

    def to_json(self) -> dict[str, Any]:
        """The signature as plain JSON values."""
        return msgspec.to_builtins(self)

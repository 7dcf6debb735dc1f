"""Random programs of collectives for all ranks of a mesh: `@step` of form placed, as text, and arguments for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmc.dtypes import numpy_type
from dmc.mesh import Mesh

Array = NDArray[Any]
Shape = tuple[int, ...]
ARGUMENTS: tuple[tuple[Shape, str], ...] = (
    ((12, 4), "f32"),
    ((4, 3, 8), "f32"),
    ((16,), "bf16"),
    ((4, 4), "i32"),
    ((), "f32"),
)
ACCUMULATE = {"f32": "f32", "bf16": "f32", "i32": "i32"}
KINDS = ("all_gather", "all_reduce", "all_slice", "all_to_all", "broadcast", "permute", "reduce_scatter")
MAX_ELEMENTS = 512


def mesh_text(mesh: Mesh) -> str:
    """The `dm.mesh` of a mesh."""
    axes, sizes = ", ".join(f'"{axis}"' for axis in mesh.axes), ", ".join(map(str, mesh.sizes))
    links = ", ".join(['#dm.link<"memory">'] * len(mesh.axes))
    return (
        f'"dm.mesh"() {{sym_name = "mesh", axes = [{axes}], sizes = array<i64: {sizes}>, device = #dm.device<"cpu">, '
        f"links = [{links}]}} : () -> ()"
    )


def program(mesh: Mesh, seed: int, count: int) -> str:
    """A module whose `@step` takes `ARGUMENTS`, runs `count` collectives of all kinds, and returns what each gave."""
    writer = _Writer(mesh, Random(seed))
    for i in range(count):
        writer.add(KINDS[i % len(KINDS)])
    arguments = ", ".join(f"%v{i}: {_type(*each)}" for i, each in enumerate(ARGUMENTS))
    results = list(enumerate(writer.values))[len(ARGUMENTS) :]
    types = ", ".join(_type(*each) for _, each in results)
    names = ", ".join(f"%v{i}" for i, _ in results)
    body = "\n  ".join(writer.lines)
    return (
        f"{mesh_text(mesh)}\nfunc.func @step({arguments}) -> ({types}) {{\n  {body}\n  return {names} : {types}\n}}\n"
    )


def random_arguments(mesh: Mesh, seed: int) -> list[list[Array]]:
    """Arguments for `program`, by rank; floats that a sum in another order would round otherwise."""
    random = np.random.default_rng(seed)
    return [[_values(random, *each) for each in ARGUMENTS] for _ in mesh.ranks]


def _values(random: np.random.Generator, shape: Shape, element: str) -> Array:
    scale = random.choice([1e-3, 1.0, 1e3], size=shape)
    return np.asarray(random.standard_normal(shape) * scale * 10).astype(numpy_type(element))


@dataclass
class _Writer:
    """Lines of text, each with one collective, and the shapes and element types of the values so far."""

    mesh: Mesh
    random: Random
    lines: list[str] = field(default_factory=list[str])
    values: list[tuple[Shape, str]] = field(default_factory=lambda: list(ARGUMENTS))

    def add(self, kind: str) -> None:
        """A collective of this kind on a value that fits it."""
        axes = self.random.sample(self.mesh.axes, self.random.randint(1, len(self.mesh.axes)))
        n = self.mesh.group_size(axes)
        fitting = [i for i, (shape, _) in enumerate(self.values) if _fits(kind, shape, n)]
        index = self.random.choice(fitting)
        if kind == "all_slice":
            # Only what all ranks of the group have may be sliced.
            index = self._emit("broadcast", index, axes, n)
        self._emit(kind, index, axes, n)

    def _emit(self, kind: str, index: int, axes: list[str], n: int) -> int:
        shape, element = self.values[index]
        attributes, result = self._attributes(kind, shape, element, n)
        names = ", ".join(f'"{axis}"' for axis in axes)
        types = f"({_type(shape, element)}) -> {_type(result, element)}"
        attributes += f", group = #dm.group<@mesh, [{names}]>"
        self.lines.append(f'%v{len(self.values)} = "dm.{kind}"(%v{index}) {{{attributes}}} : {types}')
        self.values.append((result, element))
        return len(self.values) - 1

    def _attributes(self, kind: str, shape: Shape, element: str, n: int) -> tuple[str, Shape]:
        """The attributes but for the group, and the shape of the result."""
        divisible = [dim for dim, size in enumerate(shape) if size % n == 0]
        kinds = ["sum", "sum", "max", "min", "prod", *(["mean"] if element != "i32" else [])]
        reduction = f'reduction = #dm.reduction<"{self.random.choice(kinds)}">, accumulate = {ACCUMULATE[element]}'
        match kind:
            case "all_gather":
                dim = self.random.randrange(len(shape))
                return f"dim = {dim} : i64", _scaled(shape, dim, n, 1)
            case "all_slice" | "reduce_scatter":
                dim = self.random.choice(divisible)
                reduced = f", {reduction}" if kind == "reduce_scatter" else ""
                return f"dim = {dim} : i64{reduced}", _scaled(shape, dim, 1, n)
            case "all_to_all":
                split, concat = self.random.choice(divisible), self.random.randrange(len(shape))
                result = _scaled(_scaled(shape, split, 1, n), concat, n, 1)
                return f"split_dim = {split} : i64, concat_dim = {concat} : i64", result
            case "all_reduce":
                return reduction, shape
            case "broadcast":
                return f"root = {self.random.randrange(n)} : i64", shape
            case _:
                count = self.random.randint(1, n)
                sources, targets = (self.random.sample(range(n), count) for _ in range(2))
                pairs = ", ".join(f"[{s}, {t}]" for s, t in zip(sources, targets, strict=True))
                return f"source_target_pairs = dense<[{pairs}]> : tensor<{count}x2xi64>", shape


def _fits(kind: str, shape: Shape, n: int) -> bool:
    if kind == "all_gather":
        return bool(shape) and prod(shape) * n <= MAX_ELEMENTS
    if kind in ("all_slice", "all_to_all", "reduce_scatter"):
        return any(size % n == 0 for size in shape)
    return True


def _scaled(shape: Shape, dim: int, by: int, over: int) -> Shape:
    return (*shape[:dim], shape[dim] * by // over, *shape[dim + 1 :])


def _type(shape: Shape, element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"

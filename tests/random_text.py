"""The text of random operations on tensors: what there is to read, and how one more is added.

What a program draws, it draws from a function `choose`, so that the same numbers give the same program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

# Gives a number in 0 … n-1.
Choose = Callable[[int], int]
Shape = tuple[int, ...]
SIZES = (1, 2, 4, 8)
LARGEST = 256  # elements of a tensor


@dataclass
class RandomText:
    """Builds the text of operations on tensors of f64, whose sums so hardly depend on their order.

    values: the names and shapes of what there is at this place of the program.
    """

    choose: Choose
    lines: list[str] = field(default_factory=list)
    values: list[tuple[str, Shape]] = field(default_factory=list)
    count: int = 0

    def emit(self, text: str, shape: Shape) -> str:
        """One more operation: `text`, which gives a tensor of `shape`."""
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        self.values.append((name, shape))
        return name

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def shape(self, rank: int) -> Shape:
        shape = tuple(SIZES[self.choose(len(SIZES))] for _ in range(rank))
        return shape if prod(shape) <= LARGEST else shape[1:]

    def pick(self, rank: int = 0) -> tuple[str, Shape]:
        """A value of this rank at least; recent ones are likelier."""
        fit = [each for each in self.values if len(each[1]) >= rank]
        if not fit:
            shape = self.shape(max(rank, 1))
            while len(shape) < rank:
                shape = (*shape, 1)
            return self.splat(shape, "0.5"), shape
        return fit[max(self.choose(len(fit)), self.choose(len(fit)))]

    def like(self, shape: Shape) -> str:
        """A value of this shape: one that there is, or a splat."""
        fit = [name for name, own in self.values if own == shape]
        at = self.choose(len(fit) + 1)
        return fit[at] if at < len(fit) else self.splat(shape, ("0.0", "0.5")[self.choose(2)])

    def splat(self, shape: Shape, value: str) -> str:
        """A constant, or a fill of a constant."""
        if self.choose(2):
            name = self.fresh()
            self.lines.append(f"{name} = arith.constant dense<{value}> : {kind(shape)}")
            return name
        scalar, empty, filled = self.fresh(), self.empty(shape), self.fresh()
        self.lines.append(f"{scalar} = arith.constant {value} : f64")
        self.lines.append(f"{filled} = linalg.fill ins({scalar} : f64) outs({empty} : {kind(shape)}) -> {kind(shape)}")
        return filled

    def empty(self, shape: Shape) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = tensor.empty() : {kind(shape)}")
        return name

    def order(self, count: int) -> list[int]:
        """A permutation of 0 … count-1."""
        left, order = list(range(count)), list[int]()
        while left:
            order.append(left.pop(self.choose(len(left))))
        return order

    def some(self, count: int) -> list[int]:
        """Some of 0 … count-1, in order."""
        return [i for i in range(count) if self.choose(2)]


def kind(shape: Shape) -> str:
    """The type of a tensor of this shape."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}f64>"


def affine(loops: int, places: Sequence[object]) -> str:
    every = ", ".join(f"d{i}" for i in range(loops))
    return f"affine_map<({every}) -> ({', '.join(str(place) for place in places)})>"


def generic(
    step: RandomText,
    inputs: Sequence[tuple[str, Shape, Sequence[int]]],
    out: tuple[str, Shape, Sequence[int]],
    loops: Sequence[bool],
    body: Sequence[str],
) -> str:
    """A `linalg.generic`: tensors with the loops of their dimensions, whether each loop is parallel, and the body.

    The body names its arguments `%i0`, `%i1` …, `%o`, and gives `%y`.
    """
    every = [*inputs, out]
    maps = ", ".join(affine(len(loops), [f"d{i}" for i in places]) for _, _, places in every)
    kinds = ", ".join('"parallel"' if each else '"reduction"' for each in loops)
    ins = ""
    if inputs:
        ins = f"ins({', '.join(each[0] for each in inputs)} : {', '.join(kind(each[1]) for each in inputs)}) "
    arguments = ", ".join([*(f"%i{i}: f64" for i in range(len(inputs))), "%o: f64"])
    text = (
        f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} {ins}"
        f"outs({out[0]} : {kind(out[1])}) {{\n^bb0({arguments}):\n" + "\n".join(body) + "\nlinalg.yield %y : f64\n} "
        f"-> {kind(out[1])}"
    )
    return step.emit(text, out[1])

"""Random operations that move elements of tensors and compute nothing, for random steps."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tests.random_text import LARGEST, SIZES, RandomText, Shape, kind


def transpose(step: RandomText) -> None:
    name, shape = step.pick(1)
    order = step.order(len(shape))
    result = tuple(shape[i] for i in order)
    ends = f"ins({name} : {kind(shape)}) outs({step.empty(result)} : {kind(result)})"
    step.emit(f"linalg.transpose {ends} permutation = {order}", result)


def broadcast(step: RandomText) -> None:
    name, shape = step.pick()
    size, at = SIZES[step.choose(3)], step.choose(len(shape) + 1)
    result = (*shape[:at], size, *shape[at:])
    if len(result) > 4 or prod(result) > LARGEST:
        return
    ends = f"ins({name} : {kind(shape)}) outs({step.empty(result)} : {kind(result)})"
    step.emit(f"linalg.broadcast {ends} dimensions = [{at}]", result)


def collapse(step: RandomText) -> None:
    name, shape = step.pick(2)
    at = step.choose(len(shape) - 1)
    groups = [[i] for i in range(at)] + [[at, at + 1]] + [[i] for i in range(at + 2, len(shape))]
    result = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
    step.emit(f"tensor.collapse_shape {name} {groups} : {kind(shape)} into {kind(result)}", result)


def expand(step: RandomText) -> None:
    name, shape = step.pick(1)
    at = step.choose(len(shape))
    factor = SIZES[step.choose(len(SIZES))]
    if shape[at] % factor or len(shape) > 3:
        return
    groups = [[i] for i in range(at)] + [[at, at + 1]] + [[i + 1] for i in range(at + 1, len(shape))]
    result = (*shape[:at], factor, shape[at] // factor, *shape[at + 1 :])
    step.emit(
        f"tensor.expand_shape {name} {groups} output_shape {list(result)} : {kind(shape)} into {kind(result)}", result
    )


def extract_slice(step: RandomText) -> None:
    name, shape = step.pick(1)
    if step.choose(6) == 0:
        name = step.splat(shape, "0.5")
    where, result = _slice(step, shape)
    if step.choose(3) == 0:
        result = tuple(size for size in result if size > 1)
    step.emit(f"tensor.extract_slice {name}{where} : {kind(shape)} to {kind(result)}", result)


def insert_slice(step: RandomText) -> None:
    name, shape = step.pick(1)
    where, piece = _slice(step, shape)
    step.emit(f"tensor.insert_slice {step.like(piece)} into {name}{where} : {kind(piece)} into {kind(shape)}", shape)


def _slice(step: RandomText, shape: Shape) -> tuple[str, Shape]:
    offsets, sizes, strides = list[int](), list[int](), list[int]()
    for size in shape:
        own = 1 + step.choose(size) if step.choose(3) == 0 else (size // 2 or 1) if step.choose(2) else size
        stride = 1 + step.choose(2) if own > 1 and 1 + (own - 1) * 2 <= size else 1
        sizes.append(own)
        strides.append(stride)
        offsets.append(step.choose(size - (own - 1) * stride))
    return f"{offsets} {sizes} {strides}", tuple(sizes)


def pad(step: RandomText) -> None:
    name, shape = step.pick(1)
    low = [(0, 0, 1, size)[step.choose(4)] for size in shape]
    high = [(0, 0, 1, size)[step.choose(4)] for size in shape]
    result = tuple(before + size + after for before, size, after in zip(low, shape, high, strict=True))
    if prod(result) > LARGEST:
        return
    arguments = ", ".join(f"%p{i}: index" for i in range(len(shape)))
    value = step.fresh()
    step.lines.append(f"{value} = arith.constant {('0.0', '1.0')[step.choose(2)]} : f64")
    step.emit(
        f"tensor.pad {name} low{low} high{high} {{\n^bb0({arguments}):\ntensor.yield {value} : f64\n}} : "
        f"{kind(shape)} to {kind(result)}",
        result,
    )


def concat(step: RandomText) -> None:
    name, shape = step.pick(1)
    dim = step.choose(len(shape))
    fit = [each for each in step.values if len(each[1]) == len(shape)]
    fit = [each for each in fit if each[1][:dim] + each[1][dim + 1 :] == shape[:dim] + shape[dim + 1 :]]
    pieces = [(name, shape), *(fit[step.choose(len(fit))] for _ in range(1 + step.choose(2)))]
    if step.choose(3) == 0:
        pieces.append((step.splat(shape, "0.0"), shape))
    result = (*shape[:dim], sum(own[dim] for _, own in pieces), *shape[dim + 1 :])
    if prod(result) > LARGEST:
        return
    names, types = ", ".join(each for each, _ in pieces), ", ".join(kind(own) for _, own in pieces)
    step.emit(f"tensor.concat dim({dim}) {names} : ({types}) -> {kind(result)}", result)


def fill(step: RandomText) -> None:
    """A tensor filled with one element of another."""
    name, shape = step.pick()
    scalar, places = step.fresh(), list[str]()
    for size in shape:
        places.append(step.fresh())
        step.lines.append(f"{places[-1]} = arith.constant {step.choose(size)} : index")
    step.lines.append(f"{scalar} = tensor.extract {name}[{', '.join(places)}] : {kind(shape)}")
    _, result = step.pick()
    ends = f"ins({scalar} : f64) outs({step.empty(result)} : {kind(result)})"
    step.emit(f"linalg.fill {ends} -> {kind(result)}", result)


MOVES: tuple[Callable[[RandomText], None], ...] = (
    *(transpose, broadcast, collapse, expand, extract_slice, insert_slice, pad, concat, fill),
)

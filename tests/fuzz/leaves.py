"""Draws what a program starts from: numbers that floats hold exactly, sometimes with NaN, infinities, subnormal numbers
and extremes."""

from __future__ import annotations

from math import prod

from tests.fuzz.program import PREFIXES, Leaf, Number, Role
from tests.random_text import Choose

Shape = tuple[int, ...]
SIZES = (1, 2, 2, 3, 3, 4, 4, 5)
FLOATS: tuple[Number, ...] = (-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 4.0)
SPECIALS: tuple[Number, ...] = (float("nan"), float("inf"), float("-inf"), -0.0)
# The smallest number, subnormal ones, and the smallest normal one.
SMALL: dict[str, tuple[Number, ...]] = {
    "float32": (2.0**-149, -3 * 2.0**-140, 2.0**-127, 2.0**-126),
    "bfloat16": (2.0**-133, -3 * 2.0**-132, 2.0**-127, 2.0**-126),
    "float16": (2.0**-24, -3 * 2.0**-20, 2.0**-15, 2.0**-14),
}
INTS: tuple[Number, ...] = (-7, -3, -2, -1, 0, 1, 2, 3, 5, 8)
EXTREMES: dict[str, tuple[Number, ...]] = {
    "int8": (-128, 127, 100),
    "int32": (-(2**31), 2**31 - 1, 2**24 + 1),
    "int64": (-(2**40), 2**53 + 1, 2**24 + 1),
    "uint8": (255, 200, 128),
}
# What the parameters and inputs of some programs look like: images with filters, sequences.
THEMES: tuple[tuple[Shape, ...], ...] = (
    ((2, 2, 4, 4), (2, 2, 3, 3), (2,), (2, 1, 2, 2)),
    ((2, 4, 3), (2, 4, 3), (4, 4), (3,), (4,)),
    ((2, 2, 6), (3, 2, 3), (3,), (2,)),
    ((4, 3), (4, 3), (3, 3), (3,), (4,)),
)
LAYOUTS = ("plain", "plain", "plain", "transposed", "spread", "broadcast")


def draw(choose: Choose) -> list[Leaf]:
    """One to three parameters of which the first is f32, up to two buffers, and one to three inputs."""
    shapes = _shapes(choose)
    found: list[Leaf] = []
    counts: tuple[tuple[Role, int], ...] = (
        ("parameter", 1 + choose(3)),
        ("buffer", choose(3)),
        ("input", 1 + choose(3)),
    )
    for role, most in counts:
        for index in range(most):
            dtype = "float32" if role == "parameter" and index == 0 else _dtype(role, choose)
            found.append(_leaf(role, index, dtype, shapes[choose(len(shapes))], choose))
    return found


def _shapes(choose: Choose) -> list[Shape]:
    """The shapes of one program, of few sizes, so that they fit each other."""
    if not choose(3):
        return list(THEMES[choose(len(THEMES))])
    sizes = [SIZES[choose(len(SIZES))] for _ in range(2)] + ([0] if not choose(40) else [])
    return [tuple(sizes[choose(len(sizes))] for _ in range(choose(3) + choose(2) + (not choose(4)))) for _ in range(4)]


def _dtype(role: Role, choose: Choose) -> str:
    match role:
        case "parameter":
            return (*("float32",) * 8, "bfloat16", "float16")[choose(10)]
        case "buffer":
            return ("float32", "float32", "float32", "int64", "bool", "bfloat16")[choose(6)]
        case "input":
            types = ("float32",) * 5 + ("index",) * 3 + ("bool", "bool", "int64", "int32", "int8", "uint8")
            return (*types, "bfloat16", "float16")[choose(len(types) + 2)]


def _leaf(role: Role, index: int, dtype: str, shape: Shape, choose: Choose) -> Leaf:
    name = f"{PREFIXES[role]}{index}"
    palette = _palette(dtype, choose)
    numbers = tuple(palette[choose(len(palette))] for _ in range(prod(shape)))
    layout = LAYOUTS[choose(len(LAYOUTS))]
    # Parameters and buffers are written, which shared elements cannot be.
    if layout == "broadcast" and (role != "input" or not shape or not numbers):
        layout = "plain"
    return Leaf(name, role, "int64" if dtype == "index" else dtype, shape, numbers, layout)


def _palette(dtype: str, choose: Choose) -> tuple[Number, ...]:
    match dtype:
        case "bool":
            return (True, False)
        case "index":
            return (0, 1, 2)[: 2 + choose(2)]
        case "uint8":
            return (0, 1, 2, 3, 7) + (EXTREMES[dtype] if not choose(3) else ())
        case "int8" | "int32" | "int64":
            return INTS + (EXTREMES[dtype] if not choose(3) else ())
        case _:
            return FLOATS + (SPECIALS if not choose(7) else ()) + (SMALL[dtype] if not choose(7) else ())

"""The padding that a plan implies, and copies of heads that are fewer than ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import dmc
from dmc.analysis.requests.heads import with_copies
from dmc.mesh import Mesh
from dmc.placement.pads import Pad, loop_of
from dmc.plans import Plan, resolve
from dmc.plans.uneven import Factors
from dmc.program.signature import StateSpec
from dmc.runtime.tensors.ranks import Spread

FREE, WHOLE = True, False
# Heads of 8 elements: 4 of queries for each of the heads of keys.
QUERIES: dict[int, Factors] = {
    1: ((4, FREE), (8, WHOLE)),
    2: ((2, FREE), (2, FREE), (8, WHOLE)),
    4: ((4, FREE), (8, WHOLE)),
}
KEYS: dict[int, Factors] = {1: ((8, WHOLE),), 2: ((2, FREE), (8, WHOLE)), 4: ((4, FREE), (8, WHOLE))}


def _pads(size: int, axes: dict[str, Any], blocks: int = 1, factors: Factors = ()) -> Pad | None:
    plan = dmc.plan(Mesh(**axes))
    for axis in axes:
        plan = plan.shard("w", dim=0, axis=axis, blocks=blocks)
    found = resolve(plan, [StateSpec("w", "f32", (size,))], (), (), factors={"w": (factors,)} if factors else None)
    return found.tensors["w"].pads[0]


@pytest.mark.parametrize(
    ("size", "ranks", "blocks", "factors", "pad"),
    [
        (8, 4, 1, (), None),
        (7, 4, 1, (), Pad(1, 7, 8)),
        # Parts of 64 where that is worth no more than a hundredth.
        (50257, 4, 1, (), Pad(1, 50257, 50432)),
        (513, 2, 1, (), Pad(1, 513, 514)),
        (30, 4, 3, (), Pad(3, 10, 12)),
        # Whole heads, even where the ranks divide the elements.
        (32, 3, 1, ((4, FREE), (8, WHOLE)), Pad(1, 32, 48)),
        (48, 4, 1, ((6, FREE), (8, WHOLE)), Pad(1, 48, 64)),
        (96, 3, 3, ((3, WHOLE), (4, FREE), (8, WHOLE)), Pad(3, 32, 48)),
        # Two heads of keys for four ranks: four of queries split evenly.
        (32, 4, 1, ((2, FREE), (2, FREE), (8, WHOLE)), None),
        (32, 3, 1, ((2, FREE), (2, FREE), (8, WHOLE)), Pad(1, 32, 48)),
    ],
)
def test_padding_of_a_dimension(size: int, ranks: int, blocks: int, factors: Factors, pad: Pad | None) -> None:
    assert _pads(size, {"tp": ranks}, blocks, factors) == pad


def test_padding_for_several_axes() -> None:
    assert _pads(7, {"a": 2, "b": 3}) == Pad(1, 7, 12)


@pytest.mark.parametrize(
    ("pad", "sizes", "loop"),
    [
        (Pad(1, 12, 16), [3, 4], (0, Pad(1, 3, 4))),
        (Pad(1, 12, 16), [1, 12], (1, Pad(1, 12, 16))),
        (Pad(3, 12, 16), [3, 12], (1, Pad(1, 12, 16))),
        (Pad(3, 12, 16), [3, 3, 4], (1, Pad(1, 3, 4))),
        (Pad(3, 12, 16), [36], (0, Pad(3, 12, 16))),
        (Pad(1, 12, 14), [3, 4], None),
    ],
)
def test_the_loop_that_a_dimension_pads(pad: Pad, sizes: Sequence[int], loop: tuple[int, Pad] | None) -> None:
    assert loop_of(pad, sizes) == loop
    if loop is not None:
        before, after = (int(np.prod(part)) for part in (sizes[: loop[0]], sizes[loop[0] + 1 :]))
        assert loop[1].around(before, after) == pad


def _of_heads(keys: int, ranks: int) -> tuple[Plan, tuple[str, ...]]:
    plan = (
        dmc.plan(Mesh(dp=2, tp=ranks)).data_parallel("dp").shard("q|k", dim=0, axis="tp").shard("up", dim=0, axis="tp")
    )
    specs = [StateSpec("q", "f32", (32,)), StateSpec("k", "f32", (8 * keys,)), StateSpec("up", "f32", (50,))]
    factors = {"q": (QUERIES[keys],), "k": (KEYS[keys],), "up": (((50, FREE),),)}
    changed, notes = with_copies(plan, resolve(plan, specs, (), ()).tensors, factors)
    found = resolve(changed, specs, (), (), factors=factors)
    layouts = (f"{name} {each.used} {each.pads[0]}" for name, each in found.tensors.items())
    return changed, (*layouts, *notes)


@pytest.mark.parametrize(
    ("keys", "ranks", "axes", "placed"),
    [
        (4, 2, ("dp", "tp"), ("q [tp] None", "k [tp] None", "up [tp] None")),
        (2, 2, ("dp", "tp"), ("q [tp] None", "k [tp] None", "up [tp] None")),
        # Padding costs no more than copies.
        (2, 3, ("dp", "tp"), (f"q [tp] {Pad(1, 32, 48)}", f"k [tp] {Pad(1, 16, 24)}", f"up [tp] {Pad(1, 50, 51)}")),
        (
            2,
            4,
            ("dp", "tp_0", "tp_1"),
            (
                "q [tp_0 tp_1] None",
                "k [tp_0] None",
                f"up [tp_0 tp_1] {Pad(1, 50, 52)}",
                "2 heads of keys and values for 4 ranks of 'tp': 2 ranks have a copy of each",
            ),
        ),
        (
            1,
            3,
            ("dp", "tp"),
            (
                f"q [tp] {Pad(1, 32, 48)}",
                "k whole None",
                f"up [tp] {Pad(1, 50, 51)}",
                "1 head of keys and values for 3 ranks of 'tp': 3 ranks have a copy of each",
            ),
        ),
    ],
)
def test_copies_of_heads(keys: int, ranks: int, axes: tuple[str, ...], placed: tuple[str, ...]) -> None:
    plan, found = _of_heads(keys, ranks)
    assert (plan.mesh.axes, found) == (axes, placed)
    assert plan.mesh.size == 2 * ranks


@pytest.mark.parametrize("repeats", [False, True])
def test_parts_with_padding(repeats: bool) -> None:
    """Two blocks of three over two ranks: of each block the first has two, the second one and padding."""
    whole = np.arange(1, 7)
    spread = Spread((6,), ((("tp", 2),),), {"tp": 2}, ((2, 4),), repeats)
    first, second = spread.parts(whole)
    assert first.tolist() == [1, 2, 4, 5]
    assert set(second.tolist()) <= set(whole.tolist()) if repeats else second.tolist() == [3, 0, 6, 0]
    assert second[[0, 2]].tolist() == [3, 6]
    assert spread.whole([first, second].__getitem__).tolist() == whole.tolist()
    assert spread.held(second, 1).tolist() == ([*second] if repeats else [3, 6])

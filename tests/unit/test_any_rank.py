"""What is found for any rank holds on each."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmc.mesh import Mesh
from dmc.program.dataflow import Choice, Moved, Moving, Node, Pointwise, Rows, Step
from dmc.proof.any_rank import AnyRank, Family
from dmc.proof.meaning import Meaning
from dmc.proof.values import Values

MESHES = (Mesh(dp=2), Mesh(dp=4), Mesh(dp=2, tp=2), Mesh(dp=3, tp=2), Mesh(dp=1, tp=4))
UNIT = 144
SUM = ("sum", "f32", "f32")


class _Drawn:
    """A step whose nodes are drawn one by one, many of them twice in other words."""

    def __init__(self, mesh: Mesh, random: Random) -> None:
        self.mesh, self.random = mesh, random
        self.sizes = [UNIT, UNIT]
        self.nodes: list[Node] = []

    def add(self, node: Node, size: int) -> int:
        """A node and the size of its result, whose number it returns."""
        self.nodes.append(node)
        self.sizes.append(size)
        return len(self.sizes) - 1

    def draw(self) -> None:
        """Adds some nodes."""
        value = self.random.randrange(len(self.sizes))
        size, axes = self.sizes[value], self.axes()
        members = self.mesh.group_size(axes)
        match self.random.randrange(8):
            case 0:
                same = [i for i, each in enumerate(self.sizes) if each == size]
                self.add(Pointwise(self.random.choice("fg"), (value, self.random.choice(same)), size), size)
            case 1:
                self.add(Moved("all_reduce", axes, value, Moving(size, SUM)), size)
            case 2 if not size % members:
                part = self.add(Moved("reduce_scatter", axes, value, Moving(size, SUM)), size // members)
                self.add(Moved("all_gather", axes, part, Moving(size // members)), size)
            case 3 if size * members <= 8 * UNIT:
                whole = self.add(Moved("all_gather", axes, value, Moving(size)), size * members)
                self.slice(whole, axes)
            case 4 if not size % members:
                self.slice(value, axes)
            case 6 if not size % members:
                part = size // members
                self.add(Rows(((value, self.random.randrange(members) * part, part),)), part)
            case 5 if not size % members:
                self.add(Moved("all_to_all", axes, value, Moving(size)), size)
            case _:
                other = self.random.randrange(len(self.sizes))
                pieces = ((value, 0, size), (other, 0, self.sizes[other]))
                if size + self.sizes[other] <= 8 * UNIT:
                    row = self.add(Rows(pieces), size + self.sizes[other])
                    self.add(Rows(((row, size, self.sizes[other]),)), self.sizes[other])

    def slice(self, value: int, axes: tuple[str, ...]) -> None:
        """A rank's own piece."""
        members = self.mesh.group_size(axes)
        length = self.sizes[value] // members
        self.add(Choice(axes, tuple(Rows(((value, i * length, length),)) for i in range(members))), length)

    def axes(self) -> tuple[str, ...]:
        """Some axes, in some order."""
        return tuple(self.random.sample(self.mesh.axes, self.random.randint(1, len(self.mesh.axes))))


@given(st.integers(0, 10**6))
@settings(deadline=None, max_examples=300)
def test_equal_values_of_any_rank_are_equal_on_each(seed: int) -> None:
    random = Random(seed)
    mesh = random.choice(MESHES)
    drawn = _Drawn(mesh, random)
    for _ in range(16):
        drawn.draw()
    step = Step((("x", UNIT), ("y", UNIT)), tuple(drawn.nodes), {}, {}, {})
    (of_any,) = AnyRank(mesh, Family(mesh), {}).of_step(step).values()
    each = Meaning(mesh, Values(), {}).of_step(step).values()
    for one, other in combinations(range(len(of_any)), 2):
        if of_any[one] == of_any[other]:
            assert all(own[one] == own[other] for own in each), (one, other, step.nodes)


def _of_any(mesh: Mesh, *nodes: Node) -> list[int]:
    (held,) = AnyRank(mesh, Family(mesh), {}).of_step(Step((("x", UNIT),), nodes, {}, {}, {})).values()
    return held


@pytest.mark.parametrize("axes", [("dp",), ("tp",), ("dp", "tp"), ("tp", "dp")])
def test_a_sum_in_pieces_is_a_sum(axes: tuple[str, ...]) -> None:
    mesh = Mesh(dp=2, tp=3)
    size = UNIT // mesh.group_size(axes)
    held = _of_any(
        mesh,
        Moved("all_reduce", axes, 0, Moving(UNIT, SUM)),
        Moved("reduce_scatter", axes, 0, Moving(UNIT, SUM)),
        Moved("all_gather", axes, 2, Moving(size)),
        Choice(axes, tuple(Rows(((1, i * size, size),)) for i in range(UNIT // size))),
    )
    assert held[1] == held[3] != held[0]
    assert held[2] == held[4]


def test_a_sum_over_both_axes_in_turn_is_in_another_order() -> None:
    once = Moved("all_reduce", ("dp", "tp"), 0, Moving(UNIT, SUM))
    twice = (Moved("all_reduce", ("dp",), 0, Moving(UNIT, SUM)), Moved("all_reduce", ("tp",), 2, Moving(UNIT, SUM)))
    held = _of_any(Mesh(dp=2, tp=2), once, *twice)
    assert held[1] != held[3]


def test_a_bucket_is_moved_as_its_members_are() -> None:
    """Also where nobody has written between them."""
    pad = ((0, 0, UNIT), (-1, 0, 16), (0, 0, UNIT))
    held = _of_any(
        Mesh(dp=4),
        Rows(pad),
        Moved("all_reduce", ("dp",), 1, Moving(2 * UNIT + 16, SUM)),
        Rows(((2, 0, UNIT),)),
        Rows(((2, UNIT + 16, UNIT),)),
        Moved("all_reduce", ("dp",), 0, Moving(UNIT, SUM)),
    )
    assert held[3] == held[4] == held[5]

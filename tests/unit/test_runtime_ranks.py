"""Whole tensors and the parts that ranks hold: by the definition, there and back, and as the tensors of all ranks."""

from __future__ import annotations

import dataclasses
import math

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dmc.mesh import Mesh
from dmc.program.signature import Signature, Splits
from dmc.runtime.tensors.ranks import Ranks, Spread
from tests.linear_step import SIGNATURE, initial_state

Case = tuple[dict[str, int], tuple[int, ...], Splits]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A mesh of up to three axes, and a shape that some of the axes, in any order and with blocks, divide."""
    axes = draw(st.lists(st.sampled_from("abc"), unique=True, min_size=1))
    mesh = {axis: draw(st.integers(1, 3)) for axis in axes}
    uses: list[list[tuple[str, int]]] = [[] for _ in range(draw(st.integers(0, 3)))]
    for axis in draw(st.permutations(axes)) if uses else ():
        if draw(st.booleans()):
            uses[draw(st.integers(0, len(uses) - 1))].append((axis, draw(st.sampled_from((1, 1, 2, 3)))))
    # Each use divides what those before it leave, whatever that is.
    sizes = [math.prod(mesh[axis] * blocks for axis, blocks in own) * draw(st.integers(0, 2)) for own in uses]
    return mesh, tuple(sizes), tuple(map(tuple, uses))


def _held(whole: np.ndarray, splits: Splits, mesh: Mesh, rank: int) -> np.ndarray:
    """The definition of `Splits`, word by word."""
    index = mesh.coordinates(rank)
    for dim, uses in enumerate(splits):
        for axis, blocks in uses:
            n = mesh.axis_size(axis)
            left = whole.shape[dim]
            seen = (*whole.shape[:dim], blocks, n, left // (blocks * n), *whole.shape[dim + 1 :])
            kept = (*whole.shape[:dim], left // n, *whole.shape[dim + 1 :])
            whole = whole.reshape(seen).take(index[axis], axis=dim + 1).reshape(kept)
    return whole


@given(cases())
def test_parts_are_those_of_the_definition(case: Case) -> None:
    axes, shape, splits = case
    spread, mesh = Spread(shape, splits, axes), Mesh(links=None, **axes)
    whole = np.arange(math.prod(shape)).reshape(shape)
    parts = spread.parts(whole)
    assert len(parts) == mesh.size
    for rank, part in enumerate(parts):
        assert part.shape == spread.part_shape
        np.testing.assert_array_equal(part, _held(whole, splits, mesh, rank))


@given(cases())
def test_the_whole_comes_back_from_one_rank_for_each_part(case: Case) -> None:
    axes, shape, splits = case
    spread = Spread(shape, splits, axes)
    whole = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    parts = spread.parts(whole)
    asked: list[int] = []

    def part_of(rank: int) -> np.ndarray:
        asked.append(rank)
        return parts[rank]

    np.testing.assert_array_equal(spread.whole(part_of), whole)
    assert sum(parts[rank].size for rank in asked) == whole.size
    assert asked == [ranks[0] for ranks in spread.replicas]
    assert sorted(rank for ranks in spread.replicas for rank in ranks) == list(range(len(parts)))
    for first, *others in spread.replicas:
        for other in others:
            np.testing.assert_array_equal(parts[other], parts[first])


def test_ranges_are_not_copied() -> None:
    whole = np.zeros((8, 6), np.float32)
    for splits in ((), ()), ((("dp", 1), ("tp", 1)), ()), ((("dp", 1),), (("tp", 1),)):
        assert all(np.shares_memory(part, whole) for part in Spread((8, 6), splits, {"dp": 2, "tp": 2}).parts(whole))


def test_fused_blocks() -> None:
    # Queries, keys and values side by side; each rank gets its half of all three.
    spread = Spread((6,), ((("tp", 3),),), {"dp": 2, "tp": 2})
    parts = spread.parts(np.array(["q0", "q1", "k0", "k1", "v0", "v1"]))
    assert [part.tolist() for part in parts] == [["q0", "k0", "v0"], ["q1", "k1", "v1"]] * 2
    assert spread.replicas == [(0, 2), (1, 3)]


ON_A_MESH: Signature = dataclasses.replace(
    SIGNATURE,
    mesh={"dp": 2, "tp": 1},
    splits={"x": ((("dp", 1),), ()), "weight.momentum": ((), (("dp", 1),)), "pred": ((("dp", 1),), ())},
)


def test_all_ranks_are_one_program() -> None:
    linked = Ranks(ON_A_MESH).linked
    assert [spec.name for spec in linked.state[:4]] == ["weight@0", "weight@1", "bias@0", "bias@1"]
    momentum = next(spec for spec in linked.state if spec.name == "weight.momentum@1")
    assert (momentum.shape, momentum.dtype, momentum.role) == ((3, 1), "f32", "optimizer")
    assert [spec.shape for spec in linked.batch[:4]] == [(2, 3), (2, 3), (4, 2), (4, 2)]
    assert [spec.name for spec in linked.controls] == ["lr@0", "lr@1", "guard@0", "guard@1"]
    assert [spec.shape for spec in linked.outputs[4:6]] == [(2, 2), (2, 2)]


def test_state_is_scattered_in_the_order_of_the_program() -> None:
    ranks = Ranks(ON_A_MESH)
    arrays = ranks.scatter(ON_A_MESH.state, initial_state())
    assert [array.shape for array in arrays] == [spec.shape for spec in ranks.linked.state]


def test_one_rank_is_left_as_it_is() -> None:
    ranks, state = Ranks(SIGNATURE), initial_state()
    assert ranks.linked is SIGNATURE
    assert all(a is b for a, b in zip(ranks.scatter(SIGNATURE.state, state), state, strict=True))


def test_the_mesh_survives_json() -> None:
    blocks = dataclasses.replace(ON_A_MESH, splits={**ON_A_MESH.splits, "y": ((("dp", 2), ("tp", 1)), ())})
    assert msgspec.convert(blocks.to_json(), Signature) == blocks


def test_a_process_that_is_one_rank_takes_wholes_and_its_own_parts() -> None:
    ranks = Ranks(ON_A_MESH, only=1)
    assert not ranks.is_all
    assert [spec.name for spec in ranks.linked.state[:2]] == ["weight@1", "bias@1"]
    x = next(spec for spec in ON_A_MESH.batch if spec.name == "x")
    whole = np.arange(math.prod(x.shape), dtype=np.float32).reshape(x.shape)
    (part,) = ranks.scatter([x], [whole])
    np.testing.assert_array_equal(part, whole[x.shape[0] // 2 :])
    (own,) = ranks.scatter([x], [part])
    assert own is part
    pred = next(spec for spec in ON_A_MESH.outputs if spec.name == "pred")
    seen, spread = ranks.seen(pred)
    assert (seen.shape, spread.is_split) == (ranks.spreads["pred"].part_shape, False)

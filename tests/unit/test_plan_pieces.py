"""What ranks hold under any plan: the pieces cover the tensor, and those of one rank lie in each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import dmc
from dmc.mesh import Mesh
from dmc.placement.pads import Pads
from dmc.plans import Plan, resolve
from dmc.plans.layout import Layout
from dmc.program.signature import StateSpec
from tests.plan_models import piece

PADDING = -1


@st.composite
def _cases(draw: st.DrawFn) -> tuple[Plan, StateSpec]:
    """A plan with up to two splits and two axes of data, and a parameter that is made of the blocks."""
    mesh = Mesh(
        a=draw(st.integers(1, 3)), b=draw(st.integers(1, 3)), c=draw(st.integers(1, 3)), d=draw(st.integers(1, 3))
    )
    shape = draw(st.lists(st.integers(1, 8), min_size=1, max_size=3))
    plan = dmc.plan(mesh)
    for axis in draw(st.sampled_from(["", "a", "ab", "ba"])):
        dim, blocks = draw(st.integers(0, len(shape) - 1)), draw(st.integers(1, 2))
        shape[dim] *= blocks
        plan = plan.shard("x", dim=dim, axis=axis, blocks=blocks)
    for axis in draw(st.sampled_from(["", "c", "cd", "dc"])):
        plan = plan.data_parallel(axis, zero=draw(st.integers(0, 3)))
    return plan, StateSpec("x", "f32", tuple(shape))


def _padded(spec: StateSpec, pads: Pads) -> np.ndarray[Any, Any]:
    """The numbers of a tensor's elements, with padding behind each block."""
    whole = np.arange(np.prod(spec.shape)).reshape(spec.shape)
    for dim, pad in enumerate(pads):
        if pad is not None:
            before, after = whole.shape[:dim], whole.shape[dim + 1 :]
            blocks = whole.reshape(*before, pad.blocks, pad.own, *after)
            more = np.full((*before, pad.blocks, pad.wide - pad.own, *after), PADDING)
            whole = np.concatenate([blocks, more], dim + 1).reshape(*before, pad.size, *after)
    return whole


@given(_cases())
def test_pieces_cover_the_tensor(case: tuple[Plan, StateSpec]) -> None:
    """Each layout's pieces have the local shape, and hold every element equally often."""
    plan, spec = case
    tensor = resolve(plan, [spec], (), ()).tensors["x"]
    for layout in (tensor.stored, tensor.used, tensor.reduced, tensor.optimizer):
        assert layout is not None
        whole = _padded(spec, tensor.padding(layout))
        pieces = [piece(whole, layout, plan.mesh, rank) for rank in plan.mesh.ranks]
        assert {each.shape for each in pieces} == {layout.placement().local_shape(plan.mesh, whole.shape)}
        copies = plan.mesh.size // plan.mesh.group_size(use.axis for use in layout.splits)
        elements = np.concatenate([each.ravel() for each in pieces])
        assert sorted(elements.tolist()) == sorted(whole.ravel().tolist() * copies)
        kept = np.unique(elements[elements != PADDING])
        assert kept.tolist() == [*range(np.prod(spec.shape))]


@given(_cases())
def test_what_a_rank_updates_it_also_reduces(case: tuple[Plan, StateSpec]) -> None:
    """Optimizer pieces lie in gradient pieces, those in parameter pieces, those in what the step uses."""
    plan, spec = case
    tensor = resolve(plan, [spec], (), ()).tensors["x"]

    def held(layout: Layout | None, rank: int) -> set[int]:
        assert layout is not None
        whole = _padded(spec, tensor.padding(layout))
        return set(piece(whole, layout, plan.mesh, rank).ravel().tolist()) - {PADDING}

    for rank in plan.mesh.ranks:
        layouts = (tensor.optimizer, tensor.reduced, tensor.stored, tensor.used)
        optimizer, reduced, stored, used = (held(layout, rank) for layout in layouts)
        assert optimizer <= reduced <= stored <= used

"""Folding keeps every rank's values, and never sends more bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dmc import dialect as dm
from dmc.interpreter import spmd
from dmc.mesh import Mesh
from dmc.passes.placed.fold_collectives import FoldCollectives
from dmc.passes.placed.lower_reshard import LowerReshard
from dmc.placement.placement import Placement
from tests.placements import all_placements, gathered, reshards, spread

SHAPE = (12, 12)
MESHES = (Mesh(x=2), Mesh(x=2, y=2), Mesh(x=2, y=3))


@st.composite
def _paths(draw: st.DrawFn) -> tuple[Mesh, list[Placement]]:
    mesh = draw(st.sampled_from(MESHES))
    placements = list(all_placements(mesh, len(SHAPE)))
    return mesh, draw(st.lists(st.sampled_from(placements), min_size=3, max_size=6))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=_paths())
def test_chains_of_changes(context: Any, case: tuple[Mesh, list[Placement]]) -> None:
    mesh, path = case
    module = reshards(mesh, SHAPE, [path])
    LowerReshard().run(module)
    parts = spread(path[0], mesh, SHAPE, seed=len(path), dtype=np.float32)
    plain = spmd.run(module, "f0", [[part] for part in parts])

    FoldCollectives().run(module)
    module.operation.verify()
    dm.verify_symbols(module)
    folded = spmd.run(module, "f0", [[part] for part in parts])
    assert folded.bytes <= plain.bytes
    whole = gathered(path[0], mesh, SHAPE, parts)
    np.testing.assert_array_equal(gathered(path[-1], mesh, SHAPE, [part for (part,) in folded.results]), whole)


def test_saves_bytes(context: Any) -> None:
    mesh, whole = Mesh(x=2, y=2), Placement([[]])
    split, partial = Placement([["x", "y"]]), Placement([[]], {"x": "sum", "y": "sum"})
    module = reshards(mesh, (8,), [(partial, whole, split), (split, whole, split)])
    LowerReshard().run(module)
    FoldCollectives().run(module)
    size = 8 * 4
    assert spmd.run(module, "f0", [[np.ones(8, np.float32)]] * 4).bytes == size * 3
    assert spmd.run(module, "f1", [[np.ones(2, np.float32)]] * 4).bytes == 0

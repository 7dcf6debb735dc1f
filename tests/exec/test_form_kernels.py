"""Kernels compute what the operations that they are made of compute."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dmc._mlir import ir
from dmc.analysis.sharding.ends import SHARDING
from dmc.dialect.placements import placement_of
from dmc.interpreter import spmd
from dmc.mesh import Mesh
from dmc.passes.base import parse_pipeline, run_passes
from dmc.step_function import find_step
from tests.examples import IN_ONE_CONTEXT
from tests.kernels import form_kernels
from tests.partitioned import place
from tests.placements import part_of, random_placement
from tests.random_steps import random_step

MESHES = (Mesh(a=1), Mesh(a=2), Mesh(a=2, b=2), Mesh(a=3, b=2))
PLACE = "dm-propagate-sharding,dm-partition,dm-lower-reshard,dm-fold-collectives"


@settings(IN_ONE_CONTEXT, max_examples=200, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_random_steps(context: Any, random: Any) -> None:
    choose = random.randrange
    mesh = MESHES[choose(len(MESHES))]
    text, shapes = random_step(choose, 1 + choose(3), 1 + choose(12))
    placements = {f"a{i}": random_placement(choose, mesh, shape) for i, shape in enumerate(shapes)}
    rng = np.random.default_rng(0)
    whole = [rng.integers(-8, 9, shape) / 8 for shape in shapes]
    module = ir.Module.parse(text)
    place(module, mesh, placements)
    run_passes(module, parse_pipeline(PLACE))
    coming = [placement_of(each[SHARDING]) for each in find_step(module).arg_attrs]
    arguments = [
        [part_of(array, placement, mesh, rank) for array, placement in zip(whole, coming, strict=True)]
        for rank in mesh.ranks
    ]
    placed = str(module)
    expected = spmd.run(module, "step", arguments).results
    form_kernels(module)
    results = spmd.run(module, "step", arguments).results
    for rank in mesh.ranks:
        for result, wanted in zip(results[rank], expected[rank], strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-9, atol=1e-9, err_msg=f"{placed}\nrank {rank}")

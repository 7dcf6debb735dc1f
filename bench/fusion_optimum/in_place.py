"""The integer program in place of the greedy fusion of dm-form-kernels."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from unittest.mock import patch

from bench.fusion_optimum.solve import Solved, fuse_optimally
from dmc.analysis.kernels.fusion.greedy import Fusion, Homes
from dmc.analysis.kernels.graph import Graph
from dmc.machine import launch_bytes, machine
from dmc.passes.scheduled.form_kernels import form_kernels


@contextmanager
def fused_optimally(machine_name: str) -> Generator[list[Solved]]:
    """Within it dm-form-kernels fuses by the program, launches as on a machine; what is solved is added to the list."""
    found: list[Solved] = []

    def fuse(graph: Graph, most_values: int, most_joined: int, own: bool, homes: Homes) -> Fusion:
        assert not any(homes), "the program does not know modules that a plan keeps apart"
        fusion, solved = fuse_optimally(graph, launch_bytes(machine(machine_name)), most_values, most_joined, own)
        found.append(solved)
        return fusion

    with patch.object(form_kernels, "fuse", fuse):
        yield found

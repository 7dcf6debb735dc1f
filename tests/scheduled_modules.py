"""Random modules in form scheduled, and what tests of passes on them ask of them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from dmc._mlir import ir
from dmc.analysis.memory.plan import plan_memory
from dmc.analysis.tasks.costs import TaskCosts
from dmc.analysis.tasks.graph import TaskGraph
from dmc.analysis.tasks.reader import read_tasks
from dmc.dtypes import Array
from dmc.errors import MemoryCapError
from dmc.interpreter import spmd
from dmc.machine import machine
from dmc.program import DEVICE
from dmc.step_function import find_step
from tests.random_scheduled import random_scheduled

MACHINE = "h200x4"


def random_module(seed: int, operations: int) -> ir.Module:
    """The module of a seed."""
    return ir.Module.parse(random_scheduled(Random(seed).randrange, operations))


def graph_of(module: ir.Module) -> TaskGraph:
    """Its tasks, with their times."""
    return read_tasks(module, TaskCosts.of(module, machine(MACHINE)))


def arena_of(module: ir.Module) -> int:
    """The bytes of device memory that it is planned in."""
    return plan_memory(find_step(module)).arenas[DEVICE].bytes


def results_of(module: ir.Module) -> list[list[Array]]:
    """The results of all ranks, for arguments that differ between them."""
    values = np.random.default_rng(0)
    types = [argument.type.shape[0] for argument in find_step(module).arguments]
    given = [[values.standard_normal(size).astype(np.float32) for size in types] for _ in range(4)]
    return spmd.run(module, "step", given).results


def bytes_of(module: ir.Module) -> list[list[bytes]]:
    """The bytes of `results_of`."""
    return [[result.tobytes() for result in own] for own in results_of(module)]


def assert_a_cap_is_kept(module: ir.Module, percent: int, fit: Callable[[ir.Module, int], None]) -> None:
    """`fit` brings a module under a cap, of so much of its arena, or refuses and names one that it keeps."""
    expected, cap = bytes_of(module), arena_of(module) * percent // 100
    text = str(module)
    try:
        fit(module, cap)
    except MemoryCapError as error:
        module = ir.Module.parse(text)
        fit(module, cap := error.needed)
    assert arena_of(module) <= cap
    assert bytes_of(module) == expected

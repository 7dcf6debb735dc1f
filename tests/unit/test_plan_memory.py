"""dm-plan-memory on random steps: whatever shares memory, every value is in its place when it is read."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dmc._mlir import ir
from dmc.analysis.memory.buffers import buffers_of
from dmc.passes.base import run_passes
from dmc.passes.planned.plan_memory import PlanMemory
from dmc.step_function import find_step
from tests.examples import IN_ONE_CONTEXT
from tests.random_memory import random_memory
from tests.random_scheduled import random_scheduled
from tests.shadow_memory import run_on_shadow_memory

_OPERATIONS = st.integers(1, 40)
_CHOICES = st.randoms(use_true_random=False)


@given(_CHOICES, _OPERATIONS, st.integers(0, 1))
@settings(IN_ONE_CONTEXT, max_examples=150)
def test_every_value_is_where_it_is_read(context: Any, random: object, operations: int, index: int) -> None:
    _check(random_memory(random.randrange, operations), index)  # pyright: ignore[reportAttributeAccessIssue]


@given(_CHOICES, _OPERATIONS)
@settings(IN_ONE_CONTEXT, max_examples=50)
def test_every_value_of_a_scheduled_step_is_where_it_is_read(context: Any, random: object, operations: int) -> None:
    _check(random_scheduled(random.randrange, operations), 0)  # pyright: ignore[reportAttributeAccessIssue]


def _check(text: str, index: int) -> None:
    module = ir.Module.parse(text)
    run_passes(module, (PlanMemory(),))
    step = find_step(module)
    run_on_shadow_memory(step, index)
    held = buffers_of(step)
    for i, one in enumerate(held):
        for other in held[:i]:
            apart = one.space != other.space or one.last < other.first or other.last < one.first
            assert apart or one.offset >= other.offset + other.length or other.offset >= one.offset + one.length

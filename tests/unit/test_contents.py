"""Where values lie: what is accepted keeps its meaning when it runs, and what would not is refused."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.analysis.memory.attributes import OFFSETS
from dmc.analysis.memory.contents import check_contents
from dmc.errors import DmcError, ProofError
from dmc.passes.any.verify import Verify
from dmc.passes.base import Element, run_passes
from dmc.passes.planned.lower_to_plan import LowerToPlan
from dmc.passes.planned.place_events import PlaceEvents
from dmc.passes.planned.plan_memory import PlanMemory
from dmc.passes.scheduled.assign_queues import AssignQueues
from dmc.passes.scheduled.async_ import Async
from dmc.passes.scheduled.copy_ports import CopyPorts
from dmc.passes.scheduled.hoist_start import HoistStart
from dmc.passes.scheduled.sink_wait import SinkWait
from dmc.proof import verify
from dmc.step_function import find_step
from tests.meanings import assert_meaning_kept
from tests.mutations.equivalence import Outcome, outcome
from tests.random_scheduled import random_scheduled

SCHEDULING: list[Element] = [CopyPorts(), Async(), AssignQueues(), HoistStart(), SinkWait(), PlanMemory()]
MISPLACED = 12


def _planned(seed: int) -> ir.Module:
    """A random step with places in memory."""
    # Kernels with one body need the same; here they need nothing.
    text = re.sub(r"(flops|bytes|scratch) = \d+ : i64", r"\1 = 0 : i64", random_scheduled(Random(seed).randrange, 16))
    module = ir.Module.parse(text)
    assert_meaning_kept(module, SCHEDULING)
    return module


def _outcome(text: str) -> Outcome:
    """What the ranks of a step with places get."""
    module = ir.Module.parse(text)
    run_passes(module, [LowerToPlan(), PlaceEvents()])
    job = job_of(module)
    verify(job)
    return outcome(job, 0)


def _misplace(module: ir.Module, random: Random) -> None:
    """Puts one result of a kernel or a movement somewhere else in its arena."""
    step = find_step(module)
    ops = [view.operation for view in step.entry_block.operations]
    op = random.choice([op for op in ops if OFFSETS in op.attributes and op.name in ("dm.kernel", "dm.start")])
    offsets = list(op.attributes[OFFSETS])
    places = {each for other in ops if OFFSETS in other.attributes for each in other.attributes[OFFSETS] if each >= 0}
    offsets[0] = random.choice(sorted(places - {offsets[0]}))
    op.attributes[OFFSETS] = ir.DenseI64ArrayAttr.get(offsets)


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("seed", range(10))
def test_misplaced_values(seed: int) -> None:
    """Every change of a place is refused, or changes nothing that the host sees."""
    module = _planned(seed)
    Verify().run(module)
    text = str(module)
    expected = _outcome(text)
    random, refused = Random(seed), 0
    for _ in range(MISPLACED):
        mutant: Any = ir.Module.parse(text)
        _misplace(mutant, random)
        if _refusal(mutant):
            refused += 1
        else:
            assert _outcome_or_nothing(str(mutant)) in (expected, None)
    assert refused > 0


def _refusal(module: ir.Module) -> str:
    try:
        check_contents(find_step(module))
    except ProofError as error:
        return error.property
    return ""


def _outcome_or_nothing(text: str) -> Outcome | None:
    """None where the job is refused, for what only the planned form says: operands overlap, or an arena has holes."""
    try:
        return _outcome(text)
    except DmcError:
        return None

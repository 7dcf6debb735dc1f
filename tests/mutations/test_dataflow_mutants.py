"""Jobs that match, end and have no race, but compute something else, are refused by V11, and by it alone."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from dmc.errors import ProofError
from dmc.program import Job
from dmc.program.dataflow import Dataflow
from dmc.proof import verify
from dmc.proof.dataflow import check_dataflow
from tests.large import large_unless
from tests.mutations.check import refusal
from tests.mutations.of_dataflow import DATAFLOW_MUTATORS, DataflowMutator
from tests.mutations.plans import NAMES, QUICK, planned_with_dataflow

ATTEMPTS = range(6)


def _refused(job: Job, dataflow: Dataflow, mutator: DataflowMutator) -> Counter[bool]:
    """How many mutants all other properties accept, and how many they do not; V11 refuses each."""
    found: Counter[bool] = Counter()
    for attempt in ATTEMPTS:
        mutant = mutator.change(job, Random(f"{mutator.name} {attempt}"))
        if mutant is None:
            continue
        others = refusal(mutant)
        # Sizes and matching come first: on what they refuse V11 need not be able to say anything.
        if others in ("V3", "V4", "V5"):
            continue
        with pytest.raises(ProofError) as caught:
            check_dataflow(mutant, dataflow)
        assert caught.value.property == "V11", f"{mutator.name} {attempt}"
        found[not others] += 1
    return found


@pytest.mark.parametrize("name", large_unless(QUICK, NAMES))
def test_mutants_of_dataflow(name: str, context: Any) -> None:
    job, dataflow = planned_with_dataflow(name, context)
    assert verify(job, dataflow=dataflow).dataflow == dataflow.digest()
    found = {mutator.name: _refused(job, dataflow, mutator) for mutator in DATAFLOW_MUTATORS}
    alone = sum(counts[True] for counts in found.values())
    assert alone >= 20
    assert sum(counts.total() for counts in found.values()) >= 40

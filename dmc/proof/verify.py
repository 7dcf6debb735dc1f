"""All proofs of a job in one call."""

from __future__ import annotations

from collections.abc import Mapping

from dmc.program import Job, covering
from dmc.program.certificate import ASSUMPTIONS, PROPERTIES, Certificate
from dmc.program.dataflow import Dataflow
from dmc.program.program import Space
from dmc.proof.algebra import check_algebra
from dmc.proof.communicators import check_communicators
from dmc.proof.dataflow import check_dataflow
from dmc.proof.deadlock import check_deadlock
from dmc.proof.events import check_events
from dmc.proof.invariance import check_invariance
from dmc.proof.lives import check_lives
from dmc.proof.matching import check_matching
from dmc.proof.memory import check_memory
from dmc.proof.order import order_of
from dmc.proof.races import check_races
from dmc.proof.reuse import check_reuse


def verify(
    job: Job,
    caps: Mapping[Space, int] | None = None,
    cost_table_hash: str = "",
    dataflow: Dataflow | None = None,
) -> Certificate:
    """Proves that a job, at any relative speed of ranks, terminates and computes what its order of issue prescribes.

    caps: bytes that a rank may use of a memory space; spaces not listed are unlimited. cost_table_hash: SHA-256 of the
    costs behind the schedule, for the certificate. dataflow: the step's; without it V11 is not proven, and a file with
    such a certificate is not run. Raises ProofError with the property that fails and a counterexample. About linear in
    the commands of all classes, and for V11 of all ranks.
    """
    check_algebra(job)
    check_events(job)
    check_matching(job)
    check_deadlock(job)
    orders = tuple(order_of(each.program) for each in job.classes)
    check_communicators(job, orders)
    for own, order in zip(job.classes, orders, strict=True):
        # Where reads are slices, all that some rank of the class reads: what is safe for this is safe for less.
        program = covering(own, job.layout)
        check_lives(program, order)
        check_races(program, order, check_reuse(program))
    check_memory(job, caps or {})
    check_invariance(job)
    proven = dict(PROPERTIES)
    if dataflow is None:
        del proven["V11"]
    else:
        check_dataflow(job, dataflow)
    computes = "" if dataflow is None else dataflow.digest()
    return Certificate(
        proven, ASSUMPTIONS, job.digest(), cost_table_hash, job.peaks(), dict(caps or {}), dataflow=computes
    )

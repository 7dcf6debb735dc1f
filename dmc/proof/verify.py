"""All proofs of a job in one call."""

from __future__ import annotations

from collections.abc import Mapping

from dmc.program import Job
from dmc.program.certificate import ASSUMPTIONS, Certificate
from dmc.program.program import Space
from dmc.proof.algebra import check_algebra
from dmc.proof.communicators import check_communicators
from dmc.proof.deadlock import check_deadlock
from dmc.proof.events import check_events
from dmc.proof.invariance import check_invariance
from dmc.proof.matching import check_matching
from dmc.proof.memory import check_memory
from dmc.proof.order import order_of
from dmc.proof.races import check_races
from dmc.proof.reuse import check_reuse

PROPERTIES = {
    "V1": "every event is recorded once, before whoever awaits it",
    "V2": "nobody touches what a movement has borrowed before it has ended",
    "V3": "names exist, sizes fit, and ranges lie inside their arenas",
    "V4": "the members of each communicator issue the same movements in the same order",
    "V5": "no rank waits for another in a circle",
    "V5b": "movements that share two ranks never run at the same time",
    "V6": "accesses to the same bytes, at least one a write, are ordered",
    "V7": "bytes hold one value at a time, and are used again only behind its last access",
    "V8": "no arena is larger than its cap, or than what lies in it",
    "V10": "all ranks run one program, decided from one table of costs",
}


def verify(job: Job, caps: Mapping[Space, int] | None = None, cost_table_hash: str = "") -> Certificate:
    """Proves that a job, issued by any ranks at any speed, ends and computes what its order of issue says.

    caps: bytes that a rank may use of a memory space, none for spaces left out. cost_table_hash: SHA-256 of the costs
    that the schedule was made from, for the certificate. Raises ProofError with the property that fails and a
    counterexample. About linear in the commands of all ranks.
    """
    check_algebra(job)
    check_events(job)
    check_matching(job)
    check_deadlock(job)
    orders = tuple(map(order_of, job.programs))
    check_communicators(job, orders)
    for program, order in zip(job.programs, orders, strict=True):
        check_races(program, order, check_reuse(program))
    check_memory(job, caps or {})
    check_invariance(job)
    peaks: dict[Space, int] = {}
    for program in job.programs:
        peaks |= {space: max(size, peaks.get(space, 0)) for space, size in program.arenas.items()}
    return Certificate(dict(PROPERTIES), ASSUMPTIONS, job.digest(), cost_table_hash, peaks, dict(caps or {}))

"""How the lanes of a job share the devices of an IREE module; compiler and runtime must agree on it."""

from __future__ import annotations

from dmc.program.job import Job

# IREE's runtime supports at most this many devices in one group.
MOST = 32


def device_count(job: Job) -> int:
    """Devices of the module: one for each lane of each rank, up to the limit.

    Lane i, counted over all ranks, is on device i modulo this. Lanes that share a device run sequentially, in order of
    issue.
    """
    return max(1, min(MOST, sum(len(each.ranks) * len(each.program.lanes) for each in job.classes)))

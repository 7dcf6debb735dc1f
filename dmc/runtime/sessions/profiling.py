"""Profiles of a loaded step."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from dmc.program import Job
from dmc.program.profile import Profile
from dmc.runtime.sessions.iree.planned import PlannedSession
from dmc.runtime.sessions.replay.session import ReplaySession
from dmc.runtime.world.peers import Peers


def profile(
    job: Job, session: PlannedSession | ReplaySession, peers: Peers | None, steps_ns: Sequence[float] = ()
) -> Profile:
    """Times the step of a session, and on a GPU each of its commands; with several processes all ranks do so.

    steps_ns: see `Profile`. Changes the state. Every rank returns the profile of all.
    """
    ranks, steps = job.size, tuple(steps_ns)
    if isinstance(session, PlannedSession):
        # IREE makes a step in one call, and its CPU devices keep no clock.
        return Profile(job.digest(), platform.processor() or platform.machine(), ranks, steps)
    device_ns, commands = session.timed()
    own = Profile(job.digest(), session.device_name, ranks, steps, device_ns, commands)
    if peers is None:
        return own
    texts = peers.store.exchange("profile", msgspec.json.encode(own))
    everyone = [msgspec.json.decode(text, type=Profile) for text in texts]
    slowest = max(each.device_ns or 0.0 for each in everyone)
    return replace(own, device_ns=slowest, commands=tuple(timed for each in everyone for timed in each.commands))

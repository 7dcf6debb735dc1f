"""A plan for an executor of one queue: the same commands on the same bytes, one after another."""

from __future__ import annotations

import msgspec

from dmc.program import Await, Job, Record


def in_one_lane(job: Job) -> Job:
    """`job`, whose ranks issue all their commands on their first lane, in the order in which they stand.

    An event is recorded before it is awaited, so that order keeps every one of them.
    """
    programs = tuple(
        msgspec.structs.replace(
            program,
            lanes=program.lanes[:1],
            commands=tuple(
                msgspec.structs.replace(command, lane=0)
                for command in program.commands
                if not isinstance(command, Record | Await)
            ),
            buffers=(),  # They count commands.
        )
        for program in job.programs
    )
    return msgspec.structs.replace(job, programs=programs)

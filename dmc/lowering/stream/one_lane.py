"""A plan for an executor with one queue: the same commands on the same bytes, sequentially."""

from __future__ import annotations

import msgspec

from dmc.program import Await, Job, Record


def in_one_lane(job: Job) -> Job:
    """`job`, whose ranks issue all their commands on their first lane, in program order.

    Events are recorded before they are awaited, so that order satisfies all of them.
    """
    return job.mapped(
        lambda program: msgspec.structs.replace(
            program,
            lanes=program.lanes[:1],
            commands=tuple(
                msgspec.structs.replace(command, lane=0)
                for command in program.commands
                if not isinstance(command, Record | Await)
            ),
            buffers=(),  # They refer to command numbers.
        )
    )

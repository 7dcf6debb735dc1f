"""The communicators of one rank of a job, and the movements of its plan on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmc.program import Collective, Job, Program
from dmc.runtime.world.communicator import Communicator, Communicators
from dmc.runtime.world.direct import DirectCopies
from dmc.runtime.world.neighbours import Neighbours

# Movements without a reduction move bytes.
_BYTE = "i8"


class Channels:
    """One communicator for each channel of the job and group of it that the rank is in."""

    def __init__(self, job: Job, rank: int, communicators: Communicators) -> None:
        """Creates them, in declaration order. All ranks of the job do so; raises DmcError if one cannot be created."""
        self._groups = [(channel.name, group) for channel in job.channels for group in job.groups(channel)]
        self._communicators: dict[tuple[str, tuple[int, ...]], Communicator] = {
            (name, group): communicators.make(group) for name, group in self._groups if rank in group
        }
        self._job, self._rank = job, rank
        self._direct: DirectCopies | None = None

    @property
    def flags(self) -> int:
        """How many flags direct copies need."""
        return DirectCopies.flags(self._groups)

    def connect(self, neighbours: Neighbours, first: int = 0, programs: Sequence[Program] | None = None) -> None:
        """From now on movements between neighbours are direct copies. first: the first of the job's flags. programs:
        those that make them, if not the job's."""
        own = self._job
        job = own if programs is None else Job.of(own.mesh, own.channels, own.kernels, programs)
        self._direct = DirectCopies(job, self._rank, self._groups, neighbours, first)

    def before(self, place: int, stream: Any) -> None:
        """Called before the command at `place` of the rank's program is queued; see `DirectCopies.before`."""
        if self._direct is not None:
            self._direct.before(place, stream)

    def move(self, command: Collective, source: int, target: int, stream: Any) -> None:
        """Queues the rank's part in a movement; addresses are 0 if the command has no bytes.

        The zeros of a rank that receives nothing from a permute are written elsewhere.
        """
        if self._direct is not None and self._direct.carries(command):
            self._direct.move(command, stream)
            return
        by = self._communicators[command.channel, command.ranks]
        size = 0 if command.source is None else command.source.length
        match command.kind:
            case "all_reduce":
                by.all_reduce(source, target, command.count, command.dtype, str(command.reduction), stream)
            case "reduce_scatter":
                count = command.count // len(command.ranks)
                by.reduce_scatter(source, target, count, command.dtype, str(command.reduction), stream)
            case "all_gather":
                by.all_gather(source, target, size, _BYTE, stream)
            case "all_to_all":
                by.all_to_all(source, target, size // len(command.ranks), _BYTE, stream)
            case "broadcast":
                by.broadcast(source, target, size, _BYTE, _peer(command), stream)
            case "permute":
                self._permute(command, by, source, target, stream)
            case "send":
                by.send(source, size, _BYTE, _peer(command), stream)
            case "recv":
                assert command.target is not None, "a receive has a target"
                by.recv(target, command.target.length, _BYTE, _peer(command), stream)

    def failed(self) -> str | None:
        """A failure of a channel, if known."""
        facts = ((name, by.failed()) for (name, _), by in self._communicators.items())
        return next((f"channel {name}: {fact}" for name, fact in facts if fact is not None), None)

    def abort(self) -> None:
        """Aborts queued work; nothing more can be queued."""
        for by in self._communicators.values():
            by.abort()

    def _permute(self, command: Collective, by: Communicator, source: int, target: int, stream: Any) -> None:
        assert command.source is not None, "a permute has a source and a target"
        own, size = command.ranks.index(self._rank), command.source.length
        with by.group():
            for giver, taker in command.pairs:
                if giver == own:
                    by.send(source, size, _BYTE, taker, stream)
                if taker == own:
                    by.recv(target, size, _BYTE, giver, stream)


def _peer(command: Collective) -> int:
    assert command.peer is not None, "checked by the proof"
    return command.peer

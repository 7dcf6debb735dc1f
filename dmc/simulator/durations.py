"""The duration of work with exclusive use of the machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from dmc.machine import Machine, collective_ns, launch_ns, move_ns
from dmc.program import Collective, Job, Launch, Move


@dataclass(frozen=True)
class Durations:
    """The machine's cost functions, cached by kind of work."""

    machine: Machine
    job: Job
    _launches: dict[str, float] = field(default_factory=dict)
    _collectives: dict[tuple[object, ...], float] = field(default_factory=dict)

    def launch(self, command: Launch) -> float:
        """Nanoseconds of a launch."""
        if command.kernel not in self._launches:
            self._launches[command.kernel] = launch_ns(self.machine, self.job.kernels[command.kernel])
        return self._launches[command.kernel]

    def move(self, command: Move) -> float:
        """Nanoseconds of a move."""
        return move_ns(self.machine, command.source.space, command.target.space, command.source.length)

    def collective(self, command: Collective, members: tuple[int, ...]) -> float:
        """Nanoseconds of a collective, from the arrival of all members."""
        sides = [side.length for side in (command.source, command.target) if side is not None]
        key = (command.kind, members, max(sides))
        if key not in self._collectives:
            self._collectives[key] = collective_ns(self.machine, command.kind, members, max(sides))
        return self._collectives[key]

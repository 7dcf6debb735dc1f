"""Concurrent work slows each other down: links are shared, and communication takes bandwidth from kernels.

* Collectives that use a rank's port concurrently share it equally; each runs at its share of its most crowded port. In
  one memory all collectives share all of it.
* Kernels of a rank take `Link.slowdown` times as long while a collective of that rank moves bytes over that link;
  except for the launch overhead.
* Where ranks share a device, concurrent kernels share it equally.
* Moves between memory spaces have separate paths.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from dmc.machine import Link, Machine, links_of
from dmc.program import Collective
from dmc.simulator.population import Group

# A rank's port to a link, or a whole memory; a rank's device, or that of a node.
_Port: TypeAlias = tuple[str, int]


@dataclass(slots=True, eq=False)
class Task:
    """Work in progress. left: remaining nanoseconds at full rate, as of `since`. rate: its current rate.

    ranks: those of the kernel or collective. copies: how many others do the same. ports: those a collective uses.
    slowdown: the effect of a collective on kernels. device: of a kernel, with `slowed`, the share of its time that
    communication prolongs. version: counts changes of the rate.
    """

    left: float
    ranks: tuple[int, ...]
    spans: tuple[int, ...] = ()
    copies: int = 1
    ports: tuple[_Port, ...] = ()
    slowdown: float = 1.0
    device: _Port | None = None
    slowed: float = 1.0
    rate: float = 1.0
    since: float = 0.0
    version: int = 0

    def settle(self, now: float, rate: float) -> float:
        """Continues at another rate; returns when it will be done."""
        self.left -= (now - self.since) * self.rate
        self.rate, self.since = rate, now
        self.version += 1
        return now + max(self.left, 0.0) / rate


@dataclass
class Rates:
    """The running tasks and their rates; each is started and ended once."""

    machine: Machine
    copies: int
    _ports: dict[_Port, dict[Task, None]] = field(default_factory=dict)
    _kernels: dict[_Port, dict[Task, None]] = field(default_factory=dict)
    _communicating: dict[int, dict[Task, None]] = field(default_factory=dict)

    def kernel(self, ns: float, rank: int) -> Task:
        """A kernel on a rank's device."""
        slowed = max(0.0, 1 - self.machine.device.launch.ns / ns) if ns else 0.0
        return Task(ns, (rank,), copies=self.copies, device=self._device(rank), slowed=slowed)

    def collective(self, command: Collective, ns: float, group: Group) -> Task:
        """A movement within a group; one of a single rank is a copy, which uses no link."""
        if len(group.members) == 1:
            return Task(ns, group.played)
        links = links_of(self.machine, group.members)
        ports = tuple(port for link in links for port in _ports(link, group.played))
        bytes = max(side.length for side in (command.source, command.target) if side is not None)
        slowdown = max(link.slowdown(command.kind, bytes) for link in links)
        return Task(ns, group.played, copies=group.copies, ports=ports, slowdown=slowdown)

    def begin(self, task: Task) -> list[Task]:
        """Adds a task; returns the tasks whose rate may have changed, including itself."""
        for tasks in self._places(task):
            tasks[task] = None
        return list(dict.fromkeys([task, *self._beside(task)]))

    def end(self, task: Task) -> list[Task]:
        """Removes a task; returns the tasks whose rate may have changed."""
        for tasks in self._places(task):
            del tasks[task]
        return self._beside(task)

    def rate(self, task: Task) -> float:
        """The rate of a task, given all others: 1 alone."""
        if task.ports:
            return 1 / max(map(self._load, task.ports))
        if task.device is None:
            return 1.0
        slowdown = max((other.slowdown for other in self._communicating.get(task.ranks[0], ())), default=1.0)
        slowdown = 1 + task.slowed * (slowdown - 1)
        sharing = sum(other.copies for other in self._kernels[task.device]) if self.machine.device.shared else 1
        return 1 / (slowdown * sharing)

    def _load(self, port: _Port) -> int:
        # Ports belong to ranks, so replicas have their own; a memory is shared with them.
        shared = port[1] == _WHOLE
        return sum(task.copies if shared else 1 for task in self._ports[port])

    def _device(self, rank: int) -> _Port:
        return ("node", self.machine.node(rank)) if self.machine.device.shared else ("rank", rank)

    def _places(self, task: Task) -> list[dict[Task, None]]:
        places = [self._ports.setdefault(port, {}) for port in task.ports]
        if task.ports:
            places += [self._communicating.setdefault(rank, {}) for rank in task.ranks]
        if task.device is not None:
            places.append(self._kernels.setdefault(task.device, {}))
        return places

    def _beside(self, task: Task) -> list[Task]:
        """The tasks that this one affects, each once, in a fixed order."""
        if task.device is not None:
            return list(self._kernels[task.device]) if self.machine.device.shared else []
        if not task.ports:
            return []
        beside: dict[Task, None] = {}
        for port in task.ports:
            beside.update(self._ports[port])
        for device in dict.fromkeys(map(self._device, task.ranks)):
            beside.update(self._kernels.get(device, {}))
        return list(beside)


# The number of the only port that all ranks of a shared memory share.
_WHOLE = -1


def _ports(link: Link, ranks: tuple[int, ...]) -> tuple[_Port, ...]:
    if link.topology == "memory":
        return ((link.name, _WHOLE),)
    return tuple((link.name, rank) for rank in ranks)

"""The rank and the world of this process, from the launcher's environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dmc.errors import DmcError


@dataclass(frozen=True)
class World:
    """This process among the processes of a job.

    rank: 0 to size - 1. local_rank, local_size: the same on this host. launcher: its name, for messages ("torchrun").
    store: "host:port" for the rendezvous, if the launcher sets it; otherwise ranks use MPI.
    launcher_serves: whether the launcher itself serves the store there; otherwise rank 0 does.
    attempt: how many times the launcher has restarted the ranks.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    launcher: str
    store: str = ""
    launcher_serves: bool = False
    attempt: int = 0


@dataclass(frozen=True)
class _Launcher:
    """The environment variables in which a launcher passes rank and size, globally and on this host."""

    name: str
    rank: str
    size: str
    local_rank: str
    local_size: str


# Open MPI and MPICH may start their daemons through Slurm, whose variables ranks then inherit: Slurm comes last.
_LAUNCHERS = (
    _Launcher("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    _Launcher(
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    _Launcher("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    # A batch script is not a rank and lacks the variables of a step.
    _Launcher("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
)


def world_from_environment(environ: Mapping[str, str]) -> World | None:
    """The world described by the launcher of this process; None for a process started alone.

    Raises DmcError if the environment is inconsistent.
    """
    for launcher in _LAUNCHERS:
        if launcher.rank in environ and launcher.size in environ:
            world = _world(launcher, environ)
            return world if world.size > 1 else None
    return None


def _world(launcher: _Launcher, environ: Mapping[str, str]) -> World:
    address = [environ[name] for name in ("MASTER_ADDR", "MASTER_PORT") if environ.get(name)]
    world = World(
        rank=_number(launcher, launcher.rank, environ),
        size=_number(launcher, launcher.size, environ),
        local_rank=_number(launcher, launcher.local_rank, environ),
        local_size=_local_size(launcher, environ),
        launcher=launcher.name,
        store=":".join(address) if len(address) == 2 else "",
        launcher_serves=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        attempt=int(environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
    )
    if not (0 <= world.rank < world.size and 0 <= world.local_rank < world.local_size <= world.size):
        fact = (
            f"rank {world.rank} of {world.size}, {world.local_rank} of {world.local_size} on this host, is impossible"
        )
        raise _refused(launcher, fact)
    return world


def _local_size(launcher: _Launcher, environ: Mapping[str, str]) -> int:
    if launcher.name != "Slurm":
        return _number(launcher, launcher.local_size, environ)
    # Tasks per node, in order: "4(x2),3" means 4, 4 and 3.
    text = environ.get(launcher.local_size, "")
    sizes = [int(m[1]) for m in re.finditer(r"(\d+)(?:\(x(\d+)\))?", text) for _ in range(int(m[2] or 1))]
    node = _number(launcher, "SLURM_NODEID", environ)
    if node >= len(sizes):
        raise _refused(launcher, f"{launcher.local_size} is {text!r}, which does not cover node {node}")
    return sizes[node]


def _number(launcher: _Launcher, name: str, environ: Mapping[str, str]) -> int:
    text = environ.get(name, "")
    if not text.isdecimal():
        raise _refused(launcher, f"{name} is {text!r}, not a number" if text else f"{name} is not set")
    return int(text)


def _refused(launcher: _Launcher, fact: str) -> DmcError:
    hint = f"start ranks with torchrun, mpirun or srun, or unset {launcher.rank} to run alone"
    return DmcError(f"the environment of {launcher.name}", fact, hint)

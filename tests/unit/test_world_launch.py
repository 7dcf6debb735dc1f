"""Rank and size from the environment of each launcher."""

from __future__ import annotations

import pytest

from dmc.errors import DmcError
from dmc.runtime.world.launch import World, world_from_environment

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "node0",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RESTART_COUNT": "2",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
MPICH = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}
SLURM = {
    "SLURM_PROCID": "9",
    "SLURM_STEP_NUM_TASKS": "11",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "2",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2),3",
}
# What ranks inherit from daemons of Open MPI or MPICH that Slurm has started, one on each host.
SLURM_DAEMON = SLURM | {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}


@pytest.mark.parametrize(
    ("environ", "world"),
    [
        (TORCHRUN, World(3, 4, 1, 2, "torchrun", "node0:29500", True, 2)),
        (OPEN_MPI | SLURM_DAEMON, World(1, 2, 1, 2, "Open MPI")),
        (OPEN_MPI | {"MASTER_ADDR": "a", "MASTER_PORT": "1"}, World(1, 2, 1, 2, "Open MPI", "a:1")),
        # An address alone is none.
        (OPEN_MPI | {"MASTER_ADDR": "a"}, World(1, 2, 1, 2, "Open MPI")),
        (MPICH | SLURM_DAEMON, World(0, 2, 0, 2, "MPICH")),
        (SLURM, World(9, 11, 1, 3, "Slurm")),
        # A batch script is not a rank.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),
        (TORCHRUN | {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, None),
        ({}, None),
    ],
)
def test_world(environ: dict[str, str], world: World | None) -> None:
    assert world_from_environment(environ) == world


@pytest.mark.parametrize(
    ("environ", "fact"),
    [
        (TORCHRUN | {"RANK": "4"}, "rank 4 of 4, 1 of 2 on this host, is impossible"),
        (TORCHRUN | {"LOCAL_RANK": "2"}, "rank 3 of 4, 2 of 2 on this host, is impossible"),
        (TORCHRUN | {"LOCAL_WORLD_SIZE": "5"}, "rank 3 of 4, 1 of 5 on this host, is impossible"),
        (TORCHRUN | {"WORLD_SIZE": "many"}, "WORLD_SIZE is 'many', not a number"),
        ({key: text for key, text in TORCHRUN.items() if key != "LOCAL_RANK"}, "LOCAL_RANK is not set"),
        (SLURM | {"SLURM_NODEID": "3"}, "SLURM_STEP_TASKS_PER_NODE is '4\\(x2\\),3', which does not cover node 3"),
    ],
)
def test_an_inconsistent_environment_is_refused(environ: dict[str, str], fact: str) -> None:
    with pytest.raises(DmcError, match=f"{fact}.*\n.*to run alone"):
        world_from_environment(environ)

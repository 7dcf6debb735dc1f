"""Which session runs an artifact, and on which device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from dmc.errors import ArtifactError
from dmc.runtime.artifact import Artifact
from dmc.runtime.cpu import check_cpu
from dmc.runtime.cuda_streams import open_device
from dmc.runtime.device import Device
from dmc.runtime.planned import PlannedSession
from dmc.runtime.replay_session import ReplaySession
from dmc.runtime.signature import Signature
from dmc.runtime.world.launch import World
from dmc.runtime.world.peers import Peers

AnySession: TypeAlias = PlannedSession | ReplaySession


def rank_of(artifact: Artifact, device: str | None, world: World | None) -> int | None:
    """The rank that this process is on the device (as of `open_session`); None where it is all ranks of the step.

    Raises ArtifactError where a step on GPUs has not one process for each rank.
    """
    kind, _ = _device(artifact, device)
    ranks = len(artifact.job.programs)
    if kind in artifact.modules or (world is None and ranks == 1):
        return None
    started = "this process was started alone" if world is None else f"{world.launcher} has started {world.size}"
    if world is None or world.size != ranks:
        fact = f"is for {ranks} ranks, each a process with a GPU of its own; {started}"
        raise ArtifactError("the step", fact, hint=f"start it with torchrun --nproc-per-node {ranks}, mpirun or srun")
    return world.rank


def open_session(
    artifact: Artifact,
    linked: Signature,
    state: Sequence[np.ndarray],
    device: str | None = None,
    peers: Peers | None = None,
    is_captured: bool = True,
) -> AnySession:
    """Opens the device and loads the step of the held ranks (`Ranks.linked`) on it, with `state`.

    device: "cpu", "cuda" or "cuda:1"; None is the target's first. peers: of the one rank that this process is; it uses
    the GPU of its number on this host, where the device has none. is_captured: as of `ReplaySession`. Raises
    ArtifactError if the artifact contradicts itself or was not compiled for the device, DmcError if there is no such
    device or no room on it.
    """
    kind, ordinal = _device(artifact, device)
    if kind == "cpu":
        check_cpu(artifact.requires, "the step")
    if kind in artifact.modules:
        return PlannedSession(Device(kind, ordinal or 0), linked, artifact.job, artifact.modules[kind], state)
    assert artifact.code is not None, "checked by whoever loads an artifact"
    if ordinal is None:
        ordinal = 0 if peers is None else peers.world.local_rank
    return ReplaySession(open_device(ordinal), linked, artifact.job, artifact.code, state, peers, is_captured)


def _device(artifact: Artifact, device: str | None) -> tuple[str, int | None]:
    """The kind of the device, and its number where it has one."""
    kinds = artifact.target.split("+")
    kind, _, ordinal = (device or kinds[0]).partition(":")
    if kind not in kinds or not (ordinal or "0").isdecimal():
        fact = f"was planned for {' and '.join(kinds)}, not for device {device!r}"
        raise ArtifactError("the step", fact, hint='compile it with target="cpu+cuda" for both')
    return kind, int(ordinal) if ordinal else None

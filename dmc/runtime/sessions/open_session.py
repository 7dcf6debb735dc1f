"""Chooses the session that runs an artifact, and its device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from dmc.errors import ArtifactError
from dmc.program.code import DeviceCode
from dmc.program.signature import Signature
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.gpu.cuda_streams import CudaStreams, open_device
from dmc.runtime.process.cpu import check_cpu
from dmc.runtime.process.settings import RunSettings
from dmc.runtime.sessions.executable import Executable
from dmc.runtime.sessions.iree.device import Device
from dmc.runtime.sessions.iree.planned import PlannedSession
from dmc.runtime.sessions.meeting import meet
from dmc.runtime.sessions.replay.session import ReplaySession
from dmc.runtime.tensors.ranks import Ranks
from dmc.runtime.world.launch import World
from dmc.runtime.world.peers import Peers

AnySession: TypeAlias = PlannedSession | ReplaySession
_DEFAULT = RunSettings()


@dataclass(frozen=True)
class Opened:
    """A loaded step: the ranks that this process is, what runs them, and the other ranks where it is one of several.

    others: the ranks as the further programs of the step see them, in order; each has its own inputs and outputs.
    """

    ranks: Ranks
    session: AnySession
    peers: Peers | None = None
    others: tuple[Ranks, ...] = ()


def open_step(artifact: Artifact, device: str | None, world: World | None, settings: RunSettings) -> Opened:
    """Opens the device, as of `open_session`, and loads the step on it with its state.

    world: of this process, where it is one of several; on GPUs it is one rank of the step then. Raises as
    `open_session`, and ArtifactError where the step needs several processes and this was started alone; on all ranks
    where one of them has no device or is about to run something else.
    """
    signature, ranks = artifact.signature, artifact.job.size
    if (meshed := prod((signature.mesh or {}).values())) != ranks:
        raise ArtifactError("the step", f"is for {meshed} ranks, and has a plan for {ranks}", "compile the step again")
    kind, ordinal = _device(artifact, device)
    is_replayed = kind not in artifact.modules
    if is_replayed and world is not None:
        streams, peers = meet(world, artifact, world.local_rank if ordinal is None else ordinal, settings)
        return _one_rank(artifact, streams, peers, settings)
    if is_replayed:
        _check_started(ranks)
    whole = Ranks(signature)
    state = whole.scatter(signature.state, artifact.state)
    others = tuple(Ranks(program.signature) for program in artifact.programs.values())
    session = open_session(artifact, whole.linked, state, device, settings, [each.linked for each in others])
    return Opened(whole, session, None, others)


def check_device(target: str, executor: str, ranks: int, world: World | None) -> None:
    """Raises as `open_step` for a step that is yet to be compiled, where this process has no device for it."""
    kind = target.partition("+")[0].partition(":")[0]
    if kind == "cpu":
        return
    if executor == "iree":
        Device(kind).release()
        return
    if world is None:
        _check_started(ranks)
    open_device(0 if world is None else world.local_rank)


def _check_started(ranks: int) -> None:
    """Raises ArtifactError for several ranks on GPUs, of which this process is none."""
    if ranks > 1:
        fact = f"is for {ranks} ranks, each a process with a GPU of its own, and this process was started alone"
        raise ArtifactError("the step", fact, hint=f"start it with torchrun --nproc-per-node {ranks}, mpirun or srun")


def _one_rank(artifact: Artifact, streams: CudaStreams, peers: Peers, settings: RunSettings) -> Opened:
    own = Ranks(artifact.signature, peers.world.rank)
    state = own.scatter(artifact.signature.state, artifact.state)
    assert artifact.code is not None, "checked by whoever loads an artifact"
    try:
        others = tuple(Ranks(program.signature, peers.world.rank) for program in artifact.programs.values())
        programs = _replayed(artifact, [each.linked for each in others])
        session = ReplaySession(
            streams, own.linked, artifact.job, artifact.code, state, peers, settings.is_captured, programs
        )
    except Exception as error:
        # The others have begun, and would wait for this rank.
        peers.close(error)
        raise
    return Opened(own, session, peers, others)


def open_session(
    artifact: Artifact,
    linked: Signature,
    state: Sequence[np.ndarray],
    device: str | None = None,
    settings: RunSettings = _DEFAULT,
    others: Sequence[Signature] = (),
) -> AnySession:
    """Opens the device and loads the step of all ranks (`Ranks.linked`) on it, with `state`.

    others: the same of the further programs of the artifact, which are loaded too. device: "cpu", "cuda" or "cuda:1";
    None is the target's first. Raises ArtifactError if the artifact is inconsistent or was not compiled for the device,
    DmcError if there is no such device or not enough memory on it.
    """
    kind, ordinal = _device(artifact, device)
    if kind == "cpu":
        check_cpu(artifact.requires, "the step")
    if kind in artifact.modules:
        pairs = zip(others, artifact.programs.values(), strict=False)
        programs = [Executable(own, each.job, each.modules[kind]) for own, each in pairs]
        return PlannedSession(Device(kind, ordinal or 0), linked, artifact.job, artifact.modules[kind], state, programs)
    assert artifact.code is not None, "checked by whoever loads an artifact"
    streams, programs = open_device(ordinal or 0), _replayed(artifact, others)
    return ReplaySession(streams, linked, artifact.job, artifact.code, state, None, settings.is_captured, programs)


def _replayed(artifact: Artifact, others: Sequence[Signature]) -> list[Executable[DeviceCode]]:
    programs: list[Executable[DeviceCode]] = []
    for own, each in zip(others, artifact.programs.values(), strict=False):
        assert each.code is not None, "checked by whoever loads an artifact"
        programs.append(Executable(own, each.job, each.code))
    return programs


def _device(artifact: Artifact, device: str | None) -> tuple[str, int | None]:
    """The kind of the device, and its number where it has one."""
    kinds = artifact.target.split("+")
    kind, _, ordinal = (device or kinds[0]).partition(":")
    if kind not in kinds or not (ordinal or "0").isdecimal():
        fact = f"was planned for {' and '.join(kinds)}, not for device {device!r}"
        raise ArtifactError("the step", fact, hint='compile it with target="cpu+cuda" for both')
    return kind, int(ordinal) if ordinal else None

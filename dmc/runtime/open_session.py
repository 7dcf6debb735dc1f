"""Chooses the session that runs an artifact, and its device."""

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

AnySession: TypeAlias = PlannedSession | ReplaySession


def open_session(
    artifact: Artifact, linked: Signature, state: Sequence[np.ndarray], device: str | None = None
) -> AnySession:
    """Opens the device and loads the step of all ranks (`Ranks.linked`) on it, with `state`.

    device: "cpu", "cuda" or "cuda:1"; None is the target's first. Raises ArtifactError if the artifact is inconsistent
    or was not compiled for the device, DmcError if there is no such device or not enough memory on it.
    """
    kinds = artifact.target.split("+")
    kind, _, ordinal = (device or kinds[0]).partition(":")
    if kind not in kinds or not (ordinal or "0").isdecimal():
        fact = f"was planned for {' and '.join(kinds)}, not for device {device!r}"
        raise ArtifactError("the step", fact, hint='compile it with target="cpu+cuda" for both')
    if kind == "cpu":
        check_cpu(artifact.requires, "the step")
    if kind in artifact.modules:
        return PlannedSession(Device(kind, int(ordinal or 0)), linked, artifact.job, artifact.modules[kind], state)
    assert artifact.code is not None, "checked when the artifact was loaded"
    return ReplaySession(open_device(int(ordinal or 0)), linked, artifact.job, artifact.code, state)

"""Loads what a file holds: a step, ready to train on, or its state alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, overload

from dmc.errors import InputError
from dmc.runtime.state.saved_state import SavedState, read_state

if TYPE_CHECKING:
    from dmc.runtime.step import Step

File = str | os.PathLike[str]


@overload
def load(path: File, device: str | None = None, verify: bool = False, *, state_only: Literal[False] = False) -> Step:
    """The step, ready to train on."""


@overload
def load(path: File, device: str | None = None, verify: bool = False, *, state_only: Literal[True]) -> SavedState:
    """Its state alone."""


def load(path: File, device: str | None = None, verify: bool = False, *, state_only: bool = False) -> Step | SavedState:
    """The step in a `.dmc` file, on the device it was compiled for, ready to train on.

    A `.dmc` file is a program, like an executable: its machine code runs with your rights. Load only files that you
    trust; of others read the state alone. Before anything runs, schema, checksums and versions are verified, every
    field is checked, and the plan is proven again (V1 to V8 and V10), whatever its certificate says.

    device: "cpu", "cuda" or "cuda:1"; by default the target's first device. verify: the first call is compared with the
    CPU's plan in the same file (target "cpu+cuda"); see `Step.verify_next`. state_only: only the tensors are read,
    nothing is run, compiled or unpickled, and the file may be anybody's; see `SavedState`. Then `path` may also be a
    checkpoint, or a directory of checkpoints, whose last one is read.

    Raises ArtifactError, StateError for a damaged checkpoint, DmcError if there is no such device, InputError for a
    device with `state_only`.

    On GPUs, a step of several ranks is loaded in one process per rank, started by torchrun, mpirun or srun; see `Step`.
    If a rank dies, or does not arrive at a step, all ranks end within 30 s, or the seconds in the environment variable
    DMC_PATIENCE_S. With DMC_CUDA_GRAPH=0 each step issues its commands one by one instead of launching one CUDA graph;
    with DMC_DIRECT_COPIES=0 NCCL moves everything, where GPUs of a host copy out of each other's memory otherwise.
    """
    if state_only:
        check_alone(device, verify)
        return read_state(path)
    # What reads tensors loads no device runtime.
    from dmc.runtime.step import Step

    return Step.load(path, device, verify)


def check_alone(device: str | None, verify: bool) -> None:
    """Raises InputError for options of a step where only its state is read."""
    if device is not None or verify:
        raise InputError("load", "state_only=True reads tensors, without a device", hint="leave device and verify out")

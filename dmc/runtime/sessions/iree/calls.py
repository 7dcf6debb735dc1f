"""Calls of a compiled step, queued in order: common to all sessions of IREE, whatever their memory layout."""

from __future__ import annotations

import atexit
import contextlib

import iree.runtime as iree
import numpy as np

from dmc.errors import ArtifactError, DmcError
from dmc.runtime.sessions.iree.device import Device, Lanes
from dmc.runtime.sessions.iree.errors import IREE_ERRORS, first_line
from dmc.runtime.sessions.iree.timeline import Timeline
from dmc.runtime.sessions.queue import Output
from dmc.runtime.sessions.session import STALE, Session, open_sessions


class Calls(Session):
    """Functions `step` of modules and their calls, which run in order. After a failure every later use raises."""

    def __init__(self, device: Device) -> None:
        """Calls are refused until `_open`."""
        super().__init__()
        self._device = device
        self._steps = Timeline(device.hal)
        self._loaded: list[tuple[iree.VmContext, iree.VmFunction]] = []

    def _load(self, module: bytes, lanes: Lanes) -> None:
        """Loads `module` on these devices. Raises ArtifactError if it does not load or has no function."""
        loaded = load_function(self._device, module, "step", lanes)
        if loaded[1].reflection.get("iree.abi.model") != "coarse-fences":
            fact = "its function 'step' accepts no fences"
            raise ArtifactError("module 'step'", fact, hint="compile with --iree-execution-model=async-external")
        self._loaded.append(loaded)

    def wait(self, entry: int) -> None:
        """Blocks until a step is done; raises DmcError if one has failed. Other threads may go on meanwhile."""
        with self.lock:
            self._check()
            steps = self._steps
        try:
            steps.wait(entry)
        except IREE_ERRORS as error:
            raise self._failed(entry, error) from error

    def is_done(self, entry: int) -> bool:
        """Whether a step is done; raises DmcError if one has failed."""
        with self.lock:
            self._check()
            try:
                return self._steps.is_reached(entry)
            except IREE_ERRORS as error:
                raise self._failed(entry, error) from error

    def fetch(self, output: Output, entry: int) -> np.ndarray:
        """An output of a step, after waiting for it; raises DmcError if the step or the copy has failed."""
        self.wait(entry)
        with self.lock:
            self._check()
            try:
                return output.array()
            except IREE_ERRORS as error:
                raise self._failed(entry, error) from error

    def _end(self) -> None:
        with contextlib.suppress(*IREE_ERRORS):
            self._steps.wait(self._steps.last)

    def _release(self) -> None:
        self._loaded.clear()
        del self._steps
        self._device.release(is_sound=self._failure is None)

    def _call(self, number: int, arguments: iree.VmVariantList) -> int:
        """Queues a call of the module that was loaded as this one, and returns its entry; raises DmcError if it fails
        at the start."""
        context, function = self._loaded[number]
        try:
            context.invoke(function, arguments, iree.VmVariantList(0))
        except IREE_ERRORS as error:
            raise self._failed(self._steps.last + 1, error) from error
        return self._steps.advance()

    def _drain(self) -> None:
        self._check()
        self.wait(self._steps.last)

    def _failed(self, entry: int, error: BaseException) -> DmcError:
        fact = f"call {entry} failed on device {self._device.uri!r}: {first_line(error)}"
        self._failure = fact, STALE
        return DmcError("step", fact, STALE)


def load_function(device: Device, module: bytes, name: str, lanes: Lanes) -> tuple[iree.VmContext, iree.VmFunction]:
    """Loads `module` on devices and finds its function `name`; raises ArtifactError."""
    try:
        # The bytes of a file are not aligned as IREE requires: let it copy.
        loaded = iree.VmModule.copy_buffer(lanes.instance, module)
        context = iree.VmContext(lanes.instance, modules=[lanes.module, loaded])
    except IREE_ERRORS as error:
        fact = f"cannot be loaded on device {device.uri!r} ({first_line(error)})"
        raise ArtifactError(f"module '{name}'", fact, hint="compile it for this machine") from error
    if name not in loaded.function_names:
        raise ArtifactError(f"module '{name}'", f"has no function '{name}'", hint="compile the step again")
    function = loaded.lookup_function(name)
    assert function is not None, "listed but not found"
    return context, function


@atexit.register
def _close_all() -> None:
    # At exit Python frees objects in no particular order, and IREE crashes if a device is freed before its buffers.
    for session in open_sessions():
        if isinstance(session, Calls):
            session.close()

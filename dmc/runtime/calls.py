"""Calls of a compiled step, queued in order: common to all sessions, whatever their memory layout."""

from __future__ import annotations

import atexit
import contextlib
import weakref
from collections.abc import Sequence
from typing import Protocol

import iree.runtime as iree
import numpy as np

from dmc.errors import ArtifactError, DmcError
from dmc.runtime.device import Device
from dmc.runtime.iree_errors import IREE_ERRORS, first_line
from dmc.runtime.timeline import Timeline

_STALE = "the state is no longer reliable: load the last saved file"

_open_calls: weakref.WeakSet[Calls] = weakref.WeakSet()


class Output(Protocol):
    """An output of a step."""

    def array(self) -> np.ndarray:
        """A copy in host memory; the step must be done. Raises one of IREE_ERRORS if a copy failed."""
        ...


class Queue(Protocol):
    """What an output needs from the session that queued its step."""

    def wait(self, entry: int) -> None:
        """Blocks until a step is done; raises DmcError if one has failed."""
        ...

    def is_done(self, entry: int) -> bool:
        """Whether a step is done; raises DmcError if one has failed."""
        ...

    def fetch(self, output: Output, entry: int) -> np.ndarray:
        """An output of a step, after waiting for it; raises DmcError if the step or the copy has failed."""
        ...


class Calls:
    """Functions `step` of modules and their calls, which run in order. After a failure every later use raises."""

    def __init__(self, device: Device) -> None:
        """Calls are refused until `_open`."""
        self._device = device
        self._steps = Timeline(device.hal)
        self._failure: str | None = None
        self._closed = True
        self._loaded: list[tuple[iree.VmContext, iree.VmFunction]] = []

    def _load(self, module: bytes, lanes: Sequence[iree.HalDevice]) -> None:
        """Loads `module`, whose devices are `lanes`. Raises ArtifactError if it does not load or has no function."""
        loaded = load_function(self._device, module, "step", lanes)
        if loaded[1].reflection.get("iree.abi.model") != "coarse-fences":
            fact = "its function 'step' accepts no fences"
            raise ArtifactError("module 'step'", fact, hint="compile with --iree-execution-model=async-external")
        self._loaded.append(loaded)

    def wait(self, entry: int) -> None:
        """Blocks until a step is done; raises DmcError if one has failed."""
        self._check()
        try:
            self._steps.wait(entry)
        except IREE_ERRORS as error:
            raise self._failed(entry, error) from error

    def is_done(self, entry: int) -> bool:
        """Whether a step is done; raises DmcError if one has failed."""
        self._check()
        try:
            return self._steps.is_reached(entry)
        except IREE_ERRORS as error:
            raise self._failed(entry, error) from error

    def fetch(self, output: Output, entry: int) -> np.ndarray:
        """An output of a step, after waiting for it; raises DmcError if the step or the copy has failed."""
        self.wait(entry)
        try:
            return output.array()
        except IREE_ERRORS as error:
            raise self._failed(entry, error) from error

    def close(self) -> None:
        """Waits for queued work, then frees everything on the device; may be called twice."""
        if self._closed:
            return
        self._closed = True
        # A failed step is reported to whoever waits for its loss; here it only means that nothing is running.
        with contextlib.suppress(*IREE_ERRORS):
            self._steps.wait(self._steps.last)
        self._release()
        self._loaded.clear()
        del self._steps
        self._device.release()

    def __del__(self) -> None:
        # An exception in the constructor leaves nothing to wait for.
        if hasattr(self, "_closed"):
            self.close()

    def _open(self) -> None:
        """Called last by every constructor: from now on there is something to close."""
        self._closed = False
        _open_calls.add(self)

    def _release(self) -> None:
        """Frees the session's device memory, apart from the function; nothing is running any more."""

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

    def _check(self) -> None:
        if self._failure is not None:
            raise DmcError("step", self._failure, hint=_STALE)
        if self._closed:
            raise DmcError("step", "is closed", hint="load it again")

    def _failed(self, entry: int, error: BaseException) -> DmcError:
        self._failure = f"call {entry} failed on device {self._device.uri!r}: {first_line(error)}"
        return DmcError("step", self._failure, hint=_STALE)


def load_function(
    device: Device, module: bytes, name: str, lanes: Sequence[iree.HalDevice] = ()
) -> tuple[iree.VmContext, iree.VmFunction]:
    """Loads `module` on `lanes`, or on `device` alone, and finds its function `name`; raises ArtifactError."""
    instance = iree.VmInstance()
    try:
        # The bytes of a file are not aligned as IREE requires: let it copy.
        loaded = iree.VmModule.copy_buffer(instance, module)
        hal = iree.create_hal_module(instance, devices=list(lanes) or [device.hal])
        context = iree.VmContext(instance, modules=[hal, loaded])
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
    for session in tuple(_open_calls):
        session.close()

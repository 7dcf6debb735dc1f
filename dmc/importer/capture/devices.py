"""Tensors that a model puts on a device: a step is captured on the CPU, and runs where it is compiled for."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from torch._subclasses import FakeTensor, FakeTensorMode

from dmc.errors import DmcError

NAME_NONE = (
    "name no device in `forward`: make tensors where others are (device=x.device); where a step runs is decided by "
    'dmc.compile(…, target="cuda") of a model and a batch on the CPU'
)


@contextmanager
def on_the_cpu() -> Generator[None]:
    """Inside, an operation whose result is on another device raises DmcError: PyTorch itself only notices when it meets
    a tensor on the CPU."""
    dispatch = FakeTensorMode.dispatch

    def checked(mode: FakeTensorMode, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        result = dispatch(mode, func, types, args, kwargs)
        if isinstance(result, FakeTensor) and result.fake_device.type not in ("cpu", "meta"):
            raise DmcError(None, f"puts a tensor on {result.fake_device}", hint=NAME_NONE)
        return result

    with mock.patch.object(FakeTensorMode, "dispatch", checked):
        yield

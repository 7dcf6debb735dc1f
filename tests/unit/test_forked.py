"""A driver that was opened before a fork is refused after it."""

from __future__ import annotations

import os

import pytest

from dmc.errors import DmcError
from dmc.runtime.process.forked import open_here


def test_a_driver_is_opened_on_one_side_of_a_fork() -> None:
    open_here("mine", "mine:0")
    open_here("mine", "mine:1")
    if not (pid := os.fork()):
        open_here("another", "another:0")
        try:
            open_here("mine", "mine:0")
        except DmcError as error:
            os._exit(str(error).startswith("device 'mine:0': was opened before this process was forked"))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    open_here("mine", "mine:0")


def test_a_gpu_is_refused_before_its_driver_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from dmc.runtime.gpu import cuda_streams

    def refuse(driver: str, device: str) -> None:
        raise DmcError(driver, device)

    monkeypatch.setattr(cuda_streams, "open_here", refuse)
    monkeypatch.setattr(cuda_streams.importlib, "import_module", lambda name: None)
    with pytest.raises(DmcError, match="cupy: cuda:3"):
        cuda_streams.open_device(3)

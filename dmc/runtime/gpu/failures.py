"""Failures of a GPU, which only show in later calls."""

from __future__ import annotations

from typing import Any

from dmc.errors import DmcError


class Reported:
    """While it is entered, what the CUDA runtime raises is an error of the device. May be entered again."""

    def __init__(self, raised: type[BaseException]) -> None:
        self._raised = raised

    def __enter__(self) -> None:
        """Nothing has failed yet."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, self._raised):
            raise DmcError("device 'cuda'", f"fails ({error})", hint="load the last saved file") from error

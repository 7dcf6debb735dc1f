"""Outputs that wait for their step, and the queue of a session that they wait in."""

from __future__ import annotations

from typing import Protocol

import numpy as np


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

"""Runs compiled training steps; needs only iree-base-runtime, numpy, ml_dtypes, msgspec, rich and safetensors.

* process: signals, forks, threads, processor and settings
* tensors: users' data and arrays, and the parts of them that ranks hold
* files: the `.dmc` file
* comparison: two computations of one step, compared
* reports: what is shown of a step
* world: one process per rank
* gpu: one CUDA device
* sessions: a step that is loaded on devices
* state: the state of a step
* foreign: what takes the place of attributes of PyTorch's objects
* outputs: outputs, which wait for the step when read
* variant: one of the programs of a step
* checks: arguments of a step, checked before anything runs
* step_phase: one of the phases of a step
* step: the compiled step, as users see it
* loading: steps and states from files
* checkpoints: checkpoints of a training job

The names below are imported on first use, so that none of them starts a device runtime that is not needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dmc.program.signature import Signature
    from dmc.runtime.checkpoints import Checkpoints
    from dmc.runtime.files.artifact import Artifact
    from dmc.runtime.loading import load
    from dmc.runtime.outputs import LazyArray, Loss
    from dmc.runtime.reports.ledger import Ledger
    from dmc.runtime.state.saved_state import SavedState
    from dmc.runtime.step import Step

__all__ = ["Artifact", "Checkpoints", "LazyArray", "Ledger", "Loss", "SavedState", "Signature", "Step", "load"]

_LAZY = {
    "Artifact": "dmc.runtime.files.artifact",
    "Checkpoints": "dmc.runtime.checkpoints",
    "LazyArray": "dmc.runtime.outputs",
    "Ledger": "dmc.runtime.reports.ledger",
    "Loss": "dmc.runtime.outputs",
    "SavedState": "dmc.runtime.state.saved_state",
    "Signature": "dmc.program.signature",
    "Step": "dmc.runtime.step",
    "load": "dmc.runtime.loading",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dmc.runtime' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})

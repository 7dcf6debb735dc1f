"""Runs compiled training steps; needs only iree-base-runtime, numpy, ml_dtypes, msgspec, rich and safetensors.

The names below are imported on first use, so that none of them starts a device runtime that is not needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dmc.program.signature import Signature
    from dmc.runtime.artifact import Artifact
    from dmc.runtime.checkpoints import Checkpoints
    from dmc.runtime.ledger import Ledger
    from dmc.runtime.loading import load
    from dmc.runtime.outputs import LazyArray, Loss
    from dmc.runtime.saved_state import SavedState
    from dmc.runtime.step import Step

__all__ = ["Artifact", "Checkpoints", "LazyArray", "Ledger", "Loss", "SavedState", "Signature", "Step", "load"]

_LAZY = {
    "Artifact": "dmc.runtime.artifact",
    "Checkpoints": "dmc.runtime.checkpoints",
    "LazyArray": "dmc.runtime.outputs",
    "Ledger": "dmc.runtime.ledger",
    "Loss": "dmc.runtime.outputs",
    "SavedState": "dmc.runtime.saved_state",
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

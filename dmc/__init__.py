"""dmc: an ahead-of-time compiler for training steps.

`compile`, `load`, `optim`, `errors` and `runtime` are imported on first use, so that `import dmc` loads neither torch
nor torch-mlir nor an IREE compiler, and a machine that only runs compiled steps needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dmc import errors, optim, runtime
    from dmc.api import compile
    from dmc.runtime import load

__version__ = "0.1.0"

__all__ = ["__version__", "compile", "errors", "load", "optim", "runtime"]

# Name -> the module that has it, and its attribute there (None: the module itself).
_LAZY: dict[str, tuple[str, str | None]] = {
    "compile": ("dmc.api", "compile"),
    "errors": ("dmc.errors", None),
    "load": ("dmc.runtime", "load"),
    "optim": ("dmc.optim", None),
    "runtime": ("dmc.runtime", None),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dmc' has no attribute {name!r}")
    module_name, attribute = _LAZY[name]
    module = importlib.import_module(module_name)
    return module if attribute is None else getattr(module, attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})

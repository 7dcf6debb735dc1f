"""dmc: an ahead-of-time compiler for training steps.

The names below are imported on first use, so that `import dmc` loads neither torch nor torch-mlir nor an IREE compiler.
A machine that only runs compiled steps needs none of them: it calls `dmc.runtime.load`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dmc import errors, optim, plans, runtime
    from dmc.api import compile, compile_artifact, load
    from dmc.mesh import Mesh
    from dmc.phases import Phase
    from dmc.plans.builder import plan
    from dmc.runtime.checkpoints import Checkpoints

__version__ = "0.1.0"

__all__ = [
    "Checkpoints",
    "Mesh",
    "Phase",
    "__version__",
    "compile",
    "compile_artifact",
    "errors",
    "load",
    "optim",
    "plan",
    "plans",
    "runtime",
]

# Name -> the module that defines it, and its attribute there (None: the module itself).
_LAZY: dict[str, tuple[str, str | None]] = {
    "Checkpoints": ("dmc.runtime.checkpoints", "Checkpoints"),
    "Mesh": ("dmc.mesh", "Mesh"),
    "Phase": ("dmc.phases", "Phase"),
    "compile": ("dmc.api", "compile"),
    "compile_artifact": ("dmc.api", "compile_artifact"),
    "errors": ("dmc.errors", None),
    "load": ("dmc.api", "load"),
    "optim": ("dmc.optim", None),
    "plan": ("dmc.plans.builder", "plan"),
    "plans": ("dmc.plans", None),
    "runtime": ("dmc.runtime", None),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dmc' has no attribute {name!r}")
    module_name, attribute = _LAZY[name]
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise _incomplete(name, error) from error
    return module if attribute is None else getattr(module, attribute)


def _incomplete(name: str, error: ModuleNotFoundError) -> Exception:
    """The error to raise where the compiler's dependencies are not installed."""
    if error.name is None or error.name.split(".")[0] == "dmc":
        return error
    from dmc.distribution import install
    from dmc.errors import DmcError

    hint = f"{install('compile')}; to run compiled steps without it, call dmc.runtime.load"
    return DmcError(f"dmc.{name}", f"requires the package {error.name!r}, which is not installed", hint)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})

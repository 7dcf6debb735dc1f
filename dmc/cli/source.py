"""The Python function that a command line names, as in `my_module:make_step`."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from dmc.errors import DmcError

_USAGE = "write it as in `dmc compile my_module:make_step`"


def function_of(source: str) -> Any:
    """The function. Raises DmcError if there is none of this name."""
    module_name, _, name = source.partition(":")
    if not module_name or not name:
        raise DmcError(source, "is not module:function", hint=_USAGE)
    # A user's module is found as by `python -m`: from the current directory.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # The error of a module that lacks one of its own imports names that import.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise DmcError(source, f"imports {error.name!r}, which is not installed", hint="install it") from error
        raise DmcError(source, f"no module {error.name!r} from {os.getcwd()}", hint=_USAGE) from error
    if not callable(function := getattr(module, name, None)):
        raise DmcError(source, f"module {module_name!r} has no function {name!r}", hint=_USAGE)
    return function

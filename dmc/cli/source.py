"""The Python function that a command line names, as in `my_module:make_step`, and the keyword arguments it returns."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Mapping
from typing import Any

import dmc
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


def as_keywords(made: Any, source: str) -> dict[str, Any]:
    """What the function `source` returned. Raises DmcError if that is no dictionary."""
    if not isinstance(made, Mapping):
        fact = f"returned {type(made).__name__}, expected a dict of keyword arguments for dmc.compile"
        raise DmcError(source, fact, hint='such as {"model": ..., "loss": ..., "optimizer": ...}')
    return dict(made)


def check_keywords(keywords: Mapping[str, Any], source: str) -> None:
    """Raises DmcError where `dmc.compile` does not accept them, or requires others."""
    parameters = inspect.signature(dmc.compile_artifact).parameters
    # The command shows progress itself.
    unknown = sorted(set(keywords) - set(parameters) | {"observer", "progress"} & set(keywords))
    missing = sorted(n for n, p in parameters.items() if p.default is inspect.Parameter.empty and n not in keywords)
    facts = [f"does not accept {', '.join(unknown)}"] if unknown else []
    facts += [f"requires {', '.join(missing)}"] if missing else []
    if facts:
        fact = f"dmc.compile {' and '.join(facts)}"
        raise DmcError(source, fact, hint="return a dict of the keyword arguments of dmc.compile")

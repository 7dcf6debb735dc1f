"""Numbers that leave a step for Python: known ones do, others are refused where they leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from dmc.errors import ImportFailure
from dmc.importer import advice, origin
from dmc.importer.python.known import KnownValues
from dmc.importer.torch_internals import caller, untraced

_RETURN = "return it beside the loss, as an auxiliary output, and print that after the step: (loss, {'mean': mean})"
# By what Python calls a tensor on the way out.
_WAYS = {"numpy": "Tensor.numpy()", "__array__": "a function of NumPy"}
# Between the code that asks and the mode that answers.
_BETWEEN = ("__torch_function__", "handle_torch_function", "__repr__", "__format__", "__str__")


def array(known: KnownValues, function: Callable[..., Any], x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """A tensor as an array of NumPy."""
    if (value := known.tensor(x)) is None:
        raise ImportFailure(None, f"{advice.LEAVES} {_WAYS[function.__name__]}", advice.HOST)
    with untraced():
        return function(value, *args, **kwargs)


def text(known: KnownValues, function: Callable[..., Any], x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """A tensor as text, for users' code; PyTorch's own describes it in errors."""
    if (value := known.tensor(x)) is not None:
        with untraced():
            return function(value, *args, **kwargs)
    if asked_by_library():
        return function(x, *args, **kwargs)
    raise ImportFailure(None, "prints or formats a tensor, whose numbers only the running step knows", _RETURN)


def asked_by_library() -> bool:
    """Whether PyTorch itself, rather than a user's code, calls the function that a mode has intercepted."""
    frame = caller(1)
    while frame is not None and (frame.f_code.co_name in _BETWEEN or _is_of_modes(frame.f_code.co_filename)):
        frame = frame.f_back
    return frame is not None and origin.is_library(frame.f_code.co_filename)


def _is_of_modes(file: str) -> bool:
    return file.endswith(("dmc/importer/python/functions.py", "dmc/importer/python/leaving.py"))

"""What an `autograd.Function` runs when it is applied, replaced wherever its `apply` was looked up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import torch
from torch.autograd.function import FunctionMeta

Function = type[torch.autograd.Function]
Part = Callable[..., Any]


def replacing_parts(replace: Callable[[Function, str, Part], Part]) -> AbstractContextManager[Any]:
    """Changes what `forward` and `setup_context` of functions that are applied do: (function, name of the part, what it
    has) → what runs instead.

    `apply` may have been looked up early, as in `reverse = Reverse.apply`, and is C++ since PyTorch 2.14. It looks up
    the class of the context, which nobody else does, then `forward`, which it calls, then `setup_context`.
    """
    # The part that `apply` looks up next.
    awaited: list[tuple[Function, str]] = []

    def looked_up(function: Function, name: str) -> Any:
        found = type.__getattribute__(function, name)
        if name == "_backward_cls":
            awaited[:] = [(function, "forward")]
        if (function, name) not in awaited:
            return found
        awaited.clear()
        part = replace(function, name, found)
        has_context = function.setup_context is not torch.autograd.Function.setup_context
        return before_context(function, part) if name == "forward" and has_context else part

    def before_context(function: Function, forward: Part) -> Part:
        def run(*args: Any) -> Any:
            result = forward(*args)
            awaited[:] = [(function, "setup_context")]
            return result

        return run

    return mock.patch.object(FunctionMeta, "__getattribute__", looked_up)

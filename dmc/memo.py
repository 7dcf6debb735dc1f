"""Memoises functions of MLIR types and attributes, which MLIR makes unique and never changes, for one compilation.

Answers are kept while the outermost `remembering` is open: they keep their context alive.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
Answer = TypeVar("Answer")

_answers: ContextVar[dict[Any, Any] | None] = ContextVar("answers", default=None)
_NONE = object()


@contextmanager
def remembering() -> Generator[None]:
    """Keeps the answers of `remembered` functions meanwhile."""
    if _answers.get() is not None:
        yield
        return
    token = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(token)


def once(function: Callable[..., Answer], *arguments: Hashable) -> Answer:
    """`function(*arguments)`, which depends on these types, attributes and plain values alone."""
    answers = _answers.get()
    if answers is None:
        return function(*arguments)
    answer = answers.get(key := (function, arguments), _NONE)
    if answer is _NONE:
        answer = answers[key] = function(*arguments)
    return answer


def remembered(function: Function) -> Function:
    """Makes every call of the decorated function one by `once`."""

    @functools.wraps(function)
    def ask(*arguments: Hashable) -> Any:
        return once(function, *arguments)

    return ask  # pyright: ignore[reportReturnType]

"""Answers that are kept in memory: the one mechanism for it, as `dmc.cache` is on disk.

Functions of MLIR types and attributes, which MLIR makes unique and never changes, are `remembered` for one compilation:
while the outermost `remembering` is open, since their answers keep their context alive. Functions of plain values are
`kept` for the process. A `Memo` is for those who hold answers of their own.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")

_NONE: Any = object()


class Memo(Generic[Key, Answer]):
    """Answers by key, for as long as it lives. Threads may share it; each may then find an answer of its own once."""

    def __init__(self, most: int | None = None) -> None:
        """most: of more answers, those that were not asked for longest are forgotten; None: none is."""
        self._answers: dict[Key, Answer] = {}
        self._most, self._lock = most, threading.Lock()

    def find(self, key: Key) -> Answer | None:
        """The answer for a key; None if it is not known."""
        answer = self._answers.get(key)
        if answer is not None:
            self._used(key)
        return answer

    def keep(self, key: Key, answer: Answer) -> None:
        """Keeps the answer for a key."""
        self._answers[key] = answer
        self._used(key)

    def of(self, key: Key, make: Callable[..., Answer], *arguments: Any) -> Answer:
        """The answer for a key, `make(*arguments)` if it is not known. What `make` raises is not kept."""
        answer: Any = self._answers.get(key, _NONE)
        if answer is _NONE:
            answer = self._answers[key] = make(*arguments)
        if self._most is not None:
            self._used(key)
        return answer

    def clear(self) -> None:
        """Forgets all answers."""
        with self._lock:
            self._answers.clear()

    def _used(self, key: Key) -> None:
        if self._most is None:
            return
        with self._lock:
            # The order of a dictionary is that of insertion.
            if (answer := self._answers.pop(key, _NONE)) is not _NONE:
                self._answers[key] = answer
            while len(self._answers) > self._most:
                del self._answers[next(iter(self._answers))]


_answers: ContextVar[Memo[Any, Any] | None] = ContextVar("answers", default=None)


@contextmanager
def remembering() -> Generator[None]:
    """Keeps the answers of `remembered` functions meanwhile."""
    if _answers.get() is not None:
        yield
        return
    token = _answers.set(Memo())
    try:
        yield
    finally:
        _answers.reset(token)


def once(function: Callable[..., Answer], *arguments: Hashable) -> Answer:
    """`function(*arguments)`, which depends on these types, attributes and plain values alone."""
    answers = _answers.get()
    return function(*arguments) if answers is None else answers.of((function, arguments), function, *arguments)


def remembered(function: Function) -> Function:
    """Makes every call of the decorated function one by `once`."""

    @functools.wraps(function)
    def ask(*arguments: Hashable) -> Any:
        return once(function, *arguments)

    return ask  # pyright: ignore[reportReturnType]


def kept(most: int) -> Callable[[Function], Function]:
    """Keeps the `most` answers of the decorated function that were asked for last. It is a function of plain values."""

    def decorate(function: Function) -> Function:
        answers = Memo[Any, Any](most)

        @functools.wraps(function)
        def ask(*arguments: Hashable) -> Any:
            return answers.of(arguments, function, *arguments)

        return ask  # pyright: ignore[reportReturnType]

    return decorate

"""Work in several threads, as far as Python still starts any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


def side_by_side(
    threads: ThreadPoolExecutor, function: Callable[[_Given], _Made], given: Sequence[_Given]
) -> list[_Made]:
    """`function` of each, in these threads; raises what one of them raised. It may be called twice for the same.

    Once the main thread has ended, as in handlers of `atexit`, Python gives threads no more work: then one by one.
    """
    try:
        made = threads.map(function, given)
    except RuntimeError:
        made = map(function, given)
    return list(made)

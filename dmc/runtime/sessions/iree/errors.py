"""The exceptions of IREE's Python bindings."""

from __future__ import annotations

# The bindings choose the class by status code: INVALID_ARGUMENT is a ValueError, OUT_OF_RANGE an IndexError, and so on.
IREE_ERRORS = (RuntimeError, ValueError, LookupError, MemoryError, OSError)


def first_line(error: BaseException) -> str:
    """The first line of an IREE error; the rest is a stack of frames inside the compiled module."""
    return (str(error).splitlines() or [type(error).__name__])[0]

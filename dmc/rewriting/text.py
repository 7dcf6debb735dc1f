"""Splitting pipeline text at its top level."""

from __future__ import annotations

from collections.abc import Iterator

from dmc.errors import PipelineError

_CLOSING = {"(": ")", "{": "}"}


def split(text: str, separators: str) -> Iterator[str]:
    """The non-empty parts of `text` between `separators` outside brackets, braces and quotes.

    `a{x=1,2},func.func(b,c)` at commas becomes `a{x=1,2}` and `func.func(b,c)`. Raises PipelineError for one of these
    that is not closed.
    """
    expected: list[str] = []
    start = 0
    for position, character in enumerate(text):
        if expected and expected[-1] in "'\"":
            if character == expected[-1]:
                expected.pop()
        elif character in "'\"":
            expected.append(character)
        elif character in _CLOSING:
            expected.append(_CLOSING[character])
        elif character in ")}":
            if not expected or expected.pop() != character:
                raise PipelineError(None, f"unmatched '{character}' at position {position} of '{text}'")
        elif character in separators and not expected:
            yield from _part(text[start:position])
            start = position + 1
    if expected:
        raise PipelineError(None, f"'{expected[-1]}' is missing at the end of '{text}'")
    yield from _part(text[start:])


def _part(text: str) -> Iterator[str]:
    if text.strip():
        yield text.strip()

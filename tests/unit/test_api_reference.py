"""The committed reference is that of the docstrings."""

from __future__ import annotations

from tests.reference import PAGE, page


def test_the_reference_is_that_of_the_docstrings() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "stale: run `python -m tests.reference`"

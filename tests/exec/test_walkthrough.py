"""The forms that the documentation shows are those that the compiler makes."""

from __future__ import annotations

import pytest

from tests.walkthrough import FORMS, PAGE, PLAN, compiled, forms, page, plan

HINT = "stale: run `python -m tests.walkthrough` and look at what it changes"


def test_the_walkthrough_is_what_the_compiler_does() -> None:
    artifact = compiled()
    texts = forms(artifact)
    assert {path.name for path in FORMS.iterdir()} == set(texts)
    for name, text in texts.items():
        assert (FORMS / name).read_text(encoding="utf-8") == text, HINT
    written = PAGE.read_text(encoding="utf-8")
    assert page(written, {**texts, PLAN: plan(artifact)}) == written, HINT


def test_an_excerpt_that_is_gone_is_found() -> None:
    with pytest.raises(ValueError, match=r"no line holds 'nonesuch'"):
        page("<!-- 01-imported: nonesuch .. return -->\n", {"01-imported.txt": "module {\n}\n"})
    filled = page("<!-- f: b .. c -->\n", {"f.txt": "a\n  b\n    x\n  c\n"})
    assert filled == "<!-- f: b .. c -->\n```text\nb\n  x\nc\n```\n"
    assert page(filled, {"f.txt": "b\nc"}) == "<!-- f: b .. c -->\n```text\nb\nc\n```\n"

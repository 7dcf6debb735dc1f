"""The documentation as a parser reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def tokens(text: str) -> list[Token]:
    """Of a page, with tables."""
    return MarkdownIt("commonmark").enable("table").parse(text)


def links(text: str) -> Iterator[tuple[int, str]]:
    """The line and the target of every link and image."""
    for token in tokens(text):
        for child in token.children or ():
            target = child.attrGet("href") or child.attrGet("src")
            if target is not None:
                yield (token.map or [0])[0] + 1, str(target)


def anchors(text: str) -> set[str]:
    """Of the headings, as GitHub makes them."""
    found: dict[str, int] = {}
    for before, token in zip(parsed := tokens(text), parsed[1:], strict=False):
        if before.type == "heading_open":
            slug = slug_of("".join(child.content for child in token.children or ()))
            found[slug] = found.get(slug, -1) + 1
    return {f"{slug}-{number}" if number else slug for slug, count in found.items() for number in range(count + 1)}


def slug_of(heading: str) -> str:
    """Letters, digits, hyphens and underscores remain; each space becomes a hyphen."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")

"""Every relative link and anchor of the documentation leads somewhere, and the site has every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.markdown import DOCS, PAGES, ROOT, anchors, links


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere, each with its line."""
    found: list[str] = []
    for line, target in links(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        # The site consists of the folder alone.
        if not file.is_file() or (page.is_relative_to(DOCS) and not file.is_relative_to(DOCS)):
            found.append(f"{page.name}:{line}: {target}: no such file")
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
            found.append(f"{page.name}:{line}: {target}: no such heading")
    return found


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    assert not (found := broken(page)), "\n".join(found)


def test_the_site_shows_every_page_once() -> None:
    shown = re.findall(r"\S+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES if page.is_relative_to(DOCS))


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b`: c\n\n# A b c\n\n[1](#a-b-c-1) ![2](none.png)\n\n| [3](#a) | [4](other.md#x) |\n|---|---|\n"
        "| [5](https://x.y) | `[6](none.md)` |\n"
    )
    assert broken(page) == [
        "page.md:5: none.png: no such file",
        "page.md:7: #a: no such heading",
        "page.md:7: other.md#x: no such file",
    ]

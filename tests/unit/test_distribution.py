"""The distribution has its own name, and every command that installs an extra names it and an extra that exists."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from dmc.distribution import NAME, install

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = set(PROJECT["optional-dependencies"])
# A name and extras in brackets, as in the command that `install` gives.
ASKED = re.compile(r"([\w-]+)\\?\[(\w+(?:,\w+)*)\\?\]")


def _texts() -> Iterator[Path]:
    for folder in ("dmc", "docs", "bench", "examples", "tests", "tools"):
        yield from (path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".html"))
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml"))


def _installed(text: str) -> list[tuple[str, set[str]]]:
    """Names and extras: after `pip install`, and wherever the import's name stands in the place of the other."""
    found = ((match, set(match[2].split(","))) for match in ASKED.finditer(text))
    return [(match[1], extras) for match, extras in found if match[1] in ("dmc", NAME) and extras & EXTRAS]


def _is_right(name: str, extras: set[str]) -> bool:
    return name == NAME and extras <= EXTRAS


def test_the_project_has_its_name() -> None:
    assert PROJECT["name"] == NAME


def test_every_command_installs_what_exists() -> None:
    asked = {path: _installed(path.read_text(encoding="utf-8")) for path in _texts()}
    wrong = [path for path, names in asked.items() if not all(_is_right(*each) for each in names)]
    assert wrong == [Path(__file__)]  # The last test below names what is wrong.
    assert ".md" in {path.suffix for path, names in asked.items() if names}


def test_the_hint_names_it() -> None:
    assert _installed(install("cuda")) == [(NAME, {"cuda"})]
    assert _installed("pip install 'dmc[compile,cuda]'") == [("dmc", {"compile", "cuda"})]

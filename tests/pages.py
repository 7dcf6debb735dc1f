"""The pages whose Python is run, and what each block of it prints.

A block of text behind a block of Python is what that prints, or the error that it raises; there "…" is anything.
Every page goes on from the first: its names, and the state of its step as it was there.

`python -m tests.pages` writes what blocks print into the pages, where that differs.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import linecache
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from markdown_it.token import Token

from dmc.errors import DmcError
from tests.markdown import DOCS, tokens

FIRST = DOCS / "index.md"
PAGES = [FIRST, *sorted((DOCS / "guide").glob("*.md"))]
# What errors call the code of a block.
FILE = "train.py"
_SKIPPED = "<!-- not run:"
_NEEDED = re.compile(r"<!-- needs: (\w+) -->")


@dataclass(frozen=True)
class Block:
    """Python of a page. first, last: the lines of what it prints, which is None where the page shows nothing."""

    code: str
    printed: str | None
    first: int
    last: int


@dataclass(frozen=True)
class Start:
    """What the first page leaves: what its blocks print, its names, and the state of its step."""

    outcomes: list[tuple[Block, str]]
    names: dict[str, Any]
    state: Any

    def restored(self) -> dict[str, Any]:
        """The names for another page, which may train the model and the step."""
        self.names["step"].load_state_dict(self.state)
        torch.manual_seed(0)
        return {**self.names, "model": copy.deepcopy(self.names["model"])}


def needed_by(page: Path) -> list[str]:
    """The libraries beside PyTorch without which a page is not run."""
    return _NEEDED.findall(page.read_text(encoding="utf-8"))


def blocks(text: str) -> Iterator[Block]:
    """The Python of a page, in order; not what a comment in front of it says is not run."""
    parsed = [token for token in tokens(text) if token.level == 0 and token.map is not None]
    for before, token, after in zip([None, *parsed], parsed, [*parsed[1:], None], strict=False):
        if token.info != "python" or (before is not None and before.content.startswith(_SKIPPED)):
            continue
        if after is None or after.info != "text":
            yield Block(token.content, None, *_after(token))
        else:
            yield Block(token.content, after.content, *_lines(after))


def _lines(token: Token) -> tuple[int, int]:
    assert token.map is not None
    return token.map[0], token.map[1]


def _after(token: Token) -> tuple[int, int]:
    return _lines(token)[1], _lines(token)[1]


def run(block: Block, names: dict[str, Any]) -> str:
    """What a block prints, or the error that it raises where the page shows one, as Python does."""
    linecache.cache[FILE] = len(block.code), None, block.code.splitlines(keepends=True), FILE
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(block.code, FILE, "exec", dont_inherit=True), names)
        except DmcError as error:
            if block.printed is None:
                raise
            print(f"{type(error).__module__}.{type(error).__name__}: {error}")
    return "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())


def is_as_shown(block: Block, printed: str) -> bool:
    """Whether a block prints what its page shows."""
    parts = map(re.escape, (block.printed or "").split("…"))
    return re.fullmatch(".*".join(parts), printed, re.DOTALL) is not None


@functools.cache
def start() -> Start:
    """Runs the first page, once."""
    torch.manual_seed(0)
    names: dict[str, Any] = {"__name__": "__main__"}
    found = _run_all(FIRST, names)
    return Start(found, names, names["step"].state_dict())


def outcomes(page: Path) -> list[tuple[Block, str]]:
    """The blocks of a page, and what they print."""
    return start().outcomes if page == FIRST else _run_all(page, start().restored())


def _run_all(page: Path, names: dict[str, Any]) -> list[tuple[Block, str]]:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return [(block, run(block, names)) for block in blocks(page.read_text(encoding="utf-8"))]


def main() -> int:
    """Writes what blocks print, of the pages that are named, or of all."""
    for page in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
        # From the end, so that the lines of earlier blocks stay where they are.
        for block, printed in reversed(outcomes(page)):
            if not is_as_shown(block, printed):
                blank = ["\n"] if block.printed is None else []
                lines[block.first : block.last] = [*blank, "```text\n", printed, "```\n"]
        page.write_text("".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

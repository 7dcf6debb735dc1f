"""The `dmc` commands that the documentation shows are commands, with options that exist."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator

import pytest

from dmc.cli import main
from tests.markdown import PAGES, ROOT, tokens

# What a line that runs `dmc` begins with.
_BEGINS = re.compile(r"\s*(dmc|torchrun|mpirun)\s")


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of `dmc` in the blocks of shell of a page, but for those that leave something out."""
    shell = (token for token in tokens(text) if token.type == "fence" and token.info in ("sh", ""))
    lines = (line for token in shell for line in token.content.splitlines())
    for part in (part for line in lines for part in re.split(r"[;|]", line.partition(" #")[0])):
        words = shlex.split(part) if _BEGINS.match(part) else []
        if "dmc" in words and "…" not in part:
            yield words[words.index("dmc") + 1 :]


FOUND = [
    pytest.param(words, id=f"{page.relative_to(ROOT)}: {' '.join(words)}")
    for page in PAGES
    for words in commands(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("words", FOUND)
def test_a_command_is_one(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(f"dmc.cli.{words[0]}")
    monkeypatch.setattr(module, "run", lambda _: 0)  # pyright: ignore[reportUnknownLambdaType]
    assert main.main(words) == 0


def test_commands_are_found() -> None:
    text = "dmc run a.dmc --steps 1  # dmc\ndmc memory … | tail\ncd x; torchrun -n 2 -m dmc ledger b.dmc | tail\n"
    text = f"```sh\n{text}dmc-opt a.mlir\n```"
    assert list(commands(text)) == [["run", "a.dmc", "--steps", "1"], ["ledger", "b.dmc"]]
    assert FOUND

"""Text that every machine with Python has: the source of its standard library, as numbered characters."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from pathlib import Path

import torch

# Installed packages and tests differ from machine to machine, so they stay out.
LEFT_OUT = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"})


@dataclass(frozen=True)
class Corpus:
    """`symbols`: every character that occurs, sorted; `data`: the text as indices into it, i64[length]."""

    symbols: str
    data: torch.Tensor

    def batch(self, size: int, length: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """`size` random windows: characters and next characters, both i64[size, length]."""
        starts = torch.randint(len(self.data) - length, (size,), generator=generator)
        windows = self.data[starts[:, None] + torch.arange(length + 1)]
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()

    def text(self, tokens: torch.Tensor) -> str:
        """The characters of i64[length]."""
        return "".join(self.symbols[index] for index in tokens.tolist())


def standard_library() -> Corpus:
    """Every ASCII source file of the standard library, in the order of their paths."""
    root = Path(sysconfig.get_path("stdlib"))
    paths = sorted(path for path in root.rglob("*.py") if not LEFT_OUT.intersection(path.relative_to(root).parts))
    text = "".join(source.decode() for path in paths if (source := path.read_bytes()).isascii())
    symbols = "".join(sorted(set(text)))
    index = {symbol: number for number, symbol in enumerate(symbols)}
    return Corpus(symbols, torch.tensor([index[character] for character in text]))

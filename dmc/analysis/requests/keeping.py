"""What of the forward pass is kept or computed again by the user's word, as an attribute of the module.

`dm.keeping = ["recompute h.*", "keep h.*.attn"]`: in the order given; of several that match, the last counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from dmc._mlir import ir
from dmc.plans.patterns import matcher

KEEPING = "dm.keeping"


@dataclass(frozen=True)
class Word:
    """One request for the modules that match a shell pattern; alternatives are joined by "|"."""

    kind: Literal["recompute", "keep"]
    pattern: str

    def root(self, module: str) -> str | None:
        """The outermost of a module and the modules around it that the pattern matches; None if it matches none."""
        matches: list[Callable[[str], object]] = [matcher(each.strip()) for each in self.pattern.split("|")]
        names = module.split(".")
        prefixes = (".".join(names[:end]) for end in range(1, len(names) + 1))
        return next((prefix for prefix in prefixes if any(match(prefix) for match in matches)), None)


def write_keeping(module: ir.Module, words: Sequence[Word]) -> None:
    """States the requests, if there are any."""
    if words:
        texts = [ir.StringAttr.get(f"{word.kind} {word.pattern}", module.context) for word in words]
        module.operation.attributes[KEEPING] = ir.ArrayAttr.get(texts, module.context)


def keeping_of(module: ir.Module) -> tuple[Word, ...]:
    """The requests that the module states."""
    attributes = module.operation.attributes
    texts = [ir.StringAttr(each).value for each in attributes[KEEPING]] if KEEPING in attributes else []
    return tuple(map(_word, texts))


def _word(text: str) -> Word:
    kind, _, pattern = text.partition(" ")
    return Word("keep" if kind == "keep" else "recompute", pattern)

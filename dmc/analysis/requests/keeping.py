"""What of the forward pass is kept, computed again or moved away by the user's word, as an attribute of the module.

`dm.keeping = ["recompute h.*", "keep h.*.attn"]`: in the order given; of several that match, the last counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from dmc._mlir import ir
from dmc.plans.patterns import matcher
from dmc.plans.rules import Keep, Keeping, Offload, Recompute
from dmc.plans.verbs import OfModules
from dmc.program.labels import BACKWARD, RECOMPUTED, UPDATE

KEEPING = "dm.keeping"

Word: TypeAlias = Keeping
# Those that mean modules by a pattern.
ModuleWord: TypeAlias = Keeping | OfModules
# The end of the label of a kernel that is not of the forward pass.
NOT_FORWARD = (BACKWARD, UPDATE, RECOMPUTED)


def write_keeping(module: ir.Module, words: Sequence[Word]) -> None:
    """States requests, if there are any."""
    if words:
        texts = [ir.StringAttr.get(f"{word.verb} {word.pattern}", module.context) for word in words]
        module.operation.attributes[KEEPING] = ir.ArrayAttr.get(texts, module.context)


def keeping_of(module: ir.Module) -> tuple[Word, ...]:
    """The requests that the module states."""
    attributes = module.operation.attributes
    texts = [ir.StringAttr(each).value for each in attributes[KEEPING]] if KEEPING in attributes else []
    kinds: dict[str, type[Word]] = {kind.verb: kind for kind in (Recompute, Keep, Offload)}
    return tuple(kinds[verb](pattern) for verb, _, pattern in (text.partition(" ") for text in texts))


def root_of(word: ModuleWord, module: str) -> str | None:
    """The outermost of a module and the modules around it that a request means; None if it means none of them."""
    matches = [matcher(each.strip()) for each in word.pattern.split("|")]
    names = module.split(".")
    prefixes = (".".join(names[:end]) for end in range(1, len(names) + 1))
    return next((prefix for prefix in prefixes if any(match(prefix) for match in matches)), None)


def last_word(label: str, words: Iterable[Word]) -> tuple[Word | None, str]:
    """The last request for a kernel of the forward pass, by its label, and the outermost module that it means, or its
    checkpoint."""
    module, _, checkpoint = label.partition(", ")
    if label.endswith(NOT_FORWARD):
        return None, ""
    found: tuple[Word | None, str] = (Recompute(checkpoint) if checkpoint else None, checkpoint)
    for word in words:
        root = root_of(word, module)
        found = found if root is None else (word, root)
    return found

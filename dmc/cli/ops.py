"""Counts the operations in MLIR text without MLIR, so that a machine that only runs steps can show them."""

from __future__ import annotations

import re
from collections import Counter

# An operation begins a line, after the names of its results: `%3:2 = "dm.composite"(…)`, `linalg.yield …`.
_RESULTS = r"(?:%[\w$.#-]+(?::\d+)?(?:,\s*%[\w$.#-]+(?::\d+)?)*\s*=\s*)?"
_OP = re.compile(rf'^\s*{_RESULTS}"?([A-Za-z_]\w*(?:\.[\w$]+)+)"?(?=[\s(<{{@]|$)', re.MULTILINE)
# The printer omits the dialect `func`, and the dialect of the top-level op.
_SHORT = re.compile(rf"^\s*{_RESULTS}(return|call|module)(?=[\s{{@]|$)", re.MULTILINE)
_LONG = {"return": "func.return", "call": "func.call", "module": "builtin.module"}
_COMPOSITE = re.compile(r'^.*dm\.composite"?\s*[\s(<].*?\bkind = "([\w.]+)"', re.MULTILINE)


def count_ops(text: str) -> dict[str, int]:
    """Operations by name in MLIR text as the MLIR printer writes it, most frequent first."""
    counts = Counter(_OP.findall(text))
    counts.update(_LONG[name] for name in _SHORT.findall(text))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def count_composites(text: str) -> dict[str, int]:
    """`dm.composite` operations by their kind, most frequent first."""
    counts = Counter(_COMPOSITE.findall(text))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

"""For tests of scheduling passes: what `@step` computes stays what it was (V9)."""

from __future__ import annotations

from collections.abc import Sequence

from dmc._mlir import ir
from dmc.analysis.meaning import meaning
from dmc.passes.base import Element, run_passes


def assert_meaning_kept(module: ir.Module, passes: Sequence[Element]) -> None:
    """Runs passes on a module whose kernels are formed, one by one; none changes what a result is made of."""
    before = meaning(module)
    for element in passes:
        run_passes(module, [element])
        after = meaning(module)
        assert before.differences(after) == [], f"{element} changes these"

"""A step in which ranks would drift apart is refused: every reduction of a compiled step counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.ranks.replicas import verify_replicas
from dmc.errors import DmcError
from dmc.step_function import find_step
from dmc.walk import walk

PLACED = Path(__file__).parents[2] / "docs" / "walkthrough" / "02-placed.mlir"


@pytest.mark.usefixtures("context")
def test_no_reduction_can_be_left_out() -> None:
    text = PLACED.read_text(encoding="utf-8")
    verify_replicas(ir.Module.parse(text))
    count = len(_reductions(ir.Module.parse(text)))
    assert count >= 3
    for number in range(count):
        module = ir.Module.parse(text)
        left_out = _reductions(module)[number]
        left_out.results[0].replace_all_uses_with(left_out.operands[0])
        left_out.erase()
        with pytest.raises(DmcError, match="may differ between ranks along dp"):
            verify_replicas(module)


def _reductions(module: ir.Module) -> list[ir.Operation]:
    return [op for op in walk(find_step(module)) if isinstance(op.opview, dm.AllReduceOp)]

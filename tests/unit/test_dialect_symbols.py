"""Rules of `dm` that need a whole module."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.errors import DmcError
from tests.unit import plan_cases
from tests.unit.symbol_cases import CASES, LEGAL, PRELUDE, Case


@pytest.mark.parametrize("case", [*CASES, *plan_cases.CASES], ids=lambda case: case.name)
def test_refused_at_its_line(context: Any, case: Case) -> None:
    text = PRELUDE + case.text
    module = ir.Module.parse(text)
    with pytest.raises(DmcError, match=re.escape(case.message)) as caught:
        dm.verify_symbols(module)
    lines = [number + 1 for number, line in enumerate(text.splitlines(), 1) if "// HERE" in line]
    if lines:
        assert f":{lines[0]}:" in caught.value.place


@pytest.mark.parametrize("case", [*LEGAL, *plan_cases.LEGAL], ids=lambda case: case.name)
def test_legal(context: Any, case: Case) -> None:
    dm.verify_symbols(ir.Module.parse(PRELUDE + case.text))


def test_needs_no_current_context() -> None:
    with ir.Context() as context:
        dm.load(context)
        module = ir.Module.parse(PRELUDE + LEGAL[-3].text)
    dm.verify_symbols(module)


def test_is_linear_in_the_number_of_ops(context: Any) -> None:
    def seconds(count: int) -> float:
        gather = '  %y{i} = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, channel = @on_dp, '
        gather += 'group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>'
        composite = '  %c{i} = "dm.composite"(%x) {kind = "k", decomposition = @twice, parameters = {}} '
        composite += ": (tensor<8xf32>) -> tensor<8xf32>"
        body = "\n".join(line.replace("{i}", str(i)) for i in range(count) for line in (gather, composite))
        module = ir.Module.parse(f"{PRELUDE}func.func @f(%x: tensor<8xf32>) {{\n{body}\n  return\n}}")
        start = time.process_time()
        dm.verify_symbols(module)
        return time.process_time() - start

    # Quadratic would be a factor of 64; the margin is for a busy machine.
    assert min(seconds(4000) for _ in range(2)) < 24 * min(seconds(500) for _ in range(3))

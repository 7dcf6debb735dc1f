"""A pass that mistakes one value for another is found out by V11, which names the stage and the kernel."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dmc._mlir import ir
from dmc.dialect import CompositeOp
from dmc.errors import ProofError
from dmc.passes.planned.lower_to_plan import rank_programs
from dmc.passes.scheduled.form_kernels import form_kernels
from dmc.passes.scheduled.form_kernels.outline import Outline
from dmc.passes.scheduled.tensors import inline_composites
from dmc.proof.dataflow import check_dataflow
from tests.mutations.plans import planned_with_dataflow

NAME = "zero2"


def _refused(context: Any) -> str:
    job, dataflow = planned_with_dataflow(NAME, context)
    with pytest.raises(ProofError) as caught:
        check_dataflow(job, dataflow)
    assert caught.value.property == "V11"
    return str(caught.value)


def _exchange(op: ir.Operation) -> bool:
    """Swaps two operands of one type that are not the same value."""
    for i in range(len(op.operands)):
        for j in range(i):
            one, other = op.operands[i], op.operands[j]
            if one.type == other.type and one != other:
                op.operands[i], op.operands[j] = other, one
                return True
    return False


def test_kernels_with_operands_swapped(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """dm-form-kernels hands one kernel two operands the other way round."""
    swapped: list[ir.Operation] = []
    rewrite: Any = form_kernels._Step.kernel  # pyright: ignore[reportPrivateUsage]

    def kernel(step: Any, unit: Outline) -> None:
        rewrite(step, unit)
        made = step.new[unit.outputs[0]].owner.operation
        if not swapped and _exchange(made):
            swapped.append(made)

    monkeypatch.setattr(form_kernels._Step, "kernel", kernel)  # pyright: ignore[reportPrivateUsage]
    story = _refused(context)
    assert story.startswith("stage scheduled, @") and "computes from " in story
    assert "differs from form placed" in story and len(swapped) == 1


def test_composites_with_operands_swapped(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """dm-inline-composites calls a decomposition with two operands swapped."""
    call = inline_composites.call_decomposition
    swapped: list[bool] = []

    def called(op: CompositeOp) -> None:
        if not any(swapped):
            swapped.append(_exchange(op.operation))
        call(op)

    monkeypatch.setattr(inline_composites, "call_decomposition", called)
    story = _refused(context)
    assert "stage scheduled, dm-inline-composites" in story and any(swapped)


def test_launches_with_operands_swapped(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """dm-lower-to-plan does so, on all ranks, with the first launch of two operands of one size."""
    rule: Any = rank_programs._RULES["dm.kernel"]  # pyright: ignore[reportPrivateUsage]
    done: set[int] = set()

    def kernel(lowering: Any, op: ir.Operation) -> None:
        rule(lowering, op)
        launch = lowering.commands[-1]
        reads = list(launch.reads)
        pairs = [(i, j) for j, read in enumerate(reads) for i in range(j) if reads[i].length == read.length]
        if lowering.rank not in done and pairs:
            i, j = pairs[0]
            reads[i], reads[j] = reads[j], reads[i]
            lowering.commands[-1] = msgspec.structs.replace(launch, reads=tuple(reads))
            done.add(lowering.rank)

    monkeypatch.setitem(rank_programs._RULES, "dm.kernel", kernel)  # pyright: ignore[reportPrivateUsage]
    story = _refused(context)
    assert story.startswith("rank ") and "launch of @" in story
    assert "as operand" in story and "stage planned" in story and len(done) == 4

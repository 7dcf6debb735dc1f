"""A pass that mistakes one value for another is found out by V11, which names the stage and the kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

import dmc
from dmc._mlir import ir
from dmc.api import compile_artifact
from dmc.dialect import CompositeOp
from dmc.errors import ProofError
from dmc.passes.planned.lower_to_plan import rank_programs
from dmc.passes.scheduled.form_kernels import form_kernels
from dmc.passes.scheduled.form_kernels.outline import Outline
from dmc.passes.scheduled.tensors import inline_composites
from dmc.proof.dataflow import check_dataflow
from tests.mutations.plans import planned_with_dataflow

NAME = "zero2"
# An example, and the masks of its elements as bits.
X, WORDS = torch.zeros(256, 512), "tensor<256x16xi32>"


class Residual(nn.Module):
    """A residual sum with dropout: a kernel reads the masks of two of them, which have one type."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.drop = nn.Linear(512, 512), nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(x)
        return x + self.drop(self.linear(x))


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


def _swap_operands(
    monkeypatch: pytest.MonkeyPatch, is_meant: Callable[[ir.Operation], bool] = lambda _: True
) -> list[str]:
    """Lets dm-form-kernels hand the first kernel that is meant two operands the other way round.

    The result holds the name of its body, once it is made.
    """
    swapped: list[str] = []
    rewrite: Any = form_kernels._Step.kernel  # pyright: ignore[reportPrivateUsage]

    def kernel(step: Any, unit: Outline) -> None:
        rewrite(step, unit)
        made = step.new[unit.outputs[0]].owner.operation
        if not swapped and is_meant(made) and _exchange(made):
            swapped.append(made.opview.body.value)

    monkeypatch.setattr(form_kernels._Step, "kernel", kernel)  # pyright: ignore[reportPrivateUsage]
    return swapped


def test_kernels_with_operands_swapped(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = _swap_operands(monkeypatch)
    story = _refused(context)
    assert story.startswith("stage scheduled, @") and "computes from " in story
    assert "differs from form placed" in story and len(swapped) == 1


def test_a_kernel_that_reads_masks_as_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels that pack masks, which form placed does not know, are not blamed for one that reads another's."""
    swapped = _swap_operands(monkeypatch, lambda op: any(str(each.type) == WORDS for each in op.operands))
    model, optimizer = nn.Sequential(Residual(), Residual()), dmc.optim.SGD(lr=0.1)
    with pytest.raises(ProofError) as caught:
        compile_artifact(model, loss=mse_loss, optimizer=optimizer, example=(X, X), target="cuda", verify=False)
    assert len(swapped) == 1 and str(caught.value).startswith(f"stage scheduled, @{swapped[0]} ")


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
    """dm-lower-to-plan does so, in the program of all ranks, with the first launch of two operands of one size."""
    rule: Any = rank_programs._RULES["dm.kernel"]  # pyright: ignore[reportPrivateUsage]
    done: list[str] = []

    def kernel(lowering: Any, op: ir.Operation) -> None:
        rule(lowering, op)
        launch = lowering.commands[-1]
        reads = list(launch.reads)
        pairs = [(i, j) for j, read in enumerate(reads) for i in range(j) if reads[i].length == read.length]
        if not done and pairs:
            i, j = pairs[0]
            reads[i], reads[j] = reads[j], reads[i]
            lowering.commands[-1] = msgspec.structs.replace(launch, reads=tuple(reads))
            done.append(launch.kernel)

    monkeypatch.setitem(rank_programs._RULES, "dm.kernel", kernel)  # pyright: ignore[reportPrivateUsage]
    story = _refused(context)
    assert story.startswith("rank ") and "launch of @" in story
    assert "as operand" in story and "stage planned" in story and len(done) == 1

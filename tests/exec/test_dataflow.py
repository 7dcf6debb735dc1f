"""V11 when a user compiles: what was computed is proven, and a pass that mistakes values is found out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc import dialect as dm
from dmc import pipeline
from dmc._mlir import ir
from dmc.analysis.dataflow.recorder import SCHEDULED
from dmc.api import compile_artifact
from dmc.dialect.plan import bounds
from dmc.errors import ProofError
from dmc.passes.any.verify.dumps import RECOMPUTED
from dmc.passes.base import parse_pipeline, run_passes
from dmc.passes.planned.lower_to_plan import LowerToPlan
from dmc.walk import walk


def _compile(folder: Path) -> Any:
    torch.manual_seed(0)
    example = (torch.randn(4, 8), torch.randn(4, 8))
    optimizer = dmc.optim.SGD(lr=0.1, momentum=0.9)
    model, loss = nn.Linear(8, 8), nn.functional.mse_loss
    return compile_artifact(model, loss=loss, optimizer=optimizer, example=example, dump_dir=folder)


class Images(nn.Module):
    """Convolutions of as many images and channels as are laid out anew on CUDA."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[n, 16, 6, 6] → f32[n, 16]"""
        return self.second(torch.relu(self.first(x))).mean((2, 3))


def _swap_operands(planned: ir.Module) -> None:
    """The first launch with two operands of one size reads them the other way round."""
    for op in walk(planned.operation):
        reads = list(op.attributes["reads"]) if op.name == dm.LaunchOp.OPERATION_NAME else []
        lengths = [bounds(each)[1] for each in reads]
        pairs = [(i, j) for j, length in enumerate(lengths) for i in range(j) if lengths[i] == length]
        if pairs:
            i, j = pairs[0]
            reads[i], reads[j] = reads[j], reads[i]
            op.attributes["reads"] = ir.ArrayAttr.get(reads)
            return


def test_what_was_compiled_is_proven_and_proven_again_from_dumps(tmp_path: Path, context: Any) -> None:
    certificate = _compile(tmp_path).certificate
    assert "V11" in certificate.properties and len(certificate.dataflow) == 64
    passes = parse_pipeline(f"dm-verify{{dumps={tmp_path}}}")
    (path,) = tmp_path.glob("*-planned.mlir")
    planned = ir.Module.parse(path.read_text())
    run_passes(planned, passes)
    _swap_operands(planned)
    with pytest.raises(ProofError, match=r"V11: reads .* as operand \d, at device \[.*\), not ") as caught:
        run_passes(planned, passes)
    assert caught.value.property == "V11"


def test_a_plan_that_mistakes_values_is_not_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are placed after the fault, so all else holds of the plan."""
    lower = LowerToPlan.run

    def run(own: LowerToPlan, module: ir.Module) -> None:
        lower(own, module)
        _swap_operands(module)

    monkeypatch.setattr(LowerToPlan, "run", run)
    with pytest.raises(ProofError, match=r"rank 0, lane compute, command \d+, launch of @") as caught:
        _compile(tmp_path)
    assert caught.value.property == "V11" and "stage planned" in str(caught.value)


def test_images_that_are_laid_out_anew_are_proven_again_from_dumps(tmp_path: Path, context: Any) -> None:
    example = (torch.randn(16, 16, 6, 6), torch.randn(16, 16))
    options: Any = {"optimizer": dmc.optim.SGD(lr=0.1), "example": example, "precision": "bf16-mixed"}
    compile_artifact(Images(), loss=nn.functional.mse_loss, target="cuda", dump_dir=tmp_path, **options)
    (path,) = tmp_path.glob("*-planned.mlir")
    run_passes(ir.Module.parse(path.read_text()), parse_pipeline(f"dm-verify{{dumps={tmp_path}}}"))


def test_what_is_recomputed_from_dumps_is_what_the_pipeline_runs() -> None:
    passes = next(stage.passes for stage in pipeline.STAGES if stage.form.name == SCHEDULED)
    again = [element for some in RECOMPUTED.values() for element in some]
    assert list(map(str, again)) == list(map(str, passes[: len(again)]))
    assert {str(some[-1]): point for point, some in RECOMPUTED.items()} == pipeline.WITNESSED

"""Every region of whole training steps as a generated kernel, interpreted, against numpy."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import dmc.optim
from dmc._mlir import ir
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from tests.generated_regions import assert_right, regions_of
from tests.kernels import form_kernels


def regions(name: str, precision: Precision, context: Any) -> ir.Module:
    """The step of a small model with dropout, AdamW and clipping, as kernels; all composites are opened."""
    case = importlib.import_module(f"tests.models.{name}").build(0.1)
    optimizer = dmc.optim.AdamW(lr=1e-3, weight_decay=0.1, clip_grad_norm=1.0)
    step = import_step(case.model, case.loss, optimizer, case.example(0), precision, 1, 0, context)
    form_kernels(step.module)
    return step.module


@pytest.mark.parametrize(("name", "precision"), [("gpt2", Precision.BF16_MIXED), ("bert", Precision.FP32)])
def test_every_region_of_a_step(context: Any, name: str, precision: Precision) -> None:
    module = regions(name, precision, context)
    names = list(regions_of(module))
    assert len(names) > 70
    for each in names:
        assert_right(module, each, every=False)

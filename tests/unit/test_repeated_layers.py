"""Repeated layers are traced once: the step is, text for text, what it is when each operation is traced."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dmc import dialect, optim
from dmc._mlir import ir
from dmc.errors import ImportFailure
from dmc.importer import differentiate
from dmc.importer.forward.precision import Precision
from dmc.importer.layers.calls import Call
from dmc.importer.step import import_step
from tests.repeated_layers import LAYERS, MODELS, ROWS, TRACED_WHOLE, WIDTH, Block, Gamma, Probes, Stack


def _first(outputs: Any, targets: Tensor) -> tuple[Tensor, list[Tensor]]:
    return nn.functional.mse_loss(outputs[0], targets), outputs[1]


def _imported(model: nn.Module, precision: Precision) -> str:
    torch.manual_seed(0)
    optimizer = optim.AdamW(lr=1e-3, clip_grad_norm=1.0)
    example = torch.randn(ROWS, WIDTH), torch.randn(ROWS, 1)
    loss = _first if isinstance(model, Probes) else nn.functional.mse_loss
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        step = import_step(model, loss, optimizer, example, precision, 1, 0, context)
        return step.module.operation.get_asm(enable_debug_info=True)


def _operations(text: str) -> Counter[str]:
    """Those of a module, whatever their order."""
    named = (re.sub(r"%\w+|#map\d*|loc\(.*?\)\)?", "", line) for line in text.splitlines() if line.startswith("    %"))
    return Counter(named)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16_MIXED])
@pytest.mark.parametrize("case", MODELS)
def test_the_step_is_the_same(case: str, precision: Precision, monkeypatch: pytest.MonkeyPatch) -> None:
    build, expected = MODELS[case]
    found: list[Call] = []
    outlined = differentiate.outlined

    def seen(*given: Any) -> list[Call]:
        found.extend(outlined(*given))
        return found

    monkeypatch.setattr(differentiate, "outlined", seen)
    shared = _imported(build(), precision)
    assert expected in (None, len(found)), [call.segment.path for call in found]
    assert {hasattr(call, "layer") for call in found} <= {case not in TRACED_WHOLE}
    monkeypatch.setattr(differentiate, "outlined", lambda *_: [])
    flat = _imported(build(), precision)
    if case == "called again":
        # The gradients of weights that several calls share are added up when a call's are there, not one by one.
        assert _operations(shared) == _operations(flat)
    else:
        assert shared == flat


def test_a_layer_that_cannot_be_differentiated_is_told_with_its_place() -> None:
    with pytest.raises(ImportFailure, match=r"backward pass cannot be traced: .*igamma"):
        _imported(Stack([Gamma() for _ in range(LAYERS)]), Precision.FP32)


def test_equal_layers_are_traced_once_for_inputs_of_one_type(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Call] = []
    outlined = differentiate.outlined
    monkeypatch.setattr(differentiate, "outlined", lambda *given: found.extend(outlined(*given)) or found)
    _imported(Stack([Block() for _ in range(5)]), Precision.FP32)
    assert len({id(call.kind) for call in found}) == 1
    # The input of the first has no gradient.
    assert [found[0].layer is call.layer for call in found] == [True, *[False] * 4]
    assert len({id(call.layer) for call in found[1:]}) == 1

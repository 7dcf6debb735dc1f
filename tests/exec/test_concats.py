"""Concatenations on a CPU: in one loop, or where their parts are computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import dmc
from dmc._mlir import ir
from dmc.lowering.kernel_code import leaves
from dmc.lowering.kernels.kernels import compile_kernels
from dmc.lowering.kernels.rewrites.concatenate_by_loops import MOST_PARTS, ConcatenateByLoops
from dmc.program import Launch
from dmc.runtime import Step
from dmc.target import CPU
from dmc.walk import walk
from tests.compiled import assert_descends_as_eager

BATCH, WIDTH = 8, 16
MANY = ", ".join(["%a"] * (MOST_PARTS + 1)), ", ".join(["tensor<4x8xf32>"] * (MOST_PARTS + 1))
CONCATS = f"""
func.func private @equal(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x16xf32> {{
  %y = tensor.concat dim(1) %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}}
func.func private @unequal(%a: tensor<4x8xf32>, %b: tensor<4x4xf32>) -> tensor<4x12xf32> {{
  %y = tensor.concat dim(1) %a, %b : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x12xf32>
  return %y : tensor<4x12xf32>
}}
func.func private @outermost(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<8x8xf32> {{
  %y = tensor.concat dim(0) %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}}
func.func private @many(%a: tensor<4x8xf32>) -> tensor<4x{8 * (MOST_PARTS + 1)}xf32> {{
  %y = tensor.concat dim(1) {MANY[0]} : ({MANY[1]}) -> tensor<4x{8 * (MOST_PARTS + 1)}xf32>
  return %y : tensor<4x{8 * (MOST_PARTS + 1)}xf32>
}}"""


class Joined(nn.Module):
    """Joins what its layers compute by a function of the test."""

    def __init__(self, parts: int, join: Callable[[list[Tensor]], Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(parts))
        self.join = join

    def forward(self, x: Tensor) -> Tensor:
        """[B, WIDTH] → [B]."""
        joined = self.join([torch.tanh(layer(x)) for layer in self.layers])
        return joined.square().flatten(1).mean(1)


def _step(parts: int, join: Callable[[list[Tensor]], Tensor]) -> tuple[Step, nn.Module, tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    model, batch = Joined(parts, join), (torch.randn(BATCH, WIDTH), torch.randn(BATCH))
    loss = nn.functional.mse_loss
    return dmc.compile(model, loss=loss, optimizer=dmc.optim.SGD(lr=1.0), example=batch), model, batch


@pytest.mark.parametrize(
    "join",
    [
        lambda parts: torch.cat(parts, 1),
        lambda parts: torch.stack(parts, 1),
        lambda parts: torch.stack(parts, 2),
        lambda parts: torch.cat([parts[0][:, :5], *parts[1:]], 1),
        lambda parts: torch.stack(parts).transpose(0, 1),
        lambda parts: torch.stack([torch.zeros(BATCH, WIDTH), *parts, torch.zeros(BATCH, WIDTH)]).transpose(0, 1),
        lambda parts: torch.stack([*parts, parts[0]]).transpose(0, 1),
    ],
    ids=["beside", "between", "inside", "of unequal parts", "behind", "with zeros", "twice"],
)
def test_joined_layers_descend_as_eager(join: Callable[[list[Tensor]], Tensor]) -> None:
    step, model, batch = _step(4, join)
    assert_descends_as_eager(step, model, nn.functional.mse_loss, batch)


def _launches(step: Step) -> list[Launch]:
    return [each for each in step.snapshot().job.programs[0].commands if isinstance(each, Launch)]


def test_parts_are_computed_where_the_result_lies() -> None:
    step, _, _ = _step(4, lambda parts: torch.stack(parts).transpose(0, 1))
    assert "communication" not in {buffer.category for buffer in step.memory().ranks[0].buffers}
    launches = _launches(step)
    assert not any(each.kernel.startswith("concat") for each in launches)
    size = BATCH * WIDTH * 4
    places = [sorted(each.offset for each in launch.writes if each.length == size) for launch in launches]
    first = min(place[0] for place in places if place)
    assert [[first + number * size] for number in range(4)] == sorted(place for place in places if len(place) == 1)[:4]


@pytest.mark.usefixtures("context")
def test_equal_parts_are_one_loop() -> None:
    module = ir.Module.parse(CONCATS)
    library = compile_kernels(module, ["equal", "unequal", "outermost"], CPU)
    loops = {name: len(list(leaves(kernel.commands))) for name, kernel in library.kernels.items()}
    assert loops == {"equal": 1, "unequal": 2, "outermost": 2}


@pytest.mark.usefixtures("context")
def test_only_few_equal_parts_become_loops() -> None:
    module = ir.Module.parse(CONCATS)
    ConcatenateByLoops().run(module)
    assert module.operation.verify()
    left = [op.parent.attributes["sym_name"].value for op in walk(module.operation) if op.name == "tensor.concat"]
    assert left == ["unequal", "outermost", "many"]

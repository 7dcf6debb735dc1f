"""Mixtures of experts of `transformers`: each row is multiplied by the matrices of its experts only, as in eager."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional
from transformers.integrations.moe import use_experts_implementation

import dmc.optim
from dmc.errors import ImportFailure
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.mesh import Mesh
from dmc.placement.placement import Placement
from tests.interpreted import RATE, InterpretedStep, assert_trains_as_eager
from tests.large import large_unless
from tests.partitioned import place, run_on_all_ranks

TOKENS, WIDTH, INNER, EXPERTS = 16, 16, 24, 4
SIZES: dict[str, Any] = {
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), EXPERTS),
    **dict.fromkeys(("intermediate_size", "moe_intermediate_size"), INNER),
    "num_experts_per_tok": 2,
    "hidden_size": WIDTH,
}


def _of(kind: str, block: str, **options: Any) -> nn.Module:
    """A block of a model of `transformers`, by the names of its module and class."""
    found = __import__(f"transformers.models.{kind}.modeling_{kind}", fromlist=[block])
    config = transformers.AutoConfig.for_model(options.pop("model", kind), **SIZES, **options)
    made = getattr(found, block)(config)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    return made


BLOCKS: Mapping[str, Callable[[], nn.Module]] = {
    "mixtral": lambda: _of("mixtral", "MixtralSparseMoeBlock"),
    "qwen3_moe": lambda: _of("qwen3_moe", "Qwen3MoeSparseMoeBlock"),
    "olmoe": lambda: _of("olmoe", "OlmoeSparseMoeBlock"),
    "deepseek_v3": lambda: _of("deepseek_v3", "DeepseekV3MoE", n_group=2, topk_group=1),
    "gpt_oss": lambda: _of("gpt_oss", "GptOssMLP"),
    "switch_transformers": lambda: _of(
        "switch_transformers",
        "SwitchTransformersSparseMLP",
        d_ff=INNER,
        expert_capacity=3,
        dropout_rate=0.0,
        router_jitter_noise=0.0,
    ),
    "llama4": lambda: _of("llama4", "Llama4TextMoe", model="llama4_text"),
}


class Block(nn.Module):
    """The first result of a block, which may also return its router's."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        """f32[2, TOKENS / 2, WIDTH] → the same."""
        made = self.block(x)
        first = made[0] if isinstance(made, tuple) else made
        assert isinstance(first, Tensor)
        return first.view(x.shape)


def _batches(count: int) -> list[tuple[Tensor, Tensor]]:
    random = torch.Generator().manual_seed(0)
    shape = (2, TOKENS // 2, WIDTH)
    return [(torch.randn(shape, generator=random), torch.randn(shape, generator=random)) for _ in range(count)]


@pytest.mark.parametrize("name", large_unless(("mixtral", "switch_transformers"), BLOCKS))
def test_blocks_train_as_eager(context: Any, name: str) -> None:
    torch.manual_seed(0)
    step = assert_trains_as_eager(context, Block(BLOCKS[name]()), functional.mse_loss, _batches(5))
    found = set(re.findall(r'kind = "(\w+)"', str(step.module)))
    assert found >= {"expert_order", "dispatch", "grouped_product", "grouped_outer_product"}


@pytest.mark.parametrize("rows", [[0] * TOKENS, [EXPERTS - 1] * TOKENS, [0, 3] * (TOKENS // 2)])
def test_any_imbalance(context: Any, rows: list[int]) -> None:
    """All tokens go to one expert, the first or the last, or none to some in the middle."""

    class Routed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.experts: Any = _of("mixtral", "MixtralExperts")
            self.score = nn.Parameter(torch.rand(TOKENS, 1))

        def forward(self, x: Tensor) -> Tensor:
            """f32[2, TOKENS / 2, WIDTH] → the same."""
            made = self.experts(x.view(-1, WIDTH), torch.tensor(rows).unsqueeze(1), self.score)
            return made.view(x.shape)

    torch.manual_seed(0)
    assert_trains_as_eager(context, Routed(), functional.mse_loss, _batches(2))


def test_products_are_narrow_in_mixed_precision(context: Any) -> None:
    torch.manual_seed(0)
    model, loss = Block(BLOCKS["mixtral"]()), functional.mse_loss
    step = assert_trains_as_eager(context, model, loss, _batches(2), precision=Precision.BF16_MIXED)
    products = re.findall(r'kind = "grouped_(?:outer_)?product".*?-> tensor<[0-9x]+x(\w+)>', str(step.module))
    # Two forward, one for the inner rows, and two for matrices: the input needs no gradient.
    assert products == ["bf16"] * 5


class _Shifted(nn.Module):
    """A router that prefers the first expert, which its logits do not say."""

    def __init__(self, router: Any) -> None:
        super().__init__()
        self.router = router

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """f32[T, WIDTH] → scores and logits, f32[T, EXPERTS] each."""
        logits = self.router(x)[1]
        return torch.sigmoid(logits) * functional.one_hot(torch.zeros(TOKENS, dtype=torch.long), EXPERTS), logits


def _with_own_router(block: Any) -> None:
    block.router = _Shifted(block.router)


def _with_hook(block: Any) -> None:
    block.experts.register_forward_hook(lambda module, args, result: 2.0 * result)


@pytest.mark.parametrize("change", [_with_own_router, _with_hook])
def test_changed_blocks_of_llama4_are_left(context: Any, change: Callable[[Any], None]) -> None:
    torch.manual_seed(0)
    block = BLOCKS["llama4"]()
    change(block)
    step = assert_trains_as_eager(context, Block(block), functional.mse_loss, _batches(2))
    assert "expert_order" not in str(step.module)


def _with_other_activation(experts: Any) -> None:
    experts["expert_1"].act = nn.Tanh()


def _with_other_rate(experts: Any) -> None:
    experts["expert_2"].dropout.p = 0.5


def _with_hook_of_one(experts: Any) -> None:
    experts["expert_0"].wi.register_forward_hook(lambda module, args, result: 2.0 * result)


def _with_norm(experts: Any) -> None:
    for each in experts.values():
        each.act = nn.Sequential(each.act, nn.LayerNorm(INNER))


@pytest.mark.parametrize("change", [_with_other_activation, _with_other_rate, _with_hook_of_one, _with_norm])
def test_experts_that_differ_are_not_called_once(context: Any, change: Callable[[Any], None]) -> None:
    """Those of Switch Transformers, whose own way is a loop over data."""
    block: Any = BLOCKS["switch_transformers"]()
    change(block.experts)
    with pytest.raises(ImportFailure, match="depends on how many elements a mask chooses"):
        InterpretedStep(context, Block(block), functional.mse_loss, _batches(1)[0])


def test_experts_with_a_way_of_their_own_keep_it(context: Any) -> None:
    """A class outside the library, in whose way of the name "eager" all experts multiply all rows."""

    @use_experts_implementation
    class Experts(nn.Module):
        def __init__(self, config: Any) -> None:
            super().__init__()
            self.num_experts, self.act_fn = EXPERTS, nn.SiLU()
            self.gate_up_proj = nn.Parameter(0.3 * torch.randn(EXPERTS, 2 * INNER, WIDTH))
            self.down_proj = nn.Parameter(0.3 * torch.randn(EXPERTS, WIDTH, INNER))

        def forward(self, x: Tensor, index: Tensor, weights: Tensor) -> Tensor:
            gate, up = (x @ self.gate_up_proj.transpose(1, 2)).chunk(2, dim=-1)
            return ((self.act_fn(gate) * up) @ self.down_proj.transpose(1, 2)).mean(0) * weights

    class Routed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = transformers.AutoConfig.for_model("mixtral", experts_implementation="eager", **SIZES)
            self.experts: Any = Experts(config)

        def forward(self, x: Tensor) -> Tensor:
            index = torch.zeros(TOKENS, 1, dtype=torch.long)
            return self.experts(x.view(-1, WIDTH), index, torch.ones(TOKENS, 1)).view(x.shape)

    torch.manual_seed(0)
    assert_trains_as_eager(context, Routed(), functional.mse_loss, _batches(2))


ROWS, DEEP = Placement([["dp"], [], []]), Placement([[], [], ["tp"]])
SPLIT = {"x": ROWS, "targets": ROWS}
# The mesh, the parts of the batch, and placements; whether every rank has its own tokens only.
PLANS: dict[str, tuple[Mesh, int, Mapping[str, Placement]]] = {
    "dp": (Mesh(dp=2), 2, SPLIT),
    "dp, whole": (Mesh(dp=2), 1, SPLIT),
    "tp": (Mesh(tp=2), 1, {"block.experts.down_proj": DEEP}),
    "ep": (Mesh(dp=2), 2, {**SPLIT, "block.experts.*_proj": ROWS}),
}


@pytest.mark.parametrize("name", PLANS)
def test_parts_of_ranks(context: Any, name: str) -> None:
    """Ranks sort their own tokens; matrices may be split by columns, by rows, and by experts, if they are gathered."""
    mesh, parts, placements = PLANS[name]
    torch.manual_seed(0)
    model, (x, target) = Block(BLOCKS["mixtral"]()), _batches(1)[0]
    given = dmc.optim.SGD(lr=RATE), (x, target), Precision.FP32, 1, 0
    imported = import_step(model, functional.mse_loss, *given, context, parts)
    state = {key: tensor.numpy().copy() for key, tensor in imported.state.items()}
    arguments = [*state.values(), np.array([RATE], np.float32), np.array(0, np.int32), x.numpy(), target.numpy()]
    place(imported.module, mesh, placements)
    results, _ = run_on_all_ranks(imported.module, mesh, arguments)
    functional.mse_loss(model(x), target).backward()
    named = dict(zip([spec.name for spec in imported.signature.state if spec.mutated], results, strict=False))
    for parameter, tensor in model.named_parameters():
        assert tensor.grad is not None
        change = -RATE * tensor.grad.numpy()
        np.testing.assert_allclose(named[parameter] - state[parameter], change, rtol=1e-3, atol=1e-6, err_msg=parameter)

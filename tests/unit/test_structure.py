"""The rules that `megatron` stands for: attention, MLPs and the vocabulary by what they compute."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import dmc
from dmc.analysis.requests.structure import with_structure
from dmc.errors import PlanError
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.mesh import Mesh
from dmc.plans import resolve
from dmc.plans.rules import Shard
from tests.models import build
from tests.unit.test_ready_plans import MEGATRON

WIDTH, HEADS, VOCABULARY = 16, 4, 24
TP2 = dmc.plan(Mesh(tp=2)).use(dmc.plans.megatron("tp"))


class Attention(nn.Module):
    """kind: how queries, keys and values are made and combined."""

    def __init__(self, kind: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.kind, self.dropout = kind, dropout
        keys = WIDTH // 2 if kind == "grouped" else WIDTH
        if kind in ("fused", "by heads"):
            self.all = nn.Linear(WIDTH, 3 * WIDTH)
        else:
            self.one, self.two, self.three = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, keys), nn.Linear(WIDTH, keys)
        self.back = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.heads(x)
        if self.kind == "by hand":
            hidden = torch.ones(x.shape[1], x.shape[1]).tril() == 0
            scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, float("-inf"))
            y = functional.dropout(scores.softmax(-1), self.dropout) @ v
        else:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout)
        return self.back(y.transpose(1, 2).contiguous().view(x.shape))

    def heads(self, x: torch.Tensor) -> list[torch.Tensor]:
        if self.kind == "by heads":
            return [each.transpose(1, 2) for each in self.all(x).unflatten(-1, (HEADS, -1)).chunk(3, -1)]
        parts = self.all(x).split(WIDTH, -1) if self.kind == "fused" else (self.one(x), self.two(x), self.three(x))
        heads = [each.unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for each in parts]
        return [each.repeat_interleave(HEADS // each.shape[1], 1) for each in heads]


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.down, self.drop = nn.Linear(2 * WIDTH, WIDTH, bias=False), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.drop(functional.silu(self.gate(x)) * self.up(x)))


class Transposed(nn.Module):
    """Weights [in, out], and an activation that is read again: no hidden unit is on one rank alone."""

    def __init__(self, reads_again: bool) -> None:
        super().__init__()
        self.reads_again = reads_again
        self.up, self.down = (nn.Parameter(torch.randn(size) * 0.1) for size in ((WIDTH, 32), (32, WIDTH)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = functional.gelu(x @ self.up)
        return hidden @ self.down + (hidden.mean(-1, keepdim=True) if self.reads_again else 0.0)


class Adapted(nn.Module):
    """A frozen layer with a product of low rank beside it, as LoRA writes it."""

    def __init__(self, layer: nn.Linear, dropout: float) -> None:
        super().__init__()
        self.layer, self.drop = layer.requires_grad_(False), nn.Dropout(dropout)
        self.a, self.b = nn.Linear(layer.in_features, 2, bias=False), nn.Linear(2, layer.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + self.b(self.a(self.drop(x))) * 2.0


def _adapt(module: nn.Module, dropout: float) -> nn.Module:
    for name, child in module.named_children():
        setattr(module, name, Adapted(child, dropout) if isinstance(child, nn.Linear) else _adapt(child, dropout))
    return module


class Model(nn.Module):
    """One block of each kind, with a norm before it or without, between an embedding and a head."""

    def __init__(self, blocks: dict[str, nn.Module], is_tied: bool = False, tokens: int = VOCABULARY) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(tokens, WIDTH), nn.Embedding(8, WIDTH)
        self.blocks = nn.ModuleDict(blocks)
        self.norms = nn.ModuleDict({name: nn.LayerNorm(WIDTH) for name in blocks if not name.startswith("bare")})
        self.head = nn.Linear(WIDTH, tokens, bias=not is_tied)
        if is_tied:
            self.head.weight = self.table.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.table(x) + self.places(torch.arange(x.shape[1]))
        for name, block in self.blocks.items():
            x = x + block(self.norms[name](x) if name in self.norms else x)
        return self.head(x)


def _loss(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), y.flatten())


def _expanded(model: nn.Module, context: Any, plan: Any = TP2, accumulate: int = 1) -> Any:
    """The plan with rules for single tensors."""
    x = torch.zeros(4, 8, dtype=torch.long)
    step = import_step(model, _loss, dmc.optim.SGD(lr=0.1), (x, x), Precision.FP32, accumulate, 0, context)
    return with_structure(plan, step.module)


def _cuts(plan: Any) -> dict[str, tuple[int, int]]:
    found = [rule for rule in plan.rules if isinstance(rule, Shard)]
    return {rule.pattern.removeprefix("."): (rule.dim, rule.blocks) for rule in found}


def test_attention_and_mlps_of_every_kind(context: Any) -> None:
    """Fused and separate projections, grouped keys, heads side by side, by hand, with dropout, weights [in, out]."""
    blocks: dict[str, nn.Module] = {
        "fused": Attention("fused", 0.1),
        "apart": Attention("apart"),
        "grouped": Attention("grouped"),
        "heads": Attention("by heads"),
        "hand": Attention("by hand", 0.1),
        "gated": Gated(),
        "bare": nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, WIDTH)),
        "transposed": Transposed(reads_again=False),
        "again": Transposed(reads_again=True),
        "single": nn.Linear(WIDTH, WIDTH),
    }
    plan = _expanded(Model(blocks), context, accumulate=2)
    column, row = (0, 1), (1, 1)
    expected = {
        **{f"fused.all.{part}": (0, 3) for part in ("weight", "bias")},
        **{f"heads.all.{part}": column for part in ("weight", "bias")},
        **{
            f"{name}.{layer}.{part}": column
            for name in ("apart", "grouped", "hand")
            for layer in ("one", "two", "three")
            for part in ("weight", "bias")
        },
        **{f"{name}.back.weight": row for name in ("fused", "apart", "grouped", "heads", "hand")},
        "gated.gate.weight": column,
        "gated.up.weight": column,
        "gated.down.weight": row,
        "bare.0.weight": column,
        "bare.0.bias": column,
        "bare.2.weight": row,
        "transposed.up": (1, 1),
        "transposed.down": (0, 1),
    }
    vocabulary = {"table.weight": column, "head.weight": column, "head.bias": column}
    assert _cuts(plan) == {**{f"blocks.{name}": cut for name, cut in expected.items()}, **vocabulary}
    assert [str(rule) for rule in plan.rules if not isinstance(rule, Shard)] == [
        'megatron: shard_activation(".head", dim=-1, axis="tp", optional=True)'
    ]


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_matrices_of_low_rank_are_split_with_the_layers_beside_them(context: Any, dropout: float) -> None:
    """Not across their rank: that would send as much for next to no work, and leave the layers whole."""
    blocks = {"attention": _adapt(Attention("apart"), dropout), "mlp": _adapt(Gated(), dropout)}
    plan = _expanded(Model(blocks), context)
    columns = [f"attention.{name}" for name in ("one", "two", "three")] + ["mlp.gate", "mlp.up"]
    assert {name.removeprefix("blocks."): cut for name, cut in _cuts(plan).items() if name.startswith("blocks.")} == {
        **{f"{name}.{part}.weight": (0, 1) for name in columns for part in ("layer", "b")},
        **{f"attention.{name}.layer.bias": (0, 1) for name in ("one", "two", "three")},
        **{f"{name}.{part}.weight": (1, 1) for name in ("attention.back", "mlp.down") for part in ("layer", "a")},
    }


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_what_does_not_divide_is_split_too(context: Any, ranks: int) -> None:
    """Four heads for three and five ranks, 33 hidden units, 25 tokens."""
    mlp = nn.Sequential(nn.Linear(WIDTH, 33), nn.ReLU(), nn.Linear(33, WIDTH))
    model = Model({"mlp": mlp, "attention": Attention("fused")}, is_tied=True, tokens=25)
    plan = _expanded(model, context, dmc.plan(Mesh(tp=ranks)).use(dmc.plans.megatron("tp")))
    layers = {**dict.fromkeys(("attention.all.weight", "attention.all.bias"), (0, 3)), "attention.back.weight": (1, 1)}
    layers |= {"mlp.0.weight": (0, 1), "mlp.0.bias": (0, 1), "mlp.2.weight": (1, 1)}
    vocabulary = {"table.weight": (0, 1)}
    assert _cuts(plan) == {**{f"blocks.{name}": cut for name, cut in layers.items()}, **vocabulary}


def test_a_model_without_layers_to_split(context: Any) -> None:
    with pytest.raises(PlanError, match=r"finds no attention or MLP .* could be split\n  hint: write the rules"):
        _expanded(Model({"single": nn.LayerNorm(WIDTH)}), context)


@pytest.mark.parametrize("name", MEGATRON)
def test_transformers_are_split_as_by_name(name: str, context: Any) -> None:
    """The models of Hugging Face get the placements of their own ready-made plans."""
    case, mesh = build(name, 0.0), Mesh(dp=2, tp=2)
    step = import_step(
        case.model,
        case.loss,
        dmc.optim.SGD(lr=0.1),
        case.example(0),
        Precision.FP32,
        accumulate=1,
        seed=0,
        context=context,
    )
    plan = dmc.plan(mesh).use(dmc.plans.zero2("dp"))
    found = with_structure(plan.use(dmc.plans.megatron("tp")), step.module)
    own, by_name = (
        resolve(each, step.signature.state, step.modules, step.signature.batch)
        for each in (found, plan.use(MEGATRON[name]("tp")))
    )
    assert {key: each.used for key, each in own.tensors.items()} == {
        key: each.used for key, each in by_name.tensors.items()
    }
    assert [(each.module, each.dims) for each in own.activations] == [
        (each.module, each.dims) for each in by_name.activations
    ]

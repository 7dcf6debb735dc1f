"""The ready plans against the models they are for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc import plans
from dmc.mesh import Mesh
from dmc.plans import Plan, Recipe, ResolvedPlan
from tests.models import build
from tests.models.moe import MixtureOfExperts
from tests.plan_models import Described, describe, piece, state_of

Tensor = torch.Tensor
MEGATRON: dict[str, Callable[..., Recipe]] = {
    "gpt2": plans.megatron_gpt2,
    "llama": plans.megatron_llama,
    "bert": plans.megatron_bert,
    "t5": plans.megatron_t5,
}
ANY = ("gpt2", "llama", "bert", "t5", "moe", "lstm", "resnet", "vit")
ZERO = {0: plans.data_parallel, 1: plans.zero1, 2: plans.zero2, 3: plans.zero3}

_described = functools.cache(describe)


def _local(resolved: ResolvedPlan) -> dict[str, tuple[int, ...]]:
    """What one rank stores of each parameter and buffer."""
    return {
        name: each.stored.placement().local_shape(resolved.mesh, each.spec.shape)
        for name, each in resolved.tensors.items()
    }


def _whole(resolved: ResolvedPlan) -> set[str]:
    """The parameters that the step uses whole, without the number of their layer."""
    names = [name for name, each in resolved.tensors.items() if not list(each.used.splits)]
    return {".".join("*" if part.isdigit() else part for part in name.split(".")) for name in names}


@pytest.mark.parametrize("name", ANY)
@pytest.mark.parametrize("stage", ZERO)
def test_data_parallel_and_zero(name: str, stage: int) -> None:
    """Each rank keeps a quarter of what its stage splits."""
    resolved = _described(name).resolve(dmc.plan(Mesh(dp=4)).use(ZERO[stage]("dp")))
    assert all(each.layout.placement().dims[0] == ("dp",) for each in resolved.inputs.values())
    for each in resolved.tensors.values():
        if each.spec.role == "buffer":
            assert not list(each.stored.uses)
            continue
        for layout, since in ((each.optimizer, 1), (each.reduced, 2), (each.stored, 2)):
            assert layout is not None
            is_split = stage >= since and any(size > 1 for size in each.spec.shape)
            parts = layout.placement().parts(resolved.mesh)
            assert max(parts, default=1) == (4 if is_split else 1)


# What Megatron keeps whole: norms, position embeddings, biases after row-parallel layers, BERT's small head.
WHOLE = {
    "gpt2": {"wpe.weight", "ln_f.weight", "ln_f.bias"}
    | {f"h.*.{each}" for each in ("ln_1.weight", "ln_1.bias", "ln_2.weight", "ln_2.bias")}
    | {"h.*.attn.c_proj.bias", "h.*.mlp.c_proj.bias"},
    "llama": {"layers.*.input_layernorm.weight", "layers.*.post_attention_layernorm.weight", "norm.weight"}
    | {"rotary_emb.inv_freq", "rotary_emb.original_inv_freq"},
    "bert": {f"embeddings.{each}.weight" for each in ("position_embeddings", "token_type_embeddings")}
    | {f"{each}.{part}" for each in ("embeddings.LayerNorm", "transform.LayerNorm") for part in ("weight", "bias")}
    | {f"layer.*.{each}output.LayerNorm.{part}" for each in ("attention.", "") for part in ("weight", "bias")}
    | {"layer.*.attention.output.dense.bias", "layer.*.output.dense.bias"}
    | {"transform.dense.weight", "transform.dense.bias", "embeddings.position_ids", "embeddings.token_type_ids"},
    "t5": {f"{side}.final_layer_norm.weight" for side in ("encoder", "decoder")}
    | {f"{side}.block.*.layer.*.layer_norm.weight" for side in ("encoder", "decoder")},
}
PREFIX = {
    "gpt2": ("transformer.",),
    "llama": ("model.",),
    "bert": ("bert.encoder.", "bert.", "cls.predictions."),
    "t5": (),
}


@pytest.mark.parametrize("name", MEGATRON)
@pytest.mark.parametrize("axes", [{"tp": 2}, {"tp": 4}, {"dp": 2, "tp": 2}, {"node": 1, "dp": 2, "tp": 2}], ids=str)
def test_megatron_splits_every_matrix(name: str, axes: dict[str, Any]) -> None:
    """All is split over tp, once, but for what is listed."""
    mesh = Mesh(**axes)
    resolved = _described(name).resolve(dmc.plan(mesh).use(MEGATRON[name]("tp")))
    names = {functools.reduce(str.removeprefix, PREFIX[name], each) for each in _whole(resolved)}
    assert names == WHOLE[name]
    for each in resolved.tensors.values():
        assert {use.axis for use in each.stored.splits} <= {"tp"}
        assert all(use.rule.startswith(f"megatron_{name}: shard(") for use in each.stored.splits)
    logits = [each for each in resolved.activations if -1 in each.dims]
    assert [each.module for each in logits] == ["cls.predictions.decoder" if name == "bert" else "lm_head"]
    assert len(resolved.unmatched) == (2 if name == "llama" else 0), "this Llama has no biases"


LOCAL_TP2 = {
    "gpt2": {
        "transformer.wte.weight": (64, 64),
        "transformer.h.1.attn.c_attn.weight": (64, 96),
        "transformer.h.1.attn.c_attn.bias": (96,),
        "transformer.h.1.attn.c_proj.weight": (32, 64),
        "transformer.h.1.mlp.c_fc.weight": (64, 128),
        "transformer.h.1.mlp.c_fc.bias": (128,),
        "transformer.h.1.mlp.c_proj.weight": (128, 64),
    },
    "llama": {
        "model.embed_tokens.weight": (64, 64),
        "model.layers.1.self_attn.q_proj.weight": (32, 64),
        "model.layers.1.self_attn.k_proj.weight": (16, 64),
        "model.layers.1.self_attn.o_proj.weight": (64, 32),
        "model.layers.1.mlp.gate_proj.weight": (80, 64),
        "model.layers.1.mlp.down_proj.weight": (64, 80),
        "lm_head.weight": (64, 64),
    },
    "bert": {
        "bert.embeddings.word_embeddings.weight": (64, 64),
        "bert.encoder.layer.1.attention.self.value.weight": (32, 64),
        "bert.encoder.layer.1.attention.self.value.bias": (32,),
        "bert.encoder.layer.1.attention.output.dense.weight": (64, 32),
        "bert.encoder.layer.1.intermediate.dense.bias": (64,),
        "bert.encoder.layer.1.output.dense.weight": (64, 64),
        "cls.predictions.bias": (64,),
    },
    "t5": {
        "shared.weight": (64, 64),
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": (8, 2),
        "decoder.block.1.layer.1.EncDecAttention.k.weight": (32, 64),
        "decoder.block.1.layer.1.EncDecAttention.o.weight": (64, 32),
        "decoder.block.1.layer.2.DenseReluDense.wi.weight": (64, 64),
        "decoder.block.1.layer.2.DenseReluDense.wo.weight": (64, 64),
    },
}


@pytest.mark.parametrize("name", MEGATRON)
def test_megatron_shapes(name: str) -> None:
    local = _local(_described(name).resolve(dmc.plan(Mesh(tp=2)).use(MEGATRON[name]("tp"))))
    assert {key: local[key] for key in LOCAL_TP2[name]} == LOCAL_TP2[name]


def test_tied_embeddings_are_one_tensor() -> None:
    for name, first, other in (
        ("gpt2", "transformer.wte.weight", "lm_head.weight"),
        ("bert", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
        ("t5", "shared.weight", "lm_head.weight"),
    ):
        tensors = _described(name).resolve(dmc.plan(Mesh(tp=2)).use(MEGATRON[name]("tp"))).tensors
        assert other in tensors[first].spec.aliases
        assert other not in tensors
        assert tensors[first].stored.placement().dims == (("tp",), ())


@pytest.mark.parametrize("name", MEGATRON)
@pytest.mark.parametrize("stage", ZERO)
def test_products_with_zero(name: str, stage: int) -> None:
    """On dp2×tp2 the split over dp comes on top of the split over tp and never replaces it."""
    mesh = Mesh(dp=2, tp=2)
    alone = _described(name).resolve(dmc.plan(mesh).use(MEGATRON[name]("tp")))
    both = _described(name).resolve(dmc.plan(mesh).use(ZERO[stage]("dp")).use(MEGATRON[name]("tp")), accumulate=2)
    assert {key: each.used for key, each in both.tensors.items()} == {
        key: each.used for key, each in alone.tensors.items()
    }
    trained = [each for each in both.tensors.values() if each.spec.role == "parameter"]
    for each in trained:
        assert each.optimizer is not None and each.gradient is not None
        assert ("dp" in {use.axis for use in each.optimizer.splits}) == (stage >= 1)
        assert ("dp" in {use.axis for use in each.stored.splits}) == (stage >= 2)
        assert [use.axis for use in each.gradient.partial] == ["dp"]
    assert both.unused_axes() == ()


@pytest.mark.parametrize("name", MEGATRON)
def test_sequence_parallel(name: str) -> None:
    resolved = _described(name).resolve(dmc.plan(Mesh(tp=2)).use(MEGATRON[name]("tp", sequence_parallel=True)))
    split = {each.module for each in resolved.activations if None in each.dims}
    # The norms that no tensor-parallel layer lies before are not between two.
    outside = ("embeddings.LayerNorm", "predictions.transform.LayerNorm")
    modules = [module for module in _described(name).modules if not module.endswith(outside)]
    endings = ("ln_1", "ln_2", "ln_f", "layernorm", "layer_norm", "LayerNorm", "model.norm")
    assert split == {module for module in modules if module.endswith(endings)}


def test_a_plan_by_hand() -> None:
    """Patterns need not start at the root of the model, and a fused weight may also be split as one."""
    plan = (
        dmc.plan(Mesh(dp=2, tp=2))
        .data_parallel("dp", zero=1)
        .shard("h.*.attn.c_attn.weight", dim=1, axis="tp")
        .shard("h.*.mlp.c_proj.weight", dim=0, axis="tp")
        .sequence_parallel("tp", between=["h.*.ln_1", "h.*.ln_2"])
    )
    resolved = _described("gpt2").resolve(plan)
    split = {name: str(each.stored) for name, each in resolved.tensors.items() if any(each.stored.dims)}
    assert split == {
        **{f"transformer.h.{layer}.attn.c_attn.weight": "[-, tp]" for layer in (0, 1)},
        **{f"transformer.h.{layer}.mlp.c_proj.weight": "[tp, -]" for layer in (0, 1)},
    }
    assert len(resolved.activations) == 8


def test_three_axes() -> None:
    """Nodes hold copies, dp is fully sharded within a node, tp splits the layers."""
    plan = dmc.plan(Mesh(node=2, dp=2, tp=2)).use(plans.data_parallel("node")).use(plans.zero3("dp"))
    resolved = _described("gpt2").resolve(plan.use(plans.megatron_gpt2("tp")))
    weight = resolved.tensors["transformer.h.0.mlp.c_fc.weight"]
    assert (str(weight.stored), str(weight.gradient)) == ("[dp, tp]", "[-, tp], partial node dp")
    assert str(resolved.inputs["input_ids"].layout) == "[node dp, -]"
    assert resolved.unused_axes() == ()


def _moe(mesh: Mesh, plan: Callable[[Plan], Plan]) -> ResolvedPlan:
    return _described("moe").resolve(plan(dmc.plan(mesh)))


def test_expert_parallel() -> None:
    resolved = _moe(Mesh(dp=2, ep=2), lambda plan: plan.use(plans.zero2("dp")).use(plans.expert_parallel("ep")))
    local = _local(resolved)
    assert (local["experts.up"], local["experts.down"]) == ((1, 32, 64), (1, 64, 32))
    assert local["experts.router.weight"] == (2, 32)
    assert str(resolved.tensors["experts.up"].optimizer) == "[ep dp, -, -]"
    assert str(resolved.inputs["tokens"].layout) == "[dp, -]"


def test_experts_where_the_batch_is_split_over_them_too() -> None:
    resolved = _moe(
        Mesh(dp=2, ep=2, tp=1),
        lambda plan: plan.use(plans.data_parallel("dp")).data_parallel("ep").use(plans.expert_parallel("ep")),
    )
    assert str(resolved.tensors["experts.up"].gradient) == "[ep, -, -], partial dp"
    assert str(resolved.tensors["experts.router.weight"].gradient) == "whole, partial dp ep"
    assert str(resolved.inputs["tokens"].layout) == "[dp ep, -]"


def _pieces(model: nn.Module, recipe: Recipe, mesh: Mesh, rank: int) -> dict[str, Tensor]:
    """What `rank` uses of each parameter of `model`."""
    resolved = Described(state_of(model), tuple(name for name, _ in model.named_modules()), ()).resolve(
        dmc.plan(mesh).use(recipe)
    )
    tensors = {name: tensor.detach().numpy() for name, tensor in (*model.named_parameters(), *model.named_buffers())}
    return {
        name: torch.from_numpy(piece(tensors[name], each.used, mesh, rank)) for name, each in resolved.tensors.items()
    }


MESH4 = Mesh(tp=4)


def test_gpt2_computes_the_same_by_pieces() -> None:
    """Whole heads on every rank: the sum of the ranks' partial outputs, plus the whole bias, is the block's output."""
    model: Any = build("gpt2", 0.0).model.eval()
    block, x = model.transformer.h[0], torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0))
    attention, mlp = torch.zeros_like(x), torch.zeros_like(x)
    for rank in MESH4.ranks:
        own = {
            name.removeprefix("transformer.h.0."): tensor
            for name, tensor in _pieces(model, plans.megatron_gpt2("tp"), MESH4, rank).items()
        }
        q, k, v = (x @ own["attn.c_attn.weight"] + own["attn.c_attn.bias"]).split(16, dim=-1)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        attention += y @ own["attn.c_proj.weight"]
        mlp += block.mlp.act(x @ own["mlp.c_fc.weight"] + own["mlp.c_fc.bias"]) @ own["mlp.c_proj.weight"]
    torch.testing.assert_close(attention + block.attn.c_proj.bias, block.attn(x)[0])
    torch.testing.assert_close(mlp + block.mlp.c_proj.bias, block.mlp(x))


def test_llama_computes_the_same_by_pieces() -> None:
    model: Any = build("llama", 0.0).model.eval()
    mlp, x = model.model.layers[1].mlp, torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0))
    total = torch.zeros_like(x)
    for rank in MESH4.ranks:
        pieces = _pieces(model, plans.megatron_llama("tp"), MESH4, rank)
        gate, up, down = (pieces[f"model.layers.1.mlp.{each}_proj.weight"] for each in ("gate", "up", "down"))
        total += (nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T
    torch.testing.assert_close(total, mlp(x))


def test_experts_compute_the_same_by_pieces() -> None:
    """Each rank's experts add their share of the output; a rank's scores for the others' experts are not used."""
    mesh = Mesh(ep=2)
    block: Any = MixtureOfExperts(8, 16, experts=4)
    model = nn.ModuleDict({"experts": block})
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    total = torch.zeros_like(x)
    for rank in mesh.ranks:
        own = _pieces(model, plans.expert_parallel("ep"), mesh, rank)
        whole = MixtureOfExperts(8, 16, experts=4)
        whole.router.load_state_dict({"weight": own["experts.router.weight"]})
        with torch.no_grad():
            whole.up.zero_()[2 * rank : 2 * rank + 2] = own["experts.up"]
            whole.down.zero_()[2 * rank : 2 * rank + 2] = own["experts.down"]
        total += whole(x)
    torch.testing.assert_close(total, block(x))

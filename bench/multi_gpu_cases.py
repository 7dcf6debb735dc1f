"""What the benches on several GPUs train: small models under every kind of plan, and how a case is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dmc
from dmc import plans
from dmc.plans import Plan
from tests.models import build

RATE, DECAY, CLIP = 1e-3, 0.1, 1.0
# Adam divides by a gradient's own size, which enlarges the rounding of small gradients; this bounds it.
EPSILON = 1e-6
DP2, TP2, EP2 = dmc.Mesh(dp=2), dmc.Mesh(tp=2), dmc.Mesh(ep=2)
DP4, TP4, DP2_TP2, DP2_EP2 = dmc.Mesh(dp=4), dmc.Mesh(tp=4), dmc.Mesh(dp=2, tp=2), dmc.Mesh(dp=2, ep=2)
ALONE = "alone"


@dataclass(frozen=True)
class Trained:
    """A model of `tests.models`, and the plans under which it trains, by name.

    rate: of learning, such that it does not know its batches by heart after the steps: errors are relative to losses.
    """

    model: str
    precision: str
    plans: Mapping[str, Callable[[], Plan]]
    dropout: float = 0.0
    rate: float = RATE


def _data(mesh: dmc.Mesh) -> dict[str, Callable[[], Plan]]:
    ways = {"": plans.data_parallel, "zero1_": plans.zero1, "zero2_": plans.zero2, "zero3_": plans.zero3}
    return {f"{name}dp{mesh.size}": lambda way=way: dmc.plan(mesh).use(way("dp")) for name, way in ways.items()}


def _tensor(megatron: Callable[..., Any], *meshes: dmc.Mesh) -> dict[str, Callable[[], Plan]]:
    found: dict[str, Callable[[], Plan]] = {}
    for mesh in meshes:
        found[f"tp{mesh.size}"] = lambda mesh=mesh: dmc.plan(mesh).use(megatron("tp"))
        found[f"sp{mesh.size}"] = lambda mesh=mesh: dmc.plan(mesh).use(megatron("tp", sequence_parallel=True))
    return found


def _both(megatron: Callable[..., Any]) -> dict[str, Callable[[], Plan]]:
    return {
        "dp2×tp2": lambda: dmc.plan(DP2_TP2).use(plans.data_parallel("dp")).use(megatron("tp")),
        "zero2_dp2×tp2": lambda: dmc.plan(DP2_TP2).use(plans.zero2("dp")).use(megatron("tp")),
    }


# Where stages begin: two, or two for each of two ranks.
_STAGES = {
    "gpt2": ("transformer.h.1", ["transformer.h.0", "transformer.h.1", "transformer.ln_f"]),
    "llama": ("model.layers.1", ["model.layers.0", "model.layers.1", "model.norm"]),
}
_DEEP_SCHEDULES = {"interleaved_pp2": "interleaved", "zbv_pp2": "zb-v", "bfs_pp2": "bfs"}


def _pipelined(model: str) -> dict[str, Callable[[], Plan]]:
    """Pipelines of two ranks by schedule, four sequences in four micro-batches."""
    half, quarters = _STAGES[model]
    mesh, found = dmc.Mesh(pp=2), dict[str, Callable[[], Plan]]()
    for name, schedule in {"pp2": "1f1b", "gpipe_pp2": "gpipe", "zb_pp2": "zb-h1"}.items():
        found[name] = lambda way=schedule: dmc.plan(mesh).pipeline("pp", cut=[half], microbatches=4, schedule=way)
    for name, schedule in _DEEP_SCHEDULES.items():
        found[name] = lambda way=schedule: dmc.plan(mesh).pipeline(
            "pp", cut=quarters, microbatches=4, schedule=way, chunks=2
        )
    found["pp4"] = lambda: dmc.plan(dmc.Mesh(pp=4)).pipeline("pp", cut=quarters, microbatches=4, schedule="1f1b")
    both = dmc.Mesh(dp=2, pp=2)
    for name, way in {"": plans.zero1, "zero2_": plans.zero2, "zero3_": plans.zero3}.items():
        found[f"{name}dp2×pp2"] = lambda way=way: (
            dmc.plan(both).use(way("dp")).pipeline("pp", cut=[half], microbatches=2, schedule="1f1b")
        )
    tensor = {"gpt2": plans.megatron_gpt2, "llama": plans.megatron_llama}[model]
    for name, schedule in {"": "1f1b", "zbv_": "zb-v"}.items():
        found[f"{name}tp2×pp2"] = lambda way=schedule: (
            dmc.plan(dmc.Mesh(pp=2, tp=2))
            .use(tensor("tp"))
            .pipeline(
                "pp",
                cut=quarters if way == "zb-v" else [half],
                microbatches=4,
                schedule=way,
                chunks=2 if way == "zb-v" else 1,
            )
        )
    return found


_GPT2, _LLAMA = plans.megatron_gpt2, plans.megatron_llama
# On two GPUs and on four.
CASES: Mapping[str, Trained] = {
    "gpt2": Trained(
        "gpt2", "fp32", {**_data(DP2), **_data(DP4), **_tensor(_GPT2, TP2, TP4), **_both(_GPT2), **_pipelined("gpt2")}
    ),
    # Tensors that copy engines move.
    "gpt2_wide": Trained(
        "gpt2_wide", "fp32", {**_data(DP2), **_data(DP4), **_tensor(_GPT2, TP2), **_both(_GPT2)}, rate=3e-5
    ),
    "gpt2_wide_bf16": Trained("gpt2_wide", "bf16-mixed", {**_data(DP2), **_data(DP4), **_pipelined("gpt2")}, rate=3e-5),
    "gpt2_bf16": Trained(
        "gpt2", "bf16-mixed", {"zero2_dp2": _data(DP2)["zero2_dp2"], "tp4": _tensor(_GPT2, TP4)["tp4"]}
    ),
    "gpt2_dropout": Trained("gpt2", "fp32", {**_data(DP2), **_tensor(_GPT2, TP2), **_both(_GPT2)}, dropout=0.1),
    "gpt2_dropout_bf16": Trained("gpt2", "bf16-mixed", _data(DP2), dropout=0.1),
    "bert_dropout": Trained("bert", "fp32", _data(DP2), dropout=0.1),
    "llama": Trained("llama", "fp32", {**_data(DP2), **_tensor(_LLAMA, TP2), **_pipelined("llama")}),
    "bert": Trained("bert", "fp32", {"dp2": _data(DP2)["dp2"], "dp4": _data(DP4)["dp4"]}),
    "moe": Trained(
        "moe",
        "fp32",
        {
            "ep2": lambda: dmc.plan(EP2).use(plans.expert_parallel("ep").data_parallel("ep")),
            "dp2×ep2": lambda: dmc.plan(DP2_EP2).use(plans.data_parallel("dp")).use(plans.expert_parallel("ep")),
        },
    ),
}


def compile_case(name: str, plan: str, path: Path) -> None:
    """Compiles a case for GPUs, on any machine, its parameters zero, so that the file packs well."""
    from dmc.api import compile_artifact

    trained = CASES[name]
    case = build(trained.model, trained.dropout)
    for parameter in case.model.parameters():
        parameter.data.zero_()
    chosen = None if plan == ALONE else trained.plans[plan]()
    compile_artifact(
        case.model,
        loss=case.loss,
        optimizer=dmc.optim.AdamW(lr=trained.rate, weight_decay=DECAY, eps=EPSILON, clip_grad_norm=CLIP),
        example=case.example(0),
        precision=trained.precision,
        mesh=None if chosen is None else chosen.mesh,
        plan=chosen,
        target="cuda",
        verify=False,
    ).write(path)

"""What a plan is refused for: the place, the fact, and the names and sizes that help."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import dmc
from dmc.errors import PlanError
from dmc.mesh import Mesh
from dmc.plans import Plan, recipe, resolve
from dmc.program.signature import StateSpec, TensorSpec

MESH = Mesh(dp=2, tp=2)
STATE = (
    *(StateSpec(f"model.h.{layer}.attn.c_attn.weight", "f32", (8, 24)) for layer in range(12)),
    *(StateSpec(f"model.h.{layer}.attn.c_proj.weight", "f32", (8, 8)) for layer in range(12)),
    StateSpec("model.wte.weight", "f32", (50257, 8)),
    StateSpec("scale", "f32", ()),
)
MODULES = ("", "model", "model.h.0", "model.h.0.ln_1", "model.h.0.ln_2", "model.h.0.attn")
BATCH = (TensorSpec("tokens", "i64", (6, 10)), TensorSpec("temperature", "f32", ()))

Build = Callable[[Plan], Plan]


def _refused(build: Build, accumulate: int = 1) -> str:
    with pytest.raises(PlanError) as caught:
        resolve(build(dmc.plan(MESH)), STATE, MODULES, BATCH, accumulate)
    return str(caught.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda plan: plan.shard("h.*.attn.c_atn.weight", dim=1, axis="tp"),
            """\
shard("h.*.attn.c_atn.weight", dim=1, axis="tp"): 'h.*.attn.c_atn.weight' matches no parameter or buffer
  hint: the closest are model.h.*.attn.c_attn.weight [8, 24], model.h.*.attn.c_proj.weight [8, 8]""",
        ),
        (
            lambda plan: plan.shard("wte.weight|wpe.weight", dim=1, axis="tp"),
            """\
shard("wte.weight|wpe.weight", dim=1, axis="tp"): 'wpe.weight' matches no parameter or buffer
  hint: the closest are model.wte.weight [50257, 8], model.h.*.attn.c_proj.weight [8, 8], \
model.h.*.attn.c_attn.weight [8, 24]""",
        ),
        (
            lambda plan: plan.replicate("zzz"),
            """\
replicate("zzz"): 'zzz' matches no parameter or buffer
  hint: there are model.h.*.attn.c_attn.weight [8, 24], \
model.h.*.attn.c_proj.weight [8, 8], model.wte.weight [50257, 8], …""",
        ),
        (
            lambda plan: plan.shard_input("temperature", dim=0, axis="tp"),
            """\
temperature []: dimension 0 of shard_input("temperature", dim=0, axis="tp") is out of range
  hint: a scalar cannot be split""",
        ),
        (
            lambda plan: plan.replicate_input("token"),
            """\
replicate_input("token"): 'token' matches no input
  hint: the closest are tokens [6, 10]""",
        ),
        (
            lambda plan: plan.sequence_parallel("tp", between=["h.*.ln_1", "h.*.ln_3"]),
            """\
sequence_parallel("tp", between=["h.*.ln_1", "h.*.ln_3"]): 'h.*.ln_3' matches no module
  hint: the closest are model.h.*.ln_2, model.h.*.ln_1, model.h.*.attn""",
        ),
        (
            lambda plan: plan.use(recipe("mine").shard_activation("h.*.mlp", dim=0, axis="tp")),
            """\
mine: shard_activation("h.*.mlp", dim=0, axis="tp"): 'h.*.mlp' matches no module
  hint: the closest are model.h.*.ln_2, model.h.*.ln_1""",
        ),
        (
            lambda plan: plan.shard("h.0.*.c_proj.weight", dim=0, axis="tp").shard("c_proj.weight", dim=1, axis="tp"),
            """\
model.h.0.attn.c_proj.weight [8, 8]: axis 'tp' is used twice: on dimension 0 by \
shard("h.0.*.c_proj.weight", dim=0, axis="tp"), and on dimension 1 by shard("c_proj.weight", dim=1, axis="tp")
  hint: an axis splits a tensor once; drop one of the rules, or put .replicate(…) between them""",
        ),
        (
            lambda plan: plan.shard_activation("attn", dim=2, axis="tp").sequence_parallel("tp", between="attn"),
            """\
output of model.h.0.attn: axis 'tp' is used twice: on dimension 2 by shard_activation("attn", dim=2, axis="tp"), and \
on tokens by sequence_parallel("tp", between=["attn"])
  hint: an axis splits a value once; drop one of the rules""",
        ),
        (
            lambda plan: plan.shard("h.0.*.c_proj.weight", dim=0, axis="tp", blocks=3),
            """\
model.h.0.attn.c_proj.weight [8, 8]: dimension 0 of size 8 is not 3 equal blocks, as \
shard("h.0.*.c_proj.weight", dim=0, axis="tp", blocks=3) requires
  hint: name the number of blocks that are side by side in it""",
        ),
        (
            lambda plan: plan.shard("c_proj.weight", dim=2, axis="tp"),
            """\
model.h.0.attn.c_proj.weight [8, 8]: dimension 2 of shard("c_proj.weight", dim=2, axis="tp") is out of range
  hint: dimensions are 0 to 1""",
        ),
        (
            lambda plan: plan.shard("scale", dim=0, axis="tp"),
            """\
scale []: dimension 0 of shard("scale", dim=0, axis="tp") is out of range
  hint: a scalar cannot be split""",
        ),
    ],
)
def test_a_rule_that_does_not_fit_the_model(build: Build, message: str) -> None:
    assert _refused(build) == message


def test_a_batch_that_does_not_divide_into_micro_batches() -> None:
    plan = dmc.plan(Mesh(dp=2)).data_parallel("dp")
    message = (
        "a batch of 6 is not divisible into accumulate=4 micro-batches\n  hint: make dimension 0 a multiple of 4, or"
    )
    with pytest.raises(PlanError, match=re.escape(f"input 'tokens' [6, 10]: {message}")):
        resolve(plan, (), (), BATCH, accumulate=4)
    resolve(plan.replicate_input("tokens"), (), (), BATCH, accumulate=4)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda plan: plan.shard("x", dim=0, axis="pp"),
            """shard("x", dim=0, axis="pp"): axis 'pp' does not exist in Mesh(dp=2, tp=2)\n  hint: the axes are dp""",
        ),
        (lambda plan: plan.use(recipe("mine").data_parallel("pp")), "mine: data_parallel(\"pp\"): axis 'pp' does not"),
        (
            lambda plan: plan.use(dmc.plans.zero2("dp")).data_parallel("dp"),
            """data_parallel("dp"): axis 'dp' already splits the batch, by zero2: data_parallel("dp", zero=2)""",
        ),
        (
            lambda plan: plan.sequence_parallel("dp", between=["x"]).data_parallel("dp"),
            """sequence_parallel("dp", between=["x"]): axis 'dp' already splits the batch, by data_parallel("dp")""",
        ),
        (lambda plan: plan.data_parallel("dp", zero=4), "data_parallel: zero=4 is not a stage of ZeRO"),
        (lambda plan: plan.shard("x", dim=0, axis="tp", blocks=0), "shard: blocks=0"),
        (lambda plan: plan.sequence_parallel("tp", between=[]), "sequence_parallel: requires at least one module"),
        (lambda plan: plan.expert_parallel("tp"), "expert_parallel: requires at least one parameter"),
        (lambda plan: plan.use(dmc.plans.zero2), "use: expected a ready-made plan, got function\n  hint: call it"),  # type: ignore[arg-type]
    ],
)
def test_a_rule_that_does_not_fit_the_mesh_or_makes_no_sense(build: Build, message: str) -> None:
    """These are refused where they are written, before there is a model."""
    with pytest.raises(PlanError, match=re.escape(message)):
        build(dmc.plan(MESH))

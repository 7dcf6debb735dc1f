"""Which modules have a lower bound under a tensor-parallel plan, and which; numbers by hand."""

from __future__ import annotations

import pytest

import dmc
from dmc.lowering.ledger_bounds import bounds_of
from dmc.mesh import Mesh
from dmc.plans import Plan, Recipe, recipe, resolve
from dmc.program.movements import Bound
from dmc.program.signature import StateSpec, TensorSpec

# An MLP [in, out] that widens 6 to 8, beside a table that is split, too.
STATE = [
    StateSpec("h.0.mlp.up", "f32", (6, 8)),
    StateSpec("h.0.mlp.down", "f32", (8, 6)),
    StateSpec("wte.w", "f32", (8, 6)),
]
NAMED = [StateSpec(f"{spec.name}.weight" if "mlp" in spec.name else spec.name, "f32", spec.shape) for spec in STATE]
TOKENS = [TensorSpec("ids", "i64", (4, 10)), TensorSpec("labels", "i64", (4, 10)), TensorSpec("scale", "f32", (4,))]
MODULES = ["h.0.mlp", "h.0.mlp.up", "h.0.mlp.down", "wte"]
WIDTHS = {**{spec.name: 4 for spec in NAMED}, "h.0.mlp.down": 2, "h.0.mlp.up": 4, "wte": 1}


def _megatron(mesh: Mesh) -> Plan:
    return dmc.plan(mesh).use(_matrices(1, 0).shard("wte.w", dim=0, axis="tp"))


def _matrices(up: int, down: int) -> Recipe:
    ready = recipe("megatron_test").shard("mlp.up.weight", dim=up, axis="tp")
    return ready.shard("mlp.down.weight", dim=down, axis="tp")


def _bounds(plan: Plan, batch: list[TensorSpec] = TOKENS, widths: dict[str, int] = WIDTHS) -> list[Bound]:
    """The bounds of modules."""
    found = bounds_of(resolve(plan, NAMED, MODULES, batch), widths)
    return [bound for bound in found if bound.of not in widths or bound.of in MODULES]


def test_two_all_reduces_of_the_activation() -> None:
    # 40 tokens of 6 elements of 2 B; 2·2(n-1)T.
    assert _bounds(_megatron(Mesh(tp=2))) == [Bound("h.0.mlp", ("tp",), 4 * 1 * 40 * 6 * 2)]


def test_each_group_has_its_own_tokens() -> None:
    plan = _megatron(Mesh(dp=2, tp=2)).replicate_input("scale").data_parallel("dp")
    # Two groups of two, with half of the tokens each.
    assert _bounds(plan) == [Bound("h.0.mlp", ("tp",), 2 * 4 * 1 * 20 * 6 * 2)]


@pytest.mark.parametrize(
    "plan",
    [
        dmc.plan(Mesh(tp=2)).use(_matrices(1, 0)).replicate("mlp.up.weight"),
        dmc.plan(Mesh(tp=2)).use(_matrices(1, 1)),
        # Not of a ready-made plan: the order of reads is not known.
        dmc.plan(Mesh(tp=2)).shard("mlp.up.weight", dim=1, axis="tp").shard("mlp.down.weight", dim=0, axis="tp"),
        _megatron(Mesh(tp=2)).sequence_parallel("tp", between=["wte"]),
        _megatron(Mesh(tp=2)).shard_input("ids|labels", dim=1, axis="tp"),
    ],
    ids=["one_matrix", "no_pair", "not_ready", "sequence_parallel", "split_input"],
)
def test_other_plans_have_none(plan: Plan) -> None:
    assert _bounds(plan) == []


@pytest.mark.parametrize(
    "batch",
    [[TensorSpec("image", "f32", (4, 10))], [*TOKENS, TensorSpec("more", "i64", (4, 12))], []],
    ids=["no_tokens", "two_lengths", "no_input"],
)
def test_other_inputs_have_none(batch: list[TensorSpec]) -> None:
    assert _bounds(_megatron(Mesh(tp=2)), batch) == []


def test_a_module_that_sends_nothing_has_none() -> None:
    assert _bounds(_megatron(Mesh(tp=2)), widths={spec.name: 4 for spec in NAMED}) == []

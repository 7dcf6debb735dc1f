"""The plan language, and what its rules mean for tensors."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dmc
from dmc.mesh import Mesh
from dmc.plans import Plan, ResolvedPlan, recipe, resolve
from dmc.plans.layout import Layout
from dmc.program.signature import StateSpec, TensorSpec
from tests.plan_models import piece

MESH = Mesh(dp=2, tp=2)
STATE = (
    StateSpec("h.0.fc.weight", "f32", (8, 12)),
    StateSpec("h.0.fc.bias", "f32", (12,)),
    StateSpec("h.1.fc.weight", "f32", (8, 12)),
    StateSpec("h.1.fc.bias", "f32", (12,)),
    StateSpec("embed.weight", "f32", (10, 8), aliases=("head.weight",)),
    StateSpec("scale", "f32", (3,)),
    StateSpec("frozen", "f32", (4, 4), "frozen"),
    StateSpec("mean", "f32", (4,), "buffer"),
    StateSpec("scale.exp_avg", "f32", (3,), "optimizer"),
    StateSpec("step", "i64", (), "counter"),
)
MODULES = ("", "h", "h.0", "h.0.fc", "h.1", "h.1.fc", "embed", "head")
BATCH = (TensorSpec("tokens", "i64", (8, 6)), TensorSpec("temperature", "f32", ()))


def _resolve(plan: Plan, accumulate: int = 1) -> ResolvedPlan:
    return resolve(plan, STATE, MODULES, BATCH, accumulate)


def _stored(plan: Plan) -> dict[str, str]:
    """The stored layouts that are not whole, as text."""
    tensors = _resolve(plan).tensors
    return {
        name: str(each.stored) for name, each in tensors.items() if each.stored != Layout(((),) * len(each.spec.shape))
    }


def test_names_of_the_package() -> None:
    assert dmc.Mesh is Mesh
    assert dmc.plan(MESH) == Plan(mesh=MESH)
    assert dmc.plans.recipe is recipe


def test_a_plan_is_never_changed() -> None:
    empty = dmc.plan(MESH)
    longer = empty.shard("fc.weight", dim=1, axis="tp")
    assert (empty.rules, len(longer.rules), longer.mesh) == ((), 1, MESH)
    assert hash(longer) == hash(dmc.plan(MESH).shard("fc.weight", dim=1, axis="tp"))


def test_rules_print_as_they_were_written() -> None:
    rules = (
        recipe("mine")
        .data_parallel("dp")
        .data_parallel("dp", zero=2)
        .shard("a|b", dim=0, axis="tp", blocks=3)
        .replicate("a")
        .shard_input("x", dim=1, axis="tp")
        .shard_activation("m", dim=-1, axis="tp")
        .sequence_parallel("tp", between=["n", "m"])
        .expert_parallel("ep", "up", "down")
        .rules
    )
    assert [str(rule).removeprefix("mine: ") for rule in rules] == [
        'data_parallel("dp")',
        'data_parallel("dp", zero=2)',
        'shard("a|b", dim=0, axis="tp", blocks=3)',
        'replicate("a")',
        'shard_input("x", dim=1, axis="tp")',
        'shard_activation("m", dim=-1, axis="tp")',
        'sequence_parallel("tp", between=["n", "m"])',
        'expert_parallel("ep", pattern="up|down")',
    ]


def test_without_rules_everything_is_whole() -> None:
    resolved = _resolve(dmc.plan(MESH))
    assert _stored(dmc.plan(MESH)) == {}
    assert all(str(each.layout) == "whole" and each.rules == () for each in resolved.inputs.values())
    assert resolved.unused_axes() == ("dp", "tp")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("h.*.fc.weight", ["h.0.fc.weight", "h.1.fc.weight"]),
        ("fc.weight", ["h.0.fc.weight", "h.1.fc.weight"]),
        ("h.1.*", ["h.1.fc.weight", "h.1.fc.bias"]),
        ("h.[1-9].fc.bias | scale", ["h.1.fc.bias", "scale"]),
        ("head.weight", ["embed.weight"]),
        ("h*weight", ["h.0.fc.weight", "h.1.fc.weight", "embed.weight"]),
    ],
)
def test_patterns(pattern: str, names: list[str]) -> None:
    tensors = _resolve(dmc.plan(MESH).replicate(pattern)).tensors
    assert [name for name, each in tensors.items() if each.kept] == names


def test_a_pattern_starts_at_a_module() -> None:
    state = [StateSpec("norm", "f32", (4,)), StateSpec("layernorm", "f32", (4,)), StateSpec("a.norm", "f32", (4,))]
    tensors = resolve(dmc.plan(MESH).shard("norm", dim=0, axis="tp"), state, (), ()).tensors
    assert [str(each.stored) for each in tensors.values()] == ["[tp]", "whole", "[tp]"]


def test_splits_add_up_major_first() -> None:
    plan = dmc.plan(MESH).shard("0.fc.weight", dim=1, axis="tp").shard("h.0.fc.*t", dim=-1, axis="dp")
    assert _stored(plan) == {"h.0.fc.weight": "[-, tp dp]"}
    weight = _resolve(plan).tensors["h.0.fc.weight"]
    assert weight.stored.placement().local_shape(MESH, (8, 12)) == (8, 3)
    assert weight.stored.placement().dims == ((), ("tp", "dp"))
    assert weight.rules == ('shard("0.fc.weight", dim=1, axis="tp")', 'shard("h.0.fc.*t", dim=-1, axis="dp")')


def test_the_same_split_twice_is_one_split() -> None:
    plan = dmc.plan(MESH).shard("embed.weight", dim=0, axis="tp").shard("head.weight", dim=0, axis="tp")
    assert _stored(plan) == {"embed.weight": "[tp, -]"}


def test_replicate_undoes_the_rules_before_it() -> None:
    plan = dmc.plan(MESH).shard("fc.weight", dim=1, axis="tp").replicate("h.0.*")
    assert _stored(plan) == {"h.1.fc.weight": "[-, tp]"}
    assert _resolve(plan).tensors["h.0.fc.weight"].rules == ('replicate("h.0.*")',)
    assert _stored(plan.shard("h.0.fc.weight", dim=0, axis="tp")) == {
        "h.0.fc.weight": "[tp, -]",
        "h.1.fc.weight": "[-, tp]",
    }


@pytest.mark.parametrize(
    ("zero", "stored", "reduced", "optimizer"),
    [
        (0, "[-, tp]", "[-, tp]", "[-, tp]"),
        (1, "[-, tp]", "[-, tp]", "[dp, tp]"),
        (2, "[dp, tp]", "[dp, tp]", "[dp, tp]"),
        (3, "[dp, tp]", "[dp, tp]", "[dp, tp]"),
    ],
)
def test_stages_of_zero(zero: int, stored: str, reduced: str, optimizer: str) -> None:
    plan = dmc.plan(MESH).data_parallel("dp", zero=zero).shard("fc.weight", dim=1, axis="tp")
    weight = _resolve(plan).tensors["h.0.fc.weight"]
    layouts = (weight.stored, weight.used, weight.gradient, weight.reduced, weight.optimizer)
    assert tuple(map(str, layouts)) == (stored, "[-, tp]", "[-, tp], partial dp", reduced, optimizer)
    assert weight.gradient is not None
    assert weight.gradient.placement().partial == (("dp", "sum"),)


def test_zero_splits_the_first_dimension_that_divides() -> None:
    """Else the one with the least padding."""
    resolved = resolve(
        dmc.plan(Mesh(dp=4)).data_parallel("dp", zero=3),
        [StateSpec("a", "f32", (6, 8)), StateSpec("b", "f32", (3, 5)), StateSpec("c", "f32", ())],
        (),
        (),
    )
    stored = {name: each.stored for name, each in resolved.tensors.items()}
    assert {name: str(layout) for name, layout in stored.items()} == {
        "a": "[-, dp]",
        "b": "[dp, -]",
        "c": "whole",
    }


@pytest.mark.parametrize(("zero", "stored"), [(2, "whole"), (3, "[dp, -]")])
def test_zero_leaves_what_is_not_trained(zero: int, stored: str) -> None:
    """In pieces it would be gathered in every step, although nothing changes it."""
    resolved = _resolve(dmc.plan(MESH).data_parallel("dp", zero=zero))
    frozen, mean = resolved.tensors["frozen"], resolved.tensors["mean"]
    assert (str(frozen.stored), str(frozen.used), frozen.gradient, frozen.optimizer) == (stored, "whole", None, None)
    assert (str(mean.stored), mean.gradient) == ("whole", None)


def test_replicate_keeps_a_parameter_from_stage_three() -> None:
    scale = _resolve(dmc.plan(MESH).replicate("scale").data_parallel("dp", zero=3)).tensors["scale"]
    assert (str(scale.stored), str(scale.reduced)) == ("whole", "[dp]")


def test_several_axes_of_data() -> None:
    plan = dmc.plan(Mesh(node=2, dp=2)).data_parallel("node", zero=1).data_parallel("dp", zero=3)
    weight = _resolve(plan).tensors["h.0.fc.weight"]
    assert (str(weight.stored), str(weight.reduced), str(weight.optimizer)) == ("[dp, -]", "[dp, -]", "[dp node, -]")
    assert str(weight.gradient) == "whole, partial node dp"
    assert str(_resolve(plan).inputs["tokens"].layout) == "[node dp, -]"


def test_an_axis_that_splits_the_parameter_does_not_sum_its_gradient() -> None:
    plan = dmc.plan(MESH).data_parallel("dp").data_parallel("tp", zero=3).expert_parallel("tp", "fc.weight")
    tensors = _resolve(plan).tensors
    assert str(tensors["h.0.fc.weight"].gradient) == "[tp, -], partial dp"
    assert str(tensors["h.0.fc.weight"].stored) == "[tp, -]"
    assert str(tensors["h.0.fc.bias"].gradient) == "whole, partial dp tp"


def test_layouts_of_the_rest_of_the_state() -> None:
    resolved = _resolve(dmc.plan(MESH).data_parallel("dp", zero=1))
    layouts = {spec.name: str(resolved.state_layout(spec)) for spec in STATE if spec.role in ("optimizer", "counter")}
    assert layouts == {"scale.exp_avg": "[dp]", "step": "whole"}
    assert str(resolved.state_layout(STATE[0])) == "whole"


def test_inputs() -> None:
    plan = dmc.plan(MESH).data_parallel("dp").shard_input("tokens", dim=1, axis="tp")
    inputs = _resolve(plan).inputs
    assert {name: str(each.layout) for name, each in inputs.items()} == {"tokens": "[dp, tp]", "temperature": "whole"}
    assert inputs["tokens"].rules == ('data_parallel("dp")', 'shard_input("tokens", dim=1, axis="tp")')
    whole = _resolve(plan.replicate_input("tokens")).inputs["tokens"]
    assert (str(whole.layout), whole.rules) == ("whole", ('replicate_input("tokens")',))


@pytest.mark.parametrize(
    "plan",
    [
        dmc.plan(MESH).data_parallel("dp").data_parallel("tp"),
        dmc.plan(MESH).data_parallel("dp").shard_input("tokens", dim=0, axis="tp"),
    ],
)
def test_every_micro_batch_is_split(plan: Plan) -> None:
    """Micro-batch k of all ranks is micro-batch k of one rank."""
    layout = _resolve(plan, accumulate=2).inputs["tokens"].layout
    rows = [piece(np.arange(8), Layout(layout.dims[:1]), MESH, rank).tolist() for rank in MESH.ranks]
    assert rows == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_activations() -> None:
    plan = (
        dmc.plan(MESH)
        .shard_activation("h.*.fc", dim=-1, axis="tp")
        .shard_activation("h.1.fc", dim=0, axis="dp")
        .sequence_parallel("tp", between=["embed"])
    )
    found = {
        (each.module, each.side): {dim: [use.axis for use in uses] for dim, uses in each.dims.items()}
        for each in _resolve(plan).activations
    }
    assert found == {
        ("h.0.fc", "output"): {-1: ["tp"]},
        ("h.1.fc", "output"): {-1: ["tp"], 0: ["dp"]},
        ("embed", "input"): {None: ["tp"]},
        ("embed", "output"): {None: ["tp"]},
    }


def test_optional_rules_that_match_nothing_are_reported() -> None:
    plan = dmc.plan(MESH).use(recipe("mine").shard("nope", dim=0, axis="tp", optional=True))
    resolved = _resolve(plan)
    assert resolved.unmatched == ('mine: shard("nope", dim=0, axis="tp", optional=True)',)
    assert 'matched nothing: mine: shard("nope"' in resolved.table()


def test_table() -> None:
    plan = dmc.plan(MESH).data_parallel("dp", zero=1).shard("0.fc.weight", dim=1, axis="tp", blocks=3)
    lines = _resolve(plan).table().splitlines()
    assert lines[0] == "plan over Mesh(dp=2, tp=2), 4 ranks"
    assert lines[2].split() == "name shape placement local shape gradient optimizer rule".split()
    assert " ".join(lines[3].split()) == (
        "h.0.fc.weight [8, 12] [-, 3×tp] [8, 6] [-, 3×tp] [dp, 3×tp] "
        'shard("0.fc.weight", dim=1, axis="tp", blocks=3); data_parallel("dp", zero=1)'
    )
    assert any(
        line.split() == 'input tokens [8, 6] [dp, -] [4, 6] data_parallel("dp", zero=1)'.split() for line in lines
    )


def test_json() -> None:
    plan = dmc.plan(MESH).data_parallel("dp", zero=1).sequence_parallel("tp", between=["h.0"])
    data = json.loads(json.dumps(_resolve(plan).to_json()))
    assert data["mesh"] == {"axes": ["dp", "tp"], "sizes": [2, 2], "links": [None, None]}
    assert data["tensors"]["h.0.fc.weight"]["optimizer"]["dims"] == [
        [{"axis": "dp", "blocks": 1, "rule": 'data_parallel("dp", zero=1)'}],
        [],
    ]
    assert data["activations"][0]["dims"]["null"][0]["axis"] == "tp"

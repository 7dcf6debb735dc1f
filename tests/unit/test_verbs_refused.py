"""Wrong schedules: each is refused by path and verb, with a way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc.errors import PlanError
from tests.blocks import Blocks

# Of any arguments, also of those that type checkers refuse.
Build = Callable[[Any], Any]


def _compile(build: Build, mesh: dmc.Mesh | None, options: dict[str, Any]) -> None:
    model, example = Blocks(), (torch.ones(4, 8), torch.zeros(4, dtype=torch.int64))
    plan = build(dmc.plan() if mesh is None else dmc.plan(mesh).data_parallel("dp"))
    given: dict[str, Any] = {"optimizer": dmc.optim.SGD(lr=0.1), "verify": False, **options}
    dmc.compile_artifact(model, loss=nn.functional.cross_entropy, example=example, plan=plan, **given)


def _refused(build: Build, mesh: dmc.Mesh | None = None, **options: Any) -> str:
    with pytest.raises(PlanError) as caught:
        _compile(build, mesh, options)
    assert caught.value.hint
    return str(caught.value).partition("\n")[0]


ANY: list[tuple[Build, str]] = [
    (lambda plan: plan.precision("h.*.nrom", "fp32"), 'precision("h.*.nrom", "fp32"): \'h.*.nrom\' matches no module'),
    (lambda plan: plan.precision("h.0", "fp16"), "precision(\"h.0\", 'fp16'): 'fp16' is none of the types"),
    (lambda plan: plan.precision("h.0", "int8"), "precision(\"h.0\", 'int8'): 'int8' is none of the types"),
    (
        lambda plan: plan.precision("h.*", "fp32"),
        'precision("h.*", "fp32"): has no effect: \'h.0\' computes in fp32 by precision="fp32" of the step',
    ),
    (
        lambda plan: plan.precision("h.*", "bf16").precision("h.1", "bf16-mixed"),
        'precision("h.1", "bf16-mixed"): contradicts precision("h.*", "bf16") of \'h.1\'',
    ),
    (
        lambda plan: plan.precision("h.1", "bf16").precision("h.1.*", "bf16"),
        'precision("h.1.*", "bf16"): has no effect: \'h.1.norm\' computes in bf16 by precision("h.1", "bf16")',
    ),
    (
        lambda plan: plan.precision("h.*", "bf16").precision("h.0", "bf16"),
        'precision("h.0", "bf16"): has no effect: \'h.0\' computes in bf16 by precision("h.*", "bf16")',
    ),
    (
        lambda plan: plan.precision("h.0", "bf16").precision("h.*", "bf16"),
        'precision("h.0", "bf16"): has no effect: \'h.0\' computes in bf16 by precision("h.*", "bf16")',
    ),
    (
        lambda plan: plan.precision("h.0", "bf16").precision("h.0", "bf16"),
        'precision("h.0", "bf16"): has no effect: \'h.0\' computes in bf16 by precision("h.0", "bf16")',
    ),
    (
        lambda plan: plan.precision("h.*.spare", "bf16"),
        'precision("h.*.spare", "bf16"): has no effect: the step computes nothing in these modules',
    ),
    (lambda plan: plan.keep_apart("mlp"), "keep_apart(\"mlp\"): 'mlp' matches no module"),
    (lambda plan: plan.keep_apart("h.0|h.7"), "keep_apart(\"h.0|h.7\"): 'h.7' matches no module"),
    (
        lambda plan: plan.keep_apart("h.1.spare"),
        'keep_apart("h.1.spare"): has no effect: the step computes nothing in these modules',
    ),
    (
        lambda plan: plan.decompose("h.*"),
        'decompose("h.*"): has no effect: target cpu has no kernels for composites, so that all of them are opened',
    ),
    (
        lambda plan: plan.implementation("h.*", "cublas"),
        "implementation(\"h.*\", 'cublas'): 'cublas' is none of the implementations",
    ),
    (
        lambda plan: plan.implementation("h.*", "triton"),
        'implementation("h.*", "triton"): cannot be: all code for target cpu is IREE\'s',
    ),
    (
        lambda plan: plan.implementation("h.*", "iree"),
        'implementation("h.*", "iree"): has no effect: all code for target cpu is IREE\'s',
    ),
    (lambda plan: plan.bucket(0), "bucket(0): is no size of a bucket"),
    (lambda plan: plan.bucket("25MB"), "bucket('25MB'): is no size of a bucket"),
    (lambda plan: plan.bucket(2**20), "bucket(1048576): has no effect: one rank moves nothing to others"),
    (lambda plan: plan.overlap(False), "overlap(False): has no effect: one rank moves nothing to others"),
    (lambda plan: plan.overlap(True), "overlap(True): changes nothing"),
    (lambda plan: plan.overlap("no"), "overlap('no'): is not False"),
]


@pytest.mark.parametrize(("build", "message"), ANY, ids=[message for _, message in ANY])
def test_wrong_on_one_rank_of_a_cpu(build: Build, message: str) -> None:
    assert _refused(build) == message


OF_RANKS: list[tuple[Build, str]] = [
    (lambda plan: plan.bucket(1).bucket(2), "bucket(2): the plan says bucket(1) already"),
    (lambda plan: plan.overlap(False).overlap(False), "overlap(False): the plan says overlap(False) already"),
    (
        lambda plan: plan.use(dmc.plans.recipe("mine").bucket(9)).bucket(9),
        "bucket(9): the plan says mine: bucket(9) already",
    ),
    (
        lambda plan: plan.overlap(False).pipeline("pp", cut=["h.1"], microbatches=2),
        'overlap(False): contradicts pipeline("pp", cut=["h.1"], microbatches=2): a rank sends what it has computed '
        "while it computes the next micro-batch",
    ),
]


@pytest.mark.parametrize(("build", "message"), OF_RANKS, ids=[message for _, message in OF_RANKS])
def test_wrong_on_several_ranks(build: Build, message: str) -> None:
    assert _refused(build, dmc.Mesh(dp=2, pp=2)) == message


OF_A_GPU: list[tuple[Build, str]] = [
    (
        lambda plan: plan.decompose("h.*"),
        'decompose("h.*"): has no effect: the step computes no composite that is a kernel of its own in these modules',
    ),
    (
        lambda plan: plan.decompose("h.*").implementation("h.1.up", "cudnn"),
        'implementation("h.1.up", "cudnn"): contradicts decompose("h.*"), which opens the composites of \'h.1.up\' '
        "that cuDNN computes",
    ),
    (
        lambda plan: plan.implementation("h.*.up", "triton").implementation("h.0.up", "iree"),
        'implementation("h.0.up", "iree"): contradicts implementation("h.*.up", "triton") of \'h.0.up\'',
    ),
    (
        lambda plan: plan.implementation("h.*.spare", "triton"),
        'implementation("h.*.spare", "triton"): has no effect: the step computes nothing in these modules',
    ),
    (
        lambda plan: plan.implementation("h.*", "cudnn"),
        'implementation("h.*", "cudnn"): cannot be: cudnn can compute none of the ',
    ),
]


@pytest.mark.parametrize(("build", "message"), OF_A_GPU, ids=[message for _, message in OF_A_GPU])
def test_wrong_on_a_gpu(build: Build, message: str) -> None:
    assert _refused(build, target="cuda").startswith(message)


def test_what_only_kernels_of_dmc_can_is_wrong_where_iree_runs_the_gpu() -> None:
    message = 'implementation("head", "cublaslt"): cannot be: all code for target cuda is IREE\'s'
    assert _refused(lambda plan: plan.implementation("head", "cublaslt"), target="cuda", executor="iree") == message

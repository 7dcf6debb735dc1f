"""A small GPT-2 under several plans: no pass changes its meaning, and its job is proven."""

from __future__ import annotations

from typing import Any

import pytest

import dmc
from dmc import plans
from dmc.analysis.commands.jobs import job_of
from dmc.passes.any.verify import Verify
from dmc.passes.base import Element, run_passes
from dmc.passes.scheduled.bucket import Bucket
from dmc.passes.scheduled.form_kernels import FormKernels
from dmc.pipeline import STAGES
from dmc.plans import Plan
from dmc.proof import verify
from tests.large import large_unless
from tests.meanings import assert_meaning_kept
from tests.placed_gpt2 import placed_gpt2

DP2, TP2, DP2_TP2 = dmc.Mesh(dp=2), dmc.Mesh(tp=2), dmc.Mesh(dp=2, tp=2)
PLANS: dict[str, Plan] = {
    "dp2": dmc.plan(DP2).use(plans.data_parallel("dp")),
    "zero2": dmc.plan(DP2).use(plans.zero2("dp")),
    "zero3": dmc.plan(DP2).use(plans.zero3("dp")),
    "tp2": dmc.plan(TP2).use(plans.megatron_gpt2("tp")),
    "zero2×tp2": dmc.plan(DP2_TP2).use(plans.zero2("dp")).use(plans.megatron_gpt2("tp")),
}
# Bytes of a bucket; 0 for none.
BUCKETS = {"dp2": 4096, "zero2": 4096, "zero3": 0, "tp2": 0, "zero2×tp2": 4096}


def _stage(name: str) -> list[Element]:
    return list(next(stage.passes for stage in STAGES if stage.form.name == name))


# Data and tensor parallelism are in ZeRO-2 beside tensor parallelism.
@pytest.mark.parametrize("name", large_unless(("zero3", "zero2×tp2"), BUCKETS))
def test_gpt2_is_proven(name: str, context: Any) -> None:
    module, _ = placed_gpt2(PLANS[name], context)
    passes = _stage("scheduled")
    formed = next(i for i, each in enumerate(passes) if isinstance(each, FormKernels)) + 1
    started = next(i for i, each in enumerate(passes) if str(each).startswith("dm-async")) + 1
    run_passes(module, passes[:formed])
    buckets: list[Element] = [Bucket(bytes=BUCKETS[name])] if BUCKETS[name] else []
    planning, *lowering = _stage("planned")
    scheduling = [each for each in passes[formed:] if not isinstance(each, Bucket)]
    scheduling[started - formed : started - formed] = buckets
    assert_meaning_kept(module, [*scheduling, planning])
    run_passes(module, [Verify(), *lowering, Verify()])
    verify(job_of(module))

"""Ready-made plans for any model: data parallelism, ZeRO, experts."""

from __future__ import annotations

from dmc.plans.builder import Recipe, recipe


def data_parallel(axis: str = "dp") -> Recipe:
    """Every rank has the whole model and a part of the batch."""
    return recipe("data_parallel").data_parallel(axis)


def zero1(axis: str = "dp") -> Recipe:
    """Data parallel with the optimizer state split (ZeRO stage 1)."""
    return recipe("zero1").data_parallel(axis, zero=1)


def zero2(axis: str = "dp") -> Recipe:
    """Data parallel with optimizer state, reduced gradients and, between steps, parameters split (ZeRO stage 2).

    A step gathers each parameter once, large ones in the type in which it computes, and keeps it for the backward pass,
    as FSDP does under SHARD_GRAD_OP. Parameters that are not trained stay whole.
    """
    return recipe("zero2").data_parallel(axis, zero=2)


def zero3(axis: str = "dp") -> Recipe:
    """Data parallel with optimizer state, gradients and all parameters split (ZeRO stage 3, fully sharded).

    Like `zero2`, but a weight of 1 MiB or more is gathered shortly before the forward pass reads it, freed, and
    gathered again for the backward pass, in each micro-batch; parameters that are not trained are split as well.
    """
    return recipe("zero3").data_parallel(axis, zero=3)


def expert_parallel(axis: str = "ep") -> Recipe:
    """A mixture of experts whose weights are `experts.up` and `experts.down`, [experts, …] each: split by expert.

    The router is replicated. Add `.data_parallel(axis)` to split the batch over the same ranks.
    """
    return recipe("expert_parallel").expert_parallel(axis, "experts.up", "experts.down")

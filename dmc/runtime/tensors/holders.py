"""The ranks that have a tensor, by the slots of their programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dmc.dtypes import byte_count
from dmc.program import Job
from dmc.program.signature import Signature


def holders_of(job: Job, signature: Signature) -> Mapping[str, tuple[int, ...]]:
    """For each tensor of a signature that not all ranks of its job have, those that have it, ascending.

    A tensor without elements has no slot on any rank, and counts as held by all.
    """
    found: dict[str, list[int]] = {}
    for each in job.classes:
        for name in {slot.name for slot in each.program.slots}:
            found.setdefault(name, []).extend(each.ranks)
    specs = (*signature.state, *signature.controls, *signature.batch, *signature.outputs)
    names = [spec.name for spec in specs if byte_count(spec)]
    return {name: tuple(sorted(ranks)) for name in names if len(ranks := found.get(name, [])) < job.size}


def with_holders(signature: Signature, job: Job) -> Signature:
    """The signature of a step whose ranks run `job`."""
    return replace(signature, holders=holders_of(job, signature))

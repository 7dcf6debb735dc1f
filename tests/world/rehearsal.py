"""What ranks in processes of their own must compute: the same in one process."""

from __future__ import annotations

from dmc.dtypes import Array
from dmc.interpreter import run
from dmc.runtime import Step
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.tensors.ranks import Ranks
from tests.world.host_session import kernels
from tests.world.rank import batch, controls


def rehearsed(artifact: Artifact, steps: int) -> tuple[list[float], list[dict[str, Array]]]:
    """The losses, and each rank's state at the end, of all ranks in one process."""
    signature, ranks = artifact.signature, Ranks(artifact.signature)

    def spread(names: list[str], arrays: list[Array]) -> list[dict[str, Array]]:
        pairs = [(name, ranks.spreads[name], array) for name, array in zip(names, arrays, strict=True)]
        return [
            {name: own.part(array, rank) for name, own, array in pairs if rank in own.holders}
            for rank in range(ranks.count)
        ]

    functions, losses = kernels(artifact), list[float]()
    state = spread([spec.name for spec in signature.state], list(artifact.state))
    for step in range(1, steps + 1):
        given = [*controls(artifact), *batch(signature.batch, step)]
        inputs = spread([spec.name for spec in (*signature.controls, *signature.batch)], given)
        outputs, state = run(artifact.job, functions, state, inputs, seed=step)
        losses.append(float(outputs[0]["loss"]))
    return losses, state


def compiled_losses(step: Step, first: int, count: int) -> list[float]:
    """Those of a compiled step, all ranks in one process, from step `first` on."""
    specs = step.signature.batch
    batches = [dict(zip((spec.name for spec in specs), batch(specs, first + i), strict=True)) for i in range(count)]
    return [float(step.call_flat(each)) for each in batches]

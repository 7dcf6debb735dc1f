"""What families of kernels attain, from compiled steps whose launches are timed on a GPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean

import numpy as np
from msgspec.structs import replace

from dmc.calibration.fits import families
from dmc.dtypes import dtype_of
from dmc.machine import Device, Machine, Measured
from dmc.program import Job, Kernel, Launch
from dmc.program.profile import Profile
from dmc.program.signature import Signature
from dmc.runtime import Artifact, Step

# Steps before a step is timed.
_WARM = 5


def launches(path: Path, device: str) -> list[tuple[Kernel, float]]:
    """Each launch of a step of one rank in a file, and its nanoseconds on a device such as "cuda:0"."""
    artifact = Artifact.read(path)
    step = Step(artifact, device)
    batch = drawn_batch(step.signature)
    for _ in range(_WARM):
        float(step.call_flat(batch))
    profile = step.profile()
    step.close()
    return list(samples(artifact.job, profile))


def with_launches(machine: Machine, launches: Sequence[tuple[Kernel, float]], source: str) -> Device:
    """The device with these launches: families for kernels of any types, and the kernels themselves."""
    times: dict[str, list[float]] = defaultdict(list)
    for kernel, ns in launches:
        times[kernel.key].append(ns)
    kernels = {key: Measured(round(mean(each), 1), source) for key, each in sorted(times.items())}
    device, found = machine.device, families(machine, launches, source)
    return replace(device, families={**device.families, **found}, kernels={**device.kernels, **kernels})


def samples(job: Job, profile: Profile) -> Iterator[tuple[Kernel, float]]:
    """Each launch of a profile, and its nanoseconds."""
    for timed in profile.commands:
        command = job.programs[timed.rank].commands[timed.command]
        if isinstance(command, Launch):
            yield job.kernels[command.kernel], timed.end - timed.start


def drawn_batch(signature: Signature) -> Mapping[str, np.ndarray]:
    """A batch of random numbers, and of indices that every table and every class has."""
    random = np.random.default_rng(0)
    batch: dict[str, np.ndarray] = {}
    for spec in signature.batch:
        dtype = dtype_of(spec.dtype).numpy
        if spec.dtype.startswith("i"):
            below = min((bound.size for bound in signature.bounds if bound.input == spec.name), default=2)
            batch[spec.name] = random.integers(0, below, spec.shape).astype(dtype)
        else:
            batch[spec.name] = random.standard_normal(spec.shape, np.float32).astype(dtype)
    return batch

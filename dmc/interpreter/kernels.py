"""Kernels as Python functions on arrays."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import numpy as np

from dmc.dtypes import Array, numpy_type
from dmc.program import Job, Kernel, Operand

# Takes the operands of a kernel, returns its results, in order, with the declared types.
KernelFunction = Callable[[list[Array]], list[Array]]


def mixing_kernels(job: Job) -> dict[str, KernelFunction]:
    """For each kernel of a job, a function in which every result depends on every byte of every operand, and its name.

    So a wrong byte anywhere shows in everything computed from it. Floating-point results are integers from -64 to 63,
    so that reductions are exact and no NaN hides an error.
    """
    return {name: _mixing(kernel) for name, kernel in job.kernels.items()}


def _mixing(kernel: Kernel) -> KernelFunction:
    def mix(operands: list[Array]) -> list[Array]:
        digest = blake2b(kernel.name.encode(), digest_size=16)
        for operand in operands:
            digest.update(np.ascontiguousarray(operand).reshape(-1).view(np.uint8).data)
        noise = np.random.Generator(np.random.Philox(key=int.from_bytes(digest.digest(), "little")))
        return [_drawn(noise, result) for result in kernel.writes]

    return mix


def _drawn(noise: np.random.Generator, type_: Operand) -> Array:
    dtype = numpy_type(type_.dtype)
    if dtype == np.bool_:
        return noise.integers(0, 2, type_.shape).astype(dtype)
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return noise.integers(bounds.min, bounds.max, type_.shape, dtype=dtype, endpoint=True)
    return noise.integers(-64, 64, type_.shape).astype(dtype)

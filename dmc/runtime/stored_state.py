"""The state of a step as members of a file, each the bytes of a tensor; tensors of zeros are only named.

A fresh step has two moments of Adam for each parameter, all zero: two thirds of what would be written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

import numpy as np

from dmc.runtime.arrays import are_zeros, bytes_of, zeros
from dmc.runtime.dtypes import dtype_of
from dmc.runtime.signature import StateSpec

Specs = tuple[StateSpec, ...]
State = tuple[np.ndarray, ...]


def state_key(spec: StateSpec) -> str:
    """The name of a state tensor in files, unique within a step."""
    # A parameter may be called "step", like the counter: the role's first letters keep them apart.
    section = {"optimizer": "optimizer", "counter": "counter", "seed": "seed"}.get(spec.role, "model")
    return f"{section}.{spec.name}"


def store(specs: Specs, state: State) -> tuple[dict[str, memoryview], list[str]]:
    """The bytes of each tensor by its key, and the keys of those that are left out, whose bits are all zero."""
    arrays = {state_key(spec): array for spec, array in zip(specs, state, strict=True)}
    absent = sorted(key for key, array in arrays.items() if are_zeros(array) or not bytes_of(array).any())
    return {key: bytes_of(array).data for key, array in arrays.items() if key not in absent}, absent


def restore(specs: Specs, stored: Mapping[str, bytes], absent: Collection[str]) -> State:
    """The inverse of `store`; tensors share the memory of what is stored.

    Raises ValueError for tensors that `specs` does not name or that have another size, KeyError for missing ones.
    """
    if twice := sorted({*stored} & {*absent}):
        raise ValueError(f"{', '.join(twice)} is stored, and said to be zero")
    if unknown := sorted({*stored, *absent} - {state_key(spec) for spec in specs}):
        raise ValueError(f"the state contains {', '.join(unknown)}, which the signature does not name")
    return tuple(_restored(spec, stored, absent) for spec in specs)


def _restored(spec: StateSpec, stored: Mapping[str, bytes], absent: Collection[str]) -> np.ndarray:
    key, dtype = state_key(spec), dtype_of(spec.dtype).numpy
    if key in absent:
        return zeros(spec.shape, dtype)
    data, expected = stored[key], prod(spec.shape) * dtype.itemsize
    if len(data) != expected:
        raise ValueError(f"{spec.name} has {len(data)} bytes, and the signature says {expected}")
    return np.frombuffer(data, dtype).reshape(spec.shape)

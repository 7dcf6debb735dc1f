"""The state of a step as members of a file, each the bytes of a tensor; tensors of zeros are only named.

A fresh step has two moments of Adam for each parameter, all zero: two thirds of what would be written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod

import numpy as np

from dmc.errors import StateError
from dmc.runtime.arrays import are_zeros, bytes_of, zeros
from dmc.runtime.dtypes import dtype_of
from dmc.runtime.signature import StateSpec

_RESTORE = "copy the original file again"

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

    Raises StateError for tensors that are missing, that `specs` does not name, or that have another size.
    """
    if twice := sorted({*stored} & {*absent}):
        raise StateError("state", f"{', '.join(twice)} is stored, and said to be zero", hint=_RESTORE)
    if unknown := sorted({*stored, *absent} - {state_key(spec) for spec in specs}):
        raise StateError("state", f"contains {', '.join(unknown)}, which the signature does not name", hint=_RESTORE)
    return tuple(_restored(spec, stored, absent) for spec in specs)


def _restored(spec: StateSpec, stored: Mapping[str, bytes], absent: Collection[str]) -> np.ndarray:
    key, dtype = state_key(spec), dtype_of(spec.dtype).numpy
    if key in absent:
        return zeros(spec.shape, dtype)
    data, expected = stored.get(key), prod(spec.shape) * dtype.itemsize
    if data is None:
        raise StateError(f"state {key!r}", "is not in the file, nor said to be zero", hint=_RESTORE)
    if len(data) != expected:
        fact = f"has {len(data)} bytes, and the signature says {expected}"
        raise StateError(f"state {key!r}", fact, hint=_RESTORE)
    return np.frombuffer(data, dtype).reshape(spec.shape)

"""The state of a step as members of a file, each the bytes of a tensor; tensors of zeros are only named.

A fresh step has two moments of Adam for each parameter, all zero: two thirds of what would be written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import prod

import numpy as np

from dmc.dtypes import describe, dtype_of, mlir_name
from dmc.errors import StateError
from dmc.program.signature import StateSpec
from dmc.runtime.tensors.arrays import are_zeros, bytes_of, zeros

_RESTORE = "copy the original file again"

Specs = tuple[StateSpec, ...]
State = tuple[np.ndarray, ...]


def state_key(spec: StateSpec) -> str:
    """The name of a state tensor in files, unique within a step."""
    # A parameter may be called "step", like the counter: the role's first letters keep them apart.
    section = {"optimizer": "optimizer", "counter": "counter", "seed": "seed"}.get(spec.role, "model")
    return f"{section}.{spec.name}"


def is_weight(spec: StateSpec) -> bool:
    """Whether files of a model's weights have a tensor: a parameter, or a buffer that persists."""
    names = (spec.name, *spec.aliases)
    return spec.role in ("parameter", "frozen", "buffer") and not set(names) <= set(spec.transient)


def keys_of(specs: Specs, unset: Collection[str]) -> list[str]:
    """Those of tensors without numbers, by their names."""
    return [state_key(spec) for spec in specs if spec.name in unset]


def store(specs: Specs, state: Iterable[np.ndarray], unset: Collection[str]) -> Iterator[tuple[str, memoryview | None]]:
    """The key and the bytes of each tensor that has numbers, one after the other; None where all bits are zero, which
    is only named. Raises StateError where `state` does not fit.
    """
    if isinstance(state, tuple) and len(specs) != len(state):
        raise StateError("state", f"expected {len(specs)} arrays, got {len(state)}")
    for spec, array in zip(specs, state, strict=True):
        check_array(spec, array)
        if spec.name not in unset:
            is_zero = are_zeros(array) or not bytes_of(array).any()
            yield state_key(spec), None if is_zero else bytes_of(array).data


def check_array(spec: StateSpec, array: np.ndarray) -> None:
    """Raises StateError where an array is not of its shape and element type."""
    if array.shape != spec.shape or array.dtype != dtype_of(spec.dtype).numpy:
        got = describe(mlir_name(array.dtype), array.shape)
        raise StateError(f"state {spec.name!r}", f"expected {describe(spec.dtype, spec.shape)}, got {got}")


def restore(specs: Specs, stored: Mapping[str, bytes], zero: Collection[str], unset: Collection[str]) -> State:
    """The inverse of `store`; tensors share the memory of what is stored.

    zero, unset: keys of tensors that are not stored. Raises StateError for tensors that are missing, that `specs` does
    not name, or that have another size.
    """
    absent = {*zero, *unset}
    if twice := sorted({*stored} & absent):
        raise StateError("state", f"{', '.join(twice)} is stored, and said not to be", hint=_RESTORE)
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

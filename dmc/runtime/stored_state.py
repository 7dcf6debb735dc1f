"""The state of a step as the bytes of a safetensors file, in which tensors of zeros are named instead of stored.

A fresh step has two moments of Adam for each parameter, all zero: two thirds of what would be written.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import safetensors
from safetensors.numpy import save

from dmc.runtime.dtypes import dtype_of
from dmc.runtime.signature import StateSpec

Specs = tuple[StateSpec, ...]
State = tuple[np.ndarray, ...]


def state_key(spec: StateSpec) -> str:
    """The name of a state tensor in files, unique within a step."""
    # A parameter may be called "step", like the counter: the role's first letters keep them apart.
    section = {"optimizer": "optimizer", "counter": "counter", "seed": "seed"}.get(spec.role, "model")
    return f"{section}.{spec.name}"


def store(specs: Specs, state: State) -> tuple[bytes, list[str]]:
    """The file, and the keys of the tensors that it leaves out, whose bits are all zero."""
    arrays = {state_key(s): np.ascontiguousarray(a).reshape(s.shape) for s, a in zip(specs, state, strict=True)}
    zeros = [key for key, array in arrays.items() if not array.reshape(-1).view(np.uint8).any()]
    return save({key: array for key, array in arrays.items() if key not in zeros}), sorted(zeros)


def restore(specs: Specs, data: bytes, zeros: Collection[str]) -> State:
    """The inverse of `store`.

    Raises ValueError for tensors that `specs` does not name or that have another type, KeyError for missing ones, and
    safetensors.SafetensorError for bytes that are not a safetensors file.
    """
    # safetensors' own numpy reader has no bfloat16, so raw tensors are read and given their type here.
    raw = dict(safetensors.deserialize(data))
    if unknown := sorted({*raw, *zeros} - {state_key(spec) for spec in specs}):
        raise ValueError(f"the state contains {', '.join(unknown)}, which the signature does not name")
    return tuple(_zeros(spec) if state_key(spec) in zeros else _typed(spec, raw[state_key(spec)]) for spec in specs)


def _zeros(spec: StateSpec) -> np.ndarray:
    # Memory of zeros is not touched before it is read.
    array = np.zeros(spec.shape, dtype_of(spec.dtype).numpy)
    array.flags.writeable = False
    return array


def _typed(spec: StateSpec, raw: dict[str, Any]) -> np.ndarray:
    dtype = dtype_of(spec.dtype)
    if raw["dtype"] != dtype.safetensors:
        raise ValueError(f"{spec.name} is {raw['dtype']}, the signature says {dtype.safetensors}")
    return np.frombuffer(raw["data"], dtype=dtype.numpy).reshape(raw["shape"])

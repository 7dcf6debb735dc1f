"""What tells frozen tensors apart, without reading all of them: a checkpoint that leaves them out names them so."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from dmc.dtypes import dtype_of
from dmc.program.signature import StateSpec
from dmc.runtime.files.stored_state import state_key

# Elements read of each tensor. Weights of another model, or of the same one trained further, differ in some of them.
_SAMPLES = 4096


def fingerprints(
    specs: Sequence[StateSpec], arrays: Iterable[np.ndarray | None], unset: Collection[str] = ()
) -> dict[str, str]:
    """Of each whole frozen tensor, by its key in files; nothing for what is not given, nor for those without numbers,
    whose names are `unset`. Tensors may be of a type that is converted to that of the state."""
    pairs = zip(specs, arrays, strict=True)
    return {
        state_key(spec): _fingerprint(spec, array)
        for spec, array in pairs
        if spec.role == "frozen" and array is not None and spec.name not in unset
    }


def _fingerprint(spec: StateSpec, array: np.ndarray) -> str:
    sample = array.reshape(-1)[:: max(1, array.size // _SAMPLES)].astype(dtype_of(spec.dtype).numpy)
    kind = f"{spec.dtype} {spec.shape} ".encode()
    return hashlib.sha256(kind + np.ascontiguousarray(sample).tobytes()).hexdigest()

"""The example of a request as the batch of a compiled step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dmc.errors import InputError
from dmc.interpreter.dtypes import Array
from dmc.runtime.arrays import to_array
from dmc.runtime.signature import Signature
from dmc.runtime.tree import flatten_call


def batch_of(example: Any, signature: Signature) -> dict[str, Array]:
    """The tensors of an example by the names of the signature."""
    positional, keyword = ((), example) if isinstance(example, Mapping) else (example, {})
    flat = flatten_call(signature, positional, keyword)
    return {
        spec.name: to_array(value, spec, f"input {spec.name!r}", InputError)
        for spec, value in zip(signature.batch, flat, strict=True)
    }

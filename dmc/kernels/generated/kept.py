"""Generated kernels in the cache on disk (`dmc.cache`), by the text of the region, the sources of `dmc.kernels`, and
MLIR's version.

To write every candidate takes a tenth of the time of a compilation whose code is in the cache.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

import msgspec

from dmc.cache import cached
from dmc.kernels.generated import Declined, Generated, generate
from dmc.kernels.kept import sources

# The kernels, or why there are none.
_Stored = Generated | str


def generated(body: Any) -> Generated:
    """The kernels of a function on tensors, as `generate` makes them. Raises Declined."""
    text = body.operation.get_asm(use_local_scope=True, assume_verified=True)
    parts = ["generated", metadata.version("torch-mlir"), sources(), text]
    answer = msgspec.msgpack.decode(cached(parts, lambda: msgspec.msgpack.encode(_made(body))), type=_Stored)
    if isinstance(answer, str):
        raise Declined(answer)
    return answer


def _made(body: Any) -> _Stored:
    try:
        return generate(body)
    except Declined as reason:
        return str(reason)

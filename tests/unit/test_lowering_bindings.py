"""Kernels of more buffers than IREE binds are refused when they are compiled."""

from __future__ import annotations

import itertools

import pytest

from dmc.errors import DmcError
from dmc.lowering.iree.compiler import check_bindings
from dmc.target import CPU, CUDA_BY_IREE, Target


def _dispatch(buffers: int) -> str:
    accesses = itertools.islice(itertools.cycle(("ro", "rw", "wo")), buffers)
    lines = [f"    {each} %arg{i}[%c0 for %c8] : !stream.resource<external>{{%c8}}," for i, each in enumerate(accesses)]
    return "\n".join(["  stream.cmd.dispatch @kernel::@step(%c0 : i32) {", *lines, "  }"])


@pytest.mark.parametrize("target", [CPU, CUDA_BY_IREE])
def test_as_many_as_there_are(target: Target) -> None:
    check_bindings("\n".join([_dispatch(target.most_bindings)] * 2), target)


@pytest.mark.parametrize(("target", "most"), [(CPU, 32), (CUDA_BY_IREE, 16)])
def test_one_more(target: Target, most: int) -> None:
    fact = f"@kernel::@step: IREE forms a kernel with {most + 1} buffers, but its runtime binds at most {most}"
    with pytest.raises(DmcError, match=fact):
        check_bindings("\n".join([_dispatch(1), _dispatch(most + 1)]), target)

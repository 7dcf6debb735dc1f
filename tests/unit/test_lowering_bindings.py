"""Kernels of more buffers than IREE binds are refused when they are compiled."""

from __future__ import annotations

import pytest

from dmc.errors import DmcError
from dmc.lowering.iree import check_bindings


def _dispatch(buffers: int) -> str:
    lines = [f"    rw %arg{i}[%c0 for %c8] : !stream.resource<external>{{%c8}}," for i in range(buffers)]
    return "\n".join(["  stream.cmd.dispatch @kernel::@step(%c0 : i32) {", *lines, "  }"])


def test_as_many_as_there_are() -> None:
    check_bindings("\n".join([_dispatch(32), _dispatch(32)]))


def test_one_more() -> None:
    with pytest.raises(DmcError, match="@kernel::@step: IREE makes one kernel of 33 buffers"):
        check_bindings("\n".join([_dispatch(1), _dispatch(33)]))

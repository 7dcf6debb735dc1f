"""The optimizer's first state, as large as the parameters."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dmc.importer.update import first_value
from dmc.optim import Slot

MANY = 1 << 26


def _resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_zeros(dtype: torch.dtype) -> None:
    for shape in ((3, 2), ()):
        zeros = first_value(Slot("momentum", shape), torch.ones(shape, dtype=dtype))
        assert zeros.dtype == dtype
        assert torch.equal(zeros, torch.zeros(shape, dtype=dtype))


def test_zeros_take_no_memory_until_they_are_written() -> None:
    like = torch.ones([]).expand(MANY)
    before = _resident()
    zeros = first_value(Slot("momentum", (MANY,)), like)
    assert zeros.numel() == MANY
    assert _resident() - before < 1 << 26

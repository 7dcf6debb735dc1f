"""Limits of what a file may say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dmc.program.limits import Axis, Digest, ElementType, Name
from dmc.runtime.files.manifest import ProgramName, Target


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Name, "h.0.weight"),
        (Axis, "dp"),
        (ElementType, "bf16"),
        (Digest, "0" * 64),
        (Target, "cpu+cuda"),
        (ProgramName, "evaluation-1"),
    ],
)
def test_a_newline_at_the_end_is_no_part_of_a_name(kind: Any, value: str) -> None:
    assert msgspec.convert(value, kind) == value
    with pytest.raises(msgspec.ValidationError, match="matching regex"):
        msgspec.convert(value + "\n", kind)

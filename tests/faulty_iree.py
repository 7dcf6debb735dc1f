"""IREE's compiler with a fault: it crashes, hangs or refuses what it should compile."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from iree.compiler.tools.binaries import find_tool

from dmc.lowering.iree import compiler

FAULTS = {"crashed": "kill -SEGV $$", "late": "sleep 60", "refused": "echo 'error: no' >&2; exit 1"}

_SCRIPT = """#!/bin/sh
given=$(mktemp -p "$(dirname "$0")")
trap 'rm -f "$given"' EXIT
cat > "$given"
if {condition}; then
  {fault}
fi
{compiler} "$@" < "$given"
"""


def has(pattern: str) -> str:
    """The condition that the input has a line with this pattern."""
    return f"grep -q '{pattern}' \"$given\""


def given(option: str) -> str:
    """The condition that an option is given."""
    return f"echo \"$*\" | grep -q -e '{option}'"


def put_fault(fault: str, condition: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives IREE's compiler a fault of `FAULTS` where a condition holds."""
    script = directory / "iree-compile"
    script.write_text(_SCRIPT.format(condition=condition, fault=FAULTS[fault], compiler=find_tool("iree-compile")))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(compiler, "find_tool", lambda _: str(script))

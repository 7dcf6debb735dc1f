"""What the code for a GPU is told of the buffers that it gets."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dmc.program.device_contract import Given

_FUNCTION = re.compile(r"llvm\.func @([\w$.]+)\([^\n]*")
_ARGUMENT = re.compile(r"(?<=%arg)(\d+)(: !llvm\.ptr<1> \{)([^}]*)")
# What IREE says of every buffer, whatever its executable says and the job does.
_ALIGNMENT, _ALONE = "llvm.align = 16 : i32", "llvm.noalias"


def with_true_arguments(configured: str, given: Mapping[str, Given]) -> str:
    """The code of executables, as IREE has made it for LLVM, that says no more of its buffers than what is given.

    `%arg0: !llvm.ptr<1> {llvm.align = 16 : i32, llvm.noalias}` becomes `{llvm.align = 4 : i32}` for a buffer that lies
    at byte 36 in one launch, and is an operand and a result in another: LLVM would make vectors of what it loads and
    stores, and load through a cache that sees no stores.
    """

    def function(match: re.Match[str]) -> str:
        known = given.get(match[1])
        return match[0] if known is None else _ARGUMENT.sub(lambda each: _argument(each, known), match[0])

    return _FUNCTION.sub(function, configured)


def _argument(match: re.Match[str], given: Given) -> str:
    number, said = int(match[1]), match[3].split(", ")
    alignment = f"llvm.align = {min(given.alignments[number], 16)} : i32"
    is_shared = number in given.overwritten
    kept = [alignment if each == _ALIGNMENT else each for each in said if not (is_shared and each == _ALONE)]
    return f"{match[1]}{match[2]}{', '.join(kept)}"

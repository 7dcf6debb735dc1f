"""What GPU code may assume about its buffers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dmc.program.device_contract import Given

_FUNCTION = re.compile(r"llvm\.func @([\w$.]+)\([^\n]*")
_ARGUMENT = re.compile(r"(?<=%arg)(\d+)(: !llvm\.ptr<1> \{)([^}]*)")
# IREE's attributes of every buffer, whatever the executable declares and the job does.
_ALIGNMENT, _ALONE = "llvm.align = 16 : i32", "llvm.noalias"


def with_true_arguments(configured: str, given: Mapping[str, Given]) -> str:
    """IREE's LLVM code of executables, with only the given assumptions about buffers.

    `%arg0: !llvm.ptr<1> {llvm.align = 16 : i32, llvm.noalias}` becomes `{llvm.align = 4 : i32}` for a buffer at byte 36
    in one launch that is both operand and result in another: otherwise LLVM would vectorise its loads and stores, and
    load through the non-coherent cache.
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

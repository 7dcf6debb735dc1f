"""Kernels in which IREE merges results by its own folding of dispatches, which mixes them up.

Equal results are merged before dispatches are formed (`MERGE_EQUAL`). What IREE merges after that is wrong.
"""

from __future__ import annotations

import re
from collections import Counter

from dmc.errors import DmcError
from dmc.lowering.kernel_code import CodeLibrary, Copy, KernelCode, leaves

_TIDY = "canonicalize,cse"
_LOOPS = (
    "iree-dispatch-creation-fold-unit-extent-dims-for-func,"
    f"iree-dispatch-creation-fuse-multi-use-elementwise-producer,{_TIDY}"
)
_CONSTANTS = f"iree-dispatch-creation-elementwise-op-fusion,{_TIDY}"
# Equal operands of a loop become one, then what is computed of them, and then its results.
_MERGED = f"iree-global-opt-erase-unused-linalg-operands,{_TIDY}"
# If a dispatch has equal results, IREE's folding of flow.dispatch.region replaces all but the first of them by the
# dispatch's first result, whatever that is. That two are equal may show only once their loops are fused and constants
# are folded into them.
MERGE_EQUAL = f"util.func({_LOOPS},{_CONSTANTS},{_LOOPS}),{_MERGED},{_MERGED},{_MERGED}"

_FUNCTION = re.compile(r"util\.func public @(\w+)\((.*?)\n  \}", re.DOTALL)
_RESULT = re.compile(r"hal\.tensor\.alias (%[\w#]+) : ")


def share_results(library: CodeLibrary) -> set[str]:
    """The kernels with a value that is the result of another too."""
    return {name for name, code in library.kernels.items() if _shared(code)}


def mixed_up(library: CodeLibrary, preprocessed: str) -> set[str]:
    """The kernels of `preprocessed`, a program before IREE forms dispatches, that have more equal results later."""
    merged = {found[1]: _repeated(_RESULT.findall(found[2])) for found in _FUNCTION.finditer(preprocessed)}
    return {name for name, count in merged.items() if _shared(library.kernels[name]) > count}


def refuse(names: set[str]) -> None:
    """Raises DmcError for the first of the kernels `names`."""
    for name in sorted(names):
        fact = "IREE takes two of its results for equal where its code cannot be trusted to"
        raise DmcError(f"kernel @{name}", fact, "please report the model")


def _shared(code: KernelCode) -> int:
    """How many results are copies of others, or of a value that was copied to another before."""
    copies = [each for each in leaves(code.commands) if isinstance(each, Copy) and each.target.role == "write"]
    starts = [(each.source.role, each.source.index, each.source.offset) for each in copies]
    return _repeated([each for each in starts if each[0] == "scratch"]) + sum(role == "write" for role, _, _ in starts)


def _repeated(values: list[str] | list[tuple[str, int, int]]) -> int:
    return sum(count - 1 for count in Counter(values).values())

"""Kernels in which IREE merges results by its own folding of dispatches, which mixes them up.

Equal results are merged before dispatches are formed (`MERGE_EQUAL`). What IREE merges after that is wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from dmc.errors import CodegenError
from dmc.lowering.kernel_code import CodeLibrary, Copy, Dispatch, Fill, KernelCode, leaves
from dmc.program.code import Place

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
# The same bytes in another shape.
_RESHAPED = re.compile(r"(%\w+) = tensor\.(?:expand|collapse)_shape (%[\w#]+) ")


def share_results(library: CodeLibrary) -> set[str]:
    """The kernels with a value that is the result of another too."""
    return {name for name, code in library.kernels.items() if _shared(code)}


def check_results(library: CodeLibrary, preprocessed: str) -> None:
    """Raises CodegenError for kernels of `preprocessed`, a program before IREE forms dispatches, that have more equal
    results later."""
    merged = {found[1]: _repeated(_results(found[2])) for found in _FUNCTION.finditer(preprocessed)}
    names = sorted(name for name, count in merged.items() if _shared(library.kernels[name]) > count)
    for name in names:
        fact = "IREE takes two of its results for equal where its code cannot be trusted to"
        raise CodegenError(f"kernel @{name}", fact, "please report the model", kernels=names)


def _results(body: str) -> list[str]:
    """What is returned, by the value that it is in whatever shape."""
    reshaped = dict(_RESHAPED.findall(body))
    results = _RESULT.findall(body)
    while any(each in reshaped for each in results):
        results = [reshaped.get(each, each) for each in results]
    return results


def _shared(code: KernelCode) -> int:
    """How many results are copies of others, or of a value that was copied to another before.

    The only result of a dispatch cannot be mixed up with another of its results.
    """
    commands = list(leaves(code.commands))
    alone = set(_only_results(commands))
    copies = [each.source for each in commands if isinstance(each, Copy) and each.target.role == "write"]
    starts = [start for start in map(_start, copies) if start not in alone]
    return _repeated([each for each in starts if each[0] == "scratch"]) + sum(role == "write" for role, _, _ in starts)


def _only_results(commands: Sequence[Dispatch | Fill | Copy]) -> Iterator[tuple[str, int, int]]:
    """Where dispatches that write one buffer begin to write."""
    for each in commands:
        if isinstance(each, Dispatch):
            written = [binding.place for binding in each.bindings if binding.access != "ro"]
            if len(written) == 1:
                yield _start(written[0])


def _start(place: Place) -> tuple[str, int, int]:
    return place.role, place.index, place.offset


def _repeated(values: list[str] | list[tuple[str, int, int]]) -> int:
    return sum(count - 1 for count in Counter(values).values())

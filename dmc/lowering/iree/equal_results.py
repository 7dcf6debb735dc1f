"""Kernels in which IREE merges results by its own folding of dispatches, which mixes them up.

Equal results are merged before dispatches are formed (`MERGE_EQUAL`), and more of them by IREE, which knows ranges of
integers: an index that is clamped stays as it is where it is wrapped again. What IREE merges after that is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

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
_RESULT = re.compile(r'hal\.tensor\.export (%[\w#]+) "output(\d+)" ')
# The same bytes, maybe in another shape.
_SAME = re.compile(
    r"(%\w+) = (?:tensor\.expand_shape|tensor\.collapse_shape|iree_tensor_ext\.compute_barrier\.\w+|hal\.tensor\.alias)"
    r" (%[\w#]+) "
)
_FORMED = "flow.dispatch"
# What code writes. Several may be parts of one buffer.
_WRITTEN = re.compile(r"stream\.binding\.subspan .*dispatch\.tensor<(?:writeonly|readwrite):")
# A buffer, and where in it something begins.
_Start: TypeAlias = tuple[str, int, int]


def share_results(library: CodeLibrary) -> set[str]:
    """The kernels with a value that is the result of another too."""
    return {name for name, code in library.kernels.items() if _shared(library, code)}


def check_results(library: CodeLibrary, optimized: str) -> None:
    """Raises CodegenError for kernels with results that are one value in their code, but not yet in `optimized`: their
    program just before IREE forms dispatches."""
    before = {found[1]: _results(found[2]) for found in _FUNCTION.finditer(optimized)}
    names = sorted(
        name
        for name, code in library.kernels.items()
        if not all(_are_one(places, before.get(name, {})) for places in _shared(library, code))
    )
    for name in names:
        fact = "IREE takes two of its results for equal where its code cannot be trusted to"
        raise CodegenError(f"kernel @{name}", fact, "please report the model", kernels=names)


def _results(body: str) -> dict[int, str]:
    """What is returned, by number, as the value that it is in whatever shape; nothing once there are dispatches."""
    same = dict(_SAME.findall(body))
    results = {int(number): value for value, number in _RESULT.findall(body)} if _FORMED not in body else {}
    while any(each in same for each in results.values()):
        results = {number: same.get(each, each) for number, each in results.items()}
    return results


def _are_one(places: set[_Start], values: Mapping[int, str]) -> bool:
    """Whether these are whole results, of one value."""
    found = {values.get(index, "") if offset == 0 else "" for _, index, offset in places}
    return len(found) == 1 and "" not in found


def _shared(library: CodeLibrary, code: KernelCode) -> list[set[_Start]]:
    """For each value of which several results, or parts of results, are copies: where it is in them.

    The only result of a dispatch cannot be mixed up with another of its results.
    """
    commands = list(leaves(code.commands))
    origins: dict[_Start, _Start] = {}
    places: dict[_Start, set[_Start]] = {}
    for each in commands:
        if isinstance(each, Copy) and each.target.role == "write":
            source, target = _start(each.source), _start(each.target)
            origin = origins[target] = origins.get(source, source)
            places.setdefault(origin, {origin} if origin[0] == "write" else set()).add(target)
    doubtful = {origin: some for origin, some in places.items() if len(some) > 1 and origin[0] != "read"}
    return [some for origin, some in doubtful.items() if _may_be_mixed_up(origin, library, commands)]


def _may_be_mixed_up(value: _Start, library: CodeLibrary, commands: Sequence[Dispatch | Fill | Copy]) -> bool:
    """Whether a dispatch with several results writes it, or may do so."""
    dispatches = [each for each in commands if isinstance(each, Dispatch)]
    several = [each for each in dispatches if _count(library, each) > 1]
    others = [each for each in dispatches if _count(library, each) == 1]
    return bool(several) and (_write(several, value) or not _write(others, value))


def _count(library: CodeLibrary, dispatch: Dispatch) -> int:
    """How many results a dispatch has. Those in one buffer may be one binding."""
    return max(len(list(_written(dispatch))), len(_WRITTEN.findall(library.executables[dispatch.executable])))


def _write(dispatches: Sequence[Dispatch], value: _Start) -> bool:
    role, index, offset = value
    places = [place for each in dispatches for place in _written(each)]
    return any((each.role, each.index) == (role, index) and each.offset <= offset < each.end for each in places)


def _written(dispatch: Dispatch) -> Iterator[Place]:
    return (binding.place for binding in dispatch.bindings if binding.access != "ro")


def _start(place: Place) -> _Start:
    return place.role, place.index, place.offset

"""Recipes → steps of a GPU, with their machine code. No MLIR is needed here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product

from dmc.dtypes import FACTORS
from dmc.errors import DmcError
from dmc.kernels.code import Entry, KernelCode, Map
from dmc.kernels.problem import TensorType
from dmc.kernels.recipe import Buffer
from dmc.kernels.workers import Request, compile_all
from dmc.lowering.native_kernel import Taken
from dmc.memo import Memo
from dmc.program import aligned
from dmc.program.code import Access, Attention, Binding, CodeModule, Dispatch, Place, TensorMap
from dmc.program.ptx_accesses import parameter_accesses

# The element types of tensor maps.


@dataclass(frozen=True)
class Compiled:
    """The steps of a kernel in order, the bytes of their scratch memory, and their code by module name."""

    steps: tuple[Dispatch | Attention, ...]
    scratch: int
    modules: Mapping[str, CodeModule]


# Cached: a process needs the same code when it selects kernels and when it writes the file, and for other plans.
_KNOWN = Memo[tuple[Taken, frozenset[Buffer]], Compiled | DmcError](2048)


def compiled(wanted: Sequence[tuple[Taken, frozenset[Buffer]]]) -> list[Compiled | DmcError]:
    """The code of each, given its unaligned buffers; or why there is none."""
    found = {each: _by_library(*each) or _KNOWN.find(each) for each in wanted}
    missing = [each for each, answer in found.items() if answer is None]
    answers = compile_all([Request(taken.problem, taken.recipe, loose) for taken, loose in missing])
    for (taken, loose), answer in zip(missing, answers, strict=True):
        known = answer if isinstance(answer, DmcError) else _as_steps(taken, answer)
        found[taken, loose] = known
        _KNOWN.keep((taken, loose), known)
    return [answer for each in wanted if (answer := found[each]) is not None]


def _by_library(taken: Taken, loose: frozenset[Buffer]) -> Compiled | None:
    """The step of a library, which takes aligned buffers alone."""
    if taken.library is None or loose:
        return None
    return Compiled((taken.library,), taken.library.workspace.length, {})


def _as_steps(taken: Taken, code: KernelCode) -> Compiled:
    scratch, size = _scratch(code.scratch)
    modules: dict[str, CodeModule] = {}
    steps: list[Dispatch] = []
    written: set[Buffer] = set()
    for entry in code.entries:
        name = f"{entry.name}_{hashlib.sha256(entry.cubin).hexdigest()[:12]}"
        modules[name] = CodeModule(entry.ptx, entry.cubin)
        steps.append(_dispatch(entry, name, taken, scratch, written))
    return Compiled(tuple(steps), size, modules)


def _scratch(types: Sequence[TensorType]) -> tuple[list[Place], int]:
    """The offset of each tensor in scratch memory, in sequence, and the total size."""
    places: list[Place] = []
    size = 0
    for type_ in types:
        places.append(Place("scratch", 0, size, type_.bytes))
        size += aligned(type_.bytes)
    return places, size


def _written_buffers(entry: Entry, maps: Sequence[TensorMap | None]) -> set[Buffer]:
    """The buffers that the code writes through its parameters."""
    firsts = accumulate((1 if each is None else each.parameters for each in maps), initial=0)
    written = parameter_accesses(entry.ptx)[entry.name].written
    return {buffer for buffer, first in zip(entry.buffers, firsts, strict=False) if first in written}


def tensor_map(made: Map) -> TensorMap:
    """A tensor map as a launch of a plan has it."""
    return TensorMap(FACTORS[made.dtype], made.view.shape, made.view.strides, made.box, made.swizzle)


def _dispatch(entry: Entry, module: str, taken: Taken, scratch: Sequence[Place], written: set[Buffer]) -> Dispatch:
    """The launch of an entry; adds its writes to `written`, which holds those of earlier launches."""
    maps = [None if each is None else tensor_map(each) for each in entry.maps]
    writes = _written_buffers(entry, maps)

    def access(buffer: Buffer) -> Access:
        if buffer not in writes:
            return "ro"
        return "rw" if buffer in written else "wo"

    def place(buffer: Buffer) -> Place:
        match buffer.role:
            case "operand":
                return taken.reads[buffer.index]
            case "result":
                return taken.writes[buffer.index]
            case _:
                return scratch[buffer.index]

    bindings = tuple(
        Binding(access(buffer), place(buffer), each) for buffer, each in zip(entry.buffers, maps, strict=True)
    )
    written |= writes
    return Dispatch(
        entry.name,
        (entry.programs, 1, 1),
        (entry.threads, 1, 1),
        entry.shared,
        bindings,
        ordered=tuple(_in_place(entry, taken)),
        module=module,
        nulls=entry.nulls,
    )


def _in_place(entry: Entry, taken: Taken) -> Iterator[tuple[int, int]]:
    """The bindings that may be of one place: an operand's, and that of the result which takes its memory."""
    numbers: dict[Buffer, list[int]] = {}
    for number, buffer in enumerate(entry.buffers):
        numbers.setdefault(buffer, []).append(number)
    for result, operand in taken.recipe.in_place:
        yield from product(numbers.get(Buffer("operand", operand), ()), numbers.get(Buffer("result", result), ()))

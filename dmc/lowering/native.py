"""Kernel bodies → GPU steps with dmc's own code, where `dmc.kernels` has an implementation that supports them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from msgspec.structs import replace as replace_fields

from dmc._mlir import func, ir
from dmc.analysis.kernels.problems import problem_of_body
from dmc.dialect.plan import type_bytes
from dmc.errors import DmcError
from dmc.kernels.code import Entry, KernelCode
from dmc.kernels.generated import Declined, generate
from dmc.kernels.implementation import implementation_of
from dmc.kernels.problem import TensorType
from dmc.kernels.recipe import Buffer
from dmc.kernels.workers import Request, compile_all
from dmc.lowering.kernel_code import CodeLibrary
from dmc.lowering.native_kernel import NativeKernel, Taken
from dmc.lowering.products import product_of
from dmc.program import Job, Launch, aligned
from dmc.program.code import Access, Binding, CodeModule, Dispatch, Place, Product, Step
from dmc.program.ptx_accesses import parameter_accesses

# The default alignment of buffers of dmc's own code, in bytes.
_ALIGNMENT = 16


def native_kernels(module: ir.Module, names: Iterable[str]) -> tuple[CodeLibrary, dict[str, str]]:
    """The code of those private functions `names` that dmc's implementations support; for the others, why not."""
    symbols = ir.SymbolTable(module.operation)
    kernels: dict[str, NativeKernel] = {}
    ways: dict[str, list[Taken]] = {}
    declined: dict[str, str] = {}
    for name in names:
        function = symbols[name]
        assert isinstance(function, func.FuncOp)
        if (product := product_of(function)) is not None:
            kernels[name] = NativeKernel(name, "cublaslt", (product,), product.workspace.length)
            continue
        try:
            ways[name] = ways_of(function)
        except Declined as reason:
            declined[name] = str(reason)
    modules: dict[str, CodeModule] = {}
    while ways:
        # The most promising recipe of each; if it does not compile, the next.
        answers = _compiled([(each[0], frozenset()) for each in ways.values()])
        for (name, (taken, *others)), answer in zip(list(ways.items()), answers, strict=True):
            ways[name] = others
            if isinstance(answer, Compiled):
                kernels[name] = NativeKernel(name, "triton", answer.steps, answer.scratch, taken)
                modules.update(answer.modules)
            elif not others:
                declined[name] = answer.fact
        ways = {name: others for name, others in ways.items() if others and name not in kernels}
    return CodeLibrary("", {}, {}, kernels, modules), declined


def as_launched(library: CodeLibrary, job: Job) -> CodeLibrary:
    """The library, in which no code assumes better alignment than operands and results have in every launch.

    Raises DmcError for a kernel for which Triton cannot generate such code.
    """
    launches: dict[str, list[Launch]] = {}
    for launch in (each for program in job.programs for each in program.commands if isinstance(each, Launch)):
        launches.setdefault(launch.kernel, []).append(launch)
    native, modules = dict(library.native), dict(library.modules)
    wanted: dict[str, tuple[Taken, frozenset[Buffer]]] = {}
    for name, found in launches.items():
        kernel = native.get(name)
        if kernel is None:
            continue
        native[name] = replace(kernel, steps=tuple(_as_aligned(step, found) for step in kernel.steps))
        if kernel.taken is not None and (loose := frozenset(_loose(kernel.taken, found))):
            wanted[name] = kernel.taken, loose
    for name, answer in zip(wanted, _compiled(list(wanted.values())), strict=True):
        if isinstance(answer, DmcError):
            raise answer
        native[name] = replace(native[name], steps=answer.steps)
        modules.update(answer.modules)
    return replace(library, native=native, modules=modules)


def _as_aligned(step: Step, launches: Iterable[Launch]) -> Step:
    """A product with the alignment of its matrices over all launches; any other step unchanged."""
    if not isinstance(step, Product):
        return step
    addresses = [_address(place, launch) for launch in launches for place in step.places()]
    return replace_fields(step, alignment=math.gcd(_ALIGNMENT, *addresses))


def _loose(taken: Taken, launches: Iterable[Launch]) -> Iterator[Buffer]:
    """The operands and results that are not aligned in every launch."""
    for launch in launches:
        for index, place in enumerate(taken.reads):
            if _address(place, launch) % _ALIGNMENT:
                yield Buffer("operand", index)
        for index, place in enumerate(taken.writes):
            if _address(place, launch) % _ALIGNMENT:
                yield Buffer("result", index)


def _address(place: Place, launch: Launch) -> int:
    """The byte of its arena at which an operand or a result begins."""
    ranges = launch.reads if place.role == "read" else launch.writes
    return ranges[place.index].offset + place.offset


def ways_of(function: func.FuncOp) -> list[Taken]:
    """Recipes by which Triton code computes a body, the most promising first. Raises Declined.

    Composites use hand-written kernels, anything else generated ones.
    """
    if (placed := problem_of_body(function)) is not None:
        implementation = implementation_of(placed.problem)
        recipes = [implementation.recipe(placed.problem, each) for each in implementation.candidates(placed.problem)]
        return [Taken(placed.problem, recipe, placed.operands, placed.results) for recipe in recipes]
    generated = generate(function)
    reads, writes = tuple(_whole("read", function.type.inputs)), tuple(_whole("write", function.type.results))
    return [Taken(generated.problem, recipe, reads, writes) for recipe in generated.recipes]


def _whole(role: Literal["read", "write"], types: Sequence[ir.Type]) -> Iterator[Place]:
    for index, type_ in enumerate(types):
        yield Place(role, index, 0, type_bytes(type_))


@dataclass(frozen=True)
class Compiled:
    """The steps of a kernel in order, the bytes of their scratch memory, and their code by module name."""

    steps: tuple[Dispatch, ...]
    scratch: int
    modules: Mapping[str, CodeModule]


# Cached: a process needs the same code when it selects kernels and when it writes the file, and for other plans.
_KNOWN: dict[tuple[Taken, frozenset[Buffer]], Compiled | DmcError] = {}
_MOST_KNOWN = 2048


def _compiled(wanted: Sequence[tuple[Taken, frozenset[Buffer]]]) -> list[Compiled | DmcError]:
    """The code of each, given its unaligned buffers; or why there is none."""
    if len(_KNOWN) > _MOST_KNOWN:
        _KNOWN.clear()
    missing = [each for each in dict.fromkeys(wanted) if each not in _KNOWN]
    answers = compile_all([Request(taken.problem, taken.recipe, loose) for taken, loose in missing])
    for (taken, loose), answer in zip(missing, answers, strict=True):
        _KNOWN[taken, loose] = answer if isinstance(answer, DmcError) else _as_steps(taken, answer)
    return [_KNOWN[each] for each in wanted]


def _as_steps(taken: Taken, code: KernelCode) -> Compiled | DmcError:
    if code.tables:
        return DmcError(str(taken.problem), "requires tables of addresses", hint="please report the model")
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


def _dispatch(entry: Entry, module: str, taken: Taken, scratch: Sequence[Place], written: set[Buffer]) -> Dispatch:
    """The launch of an entry; adds its writes to `written`, which holds those of earlier launches."""
    writes = {entry.buffers[i] for i in parameter_accesses(entry.ptx)[entry.name].written if i < len(entry.buffers)}

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

    bindings = tuple(Binding(access(buffer), place(buffer)) for buffer in entry.buffers)
    ordered = tuple(
        (i, j)
        for result, operand in taken.recipe.in_place
        for i, read in enumerate(entry.buffers)
        for j, write in enumerate(entry.buffers)
        if read == Buffer("operand", operand) and write == Buffer("result", result)
    )
    written |= writes
    return Dispatch(
        entry.name,
        (entry.programs, 1, 1),
        (entry.threads, 1, 1),
        entry.shared,
        bindings,
        ordered=ordered,
        module=module,
        nulls=entry.nulls,
    )

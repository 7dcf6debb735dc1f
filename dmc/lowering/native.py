"""Kernel bodies → steps of a GPU with code of ours, where `dmc.kernels` has an implementation that takes them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from dmc._mlir import func, ir
from dmc.analysis.kernels.problems import problem_of_body
from dmc.dialect.plan import type_bytes
from dmc.errors import DmcError
from dmc.kernels.code import Entry, compile_recipe
from dmc.kernels.generated import Declined, generate
from dmc.kernels.implementation import implementation_of
from dmc.kernels.problem import TensorType
from dmc.kernels.recipe import Buffer
from dmc.lowering.kernel_code import CodeLibrary
from dmc.lowering.native_kernel import NativeKernel, Taken
from dmc.lowering.products import product_of
from dmc.program import Job, Launch, aligned
from dmc.program.code import Access, Binding, CodeModule, Dispatch, Place
from dmc.program.ptx_accesses import parameter_accesses

# Of the buffers of code of ours, in bytes, where nothing else is said.
_ALIGNMENT = 16


def native_kernels(module: ir.Module, names: Iterable[str]) -> tuple[CodeLibrary, dict[str, str]]:
    """The code of those of the private functions `names` that implementations of ours take, and why none takes others.

    Raises DmcError for a kernel that is taken, but of which Triton makes no code.
    """
    symbols = ir.SymbolTable(module.operation)
    kernels: dict[str, NativeKernel] = {}
    modules: dict[str, CodeModule] = {}
    declined: dict[str, str] = {}
    for name in names:
        function = symbols[name]
        assert isinstance(function, func.FuncOp)
        if (product := product_of(function)) is not None:
            kernels[name] = NativeKernel(name, "cublaslt", (product,), product.workspace.length)
            continue
        try:
            taken = taken_by(function)
        except Declined as reason:
            declined[name] = str(reason)
            continue
        steps, scratch, code = _compiled(taken)
        kernels[name] = NativeKernel(name, "triton", steps, scratch, taken)
        modules.update(code)
    return CodeLibrary("", {}, {}, kernels, modules), declined


def as_launched(library: CodeLibrary, job: Job) -> CodeLibrary:
    """The library, where code of ours takes no operand or result to be better aligned than it is in every launch."""
    loose: dict[str, set[Buffer]] = {}
    for launch in (each for program in job.programs for each in program.commands if isinstance(each, Launch)):
        taken = library.native[launch.kernel].taken if launch.kernel in library.native else None
        if taken is not None:
            loose.setdefault(launch.kernel, set()).update(_loose(taken, launch))
    native, modules = dict(library.native), dict(library.modules)
    for name, buffers in loose.items():
        taken = native[name].taken
        if buffers and taken is not None:
            steps, _, code = _compiled(taken, frozenset(buffers))
            native[name] = replace(native[name], steps=steps)
            modules.update(code)
    return replace(library, native=native, modules=modules)


def _loose(taken: Taken, launch: Launch) -> Iterator[Buffer]:
    for role, places, ranges in (("operand", taken.reads, launch.reads), ("result", taken.writes, launch.writes)):
        for index, place in enumerate(places):
            if (ranges[place.index].offset + place.offset) % _ALIGNMENT:
                yield Buffer("operand" if role == "operand" else "result", index)


def taken_by(function: func.FuncOp) -> Taken:
    """How Triton code computes a body: a composite written by hand, else code generated for it. Raises Declined."""
    if (placed := problem_of_body(function)) is not None:
        implementation = implementation_of(placed.problem)
        candidate, *_ = implementation.candidates(placed.problem)
        recipe = implementation.recipe(placed.problem, candidate)
        return Taken(placed.problem, recipe, placed.operands, placed.results)
    generated = generate(function)
    reads, writes = function.type.inputs, function.type.results
    return Taken(generated.problem, generated.recipes[0], tuple(_whole("read", reads)), tuple(_whole("write", writes)))


def _whole(role: Literal["read", "write"], types: Sequence[ir.Type]) -> Iterator[Place]:
    for index, type_ in enumerate(types):
        yield Place(role, index, 0, type_bytes(type_))


@functools.lru_cache(maxsize=512)
def _compiled(
    taken: Taken, loose: frozenset[Buffer] = frozenset()
) -> tuple[tuple[Dispatch, ...], int, dict[str, CodeModule]]:
    """The steps in order, the bytes of their scratch memory, and their code by the names of its modules.

    loose: buffers that are not aligned (`compile_recipe`).
    """
    code = compile_recipe(taken.problem, taken.recipe, loose=loose)
    if code.tables:
        raise DmcError(str(taken.problem), "needs tables of addresses", hint="please report the model")
    scratch, size = _scratch(code.scratch)
    modules: dict[str, CodeModule] = {}
    steps: list[Dispatch] = []
    written: set[Buffer] = set()
    for entry in code.entries:
        name = f"{entry.name}_{hashlib.sha256(entry.cubin).hexdigest()[:12]}"
        modules[name] = CodeModule(entry.ptx, entry.cubin)
        steps.append(_dispatch(entry, name, taken, scratch, written))
    return tuple(steps), size, modules


def _scratch(types: Sequence[TensorType]) -> tuple[list[Place], int]:
    """Where each tensor of the scratch memory lies, one behind the other, and how much there is."""
    places: list[Place] = []
    size = 0
    for type_ in types:
        places.append(Place("scratch", 0, size, type_.bytes))
        size += aligned(type_.bytes)
    return places, size


def _dispatch(entry: Entry, module: str, taken: Taken, scratch: Sequence[Place], written: set[Buffer]) -> Dispatch:
    """The launch of an entry; what it writes is added to `written`, which holds what those before it have written."""
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

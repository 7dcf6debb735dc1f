"""Kernel bodies → GPU steps with dmc's own code, where `dmc.kernels` has an implementation that supports them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from msgspec.structs import replace as replace_fields

from dmc._mlir import func, ir
from dmc.analysis.kernels.problems import problem_of_body
from dmc.dialect.plan import type_bytes
from dmc.errors import DmcError
from dmc.kernels.generated import Declined
from dmc.kernels.generated.kept import generated
from dmc.kernels.implementation import implementation_of, implementations
from dmc.kernels.recipe import Buffer
from dmc.lowering.cuda.attention import attention_of
from dmc.lowering.cuda.by import asked_of
from dmc.lowering.cuda.native_steps import Compiled, compiled
from dmc.lowering.cuda.products import product_of
from dmc.lowering.kernel_code import CodeLibrary
from dmc.lowering.native_kernel import NativeKernel, Taken
from dmc.memo import Memo
from dmc.plans.verbs import CUBLASLT, IREE, TRITON
from dmc.program import Job, Launch
from dmc.program.code import CodeModule, Place, Product, Step
from dmc.program.kernel import Operand, types_of
from dmc.program.tuning import CUDNN, Choice, Table, algorithm_of

# The default alignment of buffers of dmc's own code, in bytes.
_ALIGNMENT = 16
_UNTUNED = Table()
# The ways of each body, or why there are none.
_WAYS = Memo[str, tuple[Taken, ...] | str](2048)
UNMEASURED = "the most promising; not measured"
ASKED = "the plan asks for it"


def native_kernels(
    module: ir.Module, names: Iterable[str], table: Table = _UNTUNED
) -> tuple[CodeLibrary, dict[str, str]]:
    """The code of those private functions `names` that dmc's implementations support; for the others, why not.

    Each uses the candidate that `table` selects, or the most promising one, of those that the plan allows (`by.py`).
    """
    symbols = ir.SymbolTable(module.operation)
    kernels: dict[str, NativeKernel] = {}
    ways: dict[str, list[Taken]] = {}
    declined: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for name in names:
        function = symbols[name]
        assert isinstance(function, func.FuncOp)
        asked = asked_of(function)
        if asked != TRITON and asked != IREE and (product := product_of(function)) is not None:
            kernels[name] = _by_library(name, product, table.choices.get(kernel_key(function)))
            continue
        try:
            ways[name], reasons[name] = _chosen(function, asked, table)
        except Declined as reason:
            declined[name] = str(reason)
    modules: dict[str, CodeModule] = {}
    while ways:
        # The most promising recipe of each; if it does not compile, the next.
        answers = compiled([(each[0], frozenset()) for each in ways.values()])
        for (name, (taken, *others)), answer in zip(list(ways.items()), answers, strict=True):
            ways[name] = others
            if isinstance(answer, Compiled):
                by = "triton" if taken.library is None else CUDNN
                kernels[name] = NativeKernel(name, by, answer.steps, answer.scratch, taken, reasons[name])
                modules.update(answer.modules)
            elif not others:
                declined[name] = answer.fact
            else:
                reasons[name] = f"not {taken.label} ({answer.fact})"
        ways = {name: others for name, others in ways.items() if others and name not in kernels}
    return CodeLibrary("", {}, {}, kernels, modules), declined


def computed_by(function: func.FuncOp) -> tuple[str, ...]:
    """What can compute a body, so that a plan may ask for it; first what does without measurements."""
    found = [CUBLASLT] if product_of(function) is not None else []
    try:
        ways = ways_of(function)
    except Declined:
        ways = []
    libraries = [CUDNN for way in ways if way.library is not None]
    return (*found, *([TRITON] if ways else []), *libraries, IREE)


def _chosen(function: func.FuncOp, asked: str, table: Table) -> tuple[list[Taken], str]:
    """The ways that may be taken, the best first, and why. Raises Declined for a body that is IREE's."""
    if asked == IREE:
        raise Declined(ASKED)
    found = ways_of(function)
    if choice := _measured(function, found, table):
        found.sort(key=lambda way, label=choice.label: way.label != label)
    allowed = [way for way in found if _is_allowed(way, choice.label if choice else "", asked)]
    return allowed, ASKED if asked else choice.reason() if choice else UNMEASURED


def _is_allowed(way: Taken, measured: str, asked: str) -> bool:
    """Whether a way may be taken: a library that may be missing only where it was measured, or is asked for."""
    if way.library is None:
        return asked != CUDNN
    return asked == CUDNN or (not asked and way.label == measured)


def _by_library(name: str, product: Product, choice: Choice | None) -> NativeKernel:
    """A product with the algorithm measured as fastest, or the library's choice."""
    reason = UNMEASURED
    if choice is not None:
        product = replace_fields(product, algorithm=algorithm_of(choice.label))
        reason = choice.reason()
    return NativeKernel(name, "cublaslt", (product,), product.workspace.length, reason=reason)


def _measured(function: func.FuncOp, ways: Sequence[Taken], table: Table) -> Choice | None:
    """The choice measured for a kernel; for a composite else that for one of the same types, if they agree.

    In a step of several ranks a composite has a decomposition of its own, and may know its place in the whole.
    """
    choice, problem = table.choices.get(kernel_key(function, ways)), ways[0].problem
    if choice is not None or problem.kind not in {each.kind for each in implementations()}:
        return choice
    _, places = problem.apart(problem.operands)
    reads = function.type.inputs[: len(function.type.inputs) - len(places)]
    types = types_of(_operands(reads), _operands(function.type.results))
    keys = [f"{by} {problem.kind} {types}" for by in ("triton", CUDNN)]
    return table.alike(keys, [way.label for way in ways])


def _operands(types: Sequence[ir.Type]) -> tuple[Operand, ...]:
    return tuple(Operand(str(each.element_type), tuple(each.shape)) for each in types)


def kernel_key(function: func.FuncOp, ways: Iterable[Taken] = ()) -> str:
    """A digest of a function's body and types, without its name, and of the labels of its candidates."""
    _, _, text = function.operation.get_asm(use_local_scope=True, assume_verified=True).partition("\n")
    content = "\n".join([str(function.type), text, *(way.label for way in ways)])
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def as_launched(library: CodeLibrary, job: Job) -> CodeLibrary:
    """The library, in which no code assumes better alignment than operands and results have in every launch.

    Raises DmcError for a kernel for which Triton cannot generate such code.
    """
    launches: dict[str, list[Launch]] = {}
    for _, launch in job.launches():
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
    for name, answer in zip(wanted, compiled(list(wanted.values())), strict=True):
        if isinstance(answer, DmcError):
            raise answer
        native[name] = replace(native[name], steps=answer.steps, implementation="triton")
        modules.update(answer.modules)
    return replace(library, native=native, modules=modules)


def _as_aligned(step: Step, launches: Iterable[Launch]) -> Step:
    """A product with the alignment of its matrices over all launches; any other step unchanged.

    Algorithms are measured on fully aligned matrices; for others the library chooses.
    """
    if not isinstance(step, Product):
        return step
    addresses = [_address(place, launch) for launch in launches for place in step.places()]
    alignment = math.gcd(_ALIGNMENT, *addresses)
    return replace_fields(step, alignment=alignment, algorithm=step.algorithm if alignment == _ALIGNMENT else ())


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

    Composites use hand-written kernels, anything else generated ones. Cached by body: kernels are chosen before a step
    is planned, and their code is taken afterwards.
    """
    known = _WAYS.of(kernel_key(function), _known_ways, function)
    if isinstance(known, str):
        raise Declined(known)
    return list(known)


def _known_ways(function: func.FuncOp) -> tuple[Taken, ...] | str:
    try:
        return tuple(_ways(function))
    except Declined as reason:
        return str(reason)


def _ways(function: func.FuncOp) -> list[Taken]:
    if (placed := problem_of_body(function)) is not None:
        implementation = implementation_of(placed.problem)
        recipes = {
            str(each): implementation.recipe(placed.problem, each) for each in implementation.candidates(placed.problem)
        }
        ways = [
            Taken(placed.problem, recipe, placed.operands, placed.results, label) for label, recipe in recipes.items()
        ]
        attention = attention_of(placed)
        return ways if attention is None else [*ways, replace(ways[0], label=CUDNN, library=attention)]
    made = generated(function)
    reads, writes = tuple(_whole("read", function.type.inputs)), tuple(_whole("write", function.type.results))
    labelled = zip(made.recipes, made.labels, strict=True)
    return [Taken(made.problem, recipe, reads, writes, label) for recipe, label in labelled]


def _whole(role: Literal["read", "write"], types: Sequence[ir.Type]) -> Iterator[Place]:
    for index, type_ in enumerate(types):
        yield Place(role, index, 0, type_bytes(type_))

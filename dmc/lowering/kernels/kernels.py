"""Kernel bodies → IREE's code, in one call of its compiler up to its stream dialect.

A kernel that IREE refuses, or that crashes or hangs its compiler, is found alone and compiled in another way.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dmc._mlir import func, ir
from dmc.analysis.kernels.decompositions import decompositions
from dmc.analysis.requests.settings import ways_of
from dmc.errors import CodegenError, DmcError
from dmc.lowering.composites import open_composites
from dmc.lowering.iree.compiler import as_input, check_bindings, command_of, run_iree, stream_text
from dmc.lowering.iree.equal_results import check_results, share_results
from dmc.lowering.iree.failures import kernel_error
from dmc.lowering.iree.isolation import isolate
from dmc.lowering.kernel_code import CodeLibrary, Dispatch, leaves
from dmc.lowering.kernels.kernel_reader import RESOURCE, read_library, resources_of, with_constants
from dmc.lowering.kernels.known_kernels import KnownKernels
from dmc.lowering.kernels.panel_loops import misread_panels
from dmc.lowering.kernels.rewrites import rewrites
from dmc.lowering.kernels.separate import separate_operations
from dmc.memo import kept
from dmc.step_function import functions, symbol
from dmc.target import CPU, Target
from dmc.walk import walk

# Nothing may be computed when a module is loaded, constants stay in the kernels that use them, and values between
# kernels keep the step's types.
_FLAGS = (
    "--iree-global-opt-enable-warn-on-uninitialized-values=false",
    "--iree-input-demote-f64-to-f32=false",
    "--iree-opt-const-eval=false",
    "--iree-opt-const-expr-hoisting=false",
    "--iree-flow-inline-constants-max-byte-length=67108864",
)


@dataclass(frozen=True)
class Way:
    """How IREE compiles a kernel. is_apart: to a dispatch for each operation."""

    flags: tuple[str, ...] = ()
    is_apart: bool = False


# What a kernel is tried with, in order. One formed by dm-form-kernels should be one dispatch.
WAYS = (Way(("--iree-dispatch-creation-enable-aggressive-fusion",)), Way(), Way(is_apart=True))
# The sizes of a tensor but for its first dimension; on a CPU, so many elements may be too large for a thread's stack.
_ROW = re.compile(r"tensor<\d+x(\d[\dx]*)x[a-z]")
_LONG = 1024
_NONE = CodeLibrary("", {}, {})
_KNOWN = KnownKernels()


def compile_kernels(module: ir.Module, names: Iterable[str], target: Target) -> CodeLibrary:
    """The code for `target` of the private functions `names` of `module`, by name.

    Results are cached by body. Raises CodegenError, naming the kernel, its place in the model and a file that
    reproduces it, for a body that IREE compiles in none of `WAYS` to dispatches, fills and copies.
    """
    wanted = sorted(set(names))
    first = tuple(sorted(ways_of(module).items()))
    without_panels: frozenset[str] = frozenset()
    while True:
        text = _kernel_module(module, wanted, target, without_panels)
        library, failed = _compiled(text, target, first)
        for name, error in failed.items():
            raise kernel_error(module, name, error, only(text, {name}), target, *_FLAGS, "--compile-to=stream")
        misread = misread_panels(text, library) - without_panels
        if not misread:
            return library
        # IREE changed a product into a form that the loops over panels cannot replace. What it makes of the others may
        # change without these, so they are checked again; each round has fewer panels.
        without_panels |= misread


def next_ways(module: ir.Module, error: CodegenError, library: CodeLibrary, target: Target) -> dict[str, int]:
    """The ways to try next for the kernels for whose code in `library` code generation failed.

    Raises CodegenError for a kernel that has been tried in all, and `error` where no kernel is at fault.
    """
    if not error.kernels:
        raise error
    ways = {name: library.ways[name] + 1 for name in sorted(error.kernels)}
    for name, number in ways.items():
        if number == len(WAYS):
            raise kernel_error(module, name, error, _kernel_module(module, [name], target), target, *_FLAGS)
    return ways


@kept(8)
def _compiled(
    text: str, target: Target, first: tuple[tuple[str, int], ...]
) -> tuple[CodeLibrary, Mapping[str, CodegenError]]:
    """The code of the functions of a module, and the errors of those that have none.

    first: the number of the way with which to begin, of those that do not begin with the first.
    """
    failed: dict[str, CodegenError] = {}
    pending = set(_names(text))
    # Without kernels, IREE still says what the device is.
    library = _NONE if pending else _library(text, target, WAYS[0])
    for number, way in enumerate(WAYS):
        tried = frozenset(name for name in pending if dict(first).get(name, 0) <= number)
        isolated = isolate(tried, lambda some, way=way: _library(only(text, some), target, way))
        library = functools.reduce(CodeLibrary.joined, isolated.made, library)
        library = replace(library, ways={**library.ways, **dict.fromkeys(tried - isolated.failed.keys(), number)})
        failed |= isolated.failed
        pending -= library.kernels.keys()
    return library, {name: error for name, error in failed.items() if name in pending}


def _library(text: str, target: Target, way: Way) -> CodeLibrary:
    """The code of the functions of a module, compiled in one way, now or before. Raises CodegenError."""
    if target.name != CPU.name:
        # What is compiled together decides how doubtful kernels are compiled (`check_sizes`): all ranks must agree.
        return _made(text, target, way)
    how = (target, way, tuple(command_of(target)))
    return _KNOWN.library(_bodies(text), how, lambda names: _made(only(text, names), target, way))


def _made(text: str, target: Target, way: Way) -> CodeLibrary:
    if way.is_apart:
        text = separate_operations(text)
    schedule = stream_text(text, target, *_FLAGS, *way.flags)
    check_bindings(schedule, target)
    library = read_library(schedule)
    if way.flags:
        check_sizes(text, library, target, way)
    if doubtful := share_results(library):
        given = as_input(only(text, doubtful))
        check_results(library, run_iree(given, target, *_FLAGS, "--compile-to=global-optimization").decode())
    return library


def check_sizes(text: str, library: CodeLibrary, target: Target, way: Way) -> None:
    """Raises CodegenError for kernels for which IREE forms a dispatch that its code generation then rejects.

    It may fuse a reduction with loops whose intermediate values do not fit into registers or a thread's stack. Only
    code generation can tell, so kernels of which that is likely go through its first half on their own; of others, a
    step's code generation may tell later, and the step is planned again (`next_ways`).
    """
    doubtful = frozenset(name for name in library.kernels if may_be_large(library, name, target))

    def generate(names: frozenset[str]) -> None:
        given = as_input(only(text, names))
        try:
            run_iree(given, target, *_FLAGS, *way.flags, "--compile-to=executable-targets")
        except CodegenError as error:
            # GPU code for barely accepted kernels, such as rows of 30522 numbers, takes many minutes to generate: if
            # one is rejected, none is trusted.
            raise error if target.name == CPU.name else error.at(names) from error

    if failed := isolate(doubtful, generate).failed:
        *_, error = failed.values()
        raise error.at(failed)


def may_be_large(library: CodeLibrary, name: str, target: Target) -> bool:
    """Whether a dispatch of the kernel contains a reduction and, on a CPU, long rows."""
    used = {step.executable for step in leaves(library.kernels[name].commands) if isinstance(step, Dispatch)}
    reducing = [text for each in used if '"reduction"' in (text := library.executables[each])]
    if target.name != CPU.name:
        return bool(reducing)
    rows = {row for text in reducing for row in _ROW.findall(text)}
    return any(math.prod(map(int, row.split("x"))) >= _LONG for row in rows)


def only(text: str, names: Collection[str]) -> str:
    """The module with these functions only."""
    module = ir.Module.parse(text)
    others = [each for each in functions(module) if symbol(each) not in names]
    for function in others:
        function.operation.erase()
    return module.operation.get_asm() if others else text


def _names(text: str) -> list[str]:
    module = ir.Module.parse(text)
    return [symbol(each) for each in functions(module)]


def _bodies(text: str) -> dict[str, str]:
    """The functions of a module by name, as text without it, with all constants."""
    module = ir.Module.parse(text)
    # A context may give resources other names than a text does.
    resources = resources_of(module.operation.get_asm()) if RESOURCE in text else {}
    texts = {symbol(each): each.operation.get_asm(use_local_scope=True) for each in functions(module)}
    return {name: with_constants(body, resources).replace(f"@{name}(", "@(", 1) for name, body in texts.items()}


def _kernel_module(
    module: ir.Module, names: Sequence[str], target: Target, without_panels: frozenset[str] = frozenset()
) -> str:
    """The text of a module of public functions, with the storage of each result as a trailing argument.

    Without it IREE would pack the results of a kernel into memory of its own choice.
    """
    symbols = ir.SymbolTable(module.operation)
    kernels = ir.Module.create(loc=module.operation.location)
    with ir.InsertionPoint(kernels.body):
        for name in names:
            _add_public(symbols[name].operation)
    open_composites(kernels, [symbols[name].operation for name in decompositions(module, names)])
    for each in rewrites(target, without_panels):
        each.run(kernels)
    return kernels.operation.get_asm()


def _add_public(body: ir.Operation) -> None:
    """A copy of the function `body`, with a storage argument for each result, at the insertion point."""
    _check(body)
    given: ir.FunctionType = body.attributes["function_type"].value
    kernel = body.clone()
    block = kernel.regions[0].blocks[0]
    index = ir.IndexType.get()
    attributes = [ir.DictAttr.get({}) for _ in given.inputs]
    for number, result in enumerate(given.results):
        block.add_argument(result, body.location)
        attributes.append(ir.DictAttr.get({"iree.abi.output": ir.IntegerAttr.get(index, number)}))
    type_ = ir.FunctionType.get([*given.inputs, *given.results], given.results)
    for name in [name for name in kernel.attributes if name != "sym_name"]:
        del kernel.attributes[name]
    kernel.attributes["function_type"] = ir.TypeAttr.get(type_)
    kernel.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


def _check(body: ir.Operation) -> None:
    """Raises DmcError for operations that must not be in a kernel when it is compiled."""
    for op in walk(body):
        if op.name == func.CallOp.OPERATION_NAME:
            raise DmcError(op, f"is in kernel {body.attributes['sym_name']}, which must be self-contained", "inline it")

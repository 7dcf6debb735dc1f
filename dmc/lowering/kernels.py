"""Kernel bodies → IREE's code, in one call of its compiler up to its stream dialect."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence

from dmc._mlir import func, ir
from dmc.analysis.kernels.decompositions import decompositions
from dmc.errors import DmcError
from dmc.lowering.composites import open_composites
from dmc.lowering.deep_products import split_deep_products
from dmc.lowering.equal_results import mixed_up, refuse, share_results
from dmc.lowering.iree import as_input, check_bindings, run_iree, stream_text
from dmc.lowering.kernel_code import CodeLibrary, Dispatch, leaves
from dmc.lowering.kernel_reader import read_library
from dmc.lowering.panel_loops import misread_panels
from dmc.lowering.panels import pack_panels
from dmc.lowering.rounding import keep_rounding
from dmc.lowering.transposes import isolate_transposes, separate_transposes
from dmc.target import CPU, Target
from dmc.walk import walk

# A kernel formed by dm-form-kernels should be one dispatch.
_ONE_DISPATCH = "--iree-dispatch-creation-enable-aggressive-fusion"
# Nothing may be computed when a module is loaded, constants stay in the kernels that use them, and values between
# kernels keep the step's types.
_FLAGS = (
    "--iree-global-opt-enable-warn-on-uninitialized-values=false",
    "--iree-input-demote-f64-to-f32=false",
    "--iree-opt-const-eval=false",
    "--iree-opt-const-expr-hoisting=false",
    "--iree-flow-inline-constants-max-byte-length=65536",
)
_KERNEL = re.compile(r"@(\w+?)(?:_dispatch_\d+\w*)?\b")


def compile_kernels(module: ir.Module, names: Iterable[str], target: Target) -> CodeLibrary:
    """The code for `target` of the private functions `names` of `module`, by name.

    Results are cached by body. Raises DmcError, naming the kernel, for a body that IREE compiles to more than
    dispatches, fills and copies.
    """
    wanted = sorted(set(names))
    without_panels: frozenset[str] = frozenset()
    while True:
        text = _kernel_module(module, wanted, target, without_panels)
        library = _compiled(text, target)
        misread = misread_panels(text, library) - without_panels
        if not misread:
            return library
        # IREE changed a product into a form that the loops over panels cannot replace. What it makes of the others may
        # change without these, so they are checked again; each round has fewer panels.
        without_panels |= misread


@functools.lru_cache(maxsize=8)
def _compiled(text: str, target: Target) -> CodeLibrary:
    library = _library(text, target, _ONE_DISPATCH)
    several = too_large(text, library, target) | _mixed_up(text, library, target)
    if not several:
        return library
    one = _library(without(text, several), target, _ONE_DISPATCH) if several < set(library.kernels) else None
    alone = without(text, set(library.kernels) - several)
    rest = _library(alone, target)
    refuse(_mixed_up(alone, rest, target))
    return rest if one is None else one.joined(rest)


def _library(text: str, target: Target, *flags: str) -> CodeLibrary:
    schedule = stream_text(text, target, *_FLAGS, *flags)
    check_bindings(schedule, target)
    return read_library(schedule)


def _mixed_up(text: str, library: CodeLibrary, target: Target) -> set[str]:
    """The kernels of which IREE mixes results up (`dmc.lowering.equal_results`)."""
    doubtful = share_results(library)
    if not doubtful:
        return set()
    only = without(text, set(library.kernels) - doubtful)
    return mixed_up(library, run_iree(as_input(only), target, *_FLAGS, "--compile-to=preprocessing").decode())


def too_large(text: str, library: CodeLibrary, target: Target) -> set[str]:
    """The kernels for which IREE forms a dispatch that its code generation then rejects.

    It may fuse a reduction with loops whose intermediate values do not fit into registers or a thread's stack. Only
    code generation can tell, so kernels that reduce go through its first half once on their own.
    """
    every = set(library.kernels)
    doubtful = {name for name in every if reduces(library, name)}
    return _refused(lambda names: without(text, every - names), doubtful, target)


def _refused(only: Callable[[set[str]], str], names: set[str], target: Target) -> set[str]:
    """Those of the kernels `names` that code generation rejects; `only`: the module with just some kernels."""
    if not names:
        return set()
    try:
        run_iree(as_input(only(names)), target, *_FLAGS, _ONE_DISPATCH, "--compile-to=executable-targets")
    except DmcError as error:
        if target.name != CPU.name:
            # GPU code for barely accepted kernels, such as rows of 30522 numbers, takes many minutes to generate: if
            # one is rejected, none is trusted.
            return names
        # After its message, IREE shows where it failed: lines of the input functions, or the dispatches.
        named = {name for name in _KERNEL.findall(str(error.__cause__)) if name in names}
        if not named and len(names) == 1:
            return names
        parts = [names - named] if named else _halves(names)
        return named.union(*(_refused(only, part, target) for part in parts))
    return set()


def _halves(names: set[str]) -> list[set[str]]:
    """The first half of the names and the second."""
    ordered = sorted(names)
    return [set(ordered[: len(ordered) // 2]), set(ordered[len(ordered) // 2 :])]


def reduces(library: CodeLibrary, name: str) -> bool:
    """Whether a dispatch of the kernel contains a reduction."""
    used = {step.executable for step in leaves(library.kernels[name].commands) if isinstance(step, Dispatch)}
    return any('"reduction"' in library.executables[each] for each in used)


def without(text: str, names: set[str]) -> str:
    """The module without these functions."""
    module = ir.Module.parse(text)
    for function in list(module.body.operations):
        if function.operation.attributes["sym_name"].value in names:
            function.operation.erase()
    return module.operation.get_asm()


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
    if target.name == CPU.name:
        split_deep_products(kernels)
        keep_rounding(kernels)
        pack_panels(kernels, without_panels)
    isolate_transposes(kernels)
    separate_transposes(kernels)
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

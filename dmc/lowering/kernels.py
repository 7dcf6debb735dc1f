"""Kernel bodies → what IREE makes of them, in one call of its compiler up to its stream dialect."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.errors import DmcError
from dmc.lowering.iree import check_bindings, stream_text
from dmc.lowering.kernel_code import CodeLibrary
from dmc.lowering.kernel_reader import read_library
from dmc.lowering.transposes import isolate_transposes
from dmc.target import Target
from dmc.walk import walk

# Nothing may be computed when a module is loaded, and constants stay in the kernels that use them. What dm-form-kernels
# put into a kernel is to be one dispatch, and values between kernels have the types that the step gives them.
_FLAGS = (
    "--iree-dispatch-creation-enable-aggressive-fusion",
    "--iree-input-demote-f64-to-f32=false",
    "--iree-opt-const-eval=false",
    "--iree-opt-const-expr-hoisting=false",
    "--iree-flow-inline-constants-max-byte-length=65536",
)


def compile_kernels(module: ir.Module, names: Iterable[str], target: Target) -> CodeLibrary:
    """The code for `target` of the private functions `names` of `module`, each by its name.

    Asking again for the same bodies compiles nothing. Raises DmcError, naming the kernel, for a body that IREE makes
    more of than dispatches, fills and copies.
    """
    text = _kernel_module(module, sorted(set(names)))
    return _compiled(text, target)


@functools.lru_cache(maxsize=8)
def _compiled(text: str, target: Target) -> CodeLibrary:
    schedule = stream_text(text, target, *_FLAGS)
    check_bindings(schedule)
    return read_library(schedule)


def _kernel_module(module: ir.Module, names: Sequence[str]) -> str:
    """The text of a module of public functions, of which each result has its storage as a last argument.

    Without that storage IREE would pack the results of a kernel into memory of its own choice.
    """
    symbols = ir.SymbolTable(module.operation)
    kernels = ir.Module.create(loc=module.operation.location)
    with ir.InsertionPoint(kernels.body):
        for name in names:
            _add_public(symbols[name].operation)
    isolate_transposes(kernels)
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
    """Raises DmcError for what must not stand in a kernel when its code is made."""
    for op in walk(body):
        if op.name == dm.CompositeOp.OPERATION_NAME:
            hint = "inline composites (dm-inline-composites) before kernels are selected"
            raise DmcError(
                op, f"stands in kernel {body.attributes['sym_name']}, for which there is IREE's code only", hint
            )
        if op.name == func.CallOp.OPERATION_NAME:
            raise DmcError(
                op, f"stands in kernel {body.attributes['sym_name']}, which must hold all it does", "inline it"
            )

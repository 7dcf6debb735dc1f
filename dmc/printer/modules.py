"""Functions, operations and regions, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from dmc._mlir import func, ir
from dmc.dialect import StartOp, YieldOp
from dmc.memo import remembering
from dmc.printer.attributes import type_text
from dmc.printer.formats import op_text, rest
from dmc.printer.loops import is_scalar, loop_lines
from dmc.printer.scopes import Scope, stands_for

_INDENT = "  "
_WIDTH = 100
_WITH_BODY = ("linalg.generic", "linalg.map", "linalg.reduce")
_OF_FUNCTIONS = ("sym_name", "function_type", "arg_attrs", "res_attrs", "sym_visibility")


@remembering()
def printed(module: ir.Module) -> str:
    """The text of a module, in any form, for people: without locations."""
    return "\n".join(_lines(module.operation, Scope(ir.AsmState(module.operation)))) + "\n"


def _lines(op: ir.Operation, scope: Scope) -> Iterator[str]:
    match op.name:
        case func.FuncOp.OPERATION_NAME:
            yield from _function(op, scope)
        case "linalg.generic" if is_scalar(op):
            first, *others = loop_lines(op, scope)
            yield _results(op, scope) + first
            yield from others
        case StartOp.OPERATION_NAME:
            yield _results(op, scope) + _start(op, scope)
        case _:
            yield _results(op, scope) + op_text(op, scope)
            # The body of a named operation of linalg is what its name says.
            for region in op.regions if not op.name.startswith("linalg.") or op.name in _WITH_BODY else ():
                yield from _region(region, scope)


def _results(op: ir.Operation, scope: Scope) -> str:
    """`%0#0, %0#1: 2x4xf32, %0#2: i1 = `. A token that nothing reads is left out."""
    seen = [each for each in op.results if str(each.type) != "!dm.token" or list(each.uses)]
    alike = [(type_, ", ".join(map(scope.name, some))) for type_, some in groupby(seen, lambda each: each.type)]
    return ", ".join(f"{names}: {type_text(type_)}" for type_, names in alike) + (" = " if seen else "")


def _start(op: ir.Operation, scope: Scope) -> str:
    """A movement and how it is started, in one line: `start copy(%arg0) pinned_host -> device on copy_in`."""
    body = op.regions[0].blocks[0]
    given = list(op.operands)[: len(body.arguments)]
    inner = replace(scope, known={a: scope.text(b) for a, b in zip(body.arguments, given, strict=True)})
    movement = next(each.operation for each in body.operations if each.operation.name != YieldOp.OPERATION_NAME)
    after = ", ".join(scope.text(each) for each in list(op.operands)[len(given) :])
    waits = f" after {after}" if after else ""
    queue = op.attributes["queue"].value
    return f"start on {queue}{waits}: {op_text(movement, inner)} #{op.attributes['instance'].value}"


def _function(op: ir.Operation, scope: Scope) -> Iterator[str]:
    """A function; its arguments have lines of their own where they have attributes, or are many."""
    kind: ir.FunctionType = op.attributes["function_type"].value
    others = {name: op.attributes[name] for name in op.attributes if name not in _OF_FUNCTIONS}
    head, results = f"func @{op.attributes['sym_name'].value}", ", ".join(map(type_text, kind.results))
    blocks = list(op.regions[0].blocks)
    names = [f"{scope.name(each)}: " for each in blocks[0].arguments] if blocks else [""] * len(kind.inputs)
    arguments = [name + type_text(each) for name, each in zip(names, kind.inputs, strict=True)]
    if "arg_attrs" in op.attributes:
        attributes = [{each.name: each.attr for each in named} for named in op.attributes["arg_attrs"]]
        arguments = [each + rest(named) for each, named in zip(arguments, attributes, strict=True)]
    end = f") -> ({results}){rest(others)}:"
    if "arg_attrs" in op.attributes or len(head) + sum(map(len, arguments)) > _WIDTH:
        yield f"{head}("
        yield from (f"{_INDENT * 2}{each}" for each in arguments)
        yield end
    else:
        yield f"{head}({', '.join(arguments)}{end}"
    for block in blocks:
        yield from _block(block, scope)


def _region(region: ir.Region, scope: Scope) -> Iterator[str]:
    for block in region.blocks:
        if len(block.arguments):
            arguments = [f"{scope.name(each)}: {type_text(each.type)}" for each in block.arguments]
            yield f"{_INDENT}with {', '.join(arguments)}:"
        yield from _block(block, scope)


def _block(block: ir.Block, scope: Scope) -> Iterator[str]:
    for each in block.operations:
        if stands_for(each.operation) is None:
            yield from (_INDENT + line for line in _lines(each.operation, scope))

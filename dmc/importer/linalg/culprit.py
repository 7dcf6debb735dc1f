"""The operation on which torch-mlir crashes or does not finish: the first that does so alone."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dmc._mlir import func, ir
from dmc.importer.linalg.apart import Died, passed
from dmc.walk import walk

# Passes on one operation may take so long.
ALONE_S = 30
_TENSOR = ("!torch.vtensor", "tensor<")


def culprit(module: ir.Module, pipeline: str) -> tuple[str, ir.Module]:
    """The location of an operation for which the passes end their process, and a module of it alone.

    An empty location, and the whole, if every operation passes by itself.
    """
    for location, alone in _each_alone(module):
        try:
            passed(alone, pipeline, ALONE_S)
        except Died:
            return location, alone
    return "", module


def reproducer(module: ir.Module, pipeline: str) -> Path:
    """A file with a module, and the command that runs the passes on it."""
    with tempfile.NamedTemporaryFile("w", prefix="dmc-torch-mlir-", suffix=".mlir", delete=False) as file:
        command = ("python", "-m", "dmc.importer.linalg.torch_passes", pipeline, file.name)
        file.write(f"// {shlex.join(command)}\n{module}")
    return Path(file.name)


def _each_alone(module: ir.Module) -> Iterator[tuple[str, ir.Module]]:
    """The location of each operation, and a module of it alone; of equal ones, the first."""
    seen: set[str] = set()
    for op in walk(module.operation):
        if op.parent is None or op.parent.name != "func.func" or op.name.endswith("return"):
            continue
        with module.context, op.location:
            alone = _alone(op)
        if (text := str(alone)) not in seen:
            seen.add(text)
            yield str(op.location), alone


def _alone(op: ir.Operation) -> ir.Module:
    """A function that computes one operation, of tensors that it is given."""
    module = ir.Module.create()
    given = list(dict.fromkeys(value for each in _with_numbers(op) for value in each.operands if _is_given(value)))
    types = [value.type for value in given], [result.type for result in op.results]
    with ir.InsertionPoint(module.body):
        function = func.FuncOp("alone", types, visibility="private")
    block = function.add_entry_block()
    values = dict(zip(given, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for each in _with_numbers(op):
            copy = each.clone()
            for index, operand in enumerate(each.operands):
                copy.operands[index] = values[operand]
            values |= dict(zip(each.results, copy.results, strict=True))
        func.ReturnOp([values[result] for result in op.results])
    return module


def _with_numbers(op: ir.Operation) -> list[ir.Operation]:
    """An operation after those that make its other operands: numbers, and lists of them."""
    before = [operand.owner.operation for operand in op.operands if not _is_given(operand)]
    found = [each for owner in before for each in _with_numbers(owner)]
    return [*dict.fromkeys(found), op]


def _is_given(value: ir.Value) -> bool:
    """Whether the function is given it: a tensor, or an argument."""
    return isinstance(value.owner, ir.Block) or str(value.type).startswith(_TENSOR)

"""The bodies of kernels, evaluated with numpy: the only module here that the interpreter of jobs does not need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmc._mlir import func, ir
from dmc.dialect import CompositeOp
from dmc.dtypes import Array
from dmc.errors import DmcError
from dmc.interpreter.kernels import KernelFunction
from dmc.interpreter.scalars import dtype_of
from dmc.interpreter.tensors import evaluate


def kernels_of(module: ir.Module) -> dict[str, KernelFunction]:
    """Each private function of a module that has a body as a function on arrays, by its name.

    They raise DmcError, naming the operation, for one that the interpreter does not support.
    """
    bodies = Bodies.of(module)
    return {name: bodies.callable(name) for name, op in bodies.functions.items() if _is_private(op)}


@dataclass(frozen=True)
class Bodies:
    """Calls the functions of a module that have a body, by name."""

    # Operations do not keep their module alive.
    module: ir.Module
    functions: Mapping[str, ir.Operation]

    @staticmethod
    def of(module: ir.Module) -> Bodies:
        """The functions of a module, looked up when called."""
        functions = [
            op.operation for op in module.body.operations if isinstance(op, func.FuncOp) and not op.is_external
        ]
        return Bodies(module, {ir.StringAttr(op.attributes["sym_name"]).value: op for op in functions})

    def callable(self, name: str) -> KernelFunction:
        """The function `name` on arrays of its operands' types."""
        return lambda operands: self.call(name, operands)

    def call(self, name: str, operands: Sequence[Array]) -> list[Array]:
        """The results of function `name`, contiguous and of its types."""
        block = self.functions[name].regions[0].blocks[0]
        results = self._block(block, {}, operands)
        # An operand that a body passes through must not be aliased: the caller may write to it.
        return [np.array(array, order="C") for array in results]

    def _block(self, block: Any, outer: Mapping[Any, Any], operands: Sequence[Any]) -> list[Any]:
        """The operands of a block's terminator; `outer` are the visible values of enclosing blocks."""
        values = {**outer, **dict(zip(block.arguments, operands, strict=True))}
        *body, terminator = [view.operation for view in block.operations]
        for op in body:
            for result, value in zip(op.results, self._op(op, values), strict=True):
                values[result] = _typed(op, result.type, value)
        return [values[operand] for operand in terminator.operands]

    def _op(self, op: Any, values: Mapping[Any, Any]) -> Sequence[Any]:
        operands = [values[operand] for operand in op.operands]
        match op.name:
            case CompositeOp.OPERATION_NAME:
                return self.call(op.attributes["decomposition"].value, operands)
            case func.CallOp.OPERATION_NAME:
                return self.call(op.attributes["callee"].value, operands)
            case "scf.for":
                return self._loop(op, values, *operands)
            case "scf.if":
                return self._block(op.regions[0 if operands[0] else 1].blocks[0], values, [])
            case _:
                return evaluate(op, values)

    def _loop(self, op: Any, values: Mapping[Any, Any], first: Any, last: Any, step: Any, *carried: Any) -> list[Any]:
        current = list(carried)
        for i in range(int(first), int(last), int(step)):
            current = self._block(op.regions[0].blocks[0], values, [np.int64(i), *current])
        return current


def _typed(op: Any, type_: Any, value: Any) -> Any:
    """The value, if it has the type. Otherwise the interpreter is wrong."""
    given, shape = np.shape(value), tuple(type_.shape) if isinstance(type_, ir.RankedTensorType) else ()
    unknown = ir.ShapedType.get_dynamic_size()
    fits = len(given) == len(shape) and all(size in (own, unknown) for own, size in zip(given, shape, strict=True))
    if not fits or value.dtype != dtype_of(type_):
        raise DmcError(op, f"returns {value.dtype} of shape {np.shape(value)} for {type_}", "fix dmc/interpreter")
    return value


def _is_private(op: ir.Operation) -> bool:
    visibility = op.attributes.get("sym_visibility")
    return visibility is not None and visibility.value == "private"

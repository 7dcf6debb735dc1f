"""FX graphs → linalg on tensors through torch-mlir, with composites kept as `dm.composite`.

A composite arrives as `torch.operator "torch.dmc.gelu"`. Its constants become parameters, its tensors stay operands,
and everything around it is lowered; then the operator becomes `dm.composite`, whose decomposition is imported from the
composite's definition, once for each combination of types and parameters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras.fx_importer import ContextCache, FxImporter, GraphNodeImporter

from dmc._mlir import ir, passmanager
from dmc.errors import ImportFailure
from dmc.importer import origin
from dmc.importer.composite import NAMESPACE, REGISTRY, Composite
from dmc.importer.differentiate import trace
from dmc.walk import walk

# torch-mlir's ready pipeline contains torch-reduce-op-variants, which refuses unknown operators and which a functional
# graph does not need; these are the rest of its passes.
_FUNCTION_PASSES = (
    "torch-decompose-complex-ops{legal-ops=}",
    "torch-scalarize-shapes",
    "canonicalize",
    "convert-torch-to-linalg",
    "convert-torch-to-scf",
    "convert-torch-to-arith",
    "convert-torch-to-tensor",
    "canonicalize",
    "cse",
)
PIPELINE = f"builtin.module(func.func({','.join(_FUNCTION_PASSES)}),torch-func-backend-type-conversion)"
FINISH = "builtin.module(func.func(canonicalize,torch-finalizing-backend-type-conversion,canonicalize,cse))"
_OPERATOR = f"torch.{NAMESPACE}."
_MLIR_TO_TORCH = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "si64": torch.int64,
    "si32": torch.int32,
    "si8": torch.int8,
    "ui8": torch.uint8,
    "i1": torch.bool,
}


@dataclass
class TorchModule:
    """A module that functions are imported into; `lower` makes it linalg with composites."""

    context: ir.Context
    importer: FxImporter = field(init=False)
    decompositions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        torch_dialect.register_dialect(self.context)
        self.importer = FxImporter(context=self.context, graph_node_importer_cls=_NodeImporter)

    @property
    def module(self) -> ir.Module:
        """The module under construction."""
        return self.importer.module

    def add(self, graph: fx.Graph, name: str) -> None:
        """Imports `graph` as private function `name`, with the decompositions that its composites need."""
        function = self.importer.import_stateless_graph(graph, func_name=name, func_visibility="private")
        for op in walk(function):
            if op.name == "torch.operator" and _operator_name(op).startswith(_OPERATOR):
                self._specialise(op)

    def lower(self) -> None:
        """Lowers everything to linalg; raises ImportFailure naming the operation that torch-mlir cannot lower."""
        try:
            passmanager.PassManager.parse(PIPELINE, self.context).run(self.module.operation)
        except ir.MLIRError as error:
            raise _lowering_failure(error) from error
        for op in walk(self.module.operation):
            _refuse_leftover(op)
        # Listed first: converting one erases casts beside it, which a walk under way must not meet.
        for op in [op for op in walk(self.module.operation) if op.name == "torch.operator"]:
            _to_composite(op)
        _erase_asserts(self.module)
        passmanager.PassManager.parse(FINISH, self.context).run(self.module.operation)

    def _specialise(self, op: ir.Operation) -> None:
        """Moves the constant operands of a composite into attributes and imports its decomposition."""
        composite = REGISTRY[_operator_name(op).removeprefix(_OPERATOR)]
        constants = [_constant(operand) for operand in op.operands]
        parameters = {
            name: constant.value
            for name, constant in zip(composite.arguments, constants, strict=True)
            if constant is not None
        }
        tensors = [operand for operand, constant in zip(op.operands, constants, strict=True) if constant is None]
        key = f"{composite.name}({', '.join(str(t.type) for t in tensors)}){sorted(parameters.items())}"
        if key not in self.decompositions:
            stem = composite.name
            self.decompositions[key] = f"{stem}_{len(self.decompositions)}"
            self._import_definition(composite, tensors, parameters, self.decompositions[key])
        with op.location:
            replacement = ir.Operation.create(
                "torch.operator",
                results=[result.type for result in op.results],
                operands=tensors,
                attributes={
                    "name": op.attributes["name"],
                    "decomposition": ir.FlatSymbolRefAttr.get(self.decompositions[key]),
                    "parameters": ir.DictAttr.get({name: _attribute(value) for name, value in parameters.items()}),
                },
                ip=ir.InsertionPoint(op),
            )
        for old, new in zip(op.results, replacement.results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()

    def _import_definition(
        self, composite: Composite, tensors: Sequence[ir.Value], parameters: dict[str, Any], name: str
    ) -> None:
        names = [argument for argument in composite.arguments if argument not in parameters]
        examples = [_example(tensor.type) for tensor in tensors]

        def definition(*flat: torch.Tensor) -> Any:
            return composite.definition(**dict(zip(names, flat, strict=True)), **parameters)

        self.add(trace(definition, examples).graph, name)


class _NodeImporter(GraphNodeImporter):
    """Locates every operation by module path and the user's own source line."""

    def __init__(self, importer: Any, context: Any, cache: Any, block: Any) -> None:
        super().__init__(importer, context, _LocatedCache.over(cache), block)


class _LocatedCache(ContextCache):
    @staticmethod
    def over(cache: ContextCache) -> _LocatedCache:
        located = _LocatedCache(cache._c, py_attr_tracker=cache._py_attr_tracker)
        located._dtype_to_type = cache._dtype_to_type
        return located

    def get_node_location(self, node: fx.Node) -> ir.Location:
        place = origin.of_node(node)
        line = ir.Location.file(place.file, place.line, 0, self._c) if place.file else ir.Location.unknown(self._c)
        return ir.Location.name(f"{place.module}#{origin.op_name(node.target)}", line, self._c)


@dataclass(frozen=True)
class _Constant:
    value: Any


def _operator_name(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["name"]).value


def _constant(value: ir.Value) -> _Constant | None:
    """The Python value of a torch constant; None for a tensor."""
    if "tensor" in str(value.type).split("<")[0]:
        return None
    owner = value.owner
    assert isinstance(owner, ir.Operation | ir.OpView)
    op = owner.operation
    match op.name:
        case "torch.constant.none":
            return _Constant(None)
        case "torch.prim.ListConstruct":
            items = [_constant(item) for item in op.operands]
            return _Constant([item.value for item in items if item is not None])
        case "torch.constant.int" | "torch.constant.float" | "torch.constant.bool" | "torch.constant.str":
            return _Constant(op.attributes["value"].value)
        case _:
            raise AssertionError(f"composite argument made by {op.name}")


def _attribute(value: Any) -> ir.Attribute:
    match value:
        case None:
            return ir.UnitAttr.get()
        case bool():
            return ir.BoolAttr.get(value)
        case int():
            return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
        case float():
            return ir.FloatAttr.get(ir.F64Type.get(), value)
        case str():
            return ir.StringAttr.get(value)
        case list():
            return ir.DenseI64ArrayAttr.get(value)
        case _:
            raise AssertionError(f"composite parameter {value!r}")


_TENSOR = re.compile(r"!torch\.vtensor<\[([\d,]*)\],(\w+)>")


def _example(tensor_type: ir.Type) -> torch.Tensor:
    match = _TENSOR.fullmatch(str(tensor_type))
    assert match is not None, str(tensor_type)
    sizes = [int(size) for size in match[1].split(",") if size]
    return torch.empty(sizes, dtype=_MLIR_TO_TORCH[match[2]])


def _to_composite(op: ir.Operation) -> None:
    """`to_builtin(torch.operator(from_builtin(x)))` → `dm.composite(x)`"""
    operands = [_builtin(operand) for operand in op.operands]
    types = [_builtin_type(result.type) for result in op.results]
    kind = _operator_name(op).removeprefix(_OPERATOR)
    with op.location:
        composite = ir.Operation.create(
            "dm.composite",
            results=types,
            operands=operands,
            attributes={
                "kind": ir.StringAttr.get(kind),
                "decomposition": op.attributes["decomposition"],
                "parameters": op.attributes["parameters"],
            },
            ip=ir.InsertionPoint(op),
        )
    for old, new in zip(op.results, composite.results, strict=True):
        _replace_torch_value(old, new)
    arguments = [operand.owner for operand in op.operands]
    op.erase()
    for owner in arguments:
        if isinstance(owner, ir.Operation | ir.OpView) and not list(owner.operation.results[0].uses):
            owner.operation.erase()


def _erase_asserts(module: ir.Module) -> None:
    """torch-mlir asserts inside kernels that an index is in range and that nothing is divided by zero.

    Kernels cannot report; the first is taken care of by `rules.py`, and the second is no error but infinity.
    """
    for op in [op for op in walk(module.operation) if op.name == "cf.assert"]:
        op.erase()


def _replace_torch_value(old: ir.Value, new: ir.Value) -> None:
    """Gives the users of a torch tensor the builtin tensor `new`; other composites read it through a cast."""
    users = [use.owner.operation for use in old.uses]
    for cast in [user for user in users if user.name == "torch_c.to_builtin_tensor"]:
        cast.results[0].replace_all_uses_with(new)
        cast.erase()
    if list(old.uses):
        assert isinstance(old.owner, ir.Operation | ir.OpView)
        # Detached operations cannot be moved, so the cast is made where the old value was.
        point = ir.InsertionPoint(old.owner)
        with old.owner.operation.location:
            cast = ir.Operation.create("torch_c.from_builtin_tensor", results=[old.type], operands=[new], ip=point)
        old.replace_all_uses_with(cast.results[0])


def _builtin(value: ir.Value) -> ir.Value:
    owner = value.owner
    assert isinstance(owner, ir.Operation | ir.OpView)
    op = owner.operation
    if op.name == "torch_c.from_builtin_tensor":
        return op.operands[0]
    # A literal that only composites read has met no conversion yet.
    assert op.name == "torch.vtensor.literal", str(op)[:400]
    text = re.sub(r"\b[su]i(\d+)>$", r"i\1>", str(op.attributes["value"]))
    literal = ir.Attribute.parse(text)
    with op.location:
        constant = ir.Operation.create(
            "arith.constant",
            results=[_builtin_type(value.type)],
            attributes={"value": literal},
            ip=ir.InsertionPoint(op),
        )
    return constant.results[0]


def _builtin_type(tensor_type: ir.Type) -> ir.Type:
    match = _TENSOR.fullmatch(str(tensor_type))
    assert match is not None, str(tensor_type)
    sizes = [int(size) for size in match[1].split(",") if size]
    # Builtin integers carry no sign.
    return ir.RankedTensorType.get(sizes, ir.Type.parse(match[2].removeprefix("s").replace("u", "")))


def _refuse_leftover(op: ir.Operation) -> None:
    """torch-mlir leaves an operation that it does not know where nothing forces it to be lowered."""
    unknown = op.name == "torch.operator" and not _operator_name(op).startswith(_OPERATOR)
    if not unknown and not op.name.startswith(("torch.aten.", "torch.prims.")):
        return
    raise _cannot_compile(str(op.location), f"torch-mlir knows no lowering of '{op.name}'")


_OP_NAME = re.compile(r"'(torch\.[\w.]+)'")


def _lowering_failure(error: ir.MLIRError) -> ImportFailure:
    diagnostics = [d for d in error.error_diagnostics if _OP_NAME.search(d.message)] or error.error_diagnostics
    first = diagnostics[0]
    return _cannot_compile(str(first.location), first.message)


def _cannot_compile(location: str, reason: str) -> ImportFailure:
    found = re.search(r'"([^"#]*)#([^"]*)"(?:\("([^"]*)":(\d+))?', location)
    if found is None:
        return ImportFailure(location, f"torch-mlir cannot lower this: {reason}")
    place = origin.Origin(found[1], found[3] or "", int(found[4] or 0))
    return ImportFailure(
        str(place),
        f"{found[2]} cannot be compiled ({reason})",
        hint="write this operation with simpler ones, or compute it outside the step and pass it as an input",
    )

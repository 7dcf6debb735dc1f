"""FX graphs → linalg on tensors through torch-mlir, with composites kept as `dm.composite`.

A composite arrives as `torch.operator "torch.dmc.gelu"`. Its constants become parameters, its tensors remain operands,
and everything around it is lowered; then the operator becomes `dm.composite`, whose decomposition is imported from the
composite's definition, once per combination of types and parameters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch_mlir.extras.fx_importer import ContextCache, FxImporter, GraphNodeImporter

from dmc._mlir import ir
from dmc.errors import ImportFailure
from dmc.importer import advice, origin
from dmc.importer.differentiate import trace
from dmc.importer.linalg import apart, windows
from dmc.importer.linalg.apart import Died, passed
from dmc.importer.linalg.culprit import culprit, reproducer
from dmc.importer.linalg.operators import Use, is_composite, specialise, to_composite, use_of
from dmc.importer.linalg.torch_passes import Refusal, load_dialects
from dmc.memo import Memo
from dmc.walk import walk

# torch-mlir's own pipeline contains torch-reduce-op-variants, which rejects unknown operators and which a functional
# graph does not need; these are its other passes.
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


@dataclass
class TorchModule:
    """A module into which functions are imported; `lower` turns it into linalg with composites."""

    context: ir.Context
    importer: FxImporter = field(init=False)
    module: ir.Module = field(init=False)
    decompositions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        load_dialects(self.context)
        self.importer = FxImporter(context=self.context, graph_node_importer_cls=_NodeImporter)
        self.module = self.importer.module

    def add(self, graph: fx.Graph, name: str) -> None:
        """Imports `graph` as private function `name`, with the decompositions of its composites."""
        try:
            function = self.importer.import_stateless_graph(graph, func_name=name, func_visibility="private")
        except Exception as error:  # torch-mlir raises many exception types for what it cannot import.
            raise ImportFailure(
                f"@{name}", f"cannot be imported by torch-mlir: {error}", hint=advice.SIMPLER
            ) from error
        for op in walk(function):
            if is_composite(op):
                use = use_of(op)
                specialise(op, use, self._import_decomposition(use))

    def lower(self) -> None:
        """Lowers everything to linalg; raises ImportFailure naming the operation that torch-mlir cannot lower."""
        self.module = _passed(self.module, PIPELINE)
        for op in walk(self.module.operation):
            _refuse_leftover(op)
        # Listed first: converting one erases casts beside it, which an ongoing walk must not visit.
        for op in [op for op in walk(self.module.operation) if is_composite(op)]:
            to_composite(op)
        _erase_asserts(self.module)
        windows.crop(self.module)
        self.module = _passed(self.module, FINISH)

    def _import_decomposition(self, use: Use) -> str:
        """The name of the decomposition of `use`, imported on first use."""
        if use.key not in self.decompositions:
            name = f"{use.composite.name}_{len(self.decompositions)}"
            self.decompositions[use.key] = name
            self.add(_definition(use), name)
        return self.decompositions[use.key]


# The decompositions that this process traced, by the keys of their uses: many steps have the same.
_DEFINITIONS = Memo[str, fx.Graph](512)


def _definition(use: Use) -> fx.Graph:
    names = [argument for argument in use.composite.arguments if argument not in use.parameters]

    def definition(*flat: torch.Tensor) -> Any:
        return use.composite.definition(**dict(zip(names, flat, strict=True)), **use.parameters)

    return _DEFINITIONS.of(use.key, lambda: trace(definition, use.examples()).graph)


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
        return ir.Location.name(f"{place.module}#{origin.op_name(node.target)}{place.suffix}", line, self._c)


def _passed(module: ir.Module, pipeline: str) -> ir.Module:
    try:
        result = passed(module, pipeline, apart.PATIENCE_S)
    except Died as error:
        # Behind the first passes operations read values in their regions, and do not stand alone.
        location, alone = culprit(module, pipeline) if pipeline == PIPELINE else ("", module)
        file = reproducer(alone, pipeline)
        raise _cannot_compile(location or "the step", f"torch-mlir {error}", f"{file} reproduces this") from None
    if isinstance(result, Refusal):
        raise _refused(result)
    return result


def _erase_asserts(module: ir.Module) -> None:
    """torch-mlir asserts inside kernels that indices are in range and divisors are not zero.

    Kernels cannot report errors; `rules.py` handles the first, and the second gives infinity.
    """
    for op in [op for op in walk(module.operation) if op.name == "cf.assert"]:
        op.erase()


def _refuse_leftover(op: ir.Operation) -> None:
    """torch-mlir silently leaves unknown operations unless something forces their lowering."""
    unknown = op.name == "torch.operator" and not is_composite(op)
    if not unknown and not op.name.startswith(("torch.aten.", "torch.prims.")):
        return
    name = ir.StringAttr(op.attributes["name"]).value if unknown else op.name
    raise _cannot_compile(str(op.location), f"torch-mlir has no lowering for '{name.removeprefix('torch.')}'")


_OP_NAME = re.compile(r"'(torch\.[\w.]+)'")


def _refused(refusal: Refusal) -> ImportFailure:
    """The error for the operation that torch-mlir names, or for the first place it complains about."""
    named = [each for each in refusal.errors if _OP_NAME.search(each[1])]
    return _cannot_compile(*[*named, *refusal.errors, ("the step", "torch-mlir says nothing else")][0])


def _cannot_compile(location: str, reason: str, *hints: str) -> ImportFailure:
    hint = "; ".join((advice.SIMPLER, *hints))
    found = re.search(r'"([^"#]*)#([^"]*)"(?:\("([^"]*)":(\d+))?', location)
    if found is None:
        return ImportFailure(location, f"torch-mlir cannot lower this: {reason}", hint)
    place = str(origin.Origin(found[1], found[3] or "", int(found[4] or 0)))
    if (types := _types(reason)) is None:
        return ImportFailure(place, f"{found[2]} cannot be compiled ({reason})", hint)
    if len({each.partition("[")[0] for each in types if each[0] in "fb"}) > 1:
        fact = f"{found[2]} computes with tensors of different types, {' and '.join(types)}"
        return ImportFailure(place, fact, hint="convert one of them, as eager asks for, too: x.to(y.dtype)")
    return ImportFailure(
        place, f"{found[2]} of {', '.join(types)} cannot be compiled: torch-mlir has no lowering", hint
    )


def _types(reason: str) -> list[str] | None:
    """The tensors that an operation takes, as "f32[8, 6]", of a message about it; None for another message."""
    if "failed to legalize" not in reason or " : (" not in reason:
        return None
    operands = reason.rpartition(" : (")[2].partition(") -> ")[0]
    found = re.findall(r"!torch\.vtensor<\[([\d,]*)\],(\w+)>", operands)
    return [f"{kind}[{sizes.replace(',', ', ')}]" for sizes, kind in found]

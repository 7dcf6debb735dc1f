"""Constants of float64 that end in float32, as a schedule kept as a table of NumPy: a program holds them in float32.

A move (a row chosen by an index, a view) before the conversion gives the same numbers behind it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses import FakeTensor
from torch.export.graph_signature import InputKind

from dmc.errors import ImportFailure
from dmc.importer import origin
from dmc.importer.torch_internals import is_view

aten = torch.ops.aten
_CONVERSIONS = (aten.to.dtype, aten.to.dtype_layout, aten._to_copy.default, aten.type_as.default)
_MOVES = (
    aten.index.Tensor,
    aten.index_select.default,
    aten.gather.default,
    aten.take.default,
    aten.embedding.default,
    aten.clone.default,
    aten.contiguous.default,
    aten.lift_fresh_copy.default,
    aten.detach.default,
    aten.detach_.default,
)


def narrow(program: torch.export.ExportedProgram, model: str) -> None:
    """Replaces such constants of an exported program. Raises ImportFailure where one is computed with in float64."""
    placeholders = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    constants: dict[str, Any] = program.constants
    for spec in program.graph_signature.input_specs:
        value = constants.get(spec.target or "")
        if spec.kind != InputKind.CONSTANT_TENSOR or not isinstance(value, Tensor) or value.dtype != torch.float64:
            continue
        node = placeholders[spec.arg.name]
        for user in list(node.users):
            _narrow(user, node, model)
        node.meta["val"] = _as_float(node.meta["val"])
        constants[spec.target or ""] = value.float()


def _narrow(node: fx.Node, operand: fx.Node, model: str) -> None:
    """Lets what moves `operand`, up to conversions to float32, do so in float32."""
    value = node.meta.get("val")
    if node.target is aten._assert_tensor_metadata.default:  # That its type is as it was, before a conversion.
        node.graph.erase_node(node)
        return
    if node.target in _CONVERSIONS and isinstance(value, Tensor) and value.dtype == torch.float32:
        return
    is_move = node.target in _MOVES or (is_view(node.target) and node.target not in _CONVERSIONS)
    if not is_move or node.args[0] is not operand or not isinstance(value, FakeTensor):
        place = f"{origin.of_exported_node(node, model)}: {origin.op_name(node.target)}"
        hint = "convert it where it is made: torch.from_numpy(table).float(), or dtype=torch.float32"
        raise ImportFailure(place, "computes with a constant of float64", hint)
    node.meta["val"] = _as_float(value)
    for user in list(node.users):
        _narrow(user, node, model)


def _as_float(value: FakeTensor) -> Tensor:
    with value.fake_mode:
        return value.to(torch.float32)

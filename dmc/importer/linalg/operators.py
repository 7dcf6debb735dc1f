"""Composites during torch-mlir's lowering: `torch.operator "torch.dmc.gelu"`, from its import to `dm.composite`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses import FakeTensorMode

from dmc._mlir import ir
from dmc.dialect.compute import absent
from dmc.dtypes import dtype_of
from dmc.importer.composites.base import NAMESPACE, REGISTRY, Composite

_OPERATOR = f"torch.{NAMESPACE}."


@dataclass(frozen=True)
class Use:
    """One use of a composite: its constant arguments by name, and its tensors."""

    composite: Composite
    parameters: Mapping[str, Any]
    tensors: Sequence[ir.Value]

    @property
    def key(self) -> str:
        """A key, equal for uses that can share a decomposition: same composite, types and parameters."""
        types = ", ".join(str(tensor.type) for tensor in self.tensors)
        return f"{self.composite.name}({types}){sorted(self.parameters.items())}"

    def examples(self) -> list[torch.Tensor]:
        """Tensors without memory, of the shapes and types of `tensors`."""
        with FakeTensorMode():
            return [_example(tensor.type) for tensor in self.tensors]


def is_composite(op: ir.Operation) -> bool:
    """Whether the operation is one of dmc's composites inside torch-mlir."""
    return op.name == "torch.operator" and _operator_name(op).startswith(_OPERATOR)


def use_of(op: ir.Operation) -> Use:
    """The parts of a freshly imported composite."""
    composite = REGISTRY[_operator_name(op).removeprefix(_OPERATOR)]
    constants = [_constant(operand) for operand in op.operands]
    named = zip(composite.arguments, constants, strict=True)
    parameters = {name: constant.value for name, constant in named if constant is not None}
    tensors = [operand for operand, constant in zip(op.operands, constants, strict=True) if constant is None]
    return Use(composite, parameters, tensors)


def specialise(op: ir.Operation, use: Use, decomposition: str) -> None:
    """Moves the constants of a composite into attributes and names its decomposition."""
    with op.location:
        replacement = ir.Operation.create(
            "torch.operator",
            results=[result.type for result in op.results],
            operands=use.tensors,
            attributes={
                "name": op.attributes["name"],
                "decomposition": ir.FlatSymbolRefAttr.get(decomposition),
                "parameters": ir.DictAttr.get({name: _attribute(value) for name, value in use.parameters.items()}),
            },
            ip=ir.InsertionPoint(op),
        )
    for old, new in zip(op.results, replacement.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


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
            raise AssertionError(f"composite argument produced by {op.name}")


def _attribute(value: Any) -> ir.Attribute:
    match value:
        case None:
            return absent()
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
    return torch.empty(sizes, dtype=getattr(torch, dtype_of(match[2].removeprefix("s")).torch))


def to_composite(op: ir.Operation) -> None:
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
    # Producers of its operands may have other users, or several results: canonicalisation erases the unused ones.
    op.erase()


def _replace_torch_value(old: ir.Value, new: ir.Value) -> None:
    """Replaces a torch tensor by the builtin tensor `new`; other composites read it through a cast."""
    users = [use.owner.operation for use in old.uses]
    for cast in [user for user in users if user.name == "torch_c.to_builtin_tensor"]:
        cast.results[0].replace_all_uses_with(new)
        cast.erase()
    if list(old.uses):
        assert isinstance(old.owner, ir.Operation | ir.OpView)
        # Detached operations cannot be moved, so the cast is created at the old value.
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
    # A literal that only composites read has not been converted yet.
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
    # Builtin integers are signless.
    return ir.RankedTensorType.get(sizes, ir.Type.parse(match[2].removeprefix("s").replace("u", "")))

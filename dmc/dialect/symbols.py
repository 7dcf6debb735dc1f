"""Rules that need a whole module: meshes, channels, decompositions, the other end of a message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeVar

from dmc._mlir import ir
from dmc.dialect._dm_gen import ChannelOp, GroupAttr, MeshOp
from dmc.dialect.rules import SYMBOL_RULES, Violation
from dmc.errors import DmcError
from dmc.stages import STAGE, stages_of
from dmc.walk import listed

Function = TypeVar("Function", bound=Callable[..., None])

# A module rule takes all ops of its classes, in the order of the module, and raises DmcError; a job rule those of all
# stages of a pipeline together.
_Rules = list[tuple[tuple[type, ...], Callable[[Sequence[Any]], None]]]
MODULE_RULES: _Rules = []
JOB_RULES: _Rules = []


def module_rule(*classes: type) -> Callable[[Function], Function]:
    """Makes the decorated function a rule over all ops of these classes in a module."""
    return _registering(MODULE_RULES, classes)


def job_rule(*classes: type) -> Callable[[Function], Function]:
    """Makes the decorated function a rule over all ops of these classes in all stages of a pipeline, or in a module
    without stages."""
    return _registering(JOB_RULES, classes)


def _registering(rules: _Rules, classes: tuple[type, ...]) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        rules.append((classes, function))
        return function

    return register


@dataclass(frozen=True)
class Symbols:
    """The symbols of a module, and the sizes of its meshes, in ranks."""

    ops: Mapping[str, ir.Operation]
    _sizes: dict[tuple[str, tuple[str, ...]], int] = field(default_factory=dict)
    _group_sizes: dict[GroupAttr, int] = field(default_factory=dict)
    # By private function, the types of its operands and results, for the rules that compare them.
    signatures: dict[str, tuple[list[ir.Type], list[ir.Type]]] = field(default_factory=dict)

    @staticmethod
    def of(module: ir.Module) -> Symbols:
        """The symbols directly in `module`."""
        named = ((op.attributes.get("sym_name"), op.operation) for op in module.body.operations)
        return Symbols({name.value: op for name, op in named if name is not None})

    def group_size(self, group: GroupAttr) -> int:
        """The number of ranks in a group; raises Violation if mesh or axis does not exist."""
        size = self._group_sizes.get(group)
        if size is None:
            size = self.axes_size(group.mesh.value, tuple(axis.value for axis in group.axes), group)
            self._group_sizes[group] = size
        return size

    def axes_size(self, mesh: str, axes: tuple[str, ...], where: ir.Attribute) -> int:
        """The number of ranks along `axes` of `@mesh`; raises Violation, naming `where`, if one does not exist."""
        key = (mesh, axes)
        if key not in self._sizes:
            sizes = self._mesh_sizes(mesh, where)
            for axis in axes:
                if axis not in sizes:
                    raise Violation(f"{where}: @{mesh} has no axis '{axis}'; its axes are {', '.join(sizes)}")
            self._sizes[key] = prod(sizes[axis] for axis in axes)
        return self._sizes[key]

    def check_member(self, name: str, index: int, group: GroupAttr) -> None:
        """Raises Violation unless `index` is an index in `group`."""
        size = self.group_size(group)
        if index >= size:
            raise Violation(f"{name} is {index}, but {group} has {size} ranks, numbered from 0")

    def check_channel(self, channel: ir.FlatSymbolRefAttr | None, group: GroupAttr) -> None:
        """Raises Violation if `channel` is given and is not a channel of `group`."""
        if channel is None:
            return
        op = self.ops.get(channel.value)
        if op is None or op.name != ChannelOp.OPERATION_NAME:
            raise Violation(f"{channel} is {'not defined' if op is None else f'a {op.name}'}; declare a dm.channel")
        declared = op.attributes.get("group", op.attributes.get("groups"))
        if declared != group:
            raise Violation(f"is on {group}, but its channel {channel} is declared for {declared}")

    def _mesh_sizes(self, mesh: str, where: ir.Attribute) -> dict[str, int]:
        op = self.ops.get(mesh)
        if op is None or op.name != MeshOp.OPERATION_NAME:
            raise Violation(f"{where}: @{mesh} is {'not defined' if op is None else f'a {op.name}'}; declare a dm.mesh")
        names = [axis.value for axis in op.attributes["axes"]]
        return dict(zip(names, op.attributes["sizes"], strict=True))


def verify_symbols(module: ir.Module) -> None:
    """Checks every rule of `dm` that involves more than one op. Linear in the number of ops.

    The module must already verify on its own. Of a module with stages, each is a module. Raises DmcError at the first
    op that violates a rule.
    """
    found: dict[type, list[ir.OpView]] = {}
    with stages_of(module) as stages:
        for stage in stages:
            for kind, ops in _verified(stage).items():
                found.setdefault(kind, []).extend(ops)
        if STAGE not in module.operation.attributes:
            _apply(JOB_RULES, found)


def _verified(module: ir.Module) -> dict[type, list[ir.OpView]]:
    """The operations of a module without stages, by their class."""
    symbols = Symbols.of(module)
    found: dict[type, list[ir.OpView]] = {}
    for op in _checked_ops(module):
        found.setdefault(type(op), []).append(op)
        try:
            for rule in SYMBOL_RULES.get(type(op), ()):
                rule(op, symbols)
        except Violation as violation:
            raise DmcError(op.operation, str(violation)) from None
    _apply(MODULE_RULES, found)
    return found


def _apply(rules: _Rules, found: Mapping[type, list[ir.OpView]]) -> None:
    for classes, check in rules:
        check([op for cls in classes for op in found.get(cls, ())])


def _checked_ops(module: ir.Module) -> Iterator[ir.OpView]:
    for op in listed(module.operation):
        if op.name.startswith("dm.") or op.name == "func.func":
            yield op.opview

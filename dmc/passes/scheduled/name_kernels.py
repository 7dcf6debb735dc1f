"""dm-name-kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from dmc import dialect as dm
from dmc._mlir import builtin, func, ir
from dmc.passes.base import Pass
from dmc.stages import NAME
from dmc.step_function import symbol
from dmc.walk import listed

# What launches say of the function that they run; equal functions agree on it.
_SAID = ("flops", "bytes", "scratch", "implementation")


@dataclass(frozen=True)
class NameKernels(Pass):
    """Gives equal kernels of the stages of a pipeline one name, and others different ones.

    Two functions `@f` that differ, of `module @stage0` and `module @stage1`, become `@f` and `@f_stage1`. Does nothing
    for a module without stages. Linear in the size of the functions.
    """

    name = "dm-name-kernels"
    is_whole = True

    def run(self, module: ir.Module) -> None:
        """Never fails."""
        names = _Names()
        for stage in [op for op in module.body.operations if isinstance(op, builtin.ModuleOp)]:
            names.unify(stage)


@dataclass
class _Names:
    """known: by the text of a function and what launches say of it, its name. taken: names, with the last number behind
    each."""

    known: dict[str, str] = field(default_factory=dict[str, str])
    taken: dict[str, int] = field(default_factory=dict[str, int])

    def unify(self, stage: builtin.ModuleOp) -> None:
        """Renames the functions of a stage, and what refers to them."""
        functions = {symbol(op): op for op in stage.body.operations if isinstance(op, func.FuncOp)}
        steps = [functions.pop(name) for name in ("step",) if name in functions]
        said = dict(chain.from_iterable(map(_said, steps)))
        names: dict[str, str] = {}
        for name in functions:
            self._name(name, functions, said, names)
        for step in steps:
            _rename(step.operation, names)

    def _name(self, name: str, functions: dict[str, func.FuncOp], said: dict[str, str], names: dict[str, str]) -> None:
        """Finds a function's name, after those of the ones that it names."""
        if name in names:
            return
        op = functions[name].operation
        for other in _named(op):
            if other in functions and other != name:
                self._name(other, functions, said, names)
        _rename(op, names)
        op.attributes["sym_name"] = ir.StringAttr.get("same", op.context)
        text = op.get_asm(use_local_scope=True, assume_verified=True) + said.get(name, "")
        if text not in self.known:
            self.known[text] = self._fresh(name)
        names[name] = self.known[text]
        op.attributes["sym_name"] = ir.StringAttr.get(names[name], op.context)

    def _fresh(self, name: str) -> str:
        fresh = name
        while fresh in self.taken:
            self.taken[name] += 1
            fresh = f"{name}_{NAME}{self.taken[name]}"
        self.taken[fresh] = 0
        return fresh


def _said(step: func.FuncOp) -> Iterator[tuple[str, str]]:
    for op in listed(step):
        if op.name == dm.KernelOp.OPERATION_NAME:
            text = " ".join(str(op.attributes[name]) for name in _SAID if name in op.attributes)
            yield from ((name, text) for name in _named(op))


def _named(op: ir.Operation) -> Iterator[str]:
    for inner in listed(op):
        for name in inner.attributes:
            yield from _symbols(inner.attributes[name])


def _symbols(attribute: ir.Attribute) -> Iterator[str]:
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        yield attribute.value
    elif isinstance(attribute, ir.ArrayAttr):
        for each in attribute:
            yield from _symbols(each)


def _rename(op: ir.Operation, names: dict[str, str]) -> None:
    for inner in listed(op):
        for place in list(inner.attributes):
            attribute = inner.attributes[place]
            if any(names.get(name, name) != name for name in _symbols(attribute)):
                inner.attributes[place] = _renamed(attribute, names)


def _renamed(attribute: ir.Attribute, names: dict[str, str]) -> ir.Attribute:
    if isinstance(attribute, ir.ArrayAttr):
        return ir.ArrayAttr.get([_renamed(each, names) for each in attribute], attribute.context)
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        return ir.FlatSymbolRefAttr.get(names.get(attribute.value, attribute.value), attribute.context)
    return attribute

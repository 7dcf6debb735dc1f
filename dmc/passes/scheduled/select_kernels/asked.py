"""What the plan wants kernels of some modules computed by, on the functions that they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.requests.verbs import roots_of, verbs_of
from dmc.dialect.labels import kernel_label_of
from dmc.errors import PlanError
from dmc.lowering.cuda.by import BY
from dmc.plans.verbs import Implementation
from dmc.step_function import functions, symbol


def put_asked(module: ir.Module, kernels: Sequence[dm.KernelOp]) -> None:
    """States on the function of each kernel what the plan wants it computed by, where that can; kernels of other
    modules keep functions without it.

    `dm.kernel {body = @matmul_0, dm.label = "h.0.mlp"}` becomes `dm.kernel {body = @matmul_0_triton}`. Raises PlanError
    for a verb that no kernel of its modules can follow, and for one that all follow anyway.
    """
    verbs = verbs_of(module, Implementation)
    if verbs:
        _Asked(module, verbs).put(kernels)


# What can compute a kernel; first what does if nothing is asked for.
Ways = tuple[str, ...]


@dataclass
class _Asked:
    """meant: by verb what can compute the kernels that it means. copies: by function and what computes it."""

    module: ir.Module
    verbs: Sequence[Implementation]
    meant: dict[Implementation, list[Ways]] = field(default_factory=dict[Implementation, "list[Ways]"])
    copies: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def __post_init__(self) -> None:
        self.by_name = {symbol(each): each for each in functions(self.module)}

    def put(self, kernels: Sequence[dm.KernelOp]) -> None:
        for op in kernels:
            roots = roots_of(self.verbs, kernel_label_of(op.operation))
            said = [verb for verb, root in zip(self.verbs, roots, strict=True) if root is not None]
            if said:
                self._ask(op, said[-1])
        for verb, ways in self.meant.items():
            self._check(verb, ways)
        run = {name for op in kernels for name in _bodies(op)}
        for name in dict.fromkeys(name for name, _ in self.copies):
            if name not in run:
                self.by_name.pop(name).operation.erase()

    def _ask(self, op: dm.KernelOp, verb: Implementation) -> None:
        # It takes a while to load, and most plans ask for nothing.
        from dmc.lowering.cuda.native import computed_by

        names = _bodies(op)
        ways = [computed_by(self.by_name[name]) for name in names]
        self.meant.setdefault(verb, []).extend(ways)
        if not all(verb.by in each for each in ways) or all(each[0] == verb.by for each in ways):
            return
        copies = [ir.FlatSymbolRefAttr.get(self._copy(name, verb.by), self.module.context) for name in names]
        op.operation.attributes["body"] = copies[0]
        if op.variants is not None:
            op.operation.attributes["variants"] = ir.ArrayAttr.get(list(copies), self.module.context)

    def _copy(self, name: str, by: str) -> str:
        """A function that is computed so, equal to the one of this name."""
        if (name, by) not in self.copies:
            old = self.by_name[name].operation
            with ir.InsertionPoint.after(old):
                new = old.clone()
            self.copies[name, by] = fresh = self._fresh(f"{name}_{by}")
            new.attributes["sym_name"] = ir.StringAttr.get(fresh, self.module.context)
            new.attributes[BY] = ir.StringAttr.get(by, self.module.context)
            function = new.opview
            assert isinstance(function, func.FuncOp), "a copy of one"
            self.by_name[fresh] = function
        return self.copies[name, by]

    def _fresh(self, wanted: str) -> str:
        name, number = wanted, 0
        while name in self.by_name:
            name, number = f"{wanted}_{number}", number + 1
        return name

    def _check(self, verb: Implementation, ways: Sequence[Ways]) -> None:
        able = [each for each in ways if verb.by in each]
        if not able:
            others = sorted({by for each in ways for by in each})
            fact = f"cannot be: {verb.by} can compute none of the {len(ways)} kernels of these modules"
            raise PlanError(str(verb), fact, f"use one of {', '.join(others)}, or leave it out")
        if all(each[0] == verb.by for each in able):
            fact = f"has no effect: the kernels of these modules that {verb.by} can compute are computed by it anyway"
            raise PlanError(str(verb), fact, "leave it out")


def _bodies(op: dm.KernelOp) -> list[str]:
    return [op.body.value] if op.variants is None else [each.value for each in op.variants]

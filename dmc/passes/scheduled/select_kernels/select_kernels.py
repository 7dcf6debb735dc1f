"""dm-select-kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.requests.settings import is_estimate, target_of
from dmc.analysis.storage.pointwise import IN_PLACE, is_whole_composite
from dmc.dialect.build import i64
from dmc.dialect.plan import type_bytes
from dmc.lowering.cuda.by import asked_of
from dmc.lowering.cuda.products import WORKSPACE, product_of
from dmc.passes.base import Pass
from dmc.passes.scheduled.select_kernels.asked import put_asked
from dmc.passes.shared.report import print_table
from dmc.plans.verbs import CUBLASLT, IREE, TRITON
from dmc.program.contract import Phase, is_safe_in_place
from dmc.step_function import find_step, functions, symbol
from dmc.target import Target, targets


@dataclass(frozen=True)
class SelectKernels(Pass):
    """Chooses the code of each kernel, and states the scratch memory it needs.

    `dm.kernel {body = @softmax_0}` becomes `dm.kernel {body = @softmax_0, implementation = "iree", scratch = 33024}`:
    on CUDA an implementation of `dmc.kernels` ("triton") where one supports the body, else the code of IREE's compiler
    for `target`, which determines its dispatches and the memory between them. Where the plan wants kernels of some
    modules computed otherwise (`dm.verbs`), they run copies of their bodies that say so (`dm.by`). All bodies are
    compiled together, each only once. Where ranks differ, the largest variant counts. `dm.in_place` on a body lists the
    operands and results that may share memory, given the order of its dispatches. With several targets, joined by "+",
    the choice holds for all, so that all run one plan. reasons: print on stderr the implementation of each kernel on
    the last target, and why it was chosen. In a module with `dm.estimate` no code is generated: a product is the
    library's, anything else dmc's own or, on a CPU, IREE's, without scratch memory but for the library's, and results
    may replace what their bodies allow.
    """

    name = "dm-select-kernels"
    target: str = ""
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        """Raises DmcError, naming the kernel, for a body that IREE cannot compile to dispatches, and PlanError where no
        kernel can be computed as the plan asks, or all are anyway."""
        kernels = [op for op in find_step(module).entry_block.operations if isinstance(op, dm.KernelOp)]
        if not kernels:
            return
        put_asked(module, kernels)
        if is_estimate(module):
            _estimate(module, kernels, targets(target_of(module, self.target))[-1])
            return
        # IREE's compiler takes long to load, and most runs of dmc-opt do not need it.
        from dmc.lowering.implementations import code_for

        names = list(dict.fromkeys(name for op in kernels for name in bodies(op)))
        chosen = targets(target_of(module, self.target))
        codes = [code_for(module, names, each) for each in chosen]
        if self.reasons:
            found = [(name, codes[-1].code_of(name)) for name in names]
            print_table(("kernel", "by", "why"), [(name, code.implementation, code.reason) for name, code in found])
        for op in kernels:
            _state(op.operation, "implementation", ir.StringAttr.get(codes[-1].code_of(bodies(op)[0]).implementation))
            scratch = max(code.code_of(name).scratch for code in codes for name in bodies(op))
            _state(op.operation, "scratch", i64(scratch))
        by_name = {symbol(function): function for function in functions(module)}
        for name in names:
            # IREE opens a composite into loops that need not be elementwise: their order alone does not make them safe.
            found = [code.code_of(name) for code in codes]
            opened = is_whole_composite(by_name[name]) and any(each.implementation == "iree" for each in found)
            safe = [] if opened else _safe_pairs(by_name[name], [each.phases() for each in found])
            _state(by_name[name].operation, IN_PLACE, _pairs(safe))


def _estimate(module: ir.Module, kernels: Sequence[dm.KernelOp], target: Target) -> None:
    """States what most likely runs each kernel, without its code."""
    by_name = {symbol(function): function for function in functions(module)}
    for op in kernels:
        function = by_name[bodies(op)[0]]
        own = CUBLASLT if product_of(function) is not None else TRITON
        by = (asked_of(function) or own) if target.has_kernels else IREE
        _state(op.operation, "implementation", ir.StringAttr.get(by))
        _state(op.operation, "scratch", i64(WORKSPACE if by == CUBLASLT else 0))


def bodies(op: dm.KernelOp) -> tuple[str, ...]:
    """The functions that the ranks run, one per variant."""
    return tuple(name.value for name in op.variants or (op.body,))


def _of_one_size(function: func.FuncOp) -> list[tuple[int, int]]:
    """Operand and result, by index, where both have the same size in bytes."""
    reads, writes = ([type_bytes(type_) for type_ in types] for types in (function.type.inputs, function.type.results))
    return [(i, j) for i, given in enumerate(reads) for j, made in enumerate(writes) if given == made]


def _safe_pairs(function: func.FuncOp, codes: Sequence[Sequence[Phase]]) -> list[tuple[int, int]]:
    """The operands and results that may share memory, whichever of the codes runs."""
    return [pair for pair in _of_one_size(function) if all(is_safe_in_place(each, *pair) for each in codes)]


def _state(op: ir.Operation, name: str, value: ir.Attribute) -> None:
    op.attributes[name] = value


def _pairs(pairs: Sequence[tuple[int, int]]) -> ir.Attribute:
    return ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(list(pair)) for pair in pairs])

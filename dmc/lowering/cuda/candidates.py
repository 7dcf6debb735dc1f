"""The candidates for every kernel of a planned step, compiled, to be timed on a machine with a GPU."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from dmc._mlir import func, ir
from dmc.kernels.generated import Declined
from dmc.lowering.cuda.native import kernel_key, ways_of
from dmc.lowering.cuda.native_steps import Compiled, compiled
from dmc.lowering.cuda.products import product_of
from dmc.lowering.native_kernel import Taken
from dmc.program import Job
from dmc.program.code import CodeModule
from dmc.program.tuning import HEURISTIC, Candidate, Candidates, Tunable

# A GPU transfers fewer bytes than this in less time than a launch takes.
_LEAST_TRAFFIC = 1 << 20


def candidates_of(module: ir.Module, job: Job, known: Collection[str] = ()) -> Candidates:
    """The candidates of the kernels of `job`, whose bodies are functions of `module`.

    Kernels without alternatives or shorter than a launch are left out, as are those with `known` keys, and candidates
    that do not compile.
    """
    symbols = ir.SymbolTable(module.operation)
    bodies: dict[str, tuple[str, func.FuncOp]] = {}
    for name in (name for name, kernel in job.kernels.items() if kernel.traffic >= _LEAST_TRAFFIC):
        function = symbols[name]
        assert isinstance(function, func.FuncOp)
        bodies.setdefault(kernel_key(function), (name, function))
    every = [(name, function, _ways(function)) for name, function in bodies.values()]
    found = [(name, function, ways) for name, function, ways in every if kernel_key(function, ways) not in known]
    asked = [(taken, frozenset()) for *_, ways in found for taken in ways]
    answers = iter(compiled(asked))
    tunables: list[Tunable] = []
    modules: dict[str, CodeModule] = {}
    for name, function, ways in found:
        made = list(_library(function))
        for taken in ways:
            answer = next(answers)
            if isinstance(answer, Compiled):
                made.append(Candidate(taken.label, answer.steps, answer.scratch))
                modules.update(answer.modules)
        kernel = job.kernels[name]
        tunables.append(Tunable(kernel_key(function, ways), name, kernel.reads, kernel.writes, tuple(made)))
    return Candidates(tuple(each for each in tunables if _has_choice(each)), modules)


def _ways(function: func.FuncOp) -> list[Taken]:
    """Triton's candidates, if there are several."""
    if product_of(function) is not None:
        return []
    try:
        ways = ways_of(function)
    except Declined:
        return []
    return ways if len(ways) > 1 else []


def _library(function: func.FuncOp) -> Iterator[Candidate]:
    product = product_of(function)
    if product is not None:
        yield Candidate(HEURISTIC, (product,), product.workspace.length)


def _has_choice(tunable: Tunable) -> bool:
    labels = [each.label for each in tunable.candidates]
    return len(labels) > 1 or labels == [HEURISTIC]

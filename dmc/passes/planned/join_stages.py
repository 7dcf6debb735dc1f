"""dm-join-stages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from dmc import dialect as dm
from dmc._mlir import builtin, ir
from dmc.analysis.commands.jobs import STAGES
from dmc.dialect.build import i64
from dmc.errors import DmcError
from dmc.passes.base import Pass
from dmc.program.collectives import MESSAGES
from dmc.stages import STAGE


@dataclass(frozen=True)
class JoinStages(Pass):
    """Joins the stages of a pipeline: one module with the programs of all of them, and their kernels.

    `module @stage0 { @f; dm.program {ranks = [0]} } module @stage1 { @f; dm.program {ranks = [1]} }` becomes `@f;
    dm.program {ranks = [0]}; dm.program {ranks = [1]}`. What several declare alike is one. Movements inside a stage get
    numbers behind those of messages, whose ends keep theirs. Linear in the size of the stages.
    """

    name = "dm-join-stages"
    is_whole = True

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for kernels or channels of one name that differ."""
        stages = [op for op in module.body.operations if isinstance(op, builtin.ModuleOp)]
        if not stages:
            return
        joined = _Joined(module)
        axes = dict.fromkeys(op.operation.attributes[STAGE]["axis"] for op in stages)
        messages = [each.instance.value for op in stages for each in _collectives(op) if each.kind.value in MESSAGES]
        numbers = count(max(messages, default=-1) + 1)
        for op in stages:
            joined.take(list(op.body.operations), numbers)
            op.operation.erase()
        module.operation.attributes[STAGES] = ir.ArrayAttr.get(list(axes), module.context)


@dataclass
class _Joined:
    """declared: what the module has, by name."""

    module: ir.Module
    declared: dict[str, ir.Operation] = field(default_factory=dict[str, ir.Operation])
    programs: int = 0

    def take(self, ops: list[ir.OpView], numbers: Iterator[int]) -> None:
        """Moves what a stage consists of to the end of the module."""
        for op in ops:
            if isinstance(op, dm.ProgramOp):
                _renumber(op, numbers)
                op.operation.attributes["sym_name"] = ir.StringAttr.get(f"program{self.programs}", op.context)
                self.programs += 1
                self.module.body.append(op)
            else:
                self._declare(op.operation)

    def _declare(self, op: ir.Operation) -> None:
        name = op.attributes["sym_name"].value
        if name not in self.declared:
            self.declared[name] = op
            self.module.body.append(op)
        elif _text(self.declared[name]) != _text(op):
            raise DmcError(op, f"@{name} is another in an earlier stage", "run dm-name-kernels on form scheduled")


def _collectives(stage: builtin.ModuleOp) -> Iterator[dm.CollectiveOp]:
    programs = (op for op in stage.body.operations if isinstance(op, dm.ProgramOp))
    return (op for each in programs for op in each.regions[0].blocks[0].operations if isinstance(op, dm.CollectiveOp))


def _renumber(program: dm.ProgramOp, numbers: Iterator[int]) -> None:
    for op in program.regions[0].blocks[0].operations:
        if isinstance(op, dm.CollectiveOp) and op.kind.value not in MESSAGES:
            op.operation.attributes["instance"] = i64(next(numbers))


def _text(op: ir.Operation) -> str:
    # As if it stood alone: the same wherever it is.
    return op.get_asm(use_local_scope=True, assume_verified=True)

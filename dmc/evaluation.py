"""The second program of a step: its loss in eval mode, over the same state in memory."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from dmc import pipeline, plans
from dmc._mlir import ir
from dmc.analysis.requests.plan import write_plan
from dmc.analysis.requests.state import fix_state
from dmc.executors import Builder, Settings
from dmc.forms import PLACED
from dmc.importer.capture.capture import Loss
from dmc.importer.capture.own_loss import OwnLoss, Reader, reader_of
from dmc.importer.evaluation import import_evaluation
from dmc.importer.forward.precision import Precision
from dmc.importer.step import ImportedStep
from dmc.lowering.ledger import ledger_of
from dmc.observer import Observer
from dmc.plans import Plan
from dmc.runtime.artifact import EVALUATION, Artifact
from dmc.target import targets

# As `dmc.compile` takes it: whether to evaluate, or what to compute instead of the loss.
Evaluation = bool | Loss | Reader


@dataclass(frozen=True)
class Evaluating:
    """What is evaluated, and how. loss: what is computed. plan: the step's, where it is for a mesh."""

    model: nn.Module
    loss: Loss | OwnLoss | None
    example: Any
    precision: Precision
    plan: Plan | None
    settings: Settings

    def added(self, artifact: Artifact, step: ImportedStep, dump_dir: str | os.PathLike[str] | None) -> Artifact:
        """`artifact`, of `step`, with the program beside it. Raises what compiling a step raises."""
        context = step.module.context
        imported = import_evaluation(self.model, self.loss, self.example, self.precision, step, context)
        resolved = self._placed(imported)
        fix_state(imported.module, artifact.job)
        folder = None if dump_dir is None else Path(dump_dir) / EVALUATION
        # The step's stages have been reported; this is one more.
        built = Builder(imported.module, imported.signature, self.settings, Observer(), folder).build()
        ledger = ledger_of(ir.Module.parse(built.forms[pipeline.stem(PLACED)]), resolved)
        program = built.artifact(artifact.target, artifact.precision, (), ledger)
        return replace(artifact, programs={**artifact.programs, EVALUATION: program})

    def _placed(self, imported: ImportedStep) -> plans.ResolvedPlan | None:
        """Annotates `imported` with what the plan requests."""
        if self.plan is None:
            return None
        signature = imported.signature
        resolved = plans.resolve(self.plan, signature.state, imported.modules, signature.batch)
        write_plan(imported.module, resolved, signature, targets(self.settings.targets)[0].name)
        return resolved


def loss_of(evaluation: Evaluation, loss: Loss | None) -> Loss | OwnLoss | None:
    """What an evaluation computes: the loss of training, or a function in its place.

    Where the model computes its own loss, such a function takes the model's output alone.
    """
    if isinstance(evaluation, bool):
        return loss
    if callable(evaluation) and reader_of(loss) is not None:
        return OwnLoss(evaluation)  # pyright: ignore[reportArgumentType]
    return evaluation  # pyright: ignore[reportReturnType]

"""One compilation: a step, and the programs beside it over the same state in memory, compared with PyTorch eager.

Beside it are the steps for batches of other shapes, and the evaluations.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dmc import pipeline, plans
from dmc._mlir import ir
from dmc.analysis.requests.cuts import with_balanced_cuts
from dmc.analysis.requests.factors import parameter_factors
from dmc.analysis.requests.heads import with_copies
from dmc.analysis.requests.keeping import write_keeping
from dmc.analysis.requests.plan import write_plan
from dmc.analysis.requests.structure import AnyPlan, with_structure
from dmc.analysis.requests.verbs import write_verbs
from dmc.analysis.storage.fixed import fix_state
from dmc.analysis.storage.spaces import put_in_host_memory
from dmc.errors import PlanError, StateError
from dmc.executors import STAGES, Builder, Settings
from dmc.forms import IMPORTED, PLACED
from dmc.garbage import uncollected
from dmc.importer.capture.capture import Loss
from dmc.importer.capture.own_loss import OfModel, OwnLoss, Reader, reader_of
from dmc.importer.evaluation import import_evaluation
from dmc.importer.step import ImportedStep, import_steps
from dmc.importer.traced import Asked
from dmc.lowering.ledger import movements_of
from dmc.machine import Machine, machine
from dmc.observer import Observer
from dmc.phases import check_all_trained
from dmc.plans import Plan, Recipe, ResolvedPlan
from dmc.plans.rules import Pipeline
from dmc.plans.uneven import Factors
from dmc.runtime.files.artifact import EVALUATION, Artifact, program_name
from dmc.runtime.tensors.arrays import placeholder, to_array
from dmc.target import Target, targets
from dmc.verification import Request, Subject, Verification, amount_of

# As `dmc.compile` takes it: whether to evaluate, or what to compute instead of the loss.
Evaluation = bool | Loss | Reader


@dataclass(frozen=True)
class Compilation:
    """requests: the step for each example of each phase, by name. evaluated: what is evaluated. verify: as in
    `dmc.compile`.
    """

    requests: Mapping[str, Request]
    evaluated: tuple[Request, ...]
    evaluation: Evaluation
    plan: Recipe | None
    settings: Settings
    verify: bool | None
    observer: Observer
    dump_dir: str | os.PathLike[str] | None = None

    def artifact(self, context: ir.Context) -> Artifact:
        """All programs, with the first state."""
        stages = (IMPORTED.name, *STAGES, *self._beside(), *(["verify"] if self.verify is not False else []))
        self.observer.plan(stages)
        begin = time.perf_counter()
        with uncollected():
            step, subjects = self._programs(context)
        seconds, is_named = time.perf_counter() - begin, ":" in self.settings.targets
        Verification(subjects, step, self.verify, seconds, self.observer, is_named).run()
        return step

    def _programs(self, context: ir.Context) -> tuple[Artifact, dict[str, Subject]]:
        """The step with the programs beside it, and what each is compared by."""
        (first, request), parts = next(iter(self.requests.items())), plans.data_parts(self.plan)
        with self.observer.stage(IMPORTED.name):
            training = self._imported(context, parts)
            imported = training[first]
            on = machine(self.settings.machine, self.settings.tuning)
            plan, _, notes = arranged(self.plan, imported, request.accumulate, on)
            factors = _factors(plan, training.values())
        for note in notes:
            self.observer.note(note)
        # All programs are placed alike, since they share the state.
        own = replace(self, plan=plan)
        subjects = {first: Subject(request, amount_of(imported.module))}
        step = own._compiled(imported, self.observer, self.dump_dir, request.accumulate, factors)
        step = replace(step, state=_arrays(imported), unset=imported.unset)
        programs: dict[str, Artifact] = {}
        for name, other in self._beside().items():
            with self.observer.stage(name):
                program = training.get(name) or import_evaluation(
                    other.model, other.loss, other.example, other.precision, imported, context, parts
                )
                fix_state(program.module, step.job)
                subjects[name] = Subject(other, amount_of(program.module))
                folder = None if self.dump_dir is None else Path(self.dump_dir) / name
                # Its stages are not the observer's: this is one more.
                programs[name] = own._compiled(program, Observer(), folder, other.accumulate, factors)
        return replace(step, programs=programs), subjects

    def _imported(self, context: ir.Context, parts: int) -> dict[str, ImportedStep]:
        """The programs that train, by name."""
        imported = import_steps({name: _asked(name, each) for name, each in self.requests.items()}, context, parts)
        phases = {each.phase: each.optimizer for each in self.requests.values() if each.phase}
        if phases:
            changed = {spec.name for each in imported.values() for spec in each.signature.state if spec.mutated}
            check_all_trained(next(iter(self.requests.values())).model, phases, changed)
        if self.plan is not None and any(isinstance(rule, Pipeline) for rule in self.plan.rules):
            _check_for_stages(imported)
        return imported

    def _beside(self) -> Mapping[str, Request]:
        """What is compiled beside the step, by name."""
        return dict(self._others())

    def _others(self) -> Iterator[tuple[str, Request]]:
        yield from list(self.requests.items())[1:]
        for number, request in enumerate(self.evaluated):
            loss = _loss_of(self.evaluation, request.loss)
            yield program_name(EVALUATION, number), replace(request, loss=loss, accumulate=1)

    def _compiled(
        self,
        imported: ImportedStep,
        observer: Observer,
        folder: str | os.PathLike[str] | None,
        accumulate: int,
        factors: Mapping[str, Sequence[Factors]],
    ) -> Artifact:
        """A program without state. factors: of parameters in the first program, like which all are placed."""
        chosen, signature = targets(self.settings.targets), imported.signature
        resolved = state_plan(imported, self.plan, accumulate, chosen[0], factors)
        built = Builder(imported.module, signature, self.settings, observer, folder).build()
        moved = movements_of(ir.Module.parse(built.forms[pipeline.stem(PLACED)]), resolved)
        precision = next(iter(self.requests.values())).precision.value
        return built.artifact("+".join(each.name for each in chosen), precision, (), moved)


def arranged(
    plan: AnyPlan, imported: ImportedStep, accumulate: int, on: Machine
) -> tuple[AnyPlan, Mapping[str, Sequence[Factors]], tuple[str, ...]]:
    """The plan for one model, with its layers by name, copies of heads that are fewer than ranks, and stages that
    take equally long where it asks for these; the factors of its parameters; and notes. on: the machine of a rank."""
    plan = with_structure(plan, imported.module)
    if not isinstance(plan, Plan):
        return plan, {}, ()
    plan = with_balanced_cuts(plan, imported.module, imported.modules, on)
    factors, signature = parameter_factors(imported.module), imported.signature
    resolved = plans.resolve(plan, signature.state, imported.modules, signature.batch, accumulate)
    copied, notes = with_copies(plan, resolved.tensors, factors)
    return copied, factors, notes


def state_plan(
    imported: ImportedStep,
    plan: Recipe | None,
    accumulate: int,
    machine: Target,
    factors: Mapping[str, Sequence[Factors]] | None = None,
) -> ResolvedPlan | None:
    """Annotates `imported` with what a plan requests; None where that is not about placement."""
    if plan is None:
        return None
    signature = imported.signature
    write_keeping(imported.module, plans.keeping(plan.rules, imported.modules))
    write_verbs(imported.module, plans.verbs_in(plan.rules))
    put_in_host_memory(imported.module, plans.waiting_state(plan.rules, signature.state))
    if not isinstance(plan, Plan):
        return None
    resolved = plans.resolve(plan, signature.state, imported.modules, signature.batch, accumulate, factors)
    write_plan(imported.module, resolved, signature, machine.name)
    return resolved


def _check_for_stages(imported: Mapping[str, ImportedStep]) -> None:
    """Raises PlanError for programs of a pipeline that do not all change the same state."""
    changed = {name: {spec.name for spec in each.signature.state if spec.mutated} for name, each in imported.items()}
    first, *_ = changed
    for name, own in changed.items():
        if some := sorted(own ^ changed[first]):
            fact = f"the programs {first} and {name} of a pipeline change other state: only one of them {some[0]}"
            hint = "let every example use every layer, or leave the pipeline out: other plans take such programs"
            raise PlanError("plan", fact, hint)


def _factors(plan: Recipe | None, programs: Iterable[ImportedStep]) -> dict[str, Sequence[Factors]]:
    """Of parameters, by what the first of the programs does with each that knows any."""
    found: dict[str, Sequence[Factors]] = {}
    for each in programs if isinstance(plan, Plan) else ():
        found = {**parameter_factors(each.module), **found}
    return found


def _asked(name: str, request: Request) -> Asked:
    assert not isinstance(request.loss, OwnLoss), "that of an evaluation"
    given = request.model, request.loss, request.optimizer, request.example
    shape = int(name.partition("-")[2] or 0)
    return Asked(*given, request.precision, request.accumulate, request.seed, request.phase, request.number, shape)


def _loss_of(evaluation: Any, loss: Any) -> Any:
    """What an evaluation computes: the loss of training, or a function in its place.

    Where the model computes its own loss, such a function takes the model's output alone; where there are phases, the
    model and the batch.
    """
    if isinstance(loss, OfModel):
        return OfModel(evaluation)
    if isinstance(evaluation, bool):
        return loss
    return OwnLoss(evaluation) if reader_of(loss) is not None else evaluation


def _arrays(imported: ImportedStep) -> tuple[Any, ...]:
    specs = imported.signature.state
    bf16 = {spec.name for spec in specs if spec.dtype == "bf16"}
    state = {name: tensor.bfloat16() if name in bf16 else tensor for name, tensor in imported.state.items()}
    return tuple(
        placeholder(spec) if spec.name in imported.unset else to_array(state[spec.name], spec, spec.name, StateError)
        for spec in specs
    )

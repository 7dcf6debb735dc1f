"""What `dmc.compile` is asked for, as the programs of a step: for each phase and shape one, and the evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from dmc.arguments import check_examples, check_meaning, check_model, micro_batches
from dmc.errors import DmcError, PlanError
from dmc.importer.capture.precisions import has_narrow
from dmc.importer.forward.precision import Precision
from dmc.phases import Phase, check_phases
from dmc.plans import Recipe
from dmc.plans.rules import Pipeline
from dmc.runtime.files.artifact import TRAINING, program_name
from dmc.verification import Request


def asked(
    model: nn.Module,
    phases: Any,
    given: Mapping[str, Any],
    evaluation: Any,
    evaluated: Any,
    plan: Recipe | None,
    precision: Precision,
    seed: int,
    verify: bool | None,
) -> tuple[dict[str, Request], tuple[Request, ...]]:
    """The programs that train, by name, and what is evaluated. given: optimizer, example, loss and accumulate of a step
    without phases. Raises DmcError for arguments that no compilation accepts.
    """
    if phases is None:
        requests, beside = _of_one(model, given, evaluation, evaluated, plan, precision, seed, verify)
    else:
        check_model(model, None, verify, is_called=False)
        check_phases(model, phases, given, evaluation, evaluated)
        requests, beside = _of_phases(model, phases, evaluation, evaluated, plan, precision, seed)
    is_narrow = plan is not None and has_narrow(plan.rules)
    marked = {name: replace(each, has_narrow=is_narrow) for name, each in requests.items()}
    return marked, tuple(replace(each, has_narrow=is_narrow) for each in beside)


def _of_phases(
    model: nn.Module,
    phases: Mapping[str, Phase],
    evaluation: Any,
    evaluated: Any,
    plan: Recipe | None,
    precision: Precision,
    seed: int,
) -> tuple[dict[str, Request], tuple[Request, ...]]:
    if plan is not None and (rule := next((rule for rule in plan.rules if isinstance(rule, Pipeline)), None)):
        fact = f"cuts the one loss of a model, and the phases {', '.join(phases)} have one each"
        raise PlanError(str(rule), fact, hint="leave it out: data parallelism, ZeRO and tensor parallelism take phases")
    requests: dict[str, Request] = {}
    for number, (name, phase) in enumerate(phases.items()):
        requests |= _of_phase(model, name, number, phase, plan, precision, seed)
    first = next(iter(requests.values()))
    examples = [] if evaluation is False else check_examples((), 1, evaluation, evaluated)[2]
    return requests, replace(first, phase="", number=0).with_examples(examples)


def _of_phase(
    model: nn.Module, name: str, number: int, phase: Phase, plan: Recipe | None, precision: Precision, seed: int
) -> dict[str, Request]:
    try:
        parts = micro_batches(None if phase.accumulate == 1 else phase.accumulate, plan)
        examples, counts, _ = check_examples(phase.example, parts, False, None)
        check_meaning(phase.loss, phase.example, seed)
        check_model(model, phase.loss, is_called=False)
    except DmcError as error:
        error.inside(f"phase '{name}'")
        raise
    request = Request.of(model, phase.called, phase.trainer, None, precision, 1, seed)
    each = replace(request, phase=name, number=number).with_examples(examples, counts)
    return {program_name(name, shape): own for shape, own in enumerate(each)}


def _of_one(
    model: nn.Module,
    given: Mapping[str, Any],
    evaluation: Any,
    evaluated: Any,
    plan: Recipe | None,
    precision: Precision,
    seed: int,
    verify: bool | None,
) -> tuple[dict[str, Request], tuple[Request, ...]]:
    for name in ("optimizer", "example"):
        if given[name] is None:
            hint = "such as optimizer=torch.optim.AdamW(model.parameters()), example=(inputs, targets); or phases=…"
            raise DmcError(name, "is not given", hint)
    loss, example = given["loss"], given["example"]
    parts = micro_batches(given["accumulate"], plan)
    examples, counts, beside = check_examples(example, parts, evaluation, evaluated)
    check_meaning(loss, example, seed)
    check_model(model, loss, verify)
    request = Request.of(model, loss, given["optimizer"], None, precision, 1, seed)
    each = request.with_examples(examples, counts)
    named = {program_name(TRAINING, number): own for number, own in enumerate(each)}
    return named, request.with_examples(beside)

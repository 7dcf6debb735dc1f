"""What is wrong with the verbs of a plan, before anything is traced: paths, contradictions, and what has no effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from dmc.errors import PlanError
from dmc.plans.patterns import find
from dmc.plans.rules import Pipeline, Rule
from dmc.plans.verbs import (
    IREE,
    Bucket,
    Decompose,
    Implementation,
    OfModules,
    OfMovements,
    Overlap,
    Precision,
    Verb,
)
from dmc.program.tuning import CUDNN
from dmc.target import Target

# Rules, also equal ones, each with the paths of the modules that it means.
Found: TypeAlias = Sequence[tuple[OfModules, list[str]]]


@dataclass(frozen=True)
class StepFacts:
    """The step that a plan is for. precision: as `dmc.compile` takes it. ranks: of the mesh."""

    precision: str
    targets: tuple[Target, ...]
    ranks: int

    @property
    def has_kernels(self) -> bool:
        """Whether dmc's own kernels run on any of the targets."""
        return any(each.has_kernels for each in self.targets)


def verbs_in(rules: Iterable[Rule]) -> tuple[Verb, ...]:
    """Those of the rules that are verbs."""
    return tuple(rule for rule in rules if isinstance(rule, Verb))


def check_verbs(rules: Sequence[Rule], modules: Iterable[str], facts: StepFacts) -> None:
    """Raises PlanError for a pattern that matches no module, verbs that contradict each other, and a verb without
    effect on such a step. modules: the paths of the model's modules."""
    found = _matched(rules, modules)
    for rule in verbs_in(rules):
        match rule:
            case Decompose() | Implementation():
                _check_target(rule, facts)
            case Bucket() | Overlap():
                _check_movements(rule, rules, facts)
            case _:
                pass
    _check_same(found, Precision)
    _check_same(found, Implementation)
    _check_opened(found)
    _check_types(found, facts)


def outermost(paths: Iterable[str]) -> list[str]:
    """The paths of modules that are in no other of them, in order."""
    every = list(paths)
    known = set(every)
    return [path for path in every if known.isdisjoint(_around(path))]


def _matched(rules: Iterable[Rule], modules: Iterable[str]) -> Found:
    # The model itself is the whole step.
    names = {path: None for path in modules if path}
    return [(rule, find(rule, rule.pattern, names, "module")) for rule in rules if isinstance(rule, OfModules)]


def _check_target(rule: Decompose | Implementation, facts: StepFacts) -> None:
    if facts.has_kernels:
        return
    names = " and ".join(each.name for each in facts.targets)
    if isinstance(rule, Decompose):
        fact = f"has no effect: target {names} has no kernels for composites, so that all of them are opened"
    elif rule.by == IREE:
        fact = f"has no effect: all code for target {names} is IREE's"
    else:
        fact = f"cannot be: all code for target {names} is IREE's"
    raise PlanError(str(rule), fact, 'leave it out, or compile for target="cuda"')


def _check_movements(rule: OfMovements, rules: Sequence[Rule], facts: StepFacts) -> None:
    alike = [each for each in rules if type(each) is type(rule)]
    if alike[0] is not rule:
        raise PlanError(str(rule), f"the plan says {alike[0]} already", "drop one of the two")
    if facts.ranks == 1:
        raise PlanError(str(rule), "has no effect: one rank moves nothing to others", "use a mesh of several ranks")
    pipeline = next((each for each in rules if isinstance(each, Pipeline)), None)
    if pipeline is not None and isinstance(rule, Overlap):
        fact = f"contradicts {pipeline}: a rank sends what it has computed while it computes the next micro-batch"
        raise PlanError(str(rule), fact, "drop one of the two")


def _check_same(found: Found, kind: type[Precision | Implementation]) -> None:
    first: dict[str, Precision | Implementation] = {}
    for rule, paths in found:
        if not isinstance(rule, kind):
            continue
        for path in outermost(paths):
            other = first.setdefault(path, rule)
            if replace(other, pattern="", recipe="") != replace(rule, pattern="", recipe=""):
                raise PlanError(str(rule), f"contradicts {other} of '{path}'", "drop one of the two, or narrow a path")


def _check_opened(found: Found) -> None:
    opened = {path: rule for rule, paths in found if isinstance(rule, Decompose) for path in paths}
    for rule, paths in found:
        if not isinstance(rule, Implementation) or rule.by != CUDNN:
            continue
        for path in paths:
            if other := next((opened[each] for each in (path, *_around(path)) if each in opened), None):
                fact = f"contradicts {other}, which opens the composites of '{path}' that cuDNN computes"
                raise PlanError(str(rule), fact, "drop one of the two")


def _check_types(found: Found, facts: StepFacts) -> None:
    """Of a rule without which every module that it means would compute in the same type: the last of several."""
    said = [(rule, outermost(paths)) for rule, paths in found if isinstance(rule, Precision)]
    for index, (rule, paths) in reversed([*enumerate(said)]):
        others = {path: other for other, own in said[:index] + said[index + 1 :] for path in own}
        before = [next((others[each] for each in (path, *_around(path)) if each in others), None) for path in paths]
        if all(rule.dtype == (facts.precision if each is None else each.dtype) for each in before):
            by = f'precision="{facts.precision}" of the step' if before[0] is None else str(before[0])
            raise PlanError(str(rule), f"has no effect: '{paths[0]}' computes in {rule.dtype} by {by}", "leave it out")


def _around(path: str) -> Iterator[str]:
    """The paths of the modules around one, the innermost first."""
    while path := path.rpartition(".")[0]:
        yield path

"""The rule of a pipeline, checked against a mesh and applied to the paths of a model's modules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dmc.errors import PlanError
from dmc.mesh import Mesh
from dmc.plans.balance import balanced
from dmc.plans.patterns import find, matcher
from dmc.plans.rules import Pipeline, Rule

# The end of the name of a file that has a schedule.
TABLE = ".csv"
_SHOWN = 3


@dataclass(frozen=True)
class PipelinePlan:
    """A model cut into stages, numbered from 0, that run on the ranks along `axis`.

    cut: the full paths of the modules that begin stages 1, 2, …. chunks: the stages of each rank. microbatches: into
    how many a batch is divided. schedule: its name, or that of its file. table: the text of that file; "" for none.
    """

    axis: str
    cut: tuple[str, ...]
    schedule: str
    chunks: int
    microbatches: int
    table: str = ""
    rule: str = field(default="", compare=False)

    @property
    def stages(self) -> int:
        """The number of stages."""
        return len(self.cut) + 1

    def __str__(self) -> str:
        each = f", {self.chunks} a rank" if self.chunks > 1 else ""
        return (
            f"{_counted(self.stages, 'stage')} over {self.axis}{each}, "
            f"{_counted(self.microbatches, 'micro-batch', 'es')}, schedule {self.schedule}"
        )


def check_pipelines(rules: Sequence[Rule], mesh: Mesh) -> None:
    """Raises PlanError for a second pipeline, an axis that another rule uses, and another number of cuts than the
    mesh's ranks have stages."""
    pipelines = [rule for rule in rules if isinstance(rule, Pipeline)]
    if len(pipelines) > 1:
        first, second = pipelines[:2]
        raise PlanError(str(second), f"the plan has a pipeline already, {first}", hint="drop one of the rules")
    for rule in pipelines:
        other = next((each for each in rules if each is not rule and rule.axis in each.axes), None)
        if other is not None:
            hint = "give the pipeline an axis of its own"
            raise PlanError(str(rule), f"axis '{rule.axis}' is used by {other} too", hint)
        _check_count(rule, mesh)


def resolve_pipeline(rules: Iterable[Rule], modules: Iterable[str], microbatches: int) -> PipelinePlan | None:
    """The plan's pipeline, whose cuts are known (`with_balanced`); None where it has none. microbatches: of this
    program, whatever the rule says.

    Raises PlanError for a cut that does not name exactly one module, one module named twice, and a file that cannot be
    read.
    """
    rule = next((rule for rule in rules if isinstance(rule, Pipeline)), None)
    if rule is None:
        return None
    if isinstance(rule.cut, str):
        hint = "apply with_balanced to the plan's rules first, as dmc.compile does, or list modules"
        raise PlanError(str(rule), "is cut by times, which are not known here", hint)
    cut = _named(rule, modules)
    name = Path(rule.schedule).name if _is_file(rule) else rule.schedule
    return PipelinePlan(rule.axis, cut, name, rule.chunks, microbatches, _text(rule), str(rule))


def with_balanced(
    rules: Iterable[Rule], mesh: Mesh, modules: Sequence[str], times: Mapping[str, float]
) -> tuple[Rule, ...]:
    """`rules` with modules for `"balanced"`. times: of modules, without what is inside them, by path.

    Raises PlanError where the model has too few blocks.
    """

    def cut(rule: Rule) -> Rule:
        if not isinstance(rule, Pipeline) or not isinstance(rule.cut, str):
            return rule
        found = balanced(rule, mesh.axis_size(rule.axis) * rule.chunks, modules, times)
        return replace(rule, cut=tuple(f".{path}" for path in found))

    return tuple(map(cut, rules))


def check_cuts(rules: Iterable[Rule], modules: Iterable[str]) -> None:
    """Raises PlanError as `resolve_pipeline` does, for what is known of a model before it is traced."""
    for rule in rules:
        if isinstance(rule, Pipeline):
            _text(rule)
            if not isinstance(rule.cut, str):
                _named(rule, modules)


def _check_count(rule: Pipeline, mesh: Mesh) -> None:
    if isinstance(rule.cut, str):
        return
    ranks = mesh.axis_size(rule.axis)
    wanted, given = ranks * rule.chunks, len(rule.cut) + 1
    if given != wanted:
        each = f" with {rule.chunks} stages each" if rule.chunks > 1 else ""
        cuts = f"{_counted(len(rule.cut), 'cut')} make{'s' if len(rule.cut) == 1 else ''}"
        fact = f"{cuts} {_counted(given, 'stage')}, but '{rule.axis}' has"
        begin = "1 module that begins a stage" if wanted == 2 else f"{wanted - 1} modules that begin stages"
        hint = f'list {begin}, or use cut="balanced"'
        raise PlanError(str(rule), f"{fact} {_counted(ranks, 'rank')}{each}", hint)


def _named(rule: Pipeline, modules: Iterable[str]) -> tuple[str, ...]:
    """The full paths of the modules that the cuts of `rule` name."""
    # The model itself is no cut.
    names = dict.fromkeys(path for path in modules if path)
    cut: dict[str, str] = {}
    for pattern in rule.cut:
        _check_number(rule, pattern, names)
        found = find(rule, pattern, names, "module")
        if len(found) > 1:
            listed = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
            hint = f'name one, by its whole path behind a dot: ".{found[0]}"'
            raise PlanError(str(rule), f"'{pattern}' matches {len(found)} modules: {listed}", hint)
        if found[0] in cut:
            fact = f"'{cut[found[0]]}' and '{pattern}' are one module, {found[0]}"
            raise PlanError(str(rule), fact, hint="a module begins one stage; drop one of them")
        cut[found[0]] = pattern
    return tuple(cut)


def _check_number(rule: Pipeline, pattern: str, names: Iterable[str]) -> None:
    """Raises PlanError for the path of a layer that would exist if the model had more of them."""
    alike = list(filter(matcher(re.sub(r"(?<![^.])\d+(?![^.])", "[0-9]*", pattern)), names))
    if alike and not any(map(matcher(pattern), alike)):
        raise PlanError(str(rule), f"'{pattern}' matches no module", hint=f"they are {alike[0]} to {alike[-1]}")


def _text(rule: Pipeline) -> str:
    """The text of the file of a schedule; "" for one by name."""
    if not _is_file(rule):
        return ""
    try:
        return Path(rule.schedule).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        hint = "a row for each rank, with cells such as 2F0 and 2B0, as torch.distributed.pipelining writes it"
        raise PlanError(f"schedule '{rule.schedule}'", f"cannot be read: {why}", hint) from error


def _is_file(rule: Pipeline) -> bool:
    return rule.schedule.endswith(TABLE)


def _counted(count: int, noun: str, ending: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else ending}"

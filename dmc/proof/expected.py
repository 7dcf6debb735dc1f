"""The expected operands and results of each launch of a job, and contents of slots, from forms placed and scheduled."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from dmc.errors import ProofError
from dmc.mesh import Mesh
from dmc.program import Launch, Variants
from dmc.program.dataflow import Body, Call, Choice, Dataflow, Step
from dmc.program.labels import short
from dmc.proof.meaning import Held, Meaning, of_stages
from dmc.proof.values import Values

# At most this many pieces of a value are listed.
_MOST_TOLD = 3
_HINT = "a pass of stage scheduled changed the dataflow; replay the stage with dmc-opt, pass by pass"


@dataclass(frozen=True)
class Kernel:
    """A kernel of form scheduled: its operands and results on one rank, or on any, of which each may have a variant."""

    call: Call | Choice
    operands: tuple[int, ...]
    results: tuple[int, ...]

    @property
    def told(self) -> str:
        """Its function and its label: `@matmul_0 (h.1)`."""
        call = self.functions[0]
        return f"@{call.function}" + (f" ({short(call.label)})" if call.label else "")

    @property
    def functions(self) -> tuple[Call, ...]:
        """The calls of all variants."""
        choices = self.call.choices if isinstance(self.call, Choice) else (self.call,)
        return tuple(each for each in choices if isinstance(each, Call))

    def is_launched(self, launch: Launch) -> bool:
        """Whether a launch runs it, on each rank the variant of that."""
        if not isinstance(self.call, Choice):
            return launch.variants is None and launch.kernel == self.call.function
        names = tuple(each.function for each in self.functions)
        return launch.variants == Variants(self.call.axes, names)


@dataclass
class Expected:
    """By rank: the kernels in the order of issue, and the final state and outputs, by name."""

    values: Values
    calls: Mapping[int, list[Kernel]]
    state: dict[int, Mapping[str, int]] = field(default_factory=dict[int, Mapping[str, int]])
    outputs: dict[int, Mapping[str, int]] = field(default_factory=dict[int, Mapping[str, int]])

    def note(self, call: Call | Choice, rank: int, operands: tuple[int, ...], results: tuple[int, ...]) -> None:
        """Records a kernel of form scheduled."""
        self.calls[rank].append(Kernel(call, operands, results))

    def told(self, value: int) -> str:
        """A readable description of a value."""
        for kernel in (kernel for calls in self.calls.values() for kernel in calls if value in kernel.results):
            which = f"result {kernel.results.index(value)}" if len(kernel.results) > 1 else "the result"
            return f"{which} of {kernel.told}"
        match self.values.how(value):
            case ("argument", str(name), rank):
                return f"'{name}' of rank {rank}"
            case ("unwritten",):
                return "uninitialised bytes"
            case ("reduced", how, wholes):
                return f"the {how[0]} of {self.told(wholes[0][0])} and its counterparts on {len(wholes)} ranks"
            case ("row", segments):
                return self._told_row(segments)
            case _:
                return "a value of which kernels compute only parts"

    def _told_row(self, segments: Sequence[tuple[int, int, int]]) -> str:
        pieces = [f"bytes [{first}, {first + length}) of {self.told(whole)}" for whole, first, length in segments]
        more = len(pieces) - _MOST_TOLD
        return ", ".join(pieces[:_MOST_TOLD]) + (f" and {more} more pieces" if more > 0 else "")


def expected_of(
    dataflow: Dataflow,
    mesh: Mesh,
    kind: type[Meaning] = Meaning,
    values: Values | None = None,
    stages: Sequence[str] = (),
) -> Expected:
    """Finds the values of every rank, or of those that stand for others.

    stages: the axes along which ranks are stages of a pipeline. Raises ProofError if a form's values differ from those
    of the one before it.

    Upstream's canonicalize and cse, dm-chunk-head, dm-pad-classes, dm-merge-products and dm-channels-last are trusted.
    """
    values = values or Values()
    is_split, meaning = _check_split(mesh, dataflow), kind(mesh, values, {}, stages=stages)
    ranks = sorted(rank for step in dataflow.opened for rank in meaning.ranks_of(step))
    expected = Expected(values, {rank: [] for rank in ranks})

    def found(steps: Sequence[Step], functions: Mapping[str, Body] | None = None) -> _Found:
        note = None if functions is None else expected.note
        own = [step.functions if functions is None else functions for step in steps]
        walks = [(kind(mesh, values, each, note, stages), step) for each, step in zip(own, steps, strict=True)]
        return {rank: (step, held) for step, each in of_stages(walks) for rank, held in each.items()}

    placed, opened, simplified = map(found, ((dataflow.placed,), dataflow.opened, dataflow.simplified))
    scheduled = found(dataflow.scheduled, dataflow.kernels)
    for rank in ranks:
        own, wanted = _ends(*opened[rank]), _ends(*placed[meaning.without_stages(rank)])
        if name := _other(_within(wanted, own) if is_split else wanted, own):
            fact = f"'{name}' of rank {rank} is computed differently from form placed"
            raise ProofError("V11", "stage scheduled, dm-inline-composites", fact, _HINT)
        state, outputs = ends = _ends(*simplified[rank])
        if name := _other(ends, _ends(*scheduled[rank])):
            raise _first_difference(expected, rank, simplified[rank][1], name)
        expected.state[rank], expected.outputs[rank] = state, outputs
    return expected


def _check_split(mesh: Mesh, dataflow: Dataflow) -> bool:
    """Whether the step has stages. Then each rank must be in one, and each tensor of the step's ends in some."""
    if not any(step.ranks for step in dataflow.opened):
        return False
    held = {name for step in dataflow.opened for name in (*step.state, *step.outputs)}
    counted = sorted(rank for step in dataflow.opened for rank in step.ranks)
    for step in dataflow.opened:
        stale = [name for name, _ in step.arguments if name in dataflow.placed.state and name not in step.state]
        if stale:
            fact = f"ranks {list(step.ranks)} have '{stale[0]}', and do not change it"
            raise ProofError("V11", "stage scheduled, dm-split-stages", fact, _HINT)
    if missing := [name for name in (*dataflow.placed.state, *dataflow.placed.outputs) if name not in held]:
        raise ProofError("V11", "stage scheduled, dm-split-stages", f"no stage has '{missing[0]}'", _HINT)
    if counted != list(mesh.ranks):
        raise ProofError("V11", "stage scheduled, dm-split-stages", "not every rank is in one stage", _HINT)
    return True


_Ends = tuple[dict[str, int], dict[str, int]]
# By rank: the step that it runs, and the values of that.
_Found = dict[int, tuple[Step, Held]]


def _ends(step: Step, held: Held) -> _Ends:
    state, outputs = ({name: held[i] for name, i in ends.items()} for ends in (step.state, step.outputs))
    return state, outputs


def _other(wanted: _Ends, found: _Ends) -> str:
    """The first differing state or output, or ""."""
    pairs = [
        (mine.get(name), theirs.get(name), name)
        for mine, theirs in zip(wanted, found, strict=True)
        for name in {**mine, **theirs}
    ]
    return next((name for mine, theirs, name in pairs if mine != theirs), "")


def _within(ends: _Ends, held: _Ends) -> _Ends:
    """Those that a rank has."""
    state, outputs = ({name: each[name] for name in own if name in each} for each, own in zip(ends, held, strict=True))
    return state, outputs


def _is_packed(values: Values, value: int, known: Container[int]) -> bool:
    """Whether a value is a known mask as words."""
    how = values.how(value)
    return how[0] == "packed" and how[1] in known


def _first_difference(expected: Expected, rank: int, known: Held, name: str) -> ProofError:
    """Names the first kernel that computes a value that form placed does not."""
    values, fact = set(known), f"'{name}' of rank {rank} differs from form placed"
    for kernel in expected.calls[rank]:
        if not all(each in values or _is_packed(expected.values, each, values) for each in kernel.results):
            taken = ", ".join(map(expected.told, kernel.operands))
            fact = f"computes from {taken} a value that form placed does not; so {fact}"
            return ProofError("V11", f"stage scheduled, {kernel.told}", fact, _HINT)
    return ProofError("V11", "stage scheduled", fact, _HINT)

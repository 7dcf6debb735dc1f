"""Where a form begins to differ from the one before it, by the places in the model of their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from torch import fx

from dmc.dtypes import Array
from dmc.importer import origin
from dmc.program import Job, Launch, Program, Range, accesses
from dmc.runtime.comparison.difference import difference
from dmc.runtime.comparison.tolerance import Tolerance
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.sessions.iree.planned import PlannedSession
from dmc.runtime.sessions.open_session import open_session
from dmc.runtime.tensors.ranks import Ranks
from dmc.verification.arrays import array_of
from dmc.verification.forms import Forms, Watched
from dmc.verification.graphs import Trace

# A value by the place in the model that it comes from.
Placed = Iterable[tuple[str, Array]]


def of_graph(graph: Trace | None, module: Watched, tolerance: Tolerance) -> str:
    """The first node of the decomposed graph whose value is not among the module's values of the same place."""
    if graph is None:
        return ""
    nodes = ((graph.nodes[name], values) for name, values in graph.values.items())
    return _first(((_key(node), array_of(value)) for node, values in nodes for value in values), module, tolerance)


def between(before: Sequence[Watched], now: Watched, tolerance: Tolerance) -> str:
    """The same, for the last form before this one."""
    return _first((pair for each in before for pair in each.values), now, tolerance)


def of_launches(artifact: Artifact, before: Sequence[Watched], now: Watched, tolerance: Tolerance) -> str:
    """The first launch, rank by rank, with other results than its kernel."""
    for program in artifact.job.programs:
        launches = [command for command in program.commands if isinstance(command, Launch)]
        for number, launch in enumerate(launches):
            key = program.rank, number
            wanted = [each.launches[key] for each in before if key in each.launches]
            if wanted and key in now.launches and not _agree(wanted[0], now.launches[key], tolerance):
                return _told(program, launch)
    return ""


def in_memory(forms: Forms, seen: Mapping[str, Watched], tolerance: Tolerance) -> str:
    """The first launch whose results, where still in memory after the step, are wrong."""
    artifact = forms.artifact
    last = list(seen.values())[-1:]
    if not last or not last[0].launches:
        return ""
    memories = _memories(forms)
    for rank, number, launch, left in _left(artifact.job):
        expected = last[0].launches[rank, number][launch.writes.index(left)]
        actual = memories[rank, left.space][left.offset : left.end].view(expected.dtype).reshape(expected.shape)
        if not _agree([expected], [actual], tolerance):
            return f"the results of {_told(artifact.job.programs[rank], launch)}"
    return ""


def _left(job: Job) -> Iterator[tuple[int, int, Launch, Range]]:
    """For each launch, its rank, its number there, and the results that are not overwritten."""
    for program in job.programs:
        launches = [(i, command) for i, command in enumerate(program.commands) if isinstance(command, Launch)]
        for number, (place, launch) in enumerate(launches):
            left = (each for each in launch.writes if not _is_written(each, program, place + 1))
            yield from ((program.rank, number, launch, each) for each in left)


def _memories(forms: Forms) -> Mapping[tuple[int, str], Array]:
    """The arenas of all ranks after a step of the compiled code."""
    artifact, ranks = forms.artifact, Ranks(forms.artifact.signature)
    state = ranks.scatter(artifact.signature.state, artifact.state)
    session = open_session(artifact, ranks.linked, state, "cpu")
    assert isinstance(session, PlannedSession), "on a CPU"
    try:
        given = forms.given()
        controls, batch = (
            [given[spec.name] for spec in specs] for specs in (artifact.signature.controls, artifact.signature.batch)
        )
        session.issue(
            ranks.scatter(artifact.signature.controls, controls), ranks.scatter(artifact.signature.batch, batch)
        )
        return session.memory()
    finally:
        session.close()


def _first(values: Placed, module: Watched, tolerance: Tolerance) -> str:
    there: dict[str, list[Array]] = {}
    for key, value in module.values:
        there.setdefault(key, []).append(value)
    for key, value in values:
        alike = [each for each in there.get(key, ()) if each.shape == value.shape and each.dtype == value.dtype]
        if alike and not any(_agree([value], [each], tolerance) for each in alike):
            return key
    return ""


def _key(node: fx.Node) -> str:
    """The place of a node, as `place_of` names it in the imported form."""
    place = origin.of_node(node)
    line = f" ({place.file}:{place.line})" if place.file else ""
    return f"{place.module}#{origin.op_name(node.target)}{place.suffix}{line}"


def _told(program: Program, launch: Launch) -> str:
    where = f"{launch.label or 'no module'} (kernel {launch.kernel})"
    return where if program.rank == 0 else f"{where} of rank {program.rank}"


def _is_written(range_: Range, program: Program, first: int) -> bool:
    """Whether a command from `first` on writes there."""
    return any(target.overlaps(range_) for command in program.commands[first:] for target in accesses(command)[1])


def _agree(one: Sequence[Array], other: Sequence[Array], tolerance: Tolerance) -> bool:
    return all(difference("", b, a, tolerance) is None for a, b in zip(one, other, strict=True))

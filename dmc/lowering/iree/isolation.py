"""Which kernels take a code generator down: found alone, and the code of the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from msgspec.structs import replace

from dmc.errors import CodegenError
from dmc.program import Command, Job, Launch

T = TypeVar("T")


@dataclass(frozen=True)
class Isolated(Generic[T]):
    """made: what was made of parts of the kernels that work together. failed: the others, each with its error."""

    made: tuple[T, ...]
    failed: dict[str, CodegenError]


def isolate(names: frozenset[str], make: Callable[[frozenset[str]], T]) -> Isolated[T]:
    """Calls `make` with all kernels and, where it raises CodegenError, with fewer, until those at fault are known.

    Those that an error names are; the rest is tried again without them.
    """
    made: list[T] = []
    failed: dict[str, CodegenError] = {}
    pending = [names] if names else []
    while pending:
        some = pending.pop()
        try:
            made.append(make(some))
        except CodegenError as error:
            guilty = some if len(some) == 1 else error.kernels & some
            failed |= dict.fromkeys(sorted(guilty), error)
            pending += [some - guilty] if guilty else _parts(some, error)
            pending = [each for each in pending if each]
    return Isolated(tuple(made), failed)


def _parts(names: frozenset[str], error: CodegenError) -> Iterator[frozenset[str]]:
    """Halves. After a long wait each alone, so that a part that also takes too long is not waited for again."""
    ordered = sorted(names)
    size = 1 if error.how == "late" else (len(ordered) + 1) // 2
    return (frozenset(ordered[first : first + size]) for first in range(0, len(ordered), size))


def of_launches(job: Job, make: Callable[[Job], T]) -> T:
    """What `make` makes of a job. Raises its CodegenError with the kernels of the job that are at fault."""
    try:
        return make(job)
    except CodegenError as error:
        whole = error
    names = frozenset(job.kernels)
    if named := whole.kernels & names:
        raise whole.at(named)

    def make_some(some: frozenset[str]) -> None:
        if some == names:
            raise whole
        make(without_launches(job, names - some))

    raise whole.at(isolate(names, make_some).failed)


def without_launches(job: Job, kernels: Collection[str]) -> Job:
    """The job without these kernels and their launches; order and events stay."""

    def is_kept(command: Command) -> bool:
        return not isinstance(command, Launch) or command.kernel not in kernels

    kept = job.mapped(lambda program: replace(program, commands=tuple(filter(is_kept, program.commands))))
    return replace(kept, kernels={name: each for name, each in job.kernels.items() if name not in kernels})

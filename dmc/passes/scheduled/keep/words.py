"""The kernels of the forward pass that run again by the user's word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dmc.analysis.requests.keeping import Word, root_of
from dmc.analysis.tasks.graph import TaskGraph
from dmc.dialect.labels import kernel_label_of
from dmc.passes.scheduled.keep.forward import Forward
from dmc.plans.rules import Keep, Recompute


@dataclass(frozen=True)
class Wanted:
    """again: the kernels that run again. pinned: those that may not."""

    again: frozenset[int]
    pinned: frozenset[int]


def wanted(graph: TaskGraph, forward: Forward, words: Sequence[Word]) -> Wanted:
    """Applies requests. A module that is computed again keeps its outputs, which other modules read.

    A kernel belongs to the module that its label names; one that computes values of several belongs to one of them.
    """
    roots: dict[int, str] = {}
    pinned: set[int] = set()
    for index in dict.fromkeys(forward.makers.values()):
        word, root = _last(kernel_label_of(graph.tasks[index].op), words)
        if isinstance(word, Recompute):
            roots[index] = root
        elif isinstance(word, Keep):
            pinned.add(index)
    outputs = {index for index in roots if _is_output(graph, forward, index, roots)}
    return Wanted(frozenset(roots.keys() - outputs), frozenset(pinned))


def _last(label: str, words: Iterable[Word]) -> tuple[Word | None, str]:
    """The last request for a kernel, and the outermost module that it means: its checkpoint, if the model has one."""
    module, _, checkpoint = label.partition(", ")
    found: tuple[Word | None, str] = (Recompute(checkpoint) if checkpoint else None, checkpoint)
    for word in words:
        root = root_of(word, module)
        found = found if root is None else (word, root)
    return found


def _is_output(graph: TaskGraph, forward: Forward, index: int, roots: dict[int, str]) -> bool:
    """Whether the forward pass reads results of a kernel outside of the module that is computed again."""
    own = set(graph.tasks[index].writes)
    readers = (each for each in forward.tasks if not own.isdisjoint(graph.tasks[each].reads))
    return any(roots.get(each) != roots[index] for each in readers)

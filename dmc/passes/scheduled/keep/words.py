"""The kernels of the forward pass that run again by the user's word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import func
from dmc.analysis.requests.keeping import NOT_FORWARD, Word, last_word
from dmc.analysis.tasks.graph import TaskGraph
from dmc.dialect.labels import kernel_label_of
from dmc.passes.scheduled.keep.step import Again, Step
from dmc.plans.rules import Keep, Recompute


@dataclass(frozen=True)
class Wanted:
    """again: the kernels that run again. pinned: those that may not."""

    again: Again
    pinned: frozenset[int]


def is_requested(step: func.FuncOp, words: Sequence[Word]) -> bool:
    """Whether any kernel is to run again by a request. Without, `wanted` finds none."""
    labels = {kernel_label_of(view.operation) for view in step.entry_block.operations if isinstance(view, dm.KernelOp)}
    return any(isinstance(last_word(label, words)[0], Recompute) for label in labels)


def wanted(step: Step, words: Sequence[Word]) -> Wanted:
    """Applies requests. A module that is computed again keeps its outputs, which other modules read.

    A kernel belongs to the module that its label names; one that computes values of several belongs to one of them.
    """
    roots: dict[int, str] = {}
    pinned: set[int] = set()
    for index in step.kernels():
        word, root = last_word(_label(step.graph, index), words)
        if isinstance(word, Recompute):
            roots[index] = root
        elif isinstance(word, Keep):
            pinned.add(index)
    inside = roots.keys() - _outputs(step.graph, roots)
    turns = _turns(step) if inside else {}
    return Wanted({index: turns[index] for index in sorted(inside)}, frozenset(pinned))


def _label(graph: TaskGraph, index: int) -> str:
    return kernel_label_of(graph.tasks[index].op)


def _outputs(graph: TaskGraph, roots: Mapping[int, str]) -> set[int]:
    """The kernels whose results the forward pass reads outside of the module that is computed again."""
    makers = {storage: index for index in roots for storage in graph.tasks[index].writes}
    found: set[int] = set()
    for reader, task in enumerate(graph.tasks):
        if not _label(graph, reader).endswith(NOT_FORWARD):
            read = {makers[each] for each in task.reads if each in makers}
            found.update(each for each in read if roots.get(reader) != roots[each])
    return found


def _turns(step: Step) -> dict[int, int]:
    """For each kernel, the last place before the longest gap in which nothing touches its results; the last of all, if
    the backward pass does not read them.

    That gap is the time between forward and backward pass. What only prepares the backward pass may run before it.
    """
    touches: dict[int, list[int]] = {}
    later: set[int] = set()
    for place, event in enumerate(step.graph.order):
        index = event if event >= 0 else ~event
        task = step.graph.tasks[index]
        makers = {step.makers[each] for each in (*task.reads, *task.writes) if each in step.makers}
        later.update(makers if _label(step.graph, index).endswith(NOT_FORWARD) else ())
        for maker in makers:
            touches.setdefault(maker, []).append(place)
    return {maker: _before_longest(places) if maker in later else places[-1] for maker, places in touches.items()}


def _before_longest(places: Sequence[int]) -> int:
    following = [*places[1:], places[-1]]
    return max(zip(places, following, strict=True), key=lambda pair: pair[1] - pair[0])[0]

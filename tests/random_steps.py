"""Random steps of form imported, for tests of placement."""

from __future__ import annotations

from collections.abc import Sequence

from tests.random_computations import COMPUTATIONS
from tests.random_moves import MOVES
from tests.random_text import Choose, RandomText, Shape, kind


def random_step(choose: Choose, arguments: int, operations: int) -> tuple[str, list[Shape]]:
    """A `@step`, and the shapes of its arguments `a0`, `a1` …; it gives some of them anew, and other values."""
    step = RandomText(choose)
    shapes = [step.shape(1 + choose(3)) for _ in range(arguments)]
    step.values = [(f"%a{i}", shape) for i, shape in enumerate(shapes)]
    _body(step, operations)
    given = ", ".join(f'%a{i}: {kind(shape)} {{dm.name = "a{i}"}}' for i, shape in enumerate(shapes))
    results, types = _results(step, shapes)
    head = f"func.func @step({given}) -> ({', '.join(types)}) {{"
    end = f"return {', '.join(name for name, _ in results)} : {', '.join(kind(shape) for _, shape in results)}"
    return "\n".join([head, *step.lines, end, "}"]), shapes


def _body(step: RandomText, operations: int) -> None:
    makers = (*COMPUTATIONS, *MOVES, _loop)
    for _ in range(operations):
        makers[step.choose(len(makers))](step)


def _results(step: RandomText, arguments: Sequence[Shape]) -> tuple[list[tuple[str, Shape]], list[str]]:
    """The last value, a few others, and a new value for each argument for which there is one of its shape."""
    results = [step.values[-1], *(step.pick() for _ in range(step.choose(3)))]
    types = [f'{kind(shape)} {{dm.name = "r{i}"}}' for i, (_, shape) in enumerate(results)]
    for i, shape in enumerate(arguments):
        new = [each for each in step.values[len(arguments) :] if each[1] == shape]
        if new:
            results.append(new[step.choose(len(new))])
            types.append(f'{kind(shape)} {{dm.name = "a{i}"}}')
    return results, types


def _loop(step: RandomText) -> None:
    """Two or three iterations that carry one or two tensors, and may hold another loop."""
    shapes = [step.pick()[1] for _ in range(1 + step.choose(2))]
    inits = [step.like(shape) for shape in shapes]
    first, last, by, place = (step.fresh() for _ in range(4))
    for name, number in ((first, 0), (last, 1 + step.choose(3)), (by, 1)):
        step.lines.append(f"{name} = arith.constant {number} : index")
    outside, before = list(step.values), list(step.lines)
    step.lines = []
    arguments = [step.fresh() for _ in shapes]
    step.values += zip(arguments, shapes, strict=True)
    _body(step, 1 + step.choose(3))
    yielded = [f"%none{i}" for i in range(len(shapes))]
    for i, shape in enumerate(shapes):
        new = [name for name, own in step.values[len(outside) :] if own == shape]
        yielded[i] = new[max(step.choose(len(new)), step.choose(len(new)))]
        if step.choose(2):
            yielded[i] = step.emit(f"arith.addf {arguments[i]}, {yielded[i]} : {kind(shape)}", shape)
    types = ", ".join(map(kind, shapes))
    inner, step.lines, step.values = step.lines, before, outside
    carried = ", ".join(f"{argument} = {init}" for argument, init in zip(arguments, inits, strict=True))
    name = step.fresh()
    result = f"{name}:{len(shapes)}"
    head = f"{result} = scf.for {place} = {first} to {last} step {by} iter_args({carried}) -> ({types}) {{"
    step.lines += [head, *inner, f"scf.yield {', '.join(yielded)} : {types}", "}"]
    step.values += [(f"{name}#{i}", shape) for i, shape in enumerate(shapes)]

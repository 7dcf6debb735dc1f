"""The steps of a convolution along its depth, without those whose tiles are zero.

Which taps of a filter reach an image, and not its padding or the gaps of a stuffed gradient, is the same for a whole
tile: those from a first one on, every second or third. A loop over these alone needs no condition inside, which would
keep Triton from loading tiles ahead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dmc.kernels.generated.corners import Corners
from dmc.kernels.generated.element import Range
from dmc.kernels.generated.index import ZERO, Index, Remainder, Variable, constant
from dmc.kernels.generated.launch import Launch

Number = str | int


@dataclass(frozen=True)
class Digit:
    """A loop along the depth: `count` iterations from `start` on, each `every` further; texts depend on the tile."""

    variable: Variable
    start: Number
    count: Number
    every: int

    def at(self, number: str) -> str:
        """The text of the variable in iteration `number`."""
        scaled = number if self.every == 1 else f"({number}) * {self.every}"
        return scaled if self.start == 0 else f"{self.start} + {scaled}"


@dataclass(frozen=True)
class Steps:
    """The steps that are not known to be zero.

    guards: the conditions on the tile without which there is none. done: the conditions that hold in every step.
    """

    digits: tuple[Digit, ...]
    guards: tuple[Range, ...]
    done: frozenset[Range]

    @staticmethod
    def of(launch: Launch, corners: Corners) -> Steps:
        """Finds the steps; writes where they begin, and how many there are."""
        names = frozenset(each.name for each in corners.walk.digits)
        opened = {each: each.opened() for each in corners.ranges}
        guards = {each: own for each, own in opened.items() if not own.place.variables & names}
        done, digits = set(guards), list[Digit]()
        for variable in corners.walk.digits:
            solved = {each: known for each, own in opened.items() if (known := _solved(own, variable, names))}
            gap = next((known for known in solved.values() if known.every > 1), None)
            used = {each: known for each, known in solved.items() if known.every == 1 or known == gap}
            digits.append(_digit(launch, variable, used.values()))
            done |= used.keys()
        return Steps(tuple(digits), tuple(guards.values()), frozenset(done))

    def total(self, launch: Launch) -> str:
        """The text of the number of steps."""
        emitter = launch.emitter
        known = math.prod(each.count for each in self.digits if isinstance(each.count, int))
        counts = [each.count for each in self.digits if isinstance(each.count, str)]
        text = " * ".join([*counts, *([str(known)] if known != 1 or not counts else [])])
        holds = emitter.all_of([emitter.inside(each.place, each.low, each.high) for each in self.guards])
        if holds.constant is not None:
            return text if holds.constant else "0"
        return f"tl.where({holds.text}, {text}, 0)"

    def declare(self, launch: Launch, step: str) -> None:
        """Declares the variables of a step, the innermost first."""
        outer, *inner = [each for each in self.digits if each.variable.size > 1] or self.digits[:1]
        for digit in reversed(inner):
            # Nothing divides by zero where there is no step.
            count = digit.count if isinstance(digit.count, int) else f"tl.maximum({digit.count}, 1)"
            launch.variable(digit.variable.name, digit.at(f"{step} % {count}"))
            step = launch.variable("outer_step", f"{step} // {count}")
        launch.variable(outer.variable.name, outer.at(step))


def accumulate(launch: Launch, corners: Corners, total: str, split: Index, splits: int) -> None:
    """The loop along the depth, or along part `split` of it."""
    writer, steps = launch.writer, Steps.of(launch, corners)
    first, last = "0", steps.total(launch)
    if splits > 1:
        last = launch.variable("steps", last)
        share = launch.variable("share", f"({last} + {splits - 1}) // {splits}")
        first = launch.variable("first", f"{writer.index(split)} * {share}")
        last = f"tl.minimum({first} + {share}, {last})"
    with writer.loop(f"for step in range({first}, {last}):", "step"):
        steps.declare(launch, "step")
        left = corners.first.load(launch, steps.done)
        right = corners.second.load(launch, steps.done, turn=True)
        writer.raw(f"{total} = tl.dot({left}, {right}, {total})")


@dataclass(frozen=True)
class _Solved:
    """A variable is at least `low` and below `high`; divided by `every`, it leaves `rest`."""

    low: Index
    high: Index
    every: int = 1
    rest: Index = ZERO


def _solved(condition: Range, variable: Variable, names: frozenset[str]) -> _Solved | None:
    """What a condition says about a variable, if it depends on no other of `names`."""
    if condition.place.variables & names != frozenset((variable.name,)):
        return None
    found = _linear(condition.place, variable)
    if found is not None:
        factor, rest = found
        # Rounded up.
        low, high = (rest * -1 + (limit + factor - 1) for limit in (condition.low, condition.high))
        return _Solved(low // factor, high // factor)
    match condition:
        case Range(place=Index(terms=((Remainder(of=of, by=by), 1),), constant=0), low=0, high=1):
            found = _linear(of, variable)
        case _:
            return None
    if found is None or math.gcd(found[0], by) != 1:
        return None
    return _Solved(ZERO, constant(variable.size), by, (found[1] * -pow(found[0], -1, by)) % by)


def _linear(place: Index, variable: Variable) -> tuple[int, Index] | None:
    """The positive factor of a variable, and the rest, which does not depend on it."""
    factor = dict(place.terms).get(variable, 0)
    rest = place + Index(((variable, -factor),)) if factor > 0 else place
    return None if variable.name in rest.variables else (factor, rest)


def _digit(launch: Launch, variable: Variable, solved: Iterable[_Solved]) -> Digit:
    """The iterations of a loop in which all conditions hold; writes their first, and their number."""
    known = list(dict.fromkeys(solved))
    start = _limit(launch, "maximum", 0, [each.low for each in known])
    stop = _limit(launch, "minimum", variable.size, [each.high for each in known])
    gap = next((each for each in known if each.every > 1), None)
    every = 1 if gap is None else gap.every
    if gap is not None:
        most = max(0, *(each.low.bounds[1] for each in known))
        whole = -(-most // every) * every
        text = f"{start} + ({launch.writer.index(gap.rest)} - {start} + {whole}) % {every}"
        start = launch.variable(f"{variable.name}_start", text)
    if isinstance(start, int) and isinstance(stop, int):
        return Digit(variable, start, max(stop - start, 0), every)
    text = f"{stop} - {start}" if every == 1 else f"({stop} - {start} + {every - 1}) // {every}"
    return Digit(variable, start, launch.variable(f"{variable.name}_count", f"tl.maximum({text}, 0)"), every)


def _limit(launch: Launch, function: str, own: int, limits: Sequence[Index]) -> Number:
    """The greatest or the least of a number and others."""
    known = [own, *(each.constant for each in limits if not each.terms)]
    own = max(known) if function == "maximum" else min(known)
    made: Number = own
    for each in dict.fromkeys(limits):
        low, high = each.bounds
        if (high <= own) if function == "maximum" else (low >= own):
            continue
        text = f"tl.{function}({launch.writer.index(each)}, {made})"
        made = launch.writer.line("limit", text, each.variables)
    return made

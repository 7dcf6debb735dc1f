"""Where two runs of a program differ, and whether that can be rounding.

Programs start from numbers that floats hold exactly, so most compute without rounding; then there is no tolerance but
for the order of sums. Of the others, what eager itself gives in float64, from inputs one rounding away, or with other
roundings on the way, says how far a right result may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from dmc.verification.other_means import OtherMeans
from dmc.verification.other_roundings import OtherRoundings
from tests.fuzz.other_formulas import OtherFormulas
from tests.fuzz.train import Case, Mode, Trace, by_eager, case_of

# Of the numbers of a type: relative, and absolute.
CLOSE = {torch.float32: (2e-5, 2e-6), torch.bfloat16: (2e-2, 1e-3), torch.float16: (4e-3, 2e-4)}
# How much farther than eager's own uncertainty a result may be, and how many times eager is run to find that.
SLACK, RUNS, ROUNDINGS = 30.0, 4, 8
# Eager's uncertainty, as a share of a number, or of one, from which on nothing is known of it.
VAGUE = 0.1


@dataclass(frozen=True)
class Difference:
    """step, name: of the worst tensor. text: what differs there."""

    step: int
    name: str
    text: str


Close = tuple[float, float]


def first_difference(actual: Sequence[Trace], expected: Sequence[Trace], close: Close) -> Difference | None:
    """The first tensor that is not close, or None."""
    for step, (left, right) in enumerate(zip(actual, expected, strict=True)):
        # State that is never read is not part of a step.
        if missing := [name for name in right if name not in left and (name == "loss" or name.startswith("output"))]:
            return Difference(step, missing[0], "the step has no such tensor")
        for name, tensor in left.items():
            if name not in right:
                return Difference(step, name, "eager has no such tensor")
            if (text := _differs(tensor, right[name], close)) is not None:
                return Difference(step, name, text)
    return None


def tolerance(text: str, mode: Mode) -> Close:
    """How close the results of a program must be, by the narrowest type that occurs in it."""
    narrow = [each for each in (torch.bfloat16, torch.float16) if str(each) in text]
    if mode.precision != "fp32":
        narrow.append(torch.bfloat16)
    return max((CLOSE[each] for each in narrow), default=CLOSE[torch.float32])


def is_rounding(text: str, mode: Mode, actual: Sequence[Trace], expected: Sequence[Trace], close: Close) -> bool:
    """Whether eager is as uncertain as the two runs are apart: in float64, from perturbed leaves, with other roundings
    and formulas.

    Where no operation on the way to a tensor rounds, nothing is uncertain.
    """
    wide = _in_float64(text, mode)
    pairs = [zip(each, expected, strict=True) for each in wide]
    rounded = [
        [{name: each.to(right[name].dtype) for name, each in left.items()} for left, right in of] for of in pairs
    ]
    others = [_with_other_roundings(text, mode, seed) for seed in range(ROUNDINGS)]
    with OtherFormulas():
        others.append(by_eager(case_of(text), mode))
    # Eager adds up means in float64, where what is left of terms that cancel looks exact.
    others += [_with_other_roundings(text, mode, seed, OtherMeans(seed)) for seed in range(RUNS)]
    difference = first_difference(actual, expected, close)
    # Of few digits, a right result may also be rounded where eager has no operation.
    if close == CLOSE[torch.float32] and _is_exact(difference, [*wide, *others], expected):
        return False
    eps = close[0] / 50
    others += [*rounded, *(by_eager(perturbed(case_of(text), eps, seed), mode) for seed in range(RUNS))]
    comparable = _begun_alike(actual, expected, close)
    return all(
        _is_covered(actual[step][name], expected[step][name], [each[step][name] for each in others], close)
        for step in range(comparable)
        for name in actual[step]
    )


def _begun_alike(actual: Sequence[Trace], expected: Sequence[Trace], close: Close) -> int:
    """How many steps begin from states that are close.

    Where a gradient is nothing but rounding, much enlarged, the state after it is one of many, and the next step has
    nothing in common with eager's.
    """
    for step, (left, right) in enumerate(zip(actual, expected, strict=True)):
        state = [name for name in left if name != "loss" and not name.startswith("output")]
        if any(_differs(left[name], right[name], close) for name in state):
            return step + 1
    return len(actual)


def _in_float64(text: str, mode: Mode) -> list[list[Trace]]:
    """What the program leaves in float64; nothing where a cast, no copy there, would let it write into a parameter."""
    try:
        return [by_eager(case_of(text, wide=True), mode)]
    except RuntimeError as error:
        if "in-place operation" not in str(error):
            raise
        return []


def _with_other_roundings(text: str, mode: Mode, seed: int, means: OtherMeans | None = None) -> list[Trace]:
    case = case_of(text)
    with means or nullcontext(), OtherRoundings(seed):
        return by_eager(case, mode)


def _is_exact(difference: Difference | None, others: Sequence[Sequence[Trace]], expected: Sequence[Trace]) -> bool:
    """Whether all of `others` give the very numbers that eager gives for the tensor that differs."""
    if difference is None or difference.name not in expected[difference.step]:
        return True
    found, *rest = (each[difference.step][difference.name].double().nan_to_num() for each in (expected, *others))
    return all(torch.equal(found, each) for each in rest)


def perturbed(case: Case, eps: float, seed: int) -> Case:
    """`case` with the elements of its floating leaves off by a part of themselves, as many roundings are."""
    generator = torch.Generator().manual_seed(seed)

    def moved(tensor: Tensor) -> Tensor:
        least = max(eps, torch.finfo(tensor.dtype).eps)
        noise = 1 + least * (torch.randint(0, 2, tensor.shape, generator=generator) * 2 - 1)
        return (tensor.detach().double() * noise).to(tensor.dtype)

    case = case.fresh()
    with torch.no_grad():
        for tensor in (*case.module.parameters(), *case.module.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(moved(tensor))
    inputs = tuple(moved(each) if each.is_floating_point() else each for each in case.inputs)
    return Case(case.module, inputs, case.optimizer)


def _differs(actual: Tensor, expected: Tensor, close: Close) -> str | None:
    actual = _signed_alike(actual, expected)
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        return f"{actual.dtype} of shape {list(actual.shape)}, eager {expected.dtype} of shape {list(expected.shape)}"
    wrong = ~_is_close(actual, expected, close)
    if not wrong.any():
        return None
    places = wrong.nonzero()[:3].tolist()
    pairs = [f"{actual[tuple(at)].item()} at {at}, eager {expected[tuple(at)].item()}" for at in places]
    return f"{int(wrong.sum())} of {wrong.numel()} elements: {'; '.join(pairs)}"


def _signed_alike(actual: Tensor, expected: Tensor) -> Tensor:
    """Builtin integers carry no sign."""
    return actual.view(torch.uint8) if actual.dtype == torch.int8 and expected.dtype == torch.uint8 else actual


def _is_close(actual: Tensor, expected: Tensor, close: Close) -> Tensor:
    if not expected.is_floating_point():
        return actual == expected
    relative, absolute = close
    return torch.isclose(actual.double(), expected.double(), relative, absolute, equal_nan=True)


def _is_covered(actual: Tensor, expected: Tensor, others: Sequence[Tensor], close: Close) -> bool:
    """Whether `actual` is not farther from `expected` than a multiple of the distance of `others`."""
    if actual.shape != expected.shape:
        return False
    right, left = expected.double(), _signed_alike(actual, expected).double()
    away = torch.stack([_distance(each.double(), right) for each in others]).amax(0)
    if expected.dtype in (torch.bfloat16, torch.float16) and away.numel():
        # Of few digits, most elements come out the same by chance.
        away = away.amax().expand_as(away)
    bound = SLACK * away + close[0] * right.abs().nan_to_num(0.0, 0.0, 0.0) + close[1]
    covered = (_distance(left, right) <= bound) | (away == torch.inf)
    # Of an element that is nothing but rounding, the sign for example is open; then it may also be none.
    covered |= (away >= VAGUE * right.abs().clamp(min=1.0)) & ~left.isfinite()
    return bool((covered | _is_at_pole(left, right, [each.double() for each in others])).all())


def _is_at_pole(left: Tensor, right: Tensor, others: Sequence[Tensor]) -> Tensor:
    """Where one is infinite, the other not: whether their reciprocals are as close to each other as those of `others`.

    A divisor may be pure rounding error in eager, and exactly zero when rounded otherwise.
    """
    away = torch.stack([_distance(1 / each, 1 / right) for each in others]).amax(0)
    one_infinite = left.isinf() != right.isinf()
    return one_infinite & away.isfinite() & (_distance(1 / left, 1 / right) <= SLACK * away)


def _distance(left: Tensor, right: Tensor) -> Tensor:
    """How far apart elements are: infinite where only one is NaN, or infinities differ."""
    same = (left == right) | (left.isnan() & right.isnan())
    return torch.where(same, 0.0, (left - right).abs().nan_to_num(torch.inf, torch.inf))

"""What becomes of a case: right, refused, or wrong, beside PyTorch eager."""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Sequence

import torch
from torch import Tensor

from bench.coverage.scope import out_of_scope
from bench.coverage.steps import Sample, case_of, widened
from dmc.errors import DmcError
from dmc.importer.forward.precision import Precision
from tests.fuzz.check import FRAMES, Verdict, Way
from tests.fuzz.compare import CLOSE, Close, first_difference, perturbed
from tests.fuzz.train import PLAIN, Case, Mode, Trace, by_compiled, by_eager, by_interpreter

# How much farther from eager a result may be than eager is from itself in float64 or from inputs one rounding away.
SLACK = 30.0
OUTSIDE = "outside"
# How a refusal names what no step contains: a model may contain that, and be refused for something else.
_NAMED = {
    "a shape depends on data": re.compile("depends on data|number from a tensor|decides by the numbers of a tensor"),
    "complex numbers": re.compile("complex"),
    "sparse tensors": re.compile("sparse"),
    "quantised tensors": re.compile("quantis|quantiz|qint|unsupported type"),
}


def check(samples: Sequence[Sample], way: Way = "interpreter", mode: Mode = PLAIN) -> Verdict:
    """Compares one training step of some samples with eager's; `kind` is OUTSIDE for one that no step contains."""
    try:
        case = case_of(samples).fresh()
    except RuntimeError as error:
        # PyTorch has no other error for what cannot even be copied, such as a sparse parameter.
        return Verdict("refused", f"eager: {error}", OUTSIDE)
    outside, is_case = out_of_scope(case)
    if not is_case:
        return Verdict("refused", outside, OUTSIDE)
    try:
        expected = by_eager(case, mode, steps=1)
    except RuntimeError as error:
        if mode == PLAIN:
            raise
        # Autocast may give a function what it does not take; by itself it runs, as `out_of_scope` has seen.
        return Verdict("refused", f"eager: {error}", OUTSIDE)
    try:
        actual = _run(case, way, mode)
    except DmcError as error:
        if outside and _NAMED[outside].search(error.fact):
            return Verdict("refused", f"{outside}: {error.fact}", OUTSIDE)
        return Verdict("refused", str(error), f"{error.place.rpartition(' ')[2]}: {error.fact}".splitlines()[0])
    # Anything else is a fault of ours.
    except Exception as error:
        frames = "".join(traceback.format_tb(error.__traceback__)[-FRAMES:])
        return Verdict("fails", f"{frames}{error}", f"{type(error).__name__}: {error}".splitlines()[0])
    return _compared(case, mode, actual, expected)


def _run(case: Case, way: Way, mode: Mode) -> list[Trace]:
    if way == "interpreter":
        try:
            return by_interpreter(case, 1, Precision(mode.precision))
        except DmcError as error:
            # What the interpreter does not know is its own gap, and no one else's.
            if "dmc/interpreter" not in error.hint:
                raise
    return by_compiled(case, mode, steps=1, verify=False)


def _compared(case: Case, mode: Mode, actual: Sequence[Trace], expected: Sequence[Trace]) -> Verdict:
    close = CLOSE[torch.float32 if mode == PLAIN else torch.bfloat16]
    difference = first_difference(actual, expected, close)
    if difference is None:
        return Verdict("agrees")
    if _is_rounding(case, mode, actual[0], expected[0], close):
        return Verdict("uncertain", difference.text)
    return Verdict("differs", f"{difference.name}: {difference.text}", "differs")


def _is_rounding(case: Case, mode: Mode, actual: Trace, expected: Trace, close: Close) -> bool:
    others = [by_eager(perturbed(case, close[0] / 50, seed), mode, steps=1)[0] for seed in range(3)]
    with contextlib.suppress(RuntimeError):  # Some functions take float32 alone.
        others.append(by_eager(widened(case), PLAIN, steps=1)[0])
    return all(_is_covered(actual[name], expected[name], [each[name] for each in others], close) for name in actual)


def _is_covered(actual: Tensor, expected: Tensor, others: Sequence[Tensor], close: Close) -> bool:
    """Whether `actual` is no farther from `expected` than `others` are, by a factor."""
    if not expected.is_floating_point() or actual.shape != expected.shape:
        return torch.equal(actual, expected)
    right = expected.double()
    away = torch.stack([(each.double() - right).abs().nan_to_num(0.0) for each in others]).amax(0)
    # One element may come out right by chance: those beside it tell, too.
    away = away.clamp(min=float(away.mean()) if away.numel() else 0.0)
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    error = torch.where(same, 0.0, (actual.double() - right).abs().nan_to_num(torch.inf))
    return bool((error <= SLACK * away + close[0] * right.abs().nan_to_num() + close[1]).all())

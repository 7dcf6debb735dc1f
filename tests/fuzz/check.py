"""What became of a program: it agrees with eager, is refused, is uncertain in eager itself, or is a find."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dmc.errors import DmcError, EagerError, ProofError, VerificationError
from tests.fuzz.compare import first_difference, is_rounding, tolerance
from tests.fuzz.train import PLAIN, Case, Mode, Trace, by_compiled, by_eager, by_interpreter, case_of

# crashes and hangs are detected by the waiting parent process.
Outcome = Literal["agrees", "refused", "uncertain", "differs", "fails", "crashes", "hangs"]
FINDS: tuple[Outcome, ...] = ("differs", "fails", "crashes", "hangs")
Way = Literal["interpreter", "compiled"]
FRAMES = 4  # of a traceback


@dataclass(frozen=True)
class Verdict:
    """text: the reason of a refusal, or what was found. kind: two finds of one kind are one."""

    outcome: Outcome
    text: str = ""
    kind: str = ""


def check(text: str, way: Way = "interpreter", mode: Mode = PLAIN) -> Verdict:
    """Runs the source of a program one way, and compares with eager."""
    try:
        expected = by_eager(case_of(text), mode)
    except (RuntimeError, IndexError, TypeError, ValueError, ZeroDivisionError, EagerError) as error:
        # A second step, other ranks or another precision may ask for what PyTorch cannot do.
        return Verdict("refused", f"eager: {_first_line(error)}", f"eager: {_shape(error)}")
    try:
        actual = _run(way, case_of(text), mode)
    except VerificationError as error:
        return _verified(text, mode, expected, error)
    except DmcError as error:
        return _refusal(error)
    # Anything else is what we look for.
    except Exception as error:
        frames = "".join(traceback.format_tb(error.__traceback__)[-FRAMES:])
        return Verdict("fails", f"{frames}{_first_line(error)}", f"{type(error).__name__} {_shape(error)}")
    return _compared(text, mode, actual, expected)


def _run(way: Way, case: Case, mode: Mode) -> list[Trace]:
    return by_interpreter(case) if way == "interpreter" else by_compiled(case, mode)


def _verified(text: str, mode: Mode, expected: Sequence[Trace], error: VerificationError) -> Verdict:
    """Verification at compile time refuses the step: rightly, or it is verification that is wrong."""
    verdict = _compared(text, mode, by_compiled(case_of(text), mode, verify=False), expected)
    if verdict.outcome == "agrees":
        return Verdict("differs", f"verification refuses what agrees: {error}", "verification: false alarm")
    return verdict


def _refusal(error: DmcError) -> Verdict:
    """A refusal says a way out. What the interpreter does not know is its own gap; what is not proven, a fault."""
    reason = _general(error.fact)
    if isinstance(error, ProofError):
        return Verdict("fails", f"not proven: {error}", f"not proven: {reason}")
    if "dmc/interpreter" in error.hint:
        reason = f"{reason}: {error.place.rpartition(' ')[2]}"
    if not error.hint or "mend" in error.hint:
        return Verdict("fails", f"a refusal without a way out: {error}", f"no way out: {reason}")
    return Verdict("refused", reason, reason)


def _compared(text: str, mode: Mode, actual: Sequence[Trace], expected: Sequence[Trace]) -> Verdict:
    close = tolerance(text, mode)
    difference = first_difference(actual, expected, close)
    if difference is None:
        return Verdict("agrees")
    if is_rounding(text, mode, actual, expected, close):
        return Verdict("uncertain", difference.text)
    return Verdict("differs", f"step {difference.step}, {difference.name}: {difference.text}", "differs")


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _shape(error: BaseException) -> str:
    return _general(_first_line(error))


def _general(text: str) -> str:
    """A message without what is of one program: numbers, names and types."""
    text = re.sub(r"'[^']*'(?=\s|$|,|\))", lambda found: found[0] if "." in found[0] else "'…'", text.splitlines()[0])
    text = re.sub(r"tensor<[^>]*>|\[[^\]]*\]|vtensor\S*", "…", text)
    return re.sub(r"\d+", "n", text)[:160]

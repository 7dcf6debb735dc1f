"""A program to be compared with PyTorch eager, and what may keep eager from being compared with."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dmc.analysis.amounts import Amount
from dmc.errors import EagerError
from dmc.importer import origin
from dmc.verification.request import Request

Result = TypeVar("Result")
HINT = "please report it; verify=False compiles without the comparison"


@dataclass(frozen=True)
class Subject:
    """What a program means, and the work of one step of it."""

    request: Request
    amount: Amount

    def eager(self, run: Callable[[Request], Result]) -> Result:
        """What eager computes. Raises EagerError where the user's own code does."""
        try:
            return run(self.request)
        # The user's own code runs here: it may raise anything.
        except Exception as error:
            # Verification's own errors pass, the refusal to draw among them.
            if _is_ours(error):
                raise
            fact = f"a step of PyTorch eager on the example raises {type(error).__name__}: {first_line(error)}"
            hint = "fix the model or the example; verify=False compiles without the comparison"
            raise EagerError(str(origin.of_exception(error, self.request.model)), fact, hint) from error


def first_line(error: Exception) -> str:
    """The first line of its message."""
    return (str(error).strip().splitlines() or [""])[0]


def _is_ours(error: Exception) -> bool:
    """Whether verification itself raised it, not the code it runs."""
    last = list(traceback.walk_tb(error.__traceback__))[-1][0]
    return str(last.f_globals.get("__name__", "")).startswith("dmc.verification")

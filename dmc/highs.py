"""HiGHS, the solver of integer programs, loaded on first use and silent (Huangfu and Hall 2018)."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from typing import Any

from dmc.distribution import install
from dmc.errors import DmcError


def solver(what: str, gap: float, nodes: int, seconds: float) -> tuple[Any, Any]:
    """The package `highspy`, and a solver of one thread.

    what: for which it is, as an error names it. gap: relative, at which it stops. nodes: of the search, at most.
    seconds: by the clock, at most. Raises DmcError where it is not installed.
    """
    try:
        import highspy
    except ImportError as error:
        hint = f"{install('compile')}, which brings HiGHS"
        raise DmcError(what, "the package highspy is not installed", hint=hint) from error
    with _silent():
        made = highspy.Highs()
    options = {
        "output_flag": False,
        "threads": 1,
        "mip_rel_gap": gap,
        "mip_max_nodes": nodes,
        "time_limit": seconds,
    }
    for name, value in options.items():
        made.setOptionValue(name, value)
    return highspy, made


@contextlib.contextmanager
def _silent() -> Generator[None]:
    """Nothing is written on standard output, not even by compiled code: HiGHS writes a banner where `dmc-opt` writes
    the module."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)

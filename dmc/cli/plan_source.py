"""A plan as MLIR text, as `dmc-opt --to=planned` prints it."""

from __future__ import annotations

from dmc import dialect
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.errors import DmcError
from dmc.program import Job


def job_of_text(text: str, file: str) -> Job:
    """The job that a module in form planned describes; raises DmcError for other text."""
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        try:
            return job_of(ir.Module.parse(text))
        except ir.MLIRError as error:
            first = str(error).strip().splitlines()[-1].strip()
            raise DmcError(file, f"cannot be read as MLIR: {first}", "run it through dmc-opt") from error

"""MLIR text that commands read: a plan, as `dmc-opt --to=planned` prints it; a form, to show it to people."""

from __future__ import annotations

from dmc import dialect
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.errors import DmcError
from dmc.printer import printed
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


def for_people(text: str) -> str:
    """A form's text, printed as a person reads it."""
    with ir.Context() as context:
        dialect.load(context)
        return printed(ir.Module.parse(text))

"""Every error a user can meet. An error names a place, a fact and a way out, and keeps strings, never IR."""

from __future__ import annotations

from typing import Any


class DmcError(Exception):
    """An error at a place: `place: fact`, then a hint.

    `where` is an MLIR operation (anything with `.location` and `.name`), a string that already names the place,
    or None where there is no place to name.
    """

    def __init__(self, where: Any, fact: str, hint: str = "") -> None:
        self.place = _place(where)
        self.fact = fact
        self.hint = hint
        head = f"{self.place}: {fact}" if self.place else fact
        super().__init__(f"{head}\n  hint: {hint}" if hint else head)


class ImportFailure(DmcError):
    """The PyTorch program cannot become a training step: names the op, the module path and the source line."""


class InputError(DmcError):
    """A call with a batch that does not fit the compiled signature; the state is untouched."""


class StateError(DmcError):
    """A state dictionary that does not fit the compiled signature; the state is untouched."""


class NonFiniteLossError(DmcError):
    """`step(..., check_finite=True)` met a loss that is NaN or infinite; the state is as it was before the step."""


class ArtifactError(DmcError):
    """A `.dmc` file that is damaged, of another schema or version, or not a `.dmc` file at all."""


class PlanError(DmcError):
    """A mesh, or a plan of placements, that does not fit together or does not fit the model."""


class ProofError(DmcError):
    """A program of ranks that breaks a property which every job must have; the fact tells a counterexample.

    property: its short name (`dmc.program.certificate`).
    """

    def __init__(self, property: str, where: Any, fact: str, hint: str = "") -> None:
        self.property = property
        super().__init__(where, f"{property}: {fact}", hint)


class VerificationError(DmcError):
    """A step that does not compute what it should on one batch: not what PyTorch eager does or, on a GPU, the CPU."""


class PipelineError(DmcError):
    """A pass, an option or a form that does not exist or does not fit."""


def _place(where: Any) -> str:
    if where is None or isinstance(where, str):
        return where or ""
    return f"{where.location}: {where.name}"

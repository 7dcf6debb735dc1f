"""Every error a user can see. An error names a place, a fact and a way out, and holds strings, never IR."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

CodegenFailure = Literal["refused", "crashed", "late"]


class DmcError(Exception):
    """An error at a place: `place: fact`, then a hint, a way out. All three are strings; "" where there is none."""

    def __init__(self, where: Any, fact: str, hint: str = "") -> None:
        """where: an MLIR operation (anything with `.location` and `.name`), or a string that names the place."""
        self.place = _place(where)
        self.fact = fact
        self.hint = hint
        super().__init__(self._text())

    def inside(self, outer: str) -> None:
        """States that the place is inside of another."""
        self.place = f"{outer}: {self.place}" if self.place else outer
        self.args = (self._text(),)

    def _text(self) -> str:
        head = f"{self.place}: {self.fact}" if self.place else self.fact
        return f"{head}\n  hint: {self.hint}" if self.hint else head


class ImportFailure(DmcError):
    """The PyTorch program cannot become a training step: names the op, the module path and the source line."""


class InputError(DmcError):
    """A call with a batch that does not match the compiled signature; the state is untouched."""


class StateError(DmcError):
    """A state dictionary that does not match the compiled signature; the state is untouched."""


class NonFiniteLossError(DmcError):
    """`step(..., check_finite=True)` found a loss that is NaN or infinite; the state is unchanged."""


class IgnoredChange(UserWarning):
    """A change of the model or the optimizer after compilation, which the compiled step does not see."""


class ArtifactError(DmcError):
    """A `.dmc` file that is damaged, has another schema or version, or is no `.dmc` file at all."""


class PlanError(DmcError):
    """A mesh or a plan that is inconsistent or does not fit the model."""


class ProofError(DmcError):
    """Programs of ranks that violate a property required of every job; the fact gives a counterexample.

    property: its short name (`dmc.program.certificate`).
    """

    def __init__(self, property: str, where: Any, fact: str, hint: str = "") -> None:
        self.property = property
        super().__init__(where, f"{property}: {fact}", hint)


class ForeignAttributeError(DmcError, AttributeError):
    """An attribute that what PyTorch has in this place would have; the hint says what is done instead."""


class VerificationError(DmcError):
    """A step that computes a wrong result on a batch: it differs from PyTorch eager's or, on a GPU, from the CPU's."""


class EagerError(VerificationError):
    """A step to which PyTorch eager has none to compare: it raises, or draws numbers that eager cannot."""


class MemoryCapError(DmcError):
    """A step that needs more device memory than the cap. needed: bytes."""

    def __init__(self, where: Any, fact: str, hint: str, needed: int) -> None:
        super().__init__(where, fact, hint)
        self.needed = needed


class CodegenError(DmcError):
    """Input for which a code generator makes no code: it refuses it, crashes, or does not end in time.

    kernels: those at fault, where that is known. report: what the code generator wrote.
    """

    def __init__(
        self,
        where: Any,
        fact: str,
        hint: str = "",
        kernels: Iterable[str] = (),
        report: str = "",
        how: CodegenFailure = "refused",
    ) -> None:
        super().__init__(where, fact, hint)
        self.kernels = frozenset(kernels)
        self.report = report
        self.how: CodegenFailure = how

    def at(self, kernels: Iterable[str]) -> CodegenError:
        """The same error, of these kernels."""
        return CodegenError(self.place, self.fact, self.hint, kernels, self.report, self.how)


class PipelineError(DmcError):
    """A pass, option or form that does not exist or does not apply."""


def _place(where: Any) -> str:
    if where is None or isinstance(where, str):
        return where or ""
    return f"{where.location}: {where.name}"

"""The methods of the plan language that add verbs of the schedule language."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, Self

from dmc.errors import PlanError
from dmc.plans.rules import Rule
from dmc.plans.verbs import (
    IMPLEMENTATIONS,
    PRECISIONS,
    Bucket,
    Decompose,
    Implementation,
    KeepApart,
    Overlap,
    Precision,
)

# Larger than any memory.
_MOST_BYTES = 2**48


class VerbMethods(ABC):
    """Adds verbs; a pattern means the outermost modules that match, with everything inside them."""

    name: str

    @abstractmethod
    def _with(self, *rules: Rule) -> Self: ...

    def precision(self, pattern: str, dtype: Literal["fp32", "bf16", "bf16-mixed"]) -> Self:
        """Computes the matching modules in `dtype`, whatever `precision` of `dmc.compile` says of the others.

        Their floating-point inputs are converted, in "fp32" and "bf16" their parameters too, where they are read: state
        keeps its types. "bf16-mixed" computes as `torch.autocast` does. What leaves a module is converted to the type
        of the step's state. Of nested modules with different words, the inner one counts inside. Unlike other rules
        this changes results: PyTorch eager, with which they are compared, computes the modules in the same types.
        """
        _check_one_of("precision", pattern, dtype, PRECISIONS, "types")
        return self._with(Precision(pattern, dtype, recipe=self.name))

    def keep_apart(self, pattern: str) -> Self:
        """Fuses no kernel of the matching modules, of their gradients included, with one of other modules.

        Casts, constants and single numbers are still computed by the kernels that read them.
        """
        return self._with(KeepApart(pattern, recipe=self.name))

    def decompose(self, pattern: str) -> Self:
        """Opens the composites of the matching modules, such as attention: instead of one kernel of their own, they are
        operations that are fused with those around them. For targets with kernels for composites."""
        return self._with(Decompose(pattern, recipe=self.name))

    def implementation(self, pattern: str, by: Literal["cublaslt", "cudnn", "triton", "iree"]) -> Self:
        """Lets `by` compute those kernels of the matching modules that it can compute, instead of what was chosen.

        "cublaslt": products without anything fused; "cudnn": attention with wide heads; "triton": dmc's own kernels;
        "iree": IREE's code, which is slow on a GPU. For targets with kernels of dmc.
        """
        _check_one_of("implementation", pattern, by, IMPLEMENTATIONS, "implementations")
        return self._with(Implementation(pattern, by, recipe=self.name))

    def bucket(self, bytes: int) -> Self:
        """Merges movements between ranks that are alike, in the order in which they become ready, into buckets of up to
        so many bytes, whatever waits for it; 1 leaves each alone. By default buckets have up to 25 MiB, and delay
        nothing."""
        # A caller without a type checker may pass anything.
        given: Any = bytes
        if not isinstance(given, int) or isinstance(given, bool) or not 0 < given <= _MOST_BYTES:
            hint = "pass a number of bytes of at least 1, such as 25 * 2**20"
            raise PlanError(f"bucket({given!r})", "is no size of a bucket", hint)
        return self._with(Bucket(bytes, recipe=self.name))

    def overlap(self, enabled: Literal[False]) -> Self:
        """False: movements between ranks, copies and kernels of a rank run one after another, as a baseline that shows
        what overlap gains."""
        # A caller without a type checker may pass anything.
        given: Any = enabled
        if given is not False:
            hint = "leave it out: movements overlap as far as they can" if given is True else "pass False"
            raise PlanError(f"overlap({given!r})", "changes nothing" if given is True else "is not False", hint)
        return self._with(Overlap(False, recipe=self.name))


def _check_one_of(verb: str, pattern: str, value: Any, known: tuple[str, ...], what: str) -> None:
    if value not in known:
        listed = ", ".join(f'"{each}"' for each in known)
        hint = f"use one of {listed}"
        if value in ("fp16", "float16"):
            hint = f"there is no float16, whose gradients would have to be scaled; {hint}"
        raise PlanError(f'{verb}("{pattern}", {value!r})', f"{value!r} is none of the {what}", hint)

"""The verbs of the schedule language: how modules are computed and movements carried out, whatever placements say.

A verb is a frozen value with plain fields. `dmc.analysis.requests.verbs` writes it into the module of a step, and the
pass that it speaks to reads it there; `Precision` alone acts earlier, on the model (`dmc.importer.capture.precisions`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from dmc.plans.rules import Rule
from dmc.program.tuning import CUDNN

# The types that a module can compute in, and the code that can compute its kernels.
PRECISIONS = ("fp32", "bf16", "bf16-mixed")
CUBLASLT, TRITON, IREE = "cublaslt", "triton", "iree"
IMPLEMENTATIONS = (CUBLASLT, CUDNN, TRITON, IREE)


@dataclass(frozen=True)
class Verb(Rule):
    """The base of the verbs."""


@dataclass(frozen=True)
class Precision(Verb):
    """The matching modules compute in `dtype`, whatever the step does: one of `PRECISIONS`."""

    verb = "precision"
    unnamed: ClassVar[int] = 2
    pattern: str
    dtype: str


@dataclass(frozen=True)
class KeepApart(Verb):
    """Kernels of the matching modules are not fused with kernels of others."""

    verb = "keep_apart"
    pattern: str


@dataclass(frozen=True)
class Decompose(Verb):
    """Composites of the matching modules are opened, and are parts of the kernels around them."""

    verb = "decompose"
    pattern: str


@dataclass(frozen=True)
class Implementation(Verb):
    """Kernels of the matching modules are computed by `by` where it can: one of `IMPLEMENTATIONS`."""

    verb = "implementation"
    unnamed: ClassVar[int] = 2
    pattern: str
    by: str


@dataclass(frozen=True)
class Bucket(Verb):
    """Movements between ranks that are alike share buckets of up to so many bytes."""

    verb = "bucket"
    bytes: int


@dataclass(frozen=True)
class Overlap(Verb):
    """Whether movements run beside kernels. False: a rank does one thing at a time."""

    verb = "overlap"
    enabled: bool


# Those about modules, and those about movements between ranks.
OfModules: TypeAlias = Precision | KeepApart | Decompose | Implementation
OfMovements: TypeAlias = Bucket | Overlap

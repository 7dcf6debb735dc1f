"""The manifest of a `.dmc` file: what it says of the step, every field with its type and limits."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from dmc.program.limits import Count, Name
from dmc.program.signature import Signature

Target = Annotated[str, Meta(pattern=r"^(cpu|cuda|cpu\+cuda|cuda\+cpu)\Z")]
# Those of further programs, each of a phase, a kind or another shape: the first is the step itself.
ProgramName = Annotated[str, Meta(pattern=r"^(?!training\Z)[^\W\d]\w{0,63}(-[1-9]\d{0,5})?\Z")]


class Head(Struct, frozen=True, kw_only=True):
    """What it says of a program; see `dmc.runtime.files.artifact.Artifact`.

    unpacked: the bytes of each compressed member, by its name, when it is unpacked.
    """

    signature: Signature
    statistics: dict[Name, Count]
    requires: tuple[Name, ...]
    unpacked: dict[Name, Count]


class Manifest(Head, frozen=True, kw_only=True):
    """What it says of the whole step. zeros, unset: the keys of state tensors that the file does not hold, those of
    zeros and those that have no numbers yet.

    programs: the further ones, by name.
    """

    versions: dict[Name, Name]
    target: Target
    precision: Literal["fp32", "bf16", "bf16-mixed"]
    zeros: tuple[Name, ...]
    unset: tuple[Name, ...] = ()
    programs: dict[ProgramName, Head]

"""A program as a session is given it: its convention, its job and its code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from dmc.program import Job
from dmc.program.code import DeviceCode
from dmc.program.signature import Signature

Code = TypeVar("Code", bytes, DeviceCode)


@dataclass(frozen=True)
class Executable(Generic[Code]):
    """A program for a session. signature: of the ranks that it runs (`Ranks.linked`). code: of the job."""

    signature: Signature
    job: Job
    code: Code

"""What was proven of a job before it may run, and under which assumptions."""

from __future__ import annotations

import msgspec

from dmc.errors import ArtifactError
from dmc.program.job import SCHEMA, Job
from dmc.program.program import Space

ASSUMPTIONS = (
    "lanes are in order: a command begins when the one before it on its lane has ended",
    "a record signals when all before it on its lane has ended, in the step in which it is awaited",
    "a collective makes progress once all its members have reached it, and is over for a member when its lane goes on",
    "no communicator outside the job is active on its devices during a step",
    "steps do not overlap: the host fills and reads slots between them",
    "kernels read and write their ranges and scratch only; in place they read each element before they write it",
    "devices, links and memory are free of faults",
)


class Certificate(msgspec.Struct, frozen=True):
    """The properties that `dmc.proof.verify` checked of one job, and what they rest on.

    properties: short name to what it says. digest: `Job.digest()` of the job. cost_table: SHA-256 of the table of costs
    from which all ranks' schedules were decided, "" where none was used. peaks: bytes of each memory space, the largest
    of any rank; caps: what the user allowed, by space. schema: of the job.
    """

    properties: dict[str, str]
    assumptions: tuple[str, ...]
    digest: str
    cost_table: str
    peaks: dict[Space, int]
    caps: dict[Space, int]
    schema: int = SCHEMA

    def to_bytes(self) -> bytes:
        """The certificate as JSON, for people too."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1)

    @staticmethod
    def from_bytes(data: bytes) -> Certificate:
        """The inverse of `to_bytes`; every field is checked against its type. Raises ArtifactError."""
        try:
            return msgspec.json.decode(data, type=Certificate)
        except msgspec.DecodeError as error:
            raise ArtifactError("the certificate", f"is damaged ({error})", hint="compile the step again") from error

    def check(self, job: Job) -> None:
        """Raises ArtifactError where the certificate is not that of `job`."""
        hint = "compile the step again"
        if self.schema != SCHEMA:
            raise ArtifactError("the certificate", f"is of schema {self.schema}, the job of {SCHEMA}", hint)
        digest = job.digest()
        if self.digest != digest:
            fact = f"was given to the job {self.digest[:12]}, not to this one ({digest[:12]})"
            raise ArtifactError("the certificate", fact, hint)

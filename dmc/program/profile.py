"""What a step took on a device, as `dmc run --profile` writes it and `dmc compare` reads it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dmc.errors import ArtifactError

SCHEMA = 1


class Timed(msgspec.Struct, frozen=True, array_like=True):
    """A command of a rank's program, by its place in it, in nanoseconds from the start of the step on that rank."""

    rank: int
    command: int
    start: float
    end: float


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Measured steps of a plan.

    plan: the digest of the job. device: its name, as the driver reports it. steps_ns: the host's time from each step to
    the next in training. device_ns: one step by the device's clock, several queued; None where it has none. commands:
    of a step in which every command was timed, in order of rank and start; empty where single commands cannot be timed.
    """

    plan: str
    device: str
    ranks: int
    steps_ns: tuple[float, ...]
    device_ns: float | None = None
    commands: tuple[Timed, ...] = ()
    schema: int = SCHEMA

    def write(self, path: Path) -> None:
        """Writes JSON."""
        path.write_bytes(msgspec.json.encode(self) + b"\n")

    @staticmethod
    def read(path: Path) -> Profile:
        """The profile in a file. Raises ArtifactError if it is missing, damaged or of another schema."""
        hint = "write it with dmc run --profile"
        try:
            profile = msgspec.json.decode(path.read_bytes(), type=Profile)
        except (OSError, msgspec.DecodeError) as error:
            raise ArtifactError(str(path), f"holds no profile ({error})", hint) from error
        if profile.schema != SCHEMA:
            raise ArtifactError(str(path), f"has schema {profile.schema}, but this dmc reads {SCHEMA}", hint)
        return profile

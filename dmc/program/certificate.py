"""What was proven about a job before it may run, and under which assumptions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from dmc.errors import ArtifactError, ProofError
from dmc.program.code import DeviceCode
from dmc.program.device_contract import check_device_code
from dmc.program.job import SCHEMA, Job
from dmc.program.limits import DECODE_ERRORS, Count
from dmc.program.program import DEVICE, Space, device_bytes

PROPERTIES = {
    "V1": "every event is recorded once, before any command awaits it",
    "V2": "no command accesses what a movement has borrowed until the movement has ended",
    "V3": "names exist, sizes fit, ranges lie inside their arenas, and each slot in memory that its role allows",
    "V4": "the members of each communicator issue the same movements in the same order",
    "V5": "no ranks wait for each other in a cycle",
    "V5b": "movements that share two ranks never run at the same time",
    "V6": "conflicting accesses (to the same bytes, at least one of them a write) are ordered",
    "V7": "bytes hold one value at a time, and are reused only after its last access",
    "V8": "no arena is larger than its cap or its contents",
    "V10": "ranks of a stage run one program, decided from the same cost table",
    "V11": "each launch reads the values that form placed prescribes, and each slot holds its own at the end",
}

# The checked property of the code that executes a job (`dmc.program.contract`).
CONTRACT = {
    "V12": "kernels leave their operands unchanged, write their results completely, access only their ranges, and"
    " assume nothing about these that does not hold"
}

ASSUMPTIONS = (
    "lanes are in order: a command begins when the one before it on its lane has ended",
    "a record signals when all before it on its lane has ended, in the step in which it is awaited",
    "a collective makes progress once all its members have reached it, and is over for a member when its lane goes on",
    "no communicator outside the job is active on its devices during a step",
    "calls do not overlap; while one runs, the host fills inputs of the next and reads outputs of the one before",
    "machine code accesses memory as the code it is generated from; in place it reads an element before it writes it",
    "MLIR's canonicalize and cse change no value",
    "on CUDA, products of classes padded with zeros hold, where they are read, what they hold without padding",
    "on CUDA, products with a common factor are parts of one product, and those added up one product with a longer sum",
    "devices, links and memory are free of faults",
)


class Certificate(msgspec.Struct, frozen=True):
    """The properties that were checked for one job and its code, their assumptions, and the hashes of that code.

    properties: short name to statement. digest: `Job.digest()` of the job. cost_table: SHA-256 of the cost table from
    which all ranks' schedules were decided, "" if none was used. peaks: bytes of each memory space, the largest of any
    rank; caps: the user's limits, by space. code: SHA-256 of each IREE module ("modules/step"), and of GPU code
    ("gpu"). dataflow: `Dataflow.digest()` of the dataflow proven for the job. schema: of the job.
    """

    properties: dict[str, str]
    assumptions: tuple[str, ...]
    digest: str
    cost_table: str
    peaks: dict[Space, Count]
    caps: dict[Space, Count]
    code: dict[str, str] = {}
    dataflow: str = ""
    schema: int = SCHEMA

    def to_bytes(self) -> bytes:
        """The certificate as readable JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1)

    @staticmethod
    def from_bytes(data: bytes) -> Certificate:
        """The inverse of `to_bytes`; every field is checked against its type. Raises ArtifactError."""
        try:
            return msgspec.json.decode(data, type=Certificate)
        except DECODE_ERRORS as error:
            raise _refused(f"is damaged ({error})") from error

    def with_code(self, modules: Mapping[str, bytes], gpu: DeviceCode | None) -> Certificate:
        """The certificate of the same job, executed by this code, whose contract lowering has checked."""
        return msgspec.structs.replace(self, properties=self.properties | CONTRACT, code=_digests(modules, gpu))

    def check(self, job: Job, modules: Mapping[str, bytes], gpu: DeviceCode | None) -> None:
        """Raises ArtifactError if the certificate is not that of `job` and its code, or states less than this version's
        proof; and if a GPU's code violates its contract.
        """
        if self.schema != SCHEMA:
            raise _refused(f"has schema {self.schema}, but the job has {SCHEMA}")
        if self.digest != (digest := job.digest()):
            raise _refused(f"belongs to job {self.digest[:12]}, not to this one ({digest[:12]})")
        if missing := [name for name in (*PROPERTIES, *CONTRACT) if name not in self.properties]:
            raise _refused(f"does not state that {', '.join(missing)} hold")
        if set(self.assumptions) != set(ASSUMPTIONS):
            raise _refused("rests on assumptions other than those of this version")
        self._check_memory(job)
        self._check_code(_digests(modules, gpu))
        if gpu is not None:
            _check_contract(job, gpu)

    def _check_memory(self, job: Job) -> None:
        if self.peaks != (peaks := job.peaks()):
            raise _refused(f"states that ranks need {_sizes(self.peaks)}, but the job needs {_sizes(peaks)}")
        arenas = [each.program.arenas for each in job.classes]
        for space, cap in self.caps.items():
            needed = max(map(device_bytes, arenas), default=0) if space == DEVICE else peaks.get(space, 0)
            if needed > cap:
                raise _refused(f"allows {cap:,} bytes of {space} memory, but the job needs {needed:,}")

    def _check_code(self, digests: dict[str, str]) -> None:
        for name in sorted(digests.keys() | self.code.keys()):
            found, proven = digests.get(name, "none"), self.code.get(name, "none")
            if found != proven:
                raise _refused(f"is for other code: for {name} it has {proven[:12]}, the file {found[:12]}")


def _check_contract(job: Job, gpu: DeviceCode) -> None:
    try:
        check_device_code(job, gpu)
    except ProofError as error:
        raise _refused(f"is for code that violates its contract: {error.place}: {error.fact}") from error


def _digests(modules: Mapping[str, bytes], gpu: DeviceCode | None) -> dict[str, str]:
    digests = {f"modules/{name}": hashlib.sha256(data).hexdigest() for name, data in sorted(modules.items())}
    return digests if gpu is None else {**digests, "gpu": gpu.digest()}


def _sizes(peaks: Mapping[Space, int]) -> str:
    return ", ".join(f"{size:,} bytes of {space} memory" for space, size in sorted(peaks.items())) or "no memory"


def _refused(fact: str) -> ArtifactError:
    return ArtifactError("the certificate", fact, hint="compile the step again")

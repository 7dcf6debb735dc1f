"""A compiled training step as a value, and the `.dmc` file that holds one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dmc.errors import ArtifactError, DmcError, StateError
from dmc.program import DEVICE, STAGED, Job, device_bytes
from dmc.program.certificate import Certificate
from dmc.program.code import DeviceCode
from dmc.program.limits import DECODE_ERRORS
from dmc.program.packed import unpacked_size
from dmc.program.signature import Signature, StateSpec
from dmc.proof import verify
from dmc.runtime.files.consistency import misfits
from dmc.runtime.files.container import MANIFEST, RESTORE, Writer, read_container, writing
from dmc.runtime.files.manifest import Head, Manifest
from dmc.runtime.files.stored_state import check_array, is_weight, keys_of, restore, state_key, store
from dmc.runtime.files.versions import check_runtime
from dmc.runtime.process.cpu import check_cpu
from dmc.runtime.reports.ledger import Ledger
from dmc.runtime.tensors.arrays import placeholder

_MODULES = "modules/{}.vmfb"
_IR = "ir/{}.mlir"
_STATE = "state/{}"
_LEDGER = "ledger.json"
_JOB = "job.bin"
_CERTIFICATE = "certificate.json"
_CODE = "code.bin"
_PROGRAM = "programs/{}/"

# The kinds of programs.
TRAINING, EVALUATION = "training", "evaluation"


def program_name(kind: str, number: int) -> str:
    """The name of the program of a kind, or of a phase, for the example of this number, from 0 on."""
    return f"{kind}-{number}" if number else kind


def kind_of(name: str) -> str:
    """The kind, or the phase, of the program of this name."""
    return name.partition("-")[0]


@dataclass(frozen=True)
class Artifact:
    """A compiled step with its state.

    target: "cpu" or "cuda", or "cpu+cuda" for a step that runs on both. precision: "fp32", "bf16" or "bf16-mixed".
    modules: the code that IREE's runtime executes, by kind of device ("cpu", "cuda"). ir: name -> MLIR text, one per
    form, with names that sort in pipeline order ("01-imported"). state: one array per entry of `signature.state`, in
    that order, of that shape and element type (bf16 is `ml_dtypes.bfloat16`). versions: the tools that built it
    (`dmc.runtime.files.versions.tool_versions`); must contain "iree-base-compiler". statistics: the compiler's counts,
    by name ("dispatches": kernels that a step launches, over all ranks). requires: the processor that its code
    needs, by architecture, then features by LLVM's names ("x86_64", "avx2"); empty where the code is not for a CPU.
    ledger: the communication between ranks; empty for a step of one rank. job: the static programs of its ranks.
    certificate: what was proven about them, and about which code. code: what dmc replays on a GPU, where the step was
    compiled for one. unset: the names of state tensors without numbers, for which zeros stand in `state`: their weights
    come later. programs: others over the same state in the same memory, by name (`program_name`), each an artifact
    without state.
    """

    signature: Signature
    target: str
    precision: str
    modules: Mapping[str, bytes]
    ir: Mapping[str, str]
    state: tuple[np.ndarray, ...]
    versions: Mapping[str, str]
    job: Job
    certificate: Certificate
    statistics: Mapping[str, int] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    code: DeviceCode | None = None
    unset: frozenset[str] = frozenset()
    programs: Mapping[str, Artifact] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of all programs."""
        return [self.signature.phase or TRAINING, *self.programs]

    @property
    def device_bytes(self) -> int:
        """The device memory that the fullest rank needs. All programs share an arena, but not inputs."""
        peaks = [each.job.peaks() for each in (self, *self.programs.values())]
        shared, staged = max(each.get(DEVICE, 0) for each in peaks), sum(each.get(STAGED, 0) for each in peaks)
        return device_bytes({DEVICE: shared, STAGED: staged})

    def program(self, name: str, place: str) -> Artifact:
        """The program of this name, with the state. Raises ArtifactError about `place` where there is none."""
        if name in (TRAINING, self.names[0]):
            return self
        if name not in self.programs:
            raise ArtifactError(place, f"has no program '{name}'", hint=f"it has {', '.join(self.names)}")
        return replace(self.programs[name], state=self.state, unset=self.unset)

    def write(
        self, path: str | os.PathLike[str], weights: bool | None = True, state: Iterable[np.ndarray] | None = None
    ) -> None:
        """Writes the `.dmc` file, atomically replacing an old one; the same artifact always gives the same bytes.

        weights: whether the file contains them; a step without takes them later (`Step.load_weights`). state: written
        instead of its own, tensor by tensor, of which none is kept in memory. A crash at any moment leaves the old file
        intact. Raises StateError if the state does not fit the signature, OSError if the file cannot be written.
        """
        own = self if weights else self.without_weights()
        with writing(Path(path)) as file:
            own._write(file, own.state if state is None else state)

    def _write(self, file: Writer, state: Iterable[np.ndarray]) -> None:
        manifest = {
            "versions": dict(self.versions),
            "target": self.target,
            "precision": self.precision,
            **_head(self),
            "unset": keys_of(self.signature.state, self.unset),
            "programs": {name: _head(program) for name, program in self.programs.items()},
        }
        for prefix, program in (("", self), *((_PROGRAM.format(name), own) for name, own in self.programs.items())):
            for part, data in sorted(_parts(program).items()):
                file.add(prefix + part, data)
        file.end({**manifest, "zeros": self._add_state(file, state)})

    def _add_state(self, file: Writer, state: Iterable[np.ndarray]) -> list[str]:
        """Writes the state, tensor by tensor; the keys of those that are zero, and are not written."""
        zero: list[str] = []
        for key, data in store(self.signature.state, state, self.unset):
            if data is None:
                zero.append(key)
            else:
                file.add(_STATE.format(key), data)
        return zero

    def without_weights(self) -> Artifact:
        """The same step without its parameters, frozen ones too, and buffers that files of weights have."""
        specs = self.signature.state
        unset = self.unset | {spec.name for spec in specs if is_weight(spec)}
        kept = (placeholder(spec) if spec.name in unset else a for spec, a in zip(specs, self.state, strict=True))
        return replace(self, state=tuple(kept), unset=unset)

    @staticmethod
    def read(path: str | os.PathLike[str], to_run: bool = True) -> Artifact:
        """Reads a `.dmc` file after verifying schema and checksums and, `to_run`, that the installed IREE runtime
        and this machine's processor can run it; the processor is not checked yet for a step that a GPU may run.

        Every field is checked; `to_run`, its plans are proven again (`_prove`). Raises ArtifactError before anything in
        the file is executed.
        """
        manifest, members = read_container(Path(path))
        try:
            artifact = _from_members(msgspec.convert(manifest, Manifest), members)
        except msgspec.ValidationError as error:
            raise ArtifactError(str(path), f"{MANIFEST}: {error}", hint=RESTORE) from error
        except DmcError as error:
            raise ArtifactError(f"{path}: {error.place}", error.fact, error.hint or RESTORE) from error
        if to_run:
            check_runtime(artifact.versions, str(path))
            if artifact.target == "cpu":
                check_cpu(artifact.requires, str(path))
            for name, program in zip(artifact.names, [artifact, *artifact.programs.values()], strict=True):
                _prove(program, f"{path}: {name}")
        return artifact


def check_state(specs: tuple[StateSpec, ...], state: tuple[np.ndarray, ...]) -> None:
    """Raises StateError unless `state` has one array per spec, each of its shape and element type."""
    if len(specs) != len(state):
        raise StateError("state", f"expected {len(specs)} arrays, got {len(state)}")
    for spec, array in zip(specs, state, strict=True):
        check_array(spec, array)


def _head(artifact: Artifact) -> dict[str, Any]:
    """What the manifest states about a program."""
    unpacked = {_JOB: artifact.job} if artifact.code is None else {_JOB: artifact.job, _CODE: artifact.code}
    return {
        "signature": artifact.signature.to_json(),
        "statistics": dict(artifact.statistics),
        "requires": list(artifact.requires),
        "unpacked": {name: unpacked_size(value) for name, value in unpacked.items()},
    }


def _parts(artifact: Artifact) -> dict[str, bytes]:
    """The members of a file that hold a program, without its state."""
    members = {_LEDGER: json.dumps(artifact.ledger.to_json(), indent=1).encode()}
    members |= {_MODULES.format(name): data for name, data in artifact.modules.items()}
    members |= {_IR.format(name): text.encode() for name, text in artifact.ir.items()}
    members |= {_JOB: artifact.job.to_bytes(), _CERTIFICATE: artifact.certificate.to_bytes()}
    return members if artifact.code is None else {**members, _CODE: artifact.code.to_bytes()}


def _from_members(manifest: Manifest, members: dict[str, bytes]) -> Artifact:
    step = _program(manifest, manifest, "", members)
    state = stored_state(manifest, members)
    programs = {
        name: _program(manifest, head, _PROGRAM.format(name), members) for name, head in manifest.programs.items()
    }
    unset = frozenset(spec.name for spec in step.signature.state if state_key(spec) in manifest.unset)
    return replace(step, state=state, unset=unset, programs=programs)


def stored_state(manifest: Manifest, members: Mapping[str, bytes]) -> tuple[np.ndarray, ...]:
    """The state among the members of a file, one array per entry of its signature. Raises StateError."""
    return restore(manifest.signature.state, _named(members, _STATE), manifest.zeros, manifest.unset)


def is_state(member: str) -> bool:
    """Whether a member of a file holds a tensor of the state."""
    return member.startswith(_STATE.format(""))


def check_head(head: Head, prefix: str) -> None:
    """Raises ArtifactError where the parts of a program's signature contradict each other."""
    if fact := next(misfits(head.signature), ""):
        raise ArtifactError(f"{prefix}signature", fact, hint=RESTORE)


def _program(manifest: Manifest, head: Head, prefix: str, members: dict[str, bytes]) -> Artifact:
    check_head(head, prefix)
    own = {name.removeprefix(prefix): data for name, data in members.items() if name.startswith(prefix)}
    if missing := [name for name in (_JOB, _CERTIFICATE, _LEDGER) if name not in own]:
        raise ArtifactError(prefix + missing[0], "is not in the file", hint=RESTORE)
    modules = _named(own, _MODULES)
    return Artifact(
        signature=head.signature,
        target=manifest.target,
        precision=manifest.precision,
        modules=modules,
        ir={name: _text(prefix + _IR.format(name), data) for name, data in _named(own, _IR).items()},
        state=(),
        versions=manifest.versions,
        statistics=head.statistics,
        requires=head.requires,
        ledger=_ledger(prefix, own[_LEDGER]),
        **_job(head, prefix, own, modules),
    )


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ArtifactError(name, f"is no text ({error})", hint=RESTORE) from error


def _ledger(prefix: str, data: bytes) -> Ledger:
    try:
        return msgspec.json.decode(data, type=Ledger)
    except DECODE_ERRORS as error:
        raise ArtifactError(prefix + _LEDGER, str(error), hint=RESTORE) from error


def _job(head: Head, prefix: str, members: Mapping[str, bytes], modules: Mapping[str, bytes]) -> dict[str, Any]:
    """The job with its certificate and code. Raises DmcError where the certificate does not match them."""
    job = Job.from_bytes(members[_JOB], prefix + _JOB, head.unpacked.get(_JOB, 0))
    code = None
    if _CODE in members:
        code = DeviceCode.from_bytes(members[_CODE], prefix + _CODE, head.unpacked.get(_CODE, 0))
    certificate = Certificate.from_bytes(members[_CERTIFICATE])
    certificate.check(job, modules, code)
    return {"job": job, "certificate": certificate, "code": code}


def _prove(program: Artifact, place: str) -> None:
    """A certificate is not believed: a plan that somebody changed, with its checksums, is refused.

    What the compiler alone can prove, that the step means what the model does (V11), is left to who trusts the file;
    so is machine code for a CPU.
    """
    try:
        verify(program.job, program.certificate.caps)
    except DmcError as error:
        where = f"{error.place}: " if error.place else ""
        raise ArtifactError(place, f"its plan may not run: {where}{error.fact}", hint=RESTORE) from error


def _named(members: Mapping[str, bytes], pattern: str) -> dict[str, bytes]:
    prefix, suffix = pattern.split("{}")
    inside = (name for name in members if name.startswith(prefix) and name.endswith(suffix))
    return {name[len(prefix) : len(name) - len(suffix)]: members[name] for name in sorted(inside)}

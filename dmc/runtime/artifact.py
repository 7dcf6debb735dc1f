"""A compiled training step as a value, and the `.dmc` file that holds one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dmc.errors import ArtifactError, StateError
from dmc.program import DEVICE, STAGED, Job, device_bytes
from dmc.program.certificate import Certificate
from dmc.program.code import DeviceCode
from dmc.runtime.container import read_container, write_container
from dmc.runtime.cpu import check_cpu
from dmc.runtime.dtypes import describe, dtype_of, mlir_name
from dmc.runtime.ledger import Ledger
from dmc.runtime.signature import Signature, StateSpec
from dmc.runtime.stored_state import restore, store
from dmc.runtime.versions import check_runtime

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
    """The name of the program for the example of this number, from 0 on; the first step has none."""
    return f"{kind}-{number}" if number else kind


@dataclass(frozen=True)
class Artifact:
    """A compiled step with its state.

    target: "cpu" or "cuda", or "cpu+cuda" for a step that runs on both. precision: "fp32", "bf16" or "bf16-mixed".
    modules: the code that IREE's runtime executes, by kind of device ("cpu", "cuda"). ir: name -> MLIR text, one per
    form, with names that sort in pipeline order ("01-imported"). state: one array per entry of `signature.state`, in
    that order, of that shape and element type (bf16 is `ml_dtypes.bfloat16`). versions: the tools that built it
    (`dmc.runtime.versions.tool_versions`); must contain "iree-base-compiler". statistics: the compiler's counts, by
    name ("dispatches": kernels that a step launches, over all ranks). requires: the processor that the code requires:
    architecture, then features by LLVM's names ("x86_64", "avx2"); empty where the code is not for a CPU. ledger: the
    communication between ranks; empty for a step of one rank. job: the static programs of its ranks. certificate: what
    was proven about them, and about which code. code: what dmc replays on a GPU, where the step was compiled for one.
    programs: others over the same state in the same memory, by name (`program_name`), each an artifact without state.
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
    programs: Mapping[str, Artifact] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of all programs."""
        return [TRAINING, *self.programs]

    @property
    def device_bytes(self) -> int:
        """The device memory that the fullest rank needs. All programs share an arena, but not inputs."""
        peaks = [each.job.peaks() for each in (self, *self.programs.values())]
        shared, staged = max(each.get(DEVICE, 0) for each in peaks), sum(each.get(STAGED, 0) for each in peaks)
        return device_bytes({DEVICE: shared, STAGED: staged})

    def program(self, name: str, place: str) -> Artifact:
        """The program of this name, with the state. Raises ArtifactError about `place` where there is none."""
        if name == TRAINING:
            return self
        if name not in self.programs:
            raise ArtifactError(place, f"has no program '{name}'", hint=f"it has {', '.join(self.names)}")
        return replace(self.programs[name], state=self.state)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the `.dmc` file, atomically replacing an old one; the same artifact always gives the same bytes.

        A crash at any moment leaves the old file intact. Raises StateError if `state` does not fit the signature,
        OSError if the file cannot be written.
        """
        check_state(self.signature.state, self.state)
        state, absent = store(self.signature.state, self.state)
        manifest = {
            "versions": dict(self.versions),
            "target": self.target,
            "precision": self.precision,
            **_head(self),
            "zeros": absent,
            "programs": {name: _head(program) for name, program in self.programs.items()},
        }
        members: dict[str, bytes | memoryview] = {_STATE.format(key): data for key, data in state.items()}
        members |= _parts(self)
        for name, program in self.programs.items():
            members |= {_PROGRAM.format(name) + part: data for part, data in _parts(program).items()}
        write_container(Path(path), manifest, members)

    @staticmethod
    def read(path: str | os.PathLike[str], to_run: bool = True) -> Artifact:
        """Reads a `.dmc` file after verifying schema and checksums and, `to_run`, that the installed IREE runtime
        and this machine's processor can run it; the processor is not checked yet for a step that a GPU may run.

        Raises ArtifactError before anything in the file is executed.
        """
        manifest, members = read_container(Path(path))
        try:
            artifact = _from_members(manifest, members)
        except (KeyError, TypeError, ValueError, StateError) as error:
            fact = f"contains no artifact of this schema ({type(error).__name__}: {error})"
            raise ArtifactError(str(path), fact, hint="compile the step again") from error
        if to_run:
            check_runtime(artifact.versions, str(path))
            if artifact.target == "cpu":
                check_cpu(artifact.requires, str(path))
        return artifact


def check_state(specs: tuple[StateSpec, ...], state: tuple[np.ndarray, ...]) -> None:
    """Raises StateError unless `state` has one array per spec, each of its shape and element type."""
    if len(specs) != len(state):
        raise StateError("state", f"expected {len(specs)} arrays, got {len(state)}")
    for spec, array in zip(specs, state, strict=True):
        if array.shape == spec.shape and array.dtype == dtype_of(spec.dtype).numpy:
            continue
        got = describe(mlir_name(array.dtype), array.shape)
        raise StateError(f"state {spec.name!r}", f"expected {describe(spec.dtype, spec.shape)}, got {got}")


def _head(artifact: Artifact) -> dict[str, Any]:
    """What the manifest states about a program."""
    return {
        "signature": artifact.signature.to_json(),
        "statistics": dict(artifact.statistics),
        "requires": list(artifact.requires),
    }


def _parts(artifact: Artifact) -> dict[str, bytes]:
    """The members of a file that hold a program, without its state."""
    members = {_LEDGER: json.dumps(artifact.ledger.to_json(), indent=1).encode()}
    members |= {_MODULES.format(name): data for name, data in artifact.modules.items()}
    members |= {_IR.format(name): text.encode() for name, text in artifact.ir.items()}
    members |= {_JOB: artifact.job.to_bytes(), _CERTIFICATE: artifact.certificate.to_bytes()}
    return members if artifact.code is None else {**members, _CODE: artifact.code.to_bytes()}


def _from_members(manifest: dict[str, Any], members: dict[str, bytes]) -> Artifact:
    step = _program(manifest, manifest, members)
    state = restore(step.signature.state, _named(members, _STATE), frozenset(manifest["zeros"]))
    check_state(step.signature.state, state)
    programs = {
        name: _program(manifest, head, _inside(members, _PROGRAM.format(name)))
        for name, head in manifest["programs"].items()
    }
    return replace(step, state=state, programs=programs)


def _program(manifest: dict[str, Any], head: dict[str, Any], members: dict[str, bytes]) -> Artifact:
    modules = _named(members, _MODULES)
    return Artifact(
        signature=Signature.from_json(head["signature"]),
        target=manifest["target"],
        precision=manifest["precision"],
        modules=modules,
        ir={name: data.decode() for name, data in _named(members, _IR).items()},
        state=(),
        versions=manifest["versions"],
        statistics=head["statistics"],
        requires=tuple(head["requires"]),
        ledger=Ledger.from_json(json.loads(members[_LEDGER])),
        **_job(members, modules),
    )


def _job(members: Mapping[str, bytes], modules: Mapping[str, bytes]) -> dict[str, Any]:
    """The job with its certificate and code. Raises ArtifactError where the certificate does not match them."""
    job = Job.from_bytes(members[_JOB], _JOB)
    certificate = Certificate.from_bytes(members[_CERTIFICATE])
    code = DeviceCode.from_bytes(members[_CODE], _CODE) if _CODE in members else None
    certificate.check(job, modules, code)
    return {"job": job, "certificate": certificate, "code": code}


def _inside(members: Mapping[str, bytes], prefix: str) -> dict[str, bytes]:
    return {name.removeprefix(prefix): data for name, data in members.items() if name.startswith(prefix)}


def _named(members: Mapping[str, bytes], pattern: str) -> dict[str, bytes]:
    prefix, suffix = pattern.split("{}")
    inside = (name for name in members if name.startswith(prefix) and name.endswith(suffix))
    return {name[len(prefix) : len(name) - len(suffix)]: members[name] for name in sorted(inside)}

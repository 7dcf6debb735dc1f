"""The ways from an imported step to something that runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from dmc import pipeline
from dmc._mlir import ir
from dmc.analysis.jobs import job_of
from dmc.analysis.recorder import Recorder
from dmc.analysis.settings import write_settings
from dmc.forms import LOWERED, PLACED, PLANNED
from dmc.importer.step import ImportedStep
from dmc.lowering.calling import with_arenas, with_splits
from dmc.lowering.device_code import device_code
from dmc.lowering.implementations import code_for
from dmc.lowering.iree import compile_module, compile_subspan
from dmc.lowering.kernel_code import CodeLibrary
from dmc.lowering.stream import compile_job
from dmc.machine import cost_table_hash, machine
from dmc.observer import Observer
from dmc.program import Job, Space
from dmc.program.certificate import Certificate
from dmc.program.code import DeviceCode
from dmc.proof import verify
from dmc.runtime.artifact import Artifact
from dmc.runtime.ledger import Ledger
from dmc.runtime.signature import Signature
from dmc.runtime.versions import tool_versions
from dmc.target import CPU, Target, targets

Executor = Literal["static", "iree"]


@dataclass(frozen=True)
class Settings:
    """What a user asks for.

    targets: as `dmc.target.targets` takes them. machine: for which the step is scheduled. memory_cap: bytes of device
    memory of a rank.
    """

    targets: str
    machine: str
    memory_cap: int = 0


@dataclass(frozen=True)
class Built:
    """A compiled step: the texts of its forms, IREE's modules, and what the runtime must know."""

    forms: Mapping[str, str]
    signature: Signature
    modules: Mapping[str, bytes]
    statistics: Mapping[str, int]
    requires: tuple[str, ...]
    job: Job | None = None
    certificate: Certificate | None = None
    code: DeviceCode | None = None

    def artifact(self, target: str, precision: str, state: tuple[np.ndarray, ...], ledger: Ledger) -> Artifact:
        """What is written to a file and run; see `dmc.runtime.artifact.Artifact`."""
        return Artifact(
            signature=self.signature,
            target=target,
            precision=precision,
            modules=self.modules,
            ir=self.forms,
            state=state,
            versions=tool_versions(),
            statistics=self.statistics,
            requires=self.requires,
            ledger=ledger,
            job=self.job,
            certificate=self.certificate,
            code=self.code,
        )


@dataclass
class Builder:
    """Builds a step, telling the observer, and dumping forms where that is asked for."""

    imported: ImportedStep
    settings: Settings
    observer: Observer = field(default_factory=Observer)
    dump_dir: str | os.PathLike[str] | None = None

    def static(self) -> Built:
        """dmc decides order, memory and events, and proves the programs of all ranks. Raises ProofError, too."""
        settings, module = self.settings, self.imported.module
        write_settings(module, settings.targets, settings.machine, settings.memory_cap)
        recorder = Recorder()
        forms = pipeline.run(
            module, to_form=PLANNED.name, observer=self.observer, dump_dir=self.dump_dir, witness=recorder.see
        )
        job = job_of(module)
        with self.observer.stage("prove"):
            caps: dict[Space, int] = {"device": settings.memory_cap} if settings.memory_cap else {}
            dataflow = recorder.dataflow(module, job)
            certificate = verify(job, caps, cost_table_hash(machine(settings.machine)), dataflow)
        signature = with_splits(self.imported.signature, _placed(forms))
        built = Built(forms, signature, {}, {}, (), job)
        with self.observer.stage("iree"):
            for target in targets(settings.targets):
                built = _with_code(built, job, code_for(module, job.kernels, target), target)
        return replace(built, certificate=certificate.with_code(built.modules, built.code))

    def by_iree(self) -> Built:
        """IREE decides order and memory of one program of all ranks."""
        (target,), module = targets(self.settings.targets), self.imported.module
        forms = pipeline.run(module, to_form=LOWERED.name, observer=self.observer, dump_dir=self.dump_dir)
        with self.observer.stage("iree"):
            pipeline.prepare(module, target)
            executable = compile_module(module, target)
        signature = with_arenas(with_splits(self.imported.signature, _placed(forms)), module)
        modules = {"step": executable.data, "subspan": compile_subspan(target)}
        return Built(forms, signature, modules, executable.statistics, executable.requires)


STAGES: Mapping[Executor, tuple[str, ...]] = {
    "static": (*pipeline.stage_names(to_form=PLANNED.name), "prove", "iree"),
    "iree": (*pipeline.stage_names(to_form=LOWERED.name), "iree"),
}


def _with_code(built: Built, job: Job, code: CodeLibrary, target: Target) -> Built:
    """With what runs the job on `target`: on a CPU an IREE module, on a GPU the code that its executor launches."""
    if target.name != CPU.name:
        return replace(built, code=device_code(job, code, target))
    executable = compile_job(job, code, target)
    modules = {"step": executable.data}
    return replace(built, modules=modules, statistics=executable.statistics, requires=executable.requires)


def _placed(forms: Mapping[str, str]) -> ir.Module:
    # Later forms do not say any more which parts of what their tensors are.
    return ir.Module.parse(forms[pipeline.stem(PLACED)])

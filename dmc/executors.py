"""From an imported step to what runs: its plan, the proof of the plan, and the code that executes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from dmc import pipeline
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.analysis.dataflow.recorder import Recorder
from dmc.analysis.requests.settings import write_settings, write_ways
from dmc.errors import CodegenError
from dmc.forms import IMPORTED, PLACED, PLANNED
from dmc.lowering.calling import with_splits
from dmc.lowering.cuda.device_code import device_code
from dmc.lowering.implementations import code_for
from dmc.lowering.kernel_code import CodeLibrary
from dmc.lowering.kernels.kernels import next_ways
from dmc.lowering.stream.one_lane import in_one_lane
from dmc.lowering.stream.program import compile_job
from dmc.machine import cost_table_hash, machine
from dmc.observer import Observer
from dmc.passes.base import PassManagerOptions
from dmc.program import Job, Program, Space
from dmc.program.certificate import Certificate
from dmc.program.code import DeviceCode
from dmc.program.messages import with_messages
from dmc.program.movements import Movements
from dmc.program.offloading import fetched_bytes, offloaded_bytes
from dmc.program.signature import Signature
from dmc.program.tuning import Table
from dmc.proof import verify
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.files.versions import tool_versions
from dmc.runtime.reports.ledger import Ledger
from dmc.runtime.tensors.holders import with_holders
from dmc.target import CPU, CUDA, Target, targets

# What executes a plan on a GPU: dmc, which replays it as one CUDA graph, or IREE's runtime, in one lane.
Executor = Literal["static", "iree"]
# The stages reported to the observer, in order.
STAGES = (*pipeline.stage_names(to_form=PLANNED.name), "prove", "iree")


@dataclass(frozen=True)
class Settings:
    """What a user requests.

    targets: as `dmc.target.targets` takes them. machine: the one for which the step is scheduled. memory_cap: bytes of
    device memory of a rank. tuning: a table written by `dmc tune`.
    """

    targets: str
    machine: str
    memory_cap: int = 0
    executor: Executor = "static"
    tuning: Table | None = None


@dataclass(frozen=True)
class Built:
    """A compiled step: the text of each form, its plan and the proof of it, and the code for each target.

    modules: IREE's, by target. code: what dmc replays on a GPU.
    """

    forms: Mapping[str, str]
    signature: Signature
    job: Job
    certificate: Certificate
    modules: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    statistics: Mapping[str, int] = field(default_factory=dict[str, int])
    requires: tuple[str, ...] = ()
    code: DeviceCode | None = None

    def artifact(self, target: str, precision: str, state: tuple[np.ndarray, ...], moved: Movements) -> Artifact:
        """What is saved and run; see `dmc.runtime.files.artifact.Artifact`. moved: between ranks, without messages."""
        all_moved = with_messages(moved, self.job)
        return Artifact(
            signature=self.signature,
            target=target,
            precision=precision,
            modules=self.modules,
            ir=self.forms,
            state=state,
            versions=tool_versions(),
            job=self.job,
            certificate=self.certificate,
            statistics=self.statistics,
            requires=self.requires,
            ledger=Ledger(
                all_moved.mesh,
                all_moved.entries,
                all_moved.ranks,
                all_moved.bounds,
                offloaded=_of_ranks(self.job, offloaded_bytes),
                fetched=_of_ranks(self.job, fetched_bytes),
            ),
            code=self.code,
        )


def _of_ranks(job: Job, count: Callable[[Program], int]) -> tuple[int, ...]:
    """The bytes that are counted for each rank; none where all are 0."""
    counts = {rank: counted for each in job.classes for counted in [count(each.program)] for rank in each.ranks}
    found = tuple(counts[rank] for rank in sorted(counts))
    return found if any(found) else ()


# So many of the kernels left to IREE are named.
_NAMED = 3
_WHY = '`dmc-opt -p "dm-select-kernels{reasons}"` on form scheduled says why'
# Each form is verified. `dmc-opt` also verifies after each pass, a seventh of the passes' time.
_OPTIONS = PassManagerOptions(verify_each=False)


@dataclass
class Builder:
    """Builds a step, reporting to the observer, and dumps forms on request.

    module: the step in form imported, transformed in place to form planned.
    """

    module: ir.Module
    signature: Signature
    settings: Settings
    observer: Observer = field(default_factory=Observer)
    dump_dir: str | os.PathLike[str] | None = None

    def build(self) -> Built:
        """Plans and compiles. Raises as `plan` does."""
        built = self.plan()
        with self.observer.stage("iree"):
            built = self._coded(built)
        return replace(built, certificate=built.certificate.with_code(built.modules, built.code))

    def plan(self) -> Built:
        """Decides order, memory and events, and proves the programs of all ranks, without their code. May also raise
        ProofError."""
        settings, module = self.settings, self.module
        write_settings(module, self._names, settings.machine, settings.memory_cap, settings.tuning)
        recorder = Recorder()
        forms = pipeline.run(
            module,
            to_form=PLANNED.name,
            observer=self.observer,
            dump_dir=self.dump_dir,
            options=_OPTIONS,
            witness=recorder.see,
        )
        job = job_of(module)
        with self.observer.stage("prove"):
            caps: dict[Space, int] = {"device": settings.memory_cap} if settings.memory_cap else {}
            dataflow = recorder.dataflow(module, job)
            certificate = verify(job, caps, cost_table_hash(machine(settings.machine, settings.tuning)), dataflow)
        signature = with_holders(with_splits(self.signature, _placed(forms)), job)
        return Built(forms, signature, job, certificate)

    def _coded(self, built: Built) -> Built:
        """With the code for each target. Plans again if a kernel must be compiled in another way: its scratch memory
        changes with it."""
        coded = built
        for target in targets(self._names):
            library = code_for(self.module, built.job.kernels, target)
            try:
                coded = _with_code(coded, library, target, self.settings.executor)
            except CodegenError as error:
                return self._again(built, next_ways(self.module, error, library, target))
            self._note_slow(library, target)
        return coded

    def _note_slow(self, library: CodeLibrary, target: Target) -> None:
        """Where dmc has kernels of its own, IREE's take many times as long, and may need scratch memory."""
        if not target.has_kernels or not library.kernels:
            return
        named, count = ", ".join(sorted(library.kernels)[:_NAMED]), len(library.kernels)
        self.observer.note(
            f"{count} {'kernel is' if count == 1 else 'kernels are'} left to IREE, whose code is slow on a GPU: {named}"
            f"{', …' if count > _NAMED else ''}; {_WHY}"
        )

    def _again(self, built: Built, ways: Mapping[str, int]) -> Built:
        self.observer.note(f"IREE fails on {', '.join(ways)}: planning again, with other code for it")
        module = ir.Module.parse(built.forms[pipeline.stem(IMPORTED)])
        write_ways(module, ways)
        # The observer is told of each stage once.
        other = replace(self, module=module, observer=Observer())
        return other._coded(other.plan())

    @property
    def _names(self) -> str:
        settings = self.settings
        return settings.targets if settings.executor == "static" else _by_iree(settings.targets)


def _by_iree(names: str) -> str:
    """The targets, joined by "+", of which IREE's runtime runs those that are GPUs."""
    return "+".join(f"{name}:iree" if name == CUDA.name else name for name in names.split("+"))


def _with_code(built: Built, library: CodeLibrary, target: Target, executor: Executor) -> Built:
    """Adds the code that executes the job on `target`."""
    if target.name == CPU.name:
        executable = compile_job(built.job, library, target)
    elif executor == "iree":
        executable = compile_job(in_one_lane(built.job), library, target)
    else:
        return replace(built, code=device_code(built.job, library, target))
    return replace(
        built,
        modules={**built.modules, target.name: executable.data},
        statistics=executable.statistics,
        requires=(*built.requires, *executable.requires),
    )


def _placed(forms: Mapping[str, str]) -> ir.Module:
    # Later forms no longer say which part of which tensor their values are.
    return ir.Module.parse(forms[pipeline.stem(PLACED)])

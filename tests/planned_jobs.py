"""Planned jobs made by hand, compiled and run through IREE: every rank has the same ranges and its own values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dmc import dialect
from dmc._mlir import ir
from dmc.dtypes import dtype_of
from dmc.lowering.kernels.kernels import compile_kernels
from dmc.lowering.stream.program import compile_job
from dmc.program import Await, Channel, Collective, Job, Lane, Launch, Move, Program, Range, Record, Slot, aligned
from dmc.program.signature import Signature, StateSpec, TensorSpec
from dmc.runtime.sessions.iree.device import Device
from dmc.runtime.sessions.iree.planned import PlannedSession
from dmc.target import CPU

COMPUTE, COMM, COPY_IN, COPY_OUT = range(4)
LANES = (Lane("compute", "compute"), Lane("all", "comm", "all"), Lane("in", "copy_in"), Lane("out", "copy_out"))


@dataclass
class Draft:
    """A job of `ranks` ranks in the making. Ranges are handed out one behind the other."""

    ranks: int
    sizes: dict[Any, int] = field(default_factory=lambda: {"device": 0, "pinned_host": 0})
    slots: list[Slot] = field(default_factory=list)
    commands: list[list[Any]] = field(default_factory=list)
    events: int = 0
    instances: int = 0

    def __post_init__(self) -> None:
        self.commands = [[] for _ in range(self.ranks)]

    def room(self, dtype: str, shape: tuple[int, ...], space: Any = "device") -> Range:
        """Bytes for a tensor, in memory that nothing else has."""
        length = math.prod(shape) * dtype_of(dtype).numpy.itemsize
        given = Range(space, self.sizes[space], length)
        self.sizes[space] += aligned(length)
        return given

    def slot(self, name: str, role: str, dtype: str, shape: tuple[int, ...]) -> Range:
        """A tensor that the host knows: state on the device, all else in pinned memory."""
        space = "pinned_host" if role in ("batch", "control", "output") else "device"
        given = self.room(dtype, shape, space)
        self.slots.append(Slot(name, role, dtype, shape, given))
        return given

    def every(self, command: Any) -> None:
        """The same command on every rank."""
        for own in self.commands:
            own.append(command)

    def order(self, before: int, after: int) -> None:
        """What comes on lane `after` waits, on every rank, for what has come on lane `before`."""
        self.every(Record(before, self.events))
        self.every(Await(after, self.events))
        self.events += 1

    def load(self, name: str, dtype: str, shape: tuple[int, ...]) -> Range:
        """A batch tensor, brought to the device."""
        source, target = self.slot(name, "batch", dtype, shape), self.room(dtype, shape)
        self.every(Move(COPY_IN, source, target))
        return target

    def store(self, name: str, dtype: str, shape: tuple[int, ...], source: Range) -> None:
        """Brings an output to the host."""
        self.every(Move(COPY_OUT, source, self.slot(name, "output", dtype, shape)))

    def collective(
        self, kind: Any, dtype: str, count: int, source: Range | None, target: Range | None, **more: Any
    ) -> None:
        """A movement among all ranks, or what `more` says of it."""
        command = Collective(
            COMM, kind, "all", tuple(range(self.ranks)), self.instances, dtype, count, source, target, **more
        )
        self.instances += 1
        self.every(command)

    def launch(self, kernel: str, reads: list[Range], writes: list[Range], scratch: Range | None = None) -> None:
        """A kernel on every rank."""
        self.every(Launch(COMPUTE, kernel, tuple(reads), tuple(writes), scratch))

    def job(self) -> Job:
        """The job as it is now."""
        programs = tuple(
            Program(rank, dict(self.sizes), LANES, tuple(self.slots), tuple(own))
            for rank, own in enumerate(self.commands)
        )
        return Job.of({"all": self.ranks}, (Channel("all", ("all",)),), {}, programs)


def session(job: Job, kernels: str = "", state: Mapping[str, list[np.ndarray]] | None = None) -> PlannedSession:
    """The job, compiled with the private functions of the MLIR text `kernels` as its kernels.

    state: a value for each rank; zeros for what it does not name.
    """
    names = {command.kernel for own in job.programs for command in own.commands if isinstance(command, Launch)}
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        code = compile_kernels(ir.Module.parse(kernels), names, CPU)
    signature = signature_of(job)
    given = state or {}
    values = [
        given[spec.name.rpartition("@")[0]][int(spec.name.rpartition("@")[2])]
        if spec.name.rpartition("@")[0] in given
        else np.zeros(spec.shape, dtype_of(spec.dtype).numpy)
        for spec in signature.state
    ]
    return PlannedSession(Device("cpu"), signature, job, compile_job(job, code, CPU).data, values)


def signature_of(job: Job) -> Signature:
    """The signature of all ranks, `<name>@<rank>`, with the tensors of the job's slots."""

    def specs(kind: type[Any], *roles: str, **more: Any) -> tuple[Any, ...]:
        return tuple(
            kind(f"{slot.name}@{rank}", slot.dtype, slot.shape, **more)
            for slot in job.programs[0].slots
            if slot.role in roles
            for rank in range(len(job.programs))
        )

    return Signature(
        state=specs(StateSpec, "parameter"),
        controls=specs(TensorSpec, "control"),
        batch=specs(TensorSpec, "batch"),
        outputs=specs(TensorSpec, "output"),
        args={"tuple": []},
        kwargs={"dict": {}},
        aux=None,
        learning_rates=(),
    )


def run(loaded: PlannedSession, batch: Mapping[str, list[np.ndarray]]) -> dict[str, list[np.ndarray]]:
    """One step: the outputs of each rank, by name."""
    signature = loaded.signature
    values = [batch[spec.name.rpartition("@")[0]][int(spec.name.rpartition("@")[2])] for spec in signature.batch]
    entry, readings = loaded.issue([], values)
    outputs: dict[str, list[np.ndarray]] = {}
    for spec, reading in zip(signature.outputs, readings, strict=True):
        outputs.setdefault(spec.name.rpartition("@")[0], []).append(loaded.fetch(reading, entry))
    return outputs

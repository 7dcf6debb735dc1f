"""The program of each process of a test: a rank that trains for some steps, with the requested fault."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from dmc.dtypes import Array
from dmc.program.signature import TensorSpec
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.tensors.ranks import Ranks
from dmc.runtime.world.agreement import agree, facts_of
from dmc.runtime.world.board import BoardKeys
from dmc.runtime.world.channels import Channels
from dmc.runtime.world.checkpoint import CheckpointWriter, latest, read_checkpoint, writer
from dmc.runtime.world.host import HostCommunicators
from dmc.runtime.world.launch import World, world_from_environment
from dmc.runtime.world.recorder import Recorder
from dmc.runtime.world.store import Store, open_store
from dmc.runtime.world.watch import Watch
from tests.world.host_session import HostSession, kernels

SECRET = b"of a test"


@dataclass(frozen=True)
class Fault:
    """What goes wrong at a rank in a step, at a command of it, or before it (None)."""

    kind: str
    rank: int
    step: int
    place: int | None = None


@dataclass(frozen=True)
class Task:
    """What a rank is to do.

    file: with {rank} in it, each has its own. board: where the test keeps the values; without it, the launcher does.
    checkpoints: where one is written every second step, and resumed from.
    """

    file: str
    steps: int
    timeout_s: float
    board: tuple[str, int] | None = None
    fault: Fault | None = None
    checkpoints: str = ""


def batch(specs: Sequence[TensorSpec], step: int) -> list[Array]:
    """The inputs of a step."""
    draw = np.random.default_rng(step)
    return [draw.standard_normal(spec.shape).astype(np.float32) for spec in specs]


def controls(artifact: Artifact) -> list[Array]:
    """Learning rates and guard, in the order of the signature."""
    rates = np.array(artifact.signature.learning_rates, np.float32)
    given = {"lr": rates, "guard": np.array(0, np.int32)}
    return [given[spec.name] for spec in artifact.signature.controls]


def main() -> None:
    """Trains; a line of JSON for each step, and one with what the state is at the end."""
    task = msgspec.json.decode(sys.argv[1], type=Task)
    world = world_from_environment(os.environ)
    assert world is not None, "started with others"
    store = open_store(world) if task.board is None else Store(world, BoardKeys(task.board, SECRET))
    artifact = Artifact.read(task.file.format(rank=world.rank), to_run=False)
    agree(store, facts_of(artifact), timeout_s=task.timeout_s)
    recorder = Recorder(artifact.job.programs[world.rank])
    with Watch(store, recorder, timeout_s=task.timeout_s) as watch:
        train(task, world, artifact, recorder, store, watch)


def train(task: Task, world: World, artifact: Artifact, recorder: Recorder, store: Store, watch: Watch) -> None:
    """Takes the steps of the task."""
    ranks, signature = Ranks(artifact.signature), artifact.signature
    channels = Channels(artifact.job, world.rank, HostCommunicators(store, 60))
    session = HostSession(artifact.job, kernels(artifact), recorder, channels)

    def write(specs: Sequence[TensorSpec], arrays: Iterable[Array]) -> None:
        pairs = zip(specs, arrays, strict=True)
        parts = [(spec.name, ranks.spreads[spec.name], array) for spec, array in pairs]
        session.write([(n, own.part(array, world.rank)) for n, own, array in parts if world.rank in own.holders])

    keeper = CheckpointWriter(Path(task.checkpoints), store, signature) if task.checkpoints else None
    last = latest(Path(task.checkpoints)) if task.checkpoints else None
    done, state = (0, iter(artifact.state)) if last is None else read_checkpoint(last, signature.state)
    write(signature.state, (array for array in state if array is not None))
    for step in range(done + 1, task.steps + 1):
        watch.check()
        fault = fault_of(task.fault, world.rank, step)
        fault(None)
        write(signature.controls, controls(artifact))
        write(signature.batch, batch(signature.batch, step))
        loss = session.step(step, fault)["loss"]
        _tell({"step": step, "loss": float(loss)})
        if keeper is not None and step % 2 == 0:
            own = session.state()
            keeper.save(step, [own.get(spec.name, np.empty(0)) for spec in signature.state])
    if keeper is not None:
        keeper.wait()
    state = {name: array.tobytes().hex() for name, array in session.state().items()}
    _tell({"state": state})


def _tell(fact: dict[str, object]) -> None:
    """Prints a line in one piece: ranks may share a pipe, on which a short write is not split."""
    line = (json.dumps(fact) + "\n").encode()
    while line:
        line = line[os.write(sys.stdout.fileno(), line) :]


def fault_of(fault: Fault | None, rank: int, step: int) -> Callable[[int | None], None]:
    """What is called before a step, with None, and before each command of it."""

    def occur(place: int | None) -> None:
        if fault is not None and (fault.rank, fault.step, fault.place) == (rank, step, place):
            FAULTS[fault.kind]()

    return occur


def _raise() -> None:
    raise ValueError("no such batch")


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _fill_the_disk() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def _kill_in_checkpoint() -> None:
    writer.write_shard = lambda path, tensors: str(_kill())


FAULTS: dict[str, Callable[[], object]] = {
    "raise": _raise,
    "kill": _kill,
    "kill in checkpoint": _kill_in_checkpoint,
    "fill the disk": _fill_the_disk,
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "terminate": lambda: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(600)),
    "stall": lambda: time.sleep(600),
}


if __name__ == "__main__":
    main()

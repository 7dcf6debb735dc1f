"""The compiled training step, as users see it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from dmc.errors import ArtifactError, InputError, NonFiniteLossError, VerificationError
from dmc.runtime import state as states
from dmc.runtime.arrays import to_array
from dmc.runtime.artifact import Artifact, check_state
from dmc.runtime.calls import Output
from dmc.runtime.checks import check_artifact, in_order, rates_of
from dmc.runtime.index_bounds import check_indices
from dmc.runtime.ledger import Ledger
from dmc.runtime.open_session import open_step
from dmc.runtime.outcome import Expected, shown
from dmc.runtime.outputs import LazyArray, Loss
from dmc.runtime.planned import PlannedSession
from dmc.runtime.profiling import Profile, profile
from dmc.runtime.replay_session import ReplaySession
from dmc.runtime.settings import RunSettings
from dmc.runtime.signature import Signature, TensorSpec
from dmc.runtime.state import StateDict
from dmc.runtime.tolerance import TOLERANCE
from dmc.runtime.tree import flatten_call, unflatten
from dmc.runtime.world.launch import World, world_from_environment

_DEFAULT = RunSettings()
_GUARD = {on: np.asarray(on, np.int32) for on in (False, True)}


def load(path: str | os.PathLike[str], device: str | None = None, verify: bool = False) -> Step:
    """The step in a `.dmc` file, on the device it was compiled for, ready to train on.

    device: "cpu", "cuda" or "cuda:1"; by default the target's first device. Schema, checksums and versions are verified
    before anything in the file runs. verify: the first call is compared with the CPU's plan in the same file (target
    "cpu+cuda"); see `Step.verify_next`. Raises ArtifactError, or DmcError if there is no such device.

    On GPUs, a step of several ranks is loaded in one process per rank, started by torchrun, mpirun or srun; see `Step`.
    If a rank dies, or does not arrive at a step, all ranks end within 30 s, or the seconds in the environment variable
    DMC_PATIENCE_S. With DMC_CUDA_GRAPH=0 each step issues its commands one by one instead of launching one CUDA graph.
    """
    return Step.load(path, device, verify)


class Step:
    """A compiled training step; parameters and optimizer state stay in device memory.

    On GPUs, a step of several ranks runs in one process per rank; on a CPU, in one process. A process with one rank
    takes the global batch or its rank's part, and returns the global loss and its parts of other outputs. Methods on
    the whole state are collective: all ranks call them. `peers`: the other ranks, None without any. `device_bytes`: of
    device memory, of the fullest rank.
    """

    def __init__(
        self,
        artifact: Artifact,
        device: str | None = None,
        world: World | None = None,
        settings: RunSettings = _DEFAULT,
    ) -> None:
        """Opens the device and uploads the state.

        world: this process among those that a launcher started. Raises ArtifactError or StateError if the artifact is
        inconsistent or for another number of ranks, DmcError if there is no such device or not enough memory on it, or
        if the ranks are about to run different steps.
        """
        check_artifact(artifact)
        check_state(artifact.signature.state, artifact.state)
        opened = open_step(artifact, device, world, settings)
        self._ranks, self._session, self.peers = opened.ranks, opened.session, opened.peers
        # The state is on the device from now on; the host copy would only double the memory.
        self._artifact = dataclasses.replace(artifact, state=())
        self._default_rates = rates_of(artifact.signature.learning_rates, artifact.signature)
        self._verifies, self.device_bytes = False, artifact.job.peaks().get("device", 0)
        self._counter = next(i for i, spec in enumerate(artifact.signature.state) if spec.role == "counter")

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str | None = None, verify: bool = False) -> Self:
        """The step in a `.dmc` file; see `dmc.runtime.load`."""
        step = cls(Artifact.read(path), device, world_from_environment(os.environ), RunSettings.of(os.environ))
        if verify:
            step.verify_next()
        return step

    @property
    def is_first(self) -> bool:
        """Whether this process has rank 0: the one that prints and writes."""
        return self._ranks.held[0] == 0

    @property
    def signature(self) -> Signature:
        """The step's arguments and results."""
        return self._artifact.signature

    def ledger(self) -> Ledger:
        """Communication between ranks, and its reasons, as in `step.ledger().table()`; empty for a step of one rank."""
        return self._artifact.ledger

    @property
    def steps_done(self) -> int:
        """Optimizer steps done since the state was new; waits for the steps in flight."""
        return int(self._whole(self._counter))

    def __call__(
        self, *batch: Any, lr: float | Sequence[float] | None = None, check_finite: bool = False, **batch_kw: Any
    ) -> Any:
        """One training step on one batch; returns at once with the loss, or with (loss, auxiliary outputs).

        The batch is nested like the example at compilation: torch tensors, numpy arrays, or numbers for shape (), with
        exactly the shapes and element types of `signature.batch`; the memory may be reused as soon as this returns. lr:
        one learning rate for all parameter groups or one for each; by default those of the optimizer. At most two steps
        are in flight.

        check_finite waits for the step and raises NonFiniteLossError if its loss is NaN or infinite; the state is then
        unchanged. Raises InputError, state unchanged, if the batch or `lr` does not match; DmcError if an earlier step
        has failed on the device.
        """
        return self._run(flatten_call(self.signature, batch, batch_kw), lr, check_finite)

    def call_flat(
        self, batch: Mapping[str, Any], lr: float | Sequence[float] | None = None, check_finite: bool = False
    ) -> Any:
        """Like a call, with batch tensors by their names in `signature.batch` instead of nested."""
        return self._run(in_order(batch, self.signature), lr, check_finite)

    def outcome(self, batch: Mapping[str, Any], lr: float | Sequence[float] | None = None) -> dict[str, np.ndarray]:
        """Runs a step, waits for it, and returns outputs and state, by their names in `signature`."""
        return self._left(self._issue(in_order(batch, self.signature), lr, check_finite=False))

    def verify_next(self) -> None:
        """Compares the next call with the same plan executed on the CPU; the call waits for both.

        That call raises VerificationError where outputs or state differ by more than rounding, naming them. Raises
        ArtifactError where the step was not also planned for a CPU, or runs on one.
        """
        if "cpu" not in self._artifact.target.split("+"):
            fact = f"was compiled for {self._artifact.target}, and contains no CPU code to compare with"
            raise ArtifactError("the step", fact, hint='compile it with target="cpu+cuda"')
        if isinstance(self._session, PlannedSession):
            raise ArtifactError("the step", "already runs on the CPU, the reference", hint='load it with device="cuda"')
        self._verifies = True

    def state_dict(self) -> StateDict:
        """A copy of the whole state on the host (numpy arrays); waits for the steps in flight."""
        return states.build(self.signature.state, self._state())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Overwrites the state with a dictionary like that of `state_dict`, of numpy arrays or torch tensors.

        `{"model": …}` alone overwrites the model's parameters and buffers; the rest keeps its values. Raises StateError
        listing every name that does not match; the state is then unchanged.
        """
        specs = self.signature.state
        given = states.flatten(specs, state)
        kept = iter(self._wholes([index for index, array in enumerate(given) if array is None]))
        arrays = [next(kept) if array is None else array for array in given]
        self._session.write_state(self._ranks.scatter(specs, arrays))

    def rank_state_dict(self, rank: int) -> StateDict:
        """A copy of one rank's state, like `state_dict`; split tensors have the shape of the rank's part.

        Raises InputError for a rank that the step does not have.
        """
        if rank not in self._ranks.held:
            first, last = self._ranks.held[0], self._ranks.held[-1]
            raise InputError(f"rank {rank}", "is not in this process", hint=f"ranks here are {first} to {last}")
        specs = self.signature.state
        return states.build(specs, [self._part(index, rank) for index in range(len(specs))])

    def differing_replicas(self) -> tuple[str, ...]:
        """The state tensors whose replicas on two ranks are not bitwise equal; () where all agree."""
        specs, own = self.signature.state, [self._digests(rank) for rank in self._ranks.held]
        if self.peers is not None:
            texts = self.peers.store.exchange("replicas", " ".join(own[0]).encode())
            own = [text.decode().split() for text in texts]
        spreads = [self._ranks.spreads[spec.name] for spec in specs]
        places = [(i, ranks) for i, spread in enumerate(spreads) for ranks in spread.replicas]
        return tuple(dict.fromkeys(specs[i].name for i, ranks in places if len({own[rank][i] for rank in ranks}) > 1))

    def snapshot(self) -> Artifact:
        """The step and its current state as a value; waits for the steps in flight."""
        return dataclasses.replace(self._artifact, state=tuple(self._state()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the step and its current state as one `.dmc` file; a crash meanwhile leaves an old file intact.

        Waits for the steps in flight; rank 0 writes. Raises OSError if the file cannot be written.
        """
        snapshot = self.snapshot()
        if self.peers is None:
            snapshot.write(path)
        else:
            self.peers.on_first(lambda: snapshot.write(path))

    def profile(self, steps_ns: Sequence[float] = ()) -> Profile:
        """What a step takes, and on a GPU each of its commands. Collective; runs steps that change the state."""
        return profile(self._artifact.job, self._session, self.peers, steps_ns)

    def close(self) -> None:
        """Waits for the steps in flight and frees the device memory; the step cannot be used again."""
        self._session.close()
        if self.peers is not None:
            self.peers.close()

    def own_state(self) -> list[np.ndarray]:
        """Copies of this process's part of the state: whole tensors, or the parts of its one rank."""
        return list(
            map(self._whole if self._ranks.is_all else self._session.read_state, range(len(self.signature.state)))
        )

    def _run(self, values: Sequence[Any], lr: float | Sequence[float] | None, check_finite: bool) -> Any:
        outputs, aux = self._issue(values, lr, check_finite), self.signature.aux
        if check_finite and not outputs[1].numpy():
            fact = f"the loss is {outputs[0]:g}"
            hint = "the state is unchanged: skip the batch, lower the learning rate, or check indices that are computed"
            raise NonFiniteLossError(f"step {self.steps_done + 1}", fact, hint)
        return outputs[0] if aux is None else (outputs[0], unflatten(aux, outputs[2:]))

    def _issue(self, values: Sequence[Any], lr: float | Sequence[float] | None, check_finite: bool) -> list[LazyArray]:
        signature, scatter = self.signature, self._ranks.scatter
        batch = [self._given(spec, value) for spec, value in zip(signature.batch, values, strict=True)]
        check_indices(signature.bounds, signature.batch, batch)
        given = {"lr": self._default_rates if lr is None else rates_of(lr, signature), "guard": _GUARD[check_finite]}
        controls = [given[spec.name] for spec in signature.controls]
        expected = self._on_cpu(batch, given["lr"], check_finite) if self._verifies else None
        self._verifies = False
        issued = self._session.issue(scatter(signature.controls, controls), scatter(signature.batch, batch))
        outputs = self._outputs(*issued)
        if expected is not None and (found := expected.differences(self._left(outputs))):
            fact = f"differs from the CPU's result for the same plan\n  {shown(found)}"
            raise VerificationError("the first step on this device", fact, hint="please report it")
        return outputs

    def _given(self, spec: TensorSpec, value: Any) -> np.ndarray:
        """An input: the whole tensor, or in a process with one rank that rank's part."""
        part, _ = self._ranks.seen(spec)
        is_part = getattr(value, "shape", spec.shape) == part.shape
        return to_array(value, part if is_part else spec, f"input {spec.name!r}", InputError)

    def _on_cpu(self, batch: Sequence[np.ndarray], rates: np.ndarray, check_finite: bool) -> Expected:
        """The CPU's outcome of this step."""
        before = self.snapshot()
        with contextlib.closing(Step(before, "cpu")) as other:
            left = other._left(other._issue(batch, rates.tolist(), check_finite))
        specs, tolerance = self.signature.state, TOLERANCE[self._artifact.precision]
        start = {spec.name: array for spec, array in zip(specs, before.state, strict=True)}
        return Expected(left, specs, start, float(rates.max()), tolerance, "the CPU")

    def _left(self, outputs: Sequence[LazyArray]) -> dict[str, np.ndarray]:
        """The outputs of a step, and the state after it."""
        pairs = zip(self.signature.outputs, outputs, strict=True)
        # A process with one rank has only its part of some outputs.
        left = {spec.name: output.numpy() for spec, output in pairs if output.shape == spec.shape}
        return left | {spec.name: array for spec, array in zip(self.signature.state, self._state(), strict=True)}

    def _outputs(self, entry: int, readings: Sequence[Output]) -> list[LazyArray]:
        """The outputs of a step, assembled from the parts of the held ranks."""
        ranks = len(self._ranks.held)
        outputs: list[LazyArray] = []
        for index, (spec, spread) in enumerate(map(self._ranks.seen, self.signature.outputs)):
            parts = readings[index * ranks : (index + 1) * ranks]
            outputs.append((Loss if index == 0 else LazyArray)(self._session, parts, spread, spec, entry))
        return outputs

    def _state(self) -> list[np.ndarray]:
        return self._wholes(range(len(self.signature.state)))

    def _wholes(self, indices: Sequence[int]) -> list[np.ndarray]:
        """State tensors, by their indices in the signature."""
        names = [self.signature.state[index].name for index in indices]
        if self.peers is not None and any(self._ranks.spreads[name].is_split for name in names):
            # A rank in the middle of a long step is not missing: only its code between steps is waited for.
            self._session.read_state(self._counter)
            self.peers.gather()
        return [self._whole(index) for index in indices]

    def _whole(self, index: int) -> np.ndarray:
        """A state tensor, by its index in the signature."""
        spread = self._ranks.spreads[self.signature.state[index].name]
        if self._ranks.is_all:
            return spread.whole(lambda rank: self._part(index, rank))
        if not spread.is_split:
            return self._session.read_state(index)
        assert isinstance(self._session, ReplaySession), "one of several processes"
        return spread.whole(self._session.gathered(index).__getitem__)

    def _part(self, index: int, rank: int) -> np.ndarray:
        return self._session.read_state(index * len(self._ranks.held) + self._ranks.held.index(rank))

    def _digests(self, rank: int) -> list[str]:
        count = len(self.signature.state)
        return [hashlib.sha256(self._part(index, rank).tobytes()).hexdigest() for index in range(count)]

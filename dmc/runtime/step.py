"""The compiled training step, as users see it."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmc.errors import ArtifactError, InputError, NonFiniteLossError, VerificationError
from dmc.runtime import state as states
from dmc.runtime.arrays import to_array
from dmc.runtime.artifact import Artifact, check_state
from dmc.runtime.calls import Output
from dmc.runtime.ledger import Ledger
from dmc.runtime.open_session import open_session
from dmc.runtime.outcome import Expected, shown
from dmc.runtime.outputs import LazyArray, Loss
from dmc.runtime.planned import PlannedSession
from dmc.runtime.ranks import Ranks
from dmc.runtime.signature import Signature
from dmc.runtime.state import StateDict
from dmc.runtime.tolerance import TOLERANCE
from dmc.runtime.tree import flatten_call, unflatten

_CONTROLS = ("lr", "guard")
_GUARD = {on: np.asarray(on, np.int32) for on in (False, True)}


def load(path: str | os.PathLike[str], device: str | None = None, verify: bool = False) -> Step:
    """The step in a `.dmc` file, on the device it was compiled for, ready to train on.

    device: "cpu", "cuda" or "cuda:1"; by default the target's first device. Schema, checksums and versions are verified
    before anything in the file runs. verify: the first call is compared with the CPU's plan in the same file (target
    "cpu+cuda"); see `Step.verify_next`. Raises ArtifactError, or DmcError if there is no such device.
    """
    step = Step(Artifact.read(path), device)
    if verify:
        step.verify_next()
    return step


class Step:
    """A compiled training step; parameters and optimizer state stay in device memory."""

    def __init__(self, artifact: Artifact, device: str | None = None) -> None:
        """Opens the device and uploads the state.

        Raises ArtifactError or StateError if the artifact is inconsistent, DmcError if there is no such device or not
        enough memory on it.
        """
        _check(artifact)
        check_state(artifact.signature.state, artifact.state)
        self._ranks = Ranks(artifact.signature)
        state = self._ranks.scatter(artifact.signature.state, artifact.state)
        self._session = open_session(artifact, self._ranks.linked, state, device)
        # The state is on the device from now on; the host copy would only double the memory.
        self._artifact = dataclasses.replace(artifact, state=())
        self._default_rates = _rates(artifact.signature.learning_rates, artifact.signature)
        self._verifies = False
        self._counter = next(i for i, spec in enumerate(artifact.signature.state) if spec.role == "counter")

    @property
    def signature(self) -> Signature:
        """The step's arguments and results."""
        return self._artifact.signature

    def ledger(self) -> Ledger:
        """The communication between the step's ranks, and its reasons; `print(step.ledger().table())` shows it.

        Empty for a step of one rank.
        """
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
        return self._run(self._in_order(batch), lr, check_finite)

    def outcome(self, batch: Mapping[str, Any], lr: float | Sequence[float] | None = None) -> dict[str, np.ndarray]:
        """Runs a step, waits for it, and returns outputs and state, by their names in `signature`."""
        outputs = self._issue(self._in_order(batch), lr, check_finite=False)
        return self._left(outputs)

    def verify_next(self) -> None:
        """Compares the next call with the same plan executed on the CPU; the call waits for both.

        That call raises VerificationError where outputs or state differ by more than rounding, naming them. Raises
        ArtifactError where the step was not also planned for a CPU, or runs on one.
        """
        if "cpu" not in self._artifact.target.split("+"):
            fact = f"was compiled for {self._artifact.target}, and contains no CPU code to compare with"
            raise ArtifactError("the step", fact, hint='compile it with target="cpu+cuda"')
        if isinstance(self._session, PlannedSession):
            fact = "already runs on the CPU, the reference of the comparison"
            raise ArtifactError("the step", fact, hint='load it with device="cuda"')
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
        arrays = [self._whole(index) if array is None else array for index, array in enumerate(given)]
        self._session.write_state(self._ranks.scatter(specs, arrays))

    def rank_state_dict(self, rank: int) -> StateDict:
        """A copy of one rank's state, like `state_dict`; split tensors have the shape of the rank's part.

        Raises InputError for a rank that the step does not have.
        """
        if rank not in range(self._ranks.count):
            raise InputError(f"rank {rank}", "does not exist", hint=f"ranks are 0 to {self._ranks.count - 1}")
        specs = self.signature.state
        return states.build(specs, [self._part(index, rank) for index in range(len(specs))])

    def differing_replicas(self) -> tuple[str, ...]:
        """The state tensors whose replicas on two ranks are not bitwise equal; () where all agree."""
        differing: list[str] = []
        for index, spec in enumerate(self.signature.state):
            replicas = self._ranks.spreads[spec.name].replicas
            contents = [{self._part(index, rank).tobytes() for rank in ranks} for ranks in replicas]
            differing += [spec.name] if any(len(each) > 1 for each in contents) else []
        return tuple(differing)

    def snapshot(self) -> Artifact:
        """The step and its current state as a value; waits for the steps in flight."""
        return dataclasses.replace(self._artifact, state=tuple(self._state()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the step and its current state as one `.dmc` file; a crash meanwhile leaves an old file intact.

        Waits for the steps in flight. Raises OSError if the file cannot be written.
        """
        self.snapshot().write(path)

    def close(self) -> None:
        """Waits for the steps in flight and frees the device memory; the step cannot be used again."""
        self._session.close()

    def _in_order(self, batch: Mapping[str, Any]) -> list[Any]:
        names = [spec.name for spec in self.signature.batch]
        if set(names) != set(batch):
            fact = f"expected the inputs {', '.join(names)}; got {', '.join(batch)}"
            raise InputError("call", fact, hint="pass each batch tensor exactly once")
        return [batch[name] for name in names]

    def _run(self, values: Sequence[Any], lr: float | Sequence[float] | None, check_finite: bool) -> Any:
        outputs, aux = self._issue(values, lr, check_finite), self.signature.aux
        if check_finite and not outputs[1].numpy():
            fact = f"the loss is {outputs[0]:g}"
            hint = "the state is unchanged: skip the batch or lower the learning rate"
            raise NonFiniteLossError(f"step {self.steps_done + 1}", fact, hint)
        return outputs[0] if aux is None else (outputs[0], unflatten(aux, outputs[2:]))

    def _issue(self, values: Sequence[Any], lr: float | Sequence[float] | None, check_finite: bool) -> list[LazyArray]:
        signature = self.signature
        batch = [
            to_array(value, spec, f"input {spec.name!r}", InputError)
            for spec, value in zip(signature.batch, values, strict=True)
        ]
        given = {"lr": self._default_rates if lr is None else _rates(lr, signature), "guard": _GUARD[check_finite]}
        controls = [given[spec.name] for spec in signature.controls]
        expected = self._on_cpu(batch, given["lr"], check_finite) if self._verifies else None
        self._verifies = False
        scatter = self._ranks.scatter
        issued = self._session.issue(scatter(signature.controls, controls), scatter(signature.batch, batch))
        outputs = self._outputs(*issued)
        if expected is not None and (found := expected.differences(self._left(outputs))):
            fact = f"differs from the CPU's result for the same plan\n  {shown(found)}"
            raise VerificationError("the first step on this device", fact, hint="please report it")
        return outputs

    def _on_cpu(self, batch: Sequence[np.ndarray], rates: np.ndarray, check_finite: bool) -> Expected:
        """The CPU's outcome of this step."""
        before = self.snapshot()
        other = Step(before, "cpu")
        try:
            left = other._left(other._issue(batch, rates.tolist(), check_finite))
        finally:
            other.close()
        specs, tolerance = self.signature.state, TOLERANCE[self._artifact.precision]
        start = {spec.name: array for spec, array in zip(specs, before.state, strict=True)}
        return Expected(left, specs, start, float(rates.max()), tolerance, "the CPU")

    def _left(self, outputs: Sequence[LazyArray]) -> dict[str, np.ndarray]:
        """The outputs of a step, and the state after it."""
        left = {spec.name: output.numpy() for spec, output in zip(self.signature.outputs, outputs, strict=True)}
        return left | {spec.name: array for spec, array in zip(self.signature.state, self._state(), strict=True)}

    def _outputs(self, entry: int, readings: Sequence[Output]) -> list[LazyArray]:
        """The outputs of a step, assembled from all ranks' parts."""
        ranks = self._ranks.count
        outputs: list[LazyArray] = []
        for index, spec in enumerate(self.signature.outputs):
            parts, spread = readings[index * ranks : (index + 1) * ranks], self._ranks.spreads[spec.name]
            outputs.append((Loss if index == 0 else LazyArray)(self._session, parts, spread, spec, entry))
        return outputs

    def _state(self) -> list[np.ndarray]:
        return [self._whole(index) for index in range(len(self.signature.state))]

    def _whole(self, index: int) -> np.ndarray:
        """A state tensor, by its index in the signature."""
        name = self.signature.state[index].name
        return self._ranks.spreads[name].whole(lambda rank: self._part(index, rank))

    def _part(self, index: int, rank: int) -> np.ndarray:
        return self._session.read_state(index * self._ranks.count + rank)


def _rates(lr: float | Sequence[float], signature: Signature) -> np.ndarray:
    """f32[number of groups]; raises InputError."""
    groups = len(signature.learning_rates)
    try:
        rates = [float(rate) for rate in lr] if isinstance(lr, Sequence) else [float(lr)] * groups
    except (TypeError, ValueError) as error:
        raise InputError("lr", f"expected a number or {groups} numbers, got {lr!r}") from error
    if len(rates) != groups:
        raise InputError("lr", f"expected {groups} learning rates, one per parameter group, got {len(rates)}")
    if bad := [rate for rate in rates if not (math.isfinite(rate) and rate >= 0)]:
        raise InputError("lr", f"expected finite numbers of at least 0, got {bad[0]}")
    return np.asarray(rates, np.float32)


def _check(artifact: Artifact) -> None:
    """Raises ArtifactError where the signature requires what this runtime does not support."""
    signature = artifact.signature
    facts: list[str] = []
    kinds = artifact.target.split("+")
    without = [kind for kind in kinds if kind not in artifact.modules and (kind != "cuda" or artifact.code is None)]
    facts += [f"has no code for {kind!r}" for kind in without]
    if sorted(spec.name for spec in signature.controls) != sorted(_CONTROLS):
        facts.append(f"has the controls {[spec.name for spec in signature.controls]}, expected {list(_CONTROLS)}")
    if [spec.name for spec in signature.outputs[:2]] != ["loss", "finite"]:
        facts.append("has outputs that do not begin with 'loss' and 'finite'")
    if sum(spec.role == "counter" for spec in signature.state) != 1:
        facts.append("has not exactly one step counter in its state")
    if taken := {"lr", "check_finite"} & set(signature.kwargs["dict"]):
        facts.append(f"has an input {', '.join(sorted(taken))}, a name reserved for calls: rename the input")
    if facts:
        raise ArtifactError("artifact", "; ".join(facts), hint="compile the step again")

"""The compiled training step, as users see it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self

import numpy as np

from dmc.errors import ArtifactError, InputError, NonFiniteLossError, VerificationError
from dmc.program.signature import Signature, counter_of
from dmc.runtime.checks import LearningRates, check_artifact, in_order, not_finite, rates_of
from dmc.runtime.comparison.outcome import Expected, shown
from dmc.runtime.comparison.tolerance import TOLERANCE
from dmc.runtime.files.artifact import EVALUATION, TRAINING, Artifact, check_state, kind_of
from dmc.runtime.foreign import STEP, NotOfTorch
from dmc.runtime.outputs import LazyArray
from dmc.runtime.process.settings import RunSettings
from dmc.runtime.process.uncopied import Uncopied
from dmc.runtime.reports.ledger import Ledger
from dmc.runtime.reports.memory.report import MemoryReport
from dmc.runtime.reports.memory.report import report as memory_of
from dmc.runtime.reports.plan.report import PlanReport
from dmc.runtime.sessions.iree.planned import PlannedSession
from dmc.runtime.sessions.open_session import open_step
from dmc.runtime.sessions.profiling import Profile, profile
from dmc.runtime.state.fingerprints import fingerprints
from dmc.runtime.state.held_state import HeldState
from dmc.runtime.state.step_state import StepState
from dmc.runtime.step_phase import Phases, StepPhase
from dmc.runtime.tensors.tree import flatten_call
from dmc.runtime.variant import Batch, Variant, fitting
from dmc.runtime.world.launch import World, world_from_environment

_DEFAULT = RunSettings()
_GUARD = {on: np.asarray(on, np.int32) for on in (False, True)}


class Step(StepState, NotOfTorch, Uncopied):
    """A compiled training step; parameters and optimizer state stay in device memory.

    On GPUs, a step of several ranks runs in one process per rank; on a CPU, in one process. A process with one rank
    takes the global batch or its rank's part, and returns the global loss and its parts of other outputs; one that not
    all ranks have is read by all of them. Methods on the whole state are collective: all ranks call them. `peers`: the
    other ranks, None without any. `device_bytes`: of device memory, of the fullest rank.
    """

    WAYS = STEP

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
        named = zip(artifact.names, [artifact, *artifact.programs.values()], strict=True)
        self._variants: dict[str, list[Variant]] = {EVALUATION: []}
        self._default_rates: dict[str, np.ndarray] = {}
        ranks = [opened.ranks, *opened.others]
        for number, ((name, program), own) in enumerate(zip(named, ranks, strict=True)):
            kind, signature = kind_of(name), program.signature
            variant = Variant(number, signature, own, opened.session, opened.peers)
            self._variants.setdefault(kind, []).append(variant)
            if signature.controls:
                self._default_rates[kind] = rates_of(signature.learning_rates, signature)
        # The state is on the device from now on; the host copy would only double the memory.
        self._artifact = dataclasses.replace(artifact, state=(), unset=frozenset())
        self._fingerprints = fingerprints(artifact.signature.state, artifact.state, artifact.unset)
        self._verifies = False
        self.device_bytes = artifact.device_bytes
        self._state = HeldState(artifact.signature.state, opened.ranks, opened.session, opened.peers, artifact.unset)

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

    @property
    def phases(self) -> Mapping[str, StepPhase]:
        """The phases of a step that was compiled with them, by name; each is called by itself."""
        names = [kind for kind in self._variants if kind not in (TRAINING, EVALUATION)]
        return Phases({name: self._phase(name) for name in names})

    def _phase(self, name: str) -> StepPhase:
        return StepPhase(self, name)

    def signature_of(self, phase: str) -> Signature:
        """The arguments and results of a phase, for the first of its examples."""
        return self._variants[phase][0].signature

    def ledger(self, program: str = TRAINING) -> Ledger:
        """Communication between ranks, and its reasons: `print(step.ledger())`; empty for a step of one rank.

        program: "training", of the first shape, "training-1", of the next, "evaluation" and so on, or the name of a
        phase; by default the first. Raises ArtifactError for one that the step does not have.
        """
        return self._artifact.program(program, "the step").ledger

    def memory(self, program: str = TRAINING) -> MemoryReport:
        """The memory that a program (see `ledger`) needs, and where its peak is: `print(step.memory())`."""
        return memory_of(self._artifact.program(program, "the step").job)

    def plan(self, rank: int = 0, label: str | None = None, program: str = TRAINING) -> PlanReport:
        """The commands of a rank in a program (see `ledger`): `print(step.plan())`.

        label: only those whose label matches a shell pattern, as in "h.3.*". Raises InputError for a rank that the step
        does not have.
        """
        job = self._artifact.program(program, "the step").job
        if rank not in range(ranks := job.size):
            raise InputError(f"rank {rank}", f"is not one of {ranks}", hint=f"ranks are 0 to {ranks - 1}")
        return PlanReport.of(job, rank, label)

    def __call__(
        self, *batch: Any, lr: LearningRates | None = None, check_finite: bool = False, **batch_kw: Any
    ) -> Any:
        """One training step on one batch; returns at once with the loss, or with (loss, auxiliary outputs).

        The batch is nested like the example at compilation: torch tensors, numpy arrays, or numbers for shape (), with
        exactly the shapes and element types of `signature.batch`; the memory may be reused as soon as this returns. lr:
        one learning rate for all parameter groups, one for each, or a scheduler (`CompiledStep.scheduler`); by default
        those of the optimizer. At most two steps of each program (shape) are in flight.

        check_finite waits for the step and raises NonFiniteLossError if its loss is NaN or infinite; the state is then
        unchanged. Raises InputError, state unchanged, if the batch or `lr` does not match; DmcError if an earlier step
        has failed on the device.
        """
        return self.run(self._only(), lambda signature: flatten_call(signature, batch, batch_kw), lr, check_finite)

    def call_flat(self, batch: Mapping[str, Any], lr: LearningRates | None = None, check_finite: bool = False) -> Any:
        """Like a call, with batch tensors by their names in `signature.batch` instead of nested."""
        return self.run(self._only(), lambda signature: in_order(batch, signature), lr, check_finite)

    def evaluate(self, *batch: Any, **batch_kw: Any) -> Any:
        """The loss of a batch in eval mode, with the current state, which it leaves as it is; returns at once.

        Takes and returns what a call does, with the auxiliary outputs of the function given as `evaluation=`. Runs
        after the steps queued before it. Raises ArtifactError for a step compiled without `evaluation=`; InputError if
        the batch does not match.
        """
        program, values = fitting(self._evaluations(), lambda signature: flatten_call(signature, batch, batch_kw))
        loss, *others = program.issue([], program.arrays(values))
        return program.result(loss, others)

    def evaluated(self, batch: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The outputs of an evaluation, by name, of a batch by name."""
        program, values = fitting(self._evaluations(), lambda signature: in_order(batch, signature))
        outputs = program.issue([], program.arrays(values))
        return {spec.name: each.numpy() for spec, each in zip(program.signature.outputs, outputs, strict=True)}

    def outcome(self, batch: Mapping[str, Any], lr: LearningRates | None = None) -> dict[str, np.ndarray]:
        """Runs a step, waits for it, and returns outputs and state, by their names in `signature`."""
        first = self._artifact.names[0]
        return self._left(*self._issue(first, partial(in_order, batch), lr, check_finite=False))

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

    def snapshot(self) -> Artifact:
        """The step and its current state as a value; waits for the steps in flight."""
        return dataclasses.replace(self._artifact, state=tuple(self._state.all()), unset=self._state.unset)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the step and its current state as one `.dmc` file; a crash meanwhile leaves an old file intact.

        Waits for the steps in flight; rank 0 writes, tensor by tensor. Raises OSError if the file cannot be written.
        """
        artifact = dataclasses.replace(self._artifact, unset=self._state.unset)
        indices = range(len(self.signature.state))
        self._state.stream_to(lambda state: artifact.write(path, state=state), indices)

    def profile(self, steps_ns: Sequence[float] = ()) -> Profile:
        """What a step takes, and on a GPU each of its commands. Collective; runs steps that change the state."""
        return profile(self._artifact.job, self._session, self.peers, steps_ns)

    def close(self) -> None:
        """Waits for the steps in flight and frees the device memory; the step cannot be used again."""
        self._session.close()
        if self.peers is not None:
            self.peers.close()

    def _evaluations(self) -> list[Variant]:
        if not self._variants[EVALUATION]:
            fact = "was compiled without evaluation"
            raise ArtifactError("the step", fact, hint="compile it with evaluation=True")
        self._state.check()
        return self._variants[EVALUATION]

    def _only(self) -> str:
        """The kind of the programs that a call of the step runs."""
        if TRAINING in self._variants:
            return TRAINING
        first, *_ = self.phases
        hint = f"call one of them: step.phases['{first}'](…)"
        raise InputError("call", f"the step has several phases, {', '.join(self.phases)}", hint)

    def run(self, kind: str, values_of: Batch, lr: LearningRates | None, check_finite: bool) -> Any:
        """A call of a phase, or of a step without phases ("training"), with the batch in the order of a signature."""
        program, outputs = self._issue(kind, values_of, lr, check_finite)
        if check_finite and not outputs[1].numpy():
            hint = "the state is unchanged: skip the batch, lower the learning rate, or check indices that are computed"
            done = self._state.steps_done(counter_of(program.signature.phase))
            raise NonFiniteLossError(f"step {done + 1}", not_finite(float(outputs[0].numpy())), hint)
        return program.result(outputs[0], outputs[2:])

    def _issue(
        self, kind: str, values_of: Batch, lr: LearningRates | None, check_finite: bool
    ) -> tuple[Variant, list[LazyArray]]:
        self._state.check()
        program, values = fitting(self._variants[kind], values_of)
        signature, batch = program.signature, program.arrays(values)
        given = {
            "lr": self._default_rates[kind] if lr is None else rates_of(lr, signature),
            "guard": _GUARD[check_finite],
        }
        controls = [given[spec.name] for spec in signature.controls]
        expected = self._on_cpu(signature, batch, given["lr"], check_finite) if self._verifies else None
        self._verifies = False
        outputs = program.issue(controls, batch)
        if expected is not None and (found := expected.differences(self._left(program, outputs))):
            fact = f"differs from the CPU's result for the same plan\n  {shown(found)}"
            raise VerificationError("the first step on this device", fact, hint="please report it")
        return program, outputs

    def _on_cpu(self, own: Signature, batch: Sequence[np.ndarray], rates: np.ndarray, check_finite: bool) -> Expected:
        """The CPU's outcome of this step. own: of the program that takes the batch."""
        before, named = self.snapshot(), {spec.name: array for spec, array in zip(own.batch, batch, strict=True)}
        with contextlib.closing(Step(before, "cpu")) as other:
            kind = own.phase or TRAINING
            outputs = other._issue(kind, lambda signature: in_order(named, signature), rates.tolist(), check_finite)
            left = other._left(*outputs)
        specs, tolerance = self.signature.state, TOLERANCE[self._artifact.precision]
        start = {spec.name: array for spec, array in zip(specs, before.state, strict=True)}
        return Expected(left, specs, start, float(rates.max()), tolerance, "the CPU")

    def _left(self, program: Variant, outputs: Sequence[LazyArray]) -> dict[str, np.ndarray]:
        """The outputs of a step, and the state after it."""
        pairs = zip(program.signature.outputs, outputs, strict=True)
        # A process with one rank has only its part of some outputs.
        left = {spec.name: output.numpy() for spec, output in pairs if output.shape == spec.shape}
        return left | {spec.name: array for spec, array in zip(self.signature.state, self._state.all(), strict=True)}

"""Verification in `dmc.compile`: decides which programs are compared with PyTorch eager, and has them compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dmc.errors import ArtifactError, EagerError
from dmc.observer import Observer
from dmc.program.signature import counter_of
from dmc.runtime.files.artifact import EVALUATION, Artifact, kind_of
from dmc.runtime.process.cpu import check_cpu, is_checked
from dmc.verification.comparison import Comparison
from dmc.verification.estimate import Rates
from dmc.verification.evaluation import check_evaluation
from dmc.verification.subject import Subject

# The steps that are compared, of a program that trains.
STEPS = 3
# Eager may take this share of compile time; beyond it a comparison must be requested.
SHARE = 0.1
# The time to copy an element of state for eager, and to put it into, read it from and compare it with the compiled
# step, relative to that of an eager operation on it.
COMPARED = 8.0
# The time of the interpreter relative to eager's.
INTERPRETER = 50
_WITHOUT_NUMBERS = (
    "not verified: the model is on the device 'meta', without numbers; compiled with small sizes on the CPU, the same "
    "model is compared with PyTorch eager"
)


@dataclass(frozen=True)
class Verification:
    """subjects: the programs of `artifact` by name, in the order in which they are compared. asked: True for at any
    cost, None for where it is cheap, False for never.

    seconds: the compile time. is_named: whether the target names a processor, which need not be this machine's.
    """

    subjects: Mapping[str, Subject]
    artifact: Artifact
    asked: bool | None
    seconds: float
    observer: Observer
    is_named: bool = False

    def run(self) -> None:
        """Compares the first steps of each program with eager's, as a stage; notes each that it does not compare.

        Raises VerificationError where they differ and, if requested, where eager itself fails.
        """
        if self.asked is False:
            return
        if self.artifact.unset:
            self.observer.note(_WITHOUT_NUMBERS)
            return
        with self.observer.stage("verify"):
            for name, steps in self._chosen().items():
                self._compare_unless_eager_fails(name, steps)

    def _compare_unless_eager_fails(self, name: str, steps: int) -> None:
        try:
            self._compare(name, steps)
        except EagerError as error:
            if self.asked:
                raise
            self.observer.note(f"not verified: {error.place}: {error.fact}")

    def _chosen(self) -> dict[str, int]:
        """All programs if requested, otherwise those that are cheap together, and how many steps of each: as many as
        are cheap."""
        if self.asked:
            return {name: self._most(name) for name in self.subjects}
        rates, spent = Rates.measured(), 0.0
        chosen: dict[str, int] = {}
        for name, subject in self.subjects.items():
            eager = rates.seconds(subject.amount)
            longer = eager if self._runs_here() else eager * INTERPRETER
            if spent + longer <= SHARE * self.seconds:
                most = self._most(name)
                chosen[name] = most if spent + most * longer <= SHARE * self.seconds else 1
                spent += chosen[name] * longer
            else:
                self.observer.note(f"not verified: {self._too_long(name, eager, longer, spent, rates)}")
        return chosen

    def _most(self, name: str) -> int:
        """The most steps that are compared. An evaluation leaves nothing behind, and neither does what is
        interpreted."""
        return STEPS if self._runs_here() and kind_of(name) != EVALUATION else 1

    def _too_long(self, name: str, eager: float, longer: float, spent: float, rates: Rates) -> str:
        what = "a step of eager" if self._runs_here() else "interpreting a step that cannot run here"
        which = "" if name == self.artifact.names[0] else f"program '{name}': "
        beside = f", beside {spent:.1f} s for other programs" if spent else ""
        whole = eager + longer + rates.element * COMPARED * sum(array.size for array in self.artifact.state)
        return (
            f"{which}{what} takes about {longer:.1f} s{beside}, more than a tenth of the {self.seconds:.1f} s of "
            f"compilation; verify=True compares the step with PyTorch eager anyway, in about {whole:.1f} s"
        )

    def _compare(self, name: str, steps: int) -> None:
        subject, artifact, counter, runs_here = (
            self.subjects[name],
            self.artifact,
            self._counter(name),
            self._runs_here(),
        )
        if kind_of(name) == EVALUATION:
            check_evaluation(subject, artifact, name, counter, runs_here)
            return
        own = replace(artifact.program(name, "the step"), state=artifact.state)
        Comparison(subject, own, counter, runs_here, self.observer, steps - 1).run()

    def _runs_here(self) -> bool:
        if "cpu" not in self.artifact.target.split("+"):
            return False
        if self.is_named and not is_checked(self.artifact.requires):
            return False
        try:
            check_cpu(self.artifact.requires, "the step")
        except ArtifactError:
            return False
        return True

    def _counter(self, name: str) -> int:
        """What a program counts before its first step; an evaluation looks at the first counter."""
        specs, own = self.artifact.signature.state, self.artifact.program(name, "the step").signature
        counts = {
            spec.name: int(array)
            for spec, array in zip(specs, self.artifact.state, strict=True)
            if spec.role == "counter"
        }
        return counts[counter_of(own.phase)] if own.controls else next(iter(counts.values()))

"""The forms of a step, each interpreted in numpy on all ranks with the same batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmc import interpreter
from dmc._mlir import ir
from dmc.dialect import KernelOp
from dmc.dialect.labels import place_of
from dmc.dtypes import Array
from dmc.forms import IMPORTED, PLANNED
from dmc.interpreter import spmd
from dmc.interpreter.bodies import kernels_of
from dmc.interpreter.slots import INPUTS
from dmc.mesh import Mesh
from dmc.program import Launch
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.tensors.ranks import Ranks
from dmc.step_function import arguments, find_step, results

# Outputs and state after a step, by name.
Outcome = dict[str, Array]
# The results of kernels, by rank and index among its launches.
Launches = dict[tuple[int, int], Sequence[Array]]


@dataclass
class Watched:
    """The trace of a run: values of the first rank, in order, with their places in the model, and the results of the
    kernels of all ranks.
    """

    values: list[tuple[str, Array]]
    launches: Launches
    kernels: int = 0

    @staticmethod
    def new() -> Watched:
        """An empty trace."""
        return Watched([], {})

    def operation(self, op: Any, made: Sequence[Sequence[Any]]) -> None:
        """Records the results of an operation of a module."""
        # Not the operation: it does not keep its module alive.
        place = place_of(op.location)
        self.values += [(place, array) for array in made[0] if place and isinstance(array, np.ndarray)]
        if op.name == KernelOp.OPERATION_NAME:
            self.launches.update({(rank, self.kernels): own for rank, own in enumerate(made)})
            self.kernels += 1


@dataclass(frozen=True)
class Forms:
    """Runs the forms of an artifact. batch: by name. rates: learning rates by group."""

    artifact: Artifact
    batch: Mapping[str, Array]
    rates: tuple[float, ...]

    def run(self, name: str, watched: Watched) -> Outcome:
        """The results of the form of this name in the artifact. Raises DmcError for what cannot be interpreted."""
        module = ir.Module.parse(self.artifact.ir[name])
        with np.errstate(all="ignore"):
            if name.endswith(PLANNED.name):
                return self._planned(module, watched)
            return self._by_value(module, name.endswith(IMPORTED.name), watched)

    def last(self) -> Outcome:
        """The results of the last form, which can be interpreted anywhere."""
        return self.one(self.names()[-1])

    def one(self, name: str) -> Outcome:
        """The results of the form of this name, without a trace; see `run`."""
        return self.run(name, Watched.new())

    def names(self) -> list[str]:
        """The forms in order."""
        return sorted(self.artifact.ir)

    def _by_value(self, module: ir.Module, is_imported: bool, watched: Watched) -> Outcome:
        """A form whose step has values as arguments and results; form imported is for one rank."""
        given, step = self.given(), find_step(module)
        names = [port.name for port in arguments(step)]
        # The one step of all ranks has every tensor, whichever of them runs what.
        ranks = None if is_imported else Ranks(replace(self.artifact.signature, holders={}))
        scattered = {n: [given[n]] if ranks is None else ranks.spreads[n].parts(given[n]) for n in names}
        count = 1 if ranks is None else ranks.count
        each = [[_typed(scattered[n][rank]) for n in names] for rank in range(count)]
        run = spmd.run(module, "step", each, Mesh(rank=1) if ranks is None else None, watched.operation)
        left = {port.name: dict(enumerate(own[port.index] for own in run.results)) for port in results(step)}
        return self._whole(left, ranks)

    def _planned(self, module: ir.Module, watched: Watched) -> Outcome:
        job, given, ranks = self.artifact.job, self.given(), Ranks(self.artifact.signature)
        parts = {name: ranks.spreads[name].parts(array) for name, array in given.items()}
        state: list[dict[str, Array]] = []
        inputs: list[dict[str, Array]] = []
        numbers: list[dict[int, int]] = []
        for program in job.programs:
            slots = {slot.name: slot.role in INPUTS for slot in program.slots if slot.role != "output"}
            own = {name: _typed(parts[name][program.rank]) for name in slots}
            state.append({name: array for name, array in own.items() if not slots[name]})
            inputs.append({name: array for name, array in own.items() if slots[name]})
            places = [place for place, command in enumerate(program.commands) if isinstance(command, Launch)]
            numbers.append({place: number for number, place in enumerate(places)})

        def launched(where: tuple[int, int], made: Sequence[Array]) -> None:
            rank, place = where
            watched.launches[rank, numbers[rank][place]] = made

        outputs, after = interpreter.run(job, kernels_of(module), state, inputs, 0, watch=launched)
        left: dict[str, dict[int, Array]] = {}
        for rank, own in enumerate(zip(outputs, after, strict=True)):
            for name, array in (pair for each in own for pair in each.items()):
                left.setdefault(name, {})[rank] = array
        return self._whole(left, ranks)

    def given(self) -> dict[str, Array]:
        """State, controls and batch by name."""
        state = zip(self.artifact.signature.state, self.artifact.state, strict=True)
        controls = {"lr": np.asarray(self.rates, np.float32), "guard": np.asarray(0, np.int32)}
        return {**{spec.name: array for spec, array in state}, **controls, **self.batch}

    def _whole(self, left: Mapping[str, Mapping[int, Array]], ranks: Ranks | None) -> Outcome:
        """The tensors gathered from these parts, by rank, and those that the step does not return."""
        signature, given = self.artifact.signature, self.given()
        outcome: dict[str, Array] = {}
        for spec in (*signature.state, *signature.outputs):
            parts = left.get(spec.name)
            if parts is not None:
                outcome[spec.name] = parts[0] if ranks is None else ranks.spreads[spec.name].whole(_of(parts))
            else:
                # Tensors that a step does not change, and empty ones.
                outcome[spec.name] = given.get(spec.name, np.zeros(spec.shape, np.float32))
        return outcome


def _of(parts: Mapping[int, Array]) -> Callable[[int], Array]:
    return parts.__getitem__


def _typed(array: Array) -> Array:
    """As in MLIR, whose integers are signless."""
    return array.view(np.int8) if array.dtype == np.uint8 else np.asarray(array)

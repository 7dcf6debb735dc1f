"""One of the programs of a step, as it is called: training, or evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from dmc.errors import InputError
from dmc.program import Job
from dmc.program.code import DeviceCode
from dmc.runtime.arrays import to_array
from dmc.runtime.calls import Output, Queue
from dmc.runtime.index_bounds import check_indices
from dmc.runtime.outputs import LazyArray, output_kind
from dmc.runtime.ranks import Ranks
from dmc.runtime.signature import Signature, TensorSpec
from dmc.runtime.tree import unflatten

# A batch in the order of a signature.
Batch = Callable[[Signature], Sequence[Any]]
Code = TypeVar("Code", bytes, DeviceCode)


@dataclass(frozen=True)
class Executable(Generic[Code]):
    """A program for a session. signature: of the ranks that it runs (`Ranks.linked`). code: of the job."""

    signature: Signature
    job: Job
    code: Code


class Issuing(Queue, Protocol):
    """A session that queues programs."""

    def issue(
        self, controls: Sequence[np.ndarray], batch: Sequence[np.ndarray], program: int = 0
    ) -> tuple[int, Sequence[Output]]:
        """Queues a program, by its number, and returns at once: its entry, and its pending outputs."""
        ...


@dataclass(frozen=True)
class Variant:
    """The program of this number in a session, for the ranks in this process."""

    number: int
    signature: Signature
    ranks: Ranks
    session: Issuing

    def arrays(self, values: Sequence[Any]) -> list[np.ndarray]:
        """The inputs, checked: each the whole tensor, or in a process with one rank that rank's part."""
        batch = [self._given(spec, value) for spec, value in zip(self.signature.batch, values, strict=True)]
        check_indices(self.signature.bounds, self.signature.batch, batch)
        return batch

    def fits(self, values: Sequence[Any]) -> bool:
        """Whether inputs have the shapes of this program, or those of the parts of a rank."""
        return None not in self._read_as(values)

    def takes_part(self, values: Sequence[Any]) -> bool:
        """Whether one of the inputs would be taken as a rank's part."""
        return self._read_as(values) != [*self.signature.batch]

    def issue(self, controls: Sequence[np.ndarray], batch: Sequence[np.ndarray]) -> list[LazyArray]:
        """Queues a call; its outputs, assembled from the parts of the held ranks."""
        signature, scatter = self.signature, self.ranks.scatter
        given = scatter(signature.controls, controls), scatter(signature.batch, batch)
        entry, readings = self.session.issue(*given, self.number)
        count, outputs = len(self.ranks.held), list[LazyArray]()
        for index, (spec, spread) in enumerate(map(self.ranks.seen, signature.outputs)):
            parts = readings[index * count : (index + 1) * count]
            outputs.append(output_kind(spec, index)(self.session, parts, spread, spec, entry))
        return outputs

    def result(self, loss: LazyArray, others: Sequence[LazyArray]) -> Any:
        """What a call returns: the loss, or (loss, auxiliary outputs)."""
        aux = self.signature.aux
        return loss if aux is None else (loss, unflatten(aux, others))

    def _given(self, spec: TensorSpec, value: Any) -> np.ndarray:
        return to_array(value, self._expected(spec, value) or spec, f"input {spec.name!r}", InputError)

    def _read_as(self, values: Sequence[Any]) -> list[TensorSpec | None]:
        return [self._expected(spec, value) for spec, value in zip(self.signature.batch, values, strict=True)]

    def _expected(self, spec: TensorSpec, value: Any) -> TensorSpec | None:
        """The whole tensor, or a rank's part of it, whichever has the shape of `value`."""
        part, _ = self.ranks.seen(spec)
        shape = tuple(getattr(value, "shape", ()))
        return next((each for each in (part, spec) if each.shape == shape), None)


def fitting(variants: Sequence[Variant], values_of: Batch) -> tuple[Variant, Sequence[Any]]:
    """The variant for a batch, and the batch in its order: the first whose shapes it has, else the one
    with the nearest, which refuses it.

    Raises InputError where no variant takes such inputs, and where they are a rank's part of one batch and the whole of
    another.
    """
    if len(variants) == 1:
        return variants[0], values_of(variants[0].signature)
    misfit: InputError | None = None
    tried: list[tuple[Variant, Sequence[Any]]] = []
    for variant in variants:
        try:
            tried.append((variant, values_of(variant.signature)))
        except InputError as error:
            misfit = error
            continue
    if misfit is not None and not tried:
        raise misfit
    if found := [pair for pair in tried if pair[0].fits(pair[1])]:
        if len({variant.takes_part(values) for variant, values in found}) > 1:
            fact = "has the shape of a rank's part of one example, and of the whole of another"
            raise InputError("batch", fact, hint="compile for shapes none of which is a part of another")
        return found[0]
    return min(tried, key=lambda pair: _distance(*pair))


def _distance(variant: Variant, values: Sequence[Any]) -> int:
    given = (tuple(getattr(value, "shape", ())) for value in values)
    pairs = [(spec.shape, shape) for spec, shape in zip(variant.signature.batch, given, strict=True)]
    ranks = sum(len(own) != len(other) for own, other in pairs)
    return (ranks << 32) + sum(abs(a - b) for own, other in pairs for a, b in zip(own, other, strict=False))

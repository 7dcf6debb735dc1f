"""One of the programs of a step, as it is called: training, or evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from dmc.errors import InputError
from dmc.program.signature import Signature, TensorSpec
from dmc.runtime.outputs import LazyArray, OfAnother, output_kind
from dmc.runtime.sessions.queue import Output, Queue
from dmc.runtime.tensors.arrays import to_array
from dmc.runtime.tensors.index_bounds import IndexCheck
from dmc.runtime.tensors.ranks import Ranks
from dmc.runtime.tensors.tree import unflatten
from dmc.runtime.world.peers import Peers

# A batch in the order of a signature.
Batch = Callable[[Signature], Sequence[Any]]


class Issuing(Queue, Protocol):
    """A session that queues programs."""

    def issue(
        self, controls: Sequence[np.ndarray], batch: Sequence[np.ndarray], program: int = 0
    ) -> tuple[int, Sequence[Output]]:
        """Queues a program, by its number, and returns at once: its entry, and its pending outputs."""
        ...


class Variant:
    """The program of this number in a session, for the ranks in this process."""

    def __init__(
        self, number: int, signature: Signature, ranks: Ranks, session: Issuing, peers: Peers | None = None
    ) -> None:
        """peers: the other ranks, where this process is one of several."""
        self._peers = peers
        self.number, self.signature, self._ranks, self._session = number, signature, ranks, session
        self._checks = [IndexCheck(bound, signature.batch) for bound in signature.bounds]
        # Each input whole, and as this process has it, and what messages call it.
        self._inputs = [(spec, ranks.seen(spec)[0], f"input {spec.name!r}") for spec in signature.batch]
        self._outputs = [(output_kind(spec, i), *ranks.seen(spec)) for i, spec in enumerate(signature.outputs)]

    def arrays(self, values: Sequence[Any]) -> list[np.ndarray]:
        """The inputs, checked: each the whole tensor, or in a process with one rank that rank's part."""
        batch = [_given(*each, value) for each, value in zip(self._inputs, values, strict=True)]
        for each in self._checks:
            each.check(batch)
        return batch

    def fits(self, values: Sequence[Any]) -> bool:
        """Whether inputs have the shapes of this program, or those of the parts of a rank."""
        return None not in self._read_as(values)

    def takes_part(self, values: Sequence[Any]) -> bool:
        """Whether one of the inputs would be taken as a rank's part."""
        return self._read_as(values) != [*self.signature.batch]

    def issue(self, controls: Sequence[np.ndarray], batch: Sequence[np.ndarray]) -> list[LazyArray]:
        """Queues a call; its outputs, assembled from the parts of the held ranks."""
        signature, scatter, session = self.signature, self._ranks.scatter, self._session
        given = scatter(signature.controls, controls), scatter(signature.batch, batch)
        entry, readings = session.issue(*given, self.number)
        held = len(self._ranks.held)
        parts = (readings[first : first + held] for first in range(0, len(readings), held))
        pairs = zip(self._outputs, parts, strict=True)
        return [
            kind(session, self._read(part, spec, entry), spread, spec, entry) for (kind, spec, spread), part in pairs
        ]

    def result(self, loss: LazyArray, others: Sequence[LazyArray]) -> Any:
        """What a call returns: the loss, or (loss, auxiliary outputs)."""
        aux = self.signature.aux
        return loss if aux is None else (loss, unflatten(aux, others))

    def _read(self, readings: Sequence[Output], spec: TensorSpec, entry: int) -> Sequence[Output]:
        """The parts of an output as the ranks in this process read them.

        spec: as this process has it. entry: the number of the call, the same on all ranks, so that none takes the
        value of another call.
        """
        spread = self._ranks.spreads[spec.name]
        if self._peers is None or spread.is_everywhere:
            return readings
        (own,), (rank,) = readings, self._ranks.held
        first, what = spread.first_with(rank), f"the value of {spec.name!r} in call {entry}"
        exchange = partial(self._peers.exchange, what)
        return [OfAnother(own if first == rank else None, spec, exchange, first)]

    def _read_as(self, values: Sequence[Any]) -> list[TensorSpec | None]:
        """Each input whole, or as this process has it, whichever has the shape of the value; None if neither."""
        shapes = map(_shape, values)
        return [
            own if own.shape == shape else whole if whole.shape == shape else None
            for (whole, own, _), shape in zip(self._inputs, shapes, strict=True)
        ]


def _given(whole: TensorSpec, own: TensorSpec, place: str, value: Any) -> np.ndarray:
    expected = own if own is whole or _shape(value) == own.shape else whole
    return to_array(value, expected, place, InputError)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(getattr(value, "shape", ()))


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
    pairs = [(spec.shape, shape) for spec, shape in zip(variant.signature.batch, map(_shape, values), strict=True)]
    ranks = sum(len(own) != len(other) for own, other in pairs)
    return (ranks << 32) + sum(abs(a - b) for own, other in pairs for a, b in zip(own, other, strict=False))

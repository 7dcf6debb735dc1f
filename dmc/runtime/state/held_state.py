"""The state of a step in the memory of its devices, read by the ranks of this process."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from dmc.errors import StateError
from dmc.program.signature import StateSpec
from dmc.runtime.process.undisturbed import undisturbed
from dmc.runtime.sessions.open_session import AnySession
from dmc.runtime.sessions.replay.session import ReplaySession
from dmc.runtime.tensors.arrays import placeholder
from dmc.runtime.tensors.ranks import Ranks, Spread
from dmc.runtime.world.peers import Peers


class HeldState:
    """State tensors by their indices in the signature; reading one waits for the steps in flight.

    unset: the names of those that have no numbers yet.
    """

    def __init__(
        self,
        specs: Sequence[StateSpec],
        ranks: Ranks,
        session: AnySession,
        peers: Peers | None,
        unset: frozenset[str] = frozenset(),
    ) -> None:
        self.specs, self.unset = specs, unset
        self._ranks, self._session, self._peers = ranks, session, peers
        self._counters = {spec.name: index for index, spec in enumerate(specs) if spec.role == "counter"}
        self._counter = next(iter(self._counters.values()))

    def steps_done(self, counter: str = "") -> int:
        """What the counter of this name says, by default all of them together."""
        indices = [self._counters[counter]] if counter else [*self._counters.values()]
        return sum(int(self.whole(index)) for index in indices)

    def check(self) -> None:
        """Raises StateError where a tensor has no numbers."""
        if self.unset:
            named = ", ".join(sorted(self.unset)[:3]) + (", …" if len(self.unset) > 3 else "")
            fact = f"has no weights yet: {len(self.unset)} tensors of its state have no numbers ({named})"
            hint = 'call step.load_weights("folder"), or step.load_state_dict({"model": …}); dmc run takes --weights'
            raise StateError("the step", fact, hint)

    def all(self) -> list[np.ndarray]:
        """Copies of all whole tensors; of one without numbers, what stands for it."""
        return self.wholes(range(len(self.specs)))

    def wholes(self, indices: Sequence[int]) -> list[np.ndarray]:
        """Copies of whole tensors."""
        return [*self.stream(indices)]

    def stream(self, indices: Sequence[int]) -> Iterator[np.ndarray]:
        """Copies of whole tensors, each read when it is asked for; all ranks ask for all."""
        names = [self.specs[index].name for index in indices]
        with self._session.lock:
            if self._peers is not None and any(self._ranks.spreads[name].is_split for name in names):
                # A rank in the middle of a long step is not missing: only its code between steps is waited for.
                self._session.read_state(self._counter)
                self._peers.gather()
            for index, name in zip(indices, names, strict=True):
                yield placeholder(self.specs[index]) if name in self.unset else self.whole(index)

    def stream_to(self, write: Callable[[Iterator[np.ndarray]], None], indices: Sequence[int]) -> None:
        """Gives whole tensors to `write`, on rank 0; all ranks take part, and raise OSError where it fails."""
        state = self.stream(indices)
        if self._peers is None:
            write(state)
        else:
            self._peers.on_first(lambda: write(state), lambda: deque(state, maxlen=0))

    def together(self, do: Callable[[], None]) -> None:
        """Does something on all ranks; raises on all where it fails on one."""
        if self._peers is None:
            do()
        else:
            self._peers.together(do)

    def spread(self, index: int) -> Spread:
        """Where a tensor's parts are."""
        return self._ranks.spreads[self.specs[index].name]

    def put(self, arrays: Sequence[np.ndarray | None]) -> None:
        """Overwrites the whole tensors that are not None, all of them or none."""
        given = [(index, array) for index, array in enumerate(arrays) if array is not None]
        parts = ((index, partial(self.spread(index).part, array)) for index, array in given)
        with self._session.lock:
            # Waits for the steps in flight.
            self._session.read_state(self._counter)
            with undisturbed:
                self.write(parts, frozenset(self.specs[index].name for index, _ in given))

    def write(self, arrays: Iterable[tuple[int, Callable[[int], np.ndarray]]], names: frozenset[str]) -> None:
        """Overwrites tensors, of these `names`: each by what gives a rank's part of it, one after the other.

        Where that fails on the way, none of them has numbers any more.
        """
        held = self._ranks.held
        parts = ((index * len(held) + place, of(rank)) for index, of in arrays for place, rank in enumerate(held))
        with self._session.lock:
            self.unset |= names
            self._session.write_some(parts)
            self.unset -= names

    def whole(self, index: int) -> np.ndarray:
        """A copy of a whole tensor; all ranks ask for it."""
        with self._session.lock:
            return self._whole(index)

    def _whole(self, index: int) -> np.ndarray:
        spec, spread = self.specs[index], self.spread(index)
        if self._ranks.is_all:
            return spread.whole(lambda rank: self._part(index, rank))
        if not spread.is_split:
            return self._session.read_state(index)
        assert isinstance(self._session, ReplaySession), "one of several processes"
        ranks = [holders[0] for holders in spread.replicas]
        parts = self._session.gathered(index, replace(spec, shape=spread.part_shape), ranks)
        return spread.whole(dict(zip(ranks, parts, strict=True)).__getitem__)

    def parts(self, rank: int) -> list[np.ndarray]:
        """Copies of a held rank's parts."""
        with self._session.lock:
            return [self._part(index, rank) for index in range(len(self.specs))]

    def _part(self, index: int, rank: int) -> np.ndarray:
        return self._session.read_state(index * len(self._ranks.held) + self._ranks.held.index(rank))

    def own(self, indices: Sequence[int]) -> list[np.ndarray]:
        """Copies of what this process holds of tensors: whole ones, or the parts of its one rank."""
        read = self.whole if self._ranks.is_all else self._session.read_state
        with self._session.lock:
            return [read(index) for index in indices]

    def differing(self) -> tuple[str, ...]:
        """The tensors whose replicas on two ranks are not bitwise equal."""
        with self._session.lock:
            own = [self._digests(rank) for rank in self._ranks.held]
        if self._peers is not None:
            texts = self._peers.store.exchange("replicas", " ".join(own[0]).encode())
            own = [text.decode().split() for text in texts]
        differing: list[str] = []
        for index, spec in enumerate(self.specs):
            replicas = self._ranks.spreads[spec.name].replicas
            contents = [{own[rank][index] for rank in ranks} for ranks in replicas]
            differing += [spec.name] if any(len(each) > 1 for each in contents) else []
        return tuple(differing)

    def _digests(self, rank: int) -> list[str]:
        return [hashlib.sha256(part.tobytes()).hexdigest() for part in self.parts(rank)]

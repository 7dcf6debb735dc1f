"""The state of a step in the memory of its devices, read by the ranks of this process."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from dmc.runtime.open_session import AnySession
from dmc.runtime.ranks import Ranks
from dmc.runtime.replay_session import ReplaySession
from dmc.runtime.signature import StateSpec
from dmc.runtime.world.peers import Peers


class HeldState:
    """State tensors by their indices in the signature; reading one waits for the steps in flight."""

    def __init__(self, specs: Sequence[StateSpec], ranks: Ranks, session: AnySession, peers: Peers | None) -> None:
        self._specs, self._ranks, self._session, self._peers = specs, ranks, session, peers
        self._counter = next(index for index, spec in enumerate(specs) if spec.role == "counter")

    def all(self) -> list[np.ndarray]:
        """Copies of all whole tensors."""
        return self.wholes(range(len(self._specs)))

    def wholes(self, indices: Sequence[int]) -> list[np.ndarray]:
        """Copies of whole tensors."""
        names = [self._specs[index].name for index in indices]
        with self._session.lock:
            if self._peers is not None and any(self._ranks.spreads[name].is_split for name in names):
                # A rank in the middle of a long step is not missing: only its code between steps is waited for.
                self._session.read_state(self._counter)
                self._peers.gather()
            return [self.whole(index) for index in indices]

    def whole(self, index: int) -> np.ndarray:
        """A copy of a whole tensor; all ranks ask for it."""
        with self._session.lock:
            return self._whole(index)

    def _whole(self, index: int) -> np.ndarray:
        spread = self._ranks.spreads[self._specs[index].name]
        if self._ranks.is_all:
            return spread.whole(lambda rank: self._part(index, rank))
        if not spread.is_split:
            return self._session.read_state(index)
        assert isinstance(self._session, ReplaySession), "one of several processes"
        return spread.whole(self._session.gathered(index).__getitem__)

    def parts(self, rank: int) -> list[np.ndarray]:
        """Copies of a held rank's parts."""
        with self._session.lock:
            return [self._part(index, rank) for index in range(len(self._specs))]

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
        for index, spec in enumerate(self._specs):
            replicas = self._ranks.spreads[spec.name].replicas
            contents = [{own[rank][index] for rank in ranks} for ranks in replicas]
            differing += [spec.name] if any(len(each) > 1 for each in contents) else []
        return tuple(differing)

    def _digests(self, rank: int) -> list[str]:
        return [hashlib.sha256(part.tobytes()).hexdigest() for part in self.parts(rank)]

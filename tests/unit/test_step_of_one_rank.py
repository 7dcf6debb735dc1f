"""A step in a process that is one rank of two: what it takes, gives, gathers and writes."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from dmc.errors import InputError
from dmc.runtime import session as runtime_session
from dmc.runtime import step as step_module
from dmc.runtime.held_state import HeldState
from dmc.runtime.open_session import Opened
from dmc.runtime.ranks import Ranks
from dmc.runtime.replay_session import ReplaySession
from dmc.runtime.signature import Signature
from dmc.runtime.step import Step
from dmc.runtime.variant import Variant, fitting
from dmc.runtime.weights.loading import load
from tests.artifacts import artifact_of
from tests.linear_step import SIGNATURE, initial_state

ON_TWO: Signature = dataclasses.replace(
    SIGNATURE,
    mesh={"dp": 2},
    splits={
        "x": ((("dp", 1),), ()),
        "y": ((("dp", 1),), ()),
        "ids": ((("dp", 1),),),
        "mask": ((("dp", 1),),),
        "weight.momentum": ((), (("dp", 1),)),
        "pred": ((("dp", 1),), ()),
    },
)
OWN = Ranks(ON_TWO, only=1)
X = np.arange(12, dtype=np.float32).reshape(4, 3)


class Session(ReplaySession):
    """That of rank 1. Gives zeros, and holds its part of the initial state; rank 0 holds what is there as well."""

    def __init__(self) -> None:
        self.given: list[np.ndarray] = []
        self.read: list[int] = []
        self.state = OWN.scatter(ON_TWO.state, initial_state())
        self._flights = []
        runtime_session.Session.__init__(self)

    def issue(self, controls: Sequence[np.ndarray], batch: Sequence[np.ndarray], program: int = 0) -> Any:
        self.given = list(batch)
        return 1, [SimpleNamespace(array=lambda spec=spec: np.zeros(spec.shape)) for spec in OWN.linked.outputs]

    def wait(self, entry: int) -> None:
        """It is done."""

    def read_state(self, index: int) -> np.ndarray:
        self.read.append(index)
        return self.state[index]

    def gathered(self, index: int) -> list[np.ndarray]:
        return OWN.spreads[ON_TWO.state[index].name].parts(initial_state()[index])


class Peers:
    """Rank 0, which may report another value of "bias"."""

    def __init__(self, session: Session) -> None:
        self.session, self.differs, self.calls = session, False, list[str]()
        self.store = SimpleNamespace(exchange=self._exchange)

    def _exchange(self, name: str, mine: bytes) -> list[bytes]:
        other = mine.split()
        if self.differs:
            other[1] = b"0"
        return [b" ".join(other), mine]

    def gather(self) -> None:
        self.calls.append(f"gather after {[ON_TWO.state[index].role for index in self.session.read]}")

    def together(self, do: Callable[[], None]) -> None:
        self.calls.append("together")
        do()

    def on_first(self, write: object, take_part: Callable[[], object]) -> None:
        take_part()
        self.calls.append("on first")

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> tuple[Step, Session, Peers]:
    session = Session()
    peers: Any = Peers(session)
    monkeypatch.setattr(step_module, "open_step", lambda *_: Opened(OWN, session, peers))
    return Step(artifact_of(signature=ON_TWO), "cpu"), session, peers


Rank = tuple[Step, Session, Peers]


def test_it_takes_the_global_batch_or_its_own_part(rank: Rank) -> None:
    step, session, _ = rank
    y, ids, mask = np.zeros((4, 2), np.float32), np.arange(4), np.ones(4, bool)
    loss, aux = step.call_flat({"x": X, "y": y, "ids": ids, "mask": mask})
    np.testing.assert_array_equal(session.given[0], X[2:])
    assert (loss.shape, aux["pred"].shape) == ((), (2, 2))
    step.call_flat({"x": X[:2], "y": y[2:], "ids": ids, "mask": mask[2:]})
    np.testing.assert_array_equal(session.given[0], X[:2])
    np.testing.assert_array_equal(session.given[2], [2, 3])
    with pytest.raises(InputError, match=r"input 'x': expected f32\[4, 3\], got f32\[3, 3\]"):
        step.call_flat({"x": X[:3], "y": y, "ids": ids, "mask": mask})


@pytest.mark.parametrize("rows", [(4, 2), (2, 4)])
def test_a_batch_that_is_one_whole_and_a_part_of_another_is_refused(rows: tuple[int, int]) -> None:
    variants = [_variant(number, count) for number, count in enumerate(rows)]

    def taken(count: int) -> int:
        given = [np.zeros((count, *spec.shape[1:])) for spec in ON_TWO.batch]
        return rows[fitting(variants, lambda _: given)[0].number]

    assert (taken(1), taken(4)) == (2, 4)
    with pytest.raises(InputError, match="has the shape of a rank's part of one example, and of the whole of another"):
        taken(2)


def _variant(number: int, rows: int) -> Variant:
    """For batches of so many rows."""
    batch = tuple(dataclasses.replace(spec, shape=(rows, *spec.shape[1:])) for spec in ON_TWO.batch)
    signature = dataclasses.replace(ON_TWO, batch=batch)
    return Variant(number, signature, Ranks(signature, only=1), Session())


def test_state_is_whole_on_every_rank(rank: Rank) -> None:
    step, _, _ = rank
    for spec, array in zip(ON_TWO.state, initial_state(), strict=True):
        found = step.snapshot().state[[each.name for each in ON_TWO.state].index(spec.name)]
        np.testing.assert_array_equal(found, array)
    assert step.rank_state_dict(1)["optimizer"]["weight.momentum"].shape == (3, 1)
    with pytest.raises(InputError, match="rank 0: is not in this process"):
        step.rank_state_dict(0)


def test_replicas_are_compared_with_those_of_other_ranks(rank: Rank) -> None:
    step, _, peers = rank
    assert step.differing_replicas() == ()
    peers.differs = True
    assert step.differing_replicas() == ("bias",)


def test_it_reads_its_part_of_weights_in_files(tmp_path: Path) -> None:
    split = dataclasses.replace(ON_TWO, splits={**ON_TWO.splits, "weight": ((), (("dp", 1),))})
    weights = {"weight": np.arange(6, dtype=np.float16).reshape(3, 2), "bias": np.ones(2, np.float32)}
    weights |= {"head.scale": np.full(2, 3, np.float32), "seen": np.zeros((), np.float32)}
    save_file(weights, tmp_path / "model.safetensors")
    written: dict[int, np.ndarray] = {}
    session: Any = SimpleNamespace(lock=threading.RLock(), write_some=written.update)
    peers: Any = Peers(session)
    state = HeldState(split.state, Ranks(split, only=1), session, peers, frozenset({"weight", "bias"}))
    load(state, tmp_path, ())
    assert {split.state[index].name: array.tolist() for index, array in written.items()} == {
        "weight": [[1.0], [3.0], [5.0]],
        "bias": [1.0, 1.0],
        "scale": [3.0, 3.0],
        "seen": 0.0,
    }
    assert {array.dtype.name for array in written.values()} == {"float32", "bfloat16"}
    assert (peers.calls, state.unset) == (["together", "together"], frozenset())


def test_the_first_rank_writes_and_all_wait_for_it(rank: Rank, tmp_path: Path) -> None:
    step, _, peers = rank
    assert not step.is_first
    step.save(tmp_path / "step.dmc")
    step.close()
    assert not (tmp_path / "step.dmc").exists()
    # It holds a part of the momentum only: ranks meet before they gather it, each when its queued steps are done.
    assert peers.calls == ["gather after ['counter']", "on first", "close"]

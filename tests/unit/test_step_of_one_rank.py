"""A step in a process that is one rank of two: what it takes, gives, gathers and writes."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from torch import nn

from dmc.errors import InputError
from dmc.first_values import FirstValues, initialise
from dmc.program.signature import IndexBound, Signature, StateSpec, TensorSpec
from dmc.runtime import step as step_module
from dmc.runtime.sessions import session as runtime_session
from dmc.runtime.sessions.open_session import Opened
from dmc.runtime.sessions.replay.session import ReplaySession
from dmc.runtime.state.held_state import HeldState
from dmc.runtime.state.weights.loading import load
from dmc.runtime.step import Step
from dmc.runtime.tensors.ranks import Ranks
from dmc.runtime.variant import Variant, fitting
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

    def __init__(self, own: Ranks = OWN) -> None:
        self.own = own
        self.given: list[np.ndarray] = []
        self.read: list[int] = []
        self.state = own.scatter(ON_TWO.state, initial_state())
        self._flights = []
        runtime_session.Session.__init__(self)

    def issue(self, controls: Sequence[np.ndarray], batch: Sequence[np.ndarray], program: int = 0) -> Any:
        self.given = list(batch)
        return 1, [
            SimpleNamespace(array=lambda spec=spec: np.zeros(spec.shape, np.float32))
            for spec in self.own.linked.outputs
        ]

    def fetch(self, output: Any, entry: int) -> np.ndarray:
        return output.array()

    def wait(self, entry: int) -> None:
        """It is done."""

    def write_some(self, arrays: Iterable[tuple[int, np.ndarray]]) -> None:
        for index, array in arrays:
            assert array.shape == self.state[index].shape
            self.state[index] = array

    def read_state(self, index: int) -> np.ndarray:
        self.read.append(index)
        return self.state[index]

    def gathered(self, index: int, part: TensorSpec, ranks: Sequence[int]) -> list[np.ndarray]:
        parts = self.own.spreads[part.name].parts(initial_state()[index])
        assert all(parts[rank].shape == part.shape for rank in ranks)
        return [parts[rank] for rank in ranks]


class Peers:
    """Rank 0, which may report another value of "bias"."""

    def __init__(self, session: Session) -> None:
        self.session, self.differs, self.calls = session, False, list[str]()
        self.store = SimpleNamespace(exchange=self._exchange)

    def _exchange(self, name: str, mine: bytes) -> list[bytes]:
        other = mine.split()
        if self.differs:
            other[1] = b"0"
        return [b" ".join(other), mine, mine]

    def exchange(self, what: str, mine: bytes) -> list[bytes]:
        """Rank 0 has a loss of 5."""
        self.calls.append(f"{what}: {len(mine)} bytes")
        return [np.float32(5).tobytes(), mine]

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


# Rank 0, a stage, has the weight and its momentum, rank 1 the bias and its own, all have the rest.
HOLDERS = {"weight": (0,), "weight.momentum": (0,), "bias": (1,), "bias.momentum": (1,), "x": (0,)}
STAGES: Signature = dataclasses.replace(ON_TWO, mesh={"pp": 3}, splits={})


def _stage(monkeypatch: pytest.MonkeyPatch, **holders: tuple[int, ...]) -> Rank:
    signature = dataclasses.replace(STAGES, holders={**HOLDERS, **holders})
    own = Ranks(signature, only=1)
    session = Session(own)
    peers: Any = Peers(session)
    monkeypatch.setattr(step_module, "open_step", lambda *_: Opened(own, session, peers))
    return Step(artifact_of(signature=signature), "cpu"), session, peers


def _called(step: Step) -> Any:
    given = {"y": np.zeros((4, 2), np.float32), "ids": np.arange(4), "mask": np.ones(4, bool)}
    return step.call_flat({"x": X, **given})


@pytest.mark.parametrize(("holders", "loss", "told"), [((0,), 5.0, 0), ((0, 1), 5.0, 0), ((1, 2), 0.0, 4)])
def test_an_output_that_not_all_ranks_have_is_read_together(
    monkeypatch: pytest.MonkeyPatch, holders: tuple[int, ...], loss: float, told: int
) -> None:
    step, session, peers = _stage(monkeypatch, loss=holders)
    found, aux = _called(step)
    assert session.given[0].shape == (0,), "rank 1 does not take x"
    assert (found.shape, peers.calls) == ((), [])
    assert [float(found), float(found)] == [loss, loss]
    assert peers.calls == [f"the value of 'loss' in call 1: {told} bytes"], "once"
    aux["pred"].numpy()
    assert len(peers.calls) == 1, "all ranks have that"


def test_a_batch_is_checked_by_ranks_that_do_not_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    step, _, _ = _stage(monkeypatch)
    with pytest.raises(InputError, match=r"input 'x': expected f32\[4, 3\], got f32\[3, 3\]"):
        step.call_flat({"x": X[:3], "y": X[:, :2], "ids": np.arange(4), "mask": np.ones(4, bool)})
    bound = IndexBound("ids", "the embedding", 3, None, ((0, 4),))
    signature = dataclasses.replace(STAGES, holders={"ids": (0,)}, bounds=(bound,))
    variant = Variant(0, signature, Ranks(signature, only=1), Session())
    with pytest.raises(InputError, match=r"input 'ids': has 3 at \[3\], out of the range of the embedding"):
        variant.arrays([X, X[:, :2], np.arange(4), np.ones(4, bool)])


def test_state_of_other_stages_is_gathered_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    step, session, peers = _stage(monkeypatch)
    assert [array.shape for array in session.state[:2]] == [(0,), (2,)]
    for own, array in zip(step.snapshot().state, initial_state(), strict=True):
        np.testing.assert_array_equal(own, array)
    assert peers.calls == ["gather after ['counter']"]
    found = step.rank_state_dict(1)
    assert [*found["optimizer"]] == ["bias.momentum"]
    assert "weight" not in found["model"] and "bias" in found["model"]
    changed = step.state_dict()
    changed["model"]["weight"] = np.ones((3, 2), np.float32)
    changed["model"]["bias"] = np.ones(2, np.float32)
    step.load_state_dict(changed)
    assert [array.tolist() for array in session.state[:2]] == [[], [1, 1]]
    assert step.own_state([0])[0].shape == (0,)


def test_what_only_one_rank_has_differs_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    step, _, peers = _stage(monkeypatch)
    peers.differs = True
    assert step.differing_replicas() == ()
    step, _, peers = _stage(monkeypatch, bias=(0, 1))
    peers.differs = True
    assert step.differing_replicas() == ("bias",)


def test_first_numbers_are_made_by_those_that_hold_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """All know the fingerprints of frozen tensors."""
    specs = (
        StateSpec("0.weight", "f32", (2, 2)),
        StateSpec("0.bias", "f32", (2,)),
        StateSpec("1.weight", "f32", (2, 2), role="frozen"),
        StateSpec("step", "i64", (), role="counter"),
    )
    holders = {"0.weight": (0,), "0.bias": (1,), "1.weight": (0,)}
    signature = dataclasses.replace(STAGES, state=specs, holders=holders)
    written: dict[int, np.ndarray] = {}
    session: Any = SimpleNamespace(lock=threading.RLock(), write_some=written.update)
    made, value = list[str](), FirstValues.value
    monkeypatch.setattr(FirstValues, "value", lambda own, name: (made.append(name), value(own, name))[1])
    state = HeldState(specs, Ranks(signature, only=1), session, None)
    found = initialise(state, lambda: nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, bias=False)), 0)
    assert (made, [*found]) == (["0.bias", "1.weight"], ["model.1.weight"])
    assert {index: array.shape for index, array in written.items()} == {0: (0,), 1: (2,), 2: (0,)}

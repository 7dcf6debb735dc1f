"""How a rank learns that another has ended; each is a thread here."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from dmc.errors import DmcError
from dmc.program import Channel, Job, Program
from dmc.runtime.process.settings import RunSettings
from dmc.runtime.sessions import open_session
from dmc.runtime.world import peers as peers_module
from dmc.runtime.world.board import Board, meet_through_mpi
from dmc.runtime.world.channels import Channels
from dmc.runtime.world.launch import World
from dmc.runtime.world.peers import Peers
from dmc.runtime.world.recorder import Recorder
from dmc.runtime.world.store import Store
from dmc.runtime.world.watch import Watch
from tests.artifacts import artifact_of
from tests.unit.test_step_of_one_rank import ON_TWO
from tests.unit.test_world_store import on_all


def test_whoever_has_waited_looks_after_the_others() -> None:
    def check() -> None:
        raise DmcError("rank 0", "rank 1 was terminated")

    peers: Any = SimpleNamespace(_recorder=Recorder(Program(0, {}, (), (), ())), check=check)
    with pytest.raises(DmcError, match="rank 1 was terminated"), Peers.waiting(peers):
        assert peers._recorder.position().is_waiting
    assert not peers._recorder.position().is_waiting


@pytest.mark.parametrize(
    ("own", "waits_s", "fact"),
    [
        (6, 2, "rank 1 ended after step 5, and step 6 waits for it"),
        (5, 2, None),
        # As in a gather that only rank 0 has begun.
        (5, 6000, "step 5 has not ended for 6000.0 s on rank 0, and rank 1 has ended"),
    ],
)
def test_a_rank_waits_for_one_that_has_ended(
    monkeypatch: pytest.MonkeyPatch, own: int, waits_s: float, fact: str | None
) -> None:
    board = Board()
    first, second = (Store(World(rank, 2, rank, 2, "torchrun"), board) for rank in range(2))
    watches = [Watch(store, Recorder(Program(0, {}, (), (), ())), timeout_s=600) for store in (first, second)]
    recorder: Any = watches[1]._recorder  # pyright: ignore[reportPrivateUsage]
    recorder.step = 5
    watches[1].close()
    recorder = watches[0]._recorder  # pyright: ignore[reportPrivateUsage]
    recorder.step = own
    watches[0]._check_next()  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(recorder, "waits_for_s", lambda: waits_s)
    assert watches[0]._fact_of(1, 0.0) == fact  # pyright: ignore[reportPrivateUsage]
    monkeypatch.undo()
    watches[0].close()


def test_a_step_that_is_closed_leaves_the_hook_of_another() -> None:
    def watch() -> Watch:
        return Watch(Store(World(0, 1, 0, 1, "nobody"), Board()), Recorder(Program(0, {}, (), (), ())), timeout_s=600)

    before, first, second = sys.excepthook, watch(), watch()
    hook = sys.excepthook
    first.close()
    assert sys.excepthook == hook
    second.close()
    assert sys.excepthook != hook
    sys.excepthook = before


def test_a_rank_that_cannot_load_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[BaseException] = []

    def session(*_: object) -> None:
        raise DmcError("device 'cuda'", "cannot allocate 8 bytes")

    peers: Any = SimpleNamespace(world=World(1, 2, 1, 2, "torchrun"), close=told.append)
    monkeypatch.setattr(open_session, "ReplaySession", session)
    monkeypatch.setattr(open_session, "meet", lambda *_: (None, peers))
    artifact: Any = artifact_of(signature=ON_TWO)
    fields: Any = {"programs": {}, "signature": ON_TWO, "modules": {}, "code": (), "state": artifact.state}
    given: Any = SimpleNamespace(**fields, job=SimpleNamespace(size=2), target="cuda")
    with pytest.raises(DmcError, match="cannot allocate") as raised:
        open_session.open_step(given, None, peers.world, RunSettings())
    assert told == [raised.value]


def test_the_board_is_served_on_all_addresses_of_several_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    def meet(rank: int, bcast: Callable[[Any], Any]) -> Any:
        # What the ranks up to this one say.
        everyone = SimpleNamespace(rank=rank, size=2, bcast=bcast, allgather=lambda why: [*[""] * rank, why])
        # Imported by the script itself, which goes on with it: without `Finalize` here.
        monkeypatch.setitem(sys.modules, "mpi4py.MPI", SimpleNamespace(COMM_WORLD=everyone))
        return meet_through_mpi(World(rank, 2, 0, 1, "Open MPI"))

    told: list[Any] = []
    monkeypatch.setattr("socket.gethostname", lambda: "localhost")
    meet(0, lambda given: told.append(given) or given)
    ((name, port), secret) = told[0]
    assert name == "localhost"
    # Another address of this host.
    meet(1, lambda _: (("127.0.0.2", port), secret)).set("a", b"1")
    with pytest.raises(DmcError, match=r"rank 1: cannot reach rank 0 at 127.0.0.2:1 "):
        meet(1, lambda _: (("127.0.0.2", 1), secret))


@pytest.mark.parametrize("why", ["", "connection refused"])
def test_mpi_is_done_with_before_a_rank_can_fail(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """Also where a rank cannot reach the board, which then ends all of them."""
    told: list[str] = []
    everyone = SimpleNamespace(rank=0, size=2, bcast=lambda given: given, allgather=lambda own: [own, why])
    own = SimpleNamespace(COMM_WORLD=everyone, Finalize=lambda: told.append("done"))
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    monkeypatch.setattr("importlib.import_module", lambda name: own)
    with pytest.raises(DmcError, match=f"rank 1: cannot reach .*{why}") if why else contextlib.nullcontext():
        meet_through_mpi(World(0, 2, 0, 2, "Open MPI")).set("a", b"1")
    assert told == ["done"]


class Released:
    """A communicator, or what makes one, that writes down when it is released."""

    def __init__(self, told: list[str], name: str) -> None:
        self._told, self._name = told, name

    def make(self, group: tuple[int, ...]) -> Any:
        return Released(self._told, f"{self._name} of {group}")

    def failed(self) -> None:
        """Nothing has."""

    def abort(self) -> None:
        self._told.append(self._name)


def _opened(store: Store, told: list[str], name: str, patience_s: float) -> Peers:
    """One rank of two that share a channel."""
    program = Program(0, {}, (), (), ())
    job = Job.of({"a": 2}, (Channel("c", ("a",)),), {}, (program, replace(program, rank=1)))
    maker: Any = Released(told, name)
    peers = Peers(store.world, store, maker, job, RunSettings(patience_s=patience_s))
    peers.open(job)
    return peers


@pytest.mark.parametrize("late", [0, 1])
def test_a_rank_stays_until_all_have_closed_its_memory(late: int) -> None:
    told: list[str] = []

    def end(store: Store) -> None:
        peers = _opened(store, [], "", 10)
        if store.world.rank == late:
            time.sleep(0.3)
            told.append("late")
        peers.leave()
        told.append("left")
        peers.close()

    on_all(2, end)
    assert told == ["late", "left", "left"]


def test_communicators_are_released_once_after_all_ranks_have_come() -> None:
    told: list[str] = []

    def train(store: Store) -> None:
        rank = store.world.rank
        peers = _opened(store, told, f"rank {rank}", 10)
        assert peers.everyone is peers.everyone
        if rank:
            time.sleep(0.3)
            told.append("last")
        for _ in range(2):
            peers.close()

    on_all(2, train)
    assert told[0] == "last"
    assert sorted(told[1:]) == ["rank 0 of (0, 1)"] * 2 + ["rank 1 of (0, 1)"] * 2


def _alone(rank: int, told: list[str]) -> Peers:
    """Of two, the other of which never comes."""
    return _opened(Store(World(rank, 2, rank, 2, "torchrun"), Board()), told, "own", 60)


def test_a_rank_does_not_wait_for_those_that_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_module, "_LEAVING_S", 0.2)
    told: list[str] = []
    peers, begin = _alone(1, told), time.monotonic()
    peers.close()
    assert told == ["own of (0, 1)"]
    assert time.monotonic() - begin < 10


class Beside:
    """Neighbours that write down how this rank's part ended. gone: the ranks that have given up."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.gone: list[int] = []
        self.close = lambda: self.told.append("close")
        self.give_up = lambda: self.told.append("give up")
        self.given_up = lambda: self.gone


@pytest.mark.parametrize("failed", [False, True])
def test_memory_of_others_stays_open_where_work_may_be_queued(failed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where this rank ends before its watch has given up."""
    monkeypatch.setattr(peers_module, "_LEAVING_S", 0.1)
    beside, peers = Beside(), _alone(1, [])
    monkeypatch.setattr(peers, "_neighbours", beside)
    if failed:
        monkeypatch.setattr(Watch, "check", _raises)
    peers.leave()
    peers.leave()
    assert beside.told == ["give up" if failed else "close"]
    peers.close()


def _raises(*_: Any) -> None:
    raise DmcError("rank 0", "has died")


def test_what_a_rank_that_has_given_up_gives_others_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_module, "_LEAVING_S", 0.1)
    monkeypatch.setattr(peers_module, "_TOLD_S", 0.1)
    beside, peers = Beside(), _alone(1, [])
    monkeypatch.setattr(peers, "_neighbours", beside)
    peers.check()
    beside.gone = [0]
    with pytest.raises(DmcError, match="rank 0: no longer waits for the others"), peers.waiting():
        pass
    # The watch knows why, a little later.
    told = iter([lambda: None, _raises])
    monkeypatch.setattr(Watch, "check", lambda _: next(told)())
    with pytest.raises(DmcError, match="has died"):
        peers.check()
    monkeypatch.undo()
    peers.close()


@pytest.mark.parametrize("is_direct", [True, False])
def test_jobs_share_one_memory_and_have_flags_of_their_own(monkeypatch: pytest.MonkeyPatch, is_direct: bool) -> None:
    monkeypatch.setattr(peers_module, "_LEAVING_S", 0.1)
    asked: list[Any] = []
    beside, connected, peers = Beside(), [], _alone(1, [])
    peers.open(Job.of({"a": 2}, (Channel("c", ("a",)), Channel("d", ("a",))), {}, ()))
    monkeypatch.setattr(peers, "_is_direct", is_direct)
    monkeypatch.setattr(Channels, "connect", lambda _, found, first: connected.append((found, first)))
    monkeypatch.setattr(peers_module, "neighbours", lambda *given: asked.append(given[2:]) or beside)
    memory: Any = None
    peers.share(memory, 4096)
    # For each channel, three sets of flags of two ranks, and one that tells of the own piece.
    assert asked == [(4096, 7 + 14, is_direct)]
    assert connected == [(beside, 0), (beside, 7)]
    peers.close()
    assert beside.told == ["close"]

"""What ranks do together outside steps: it fails on all where it fails on one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dmc.errors import DmcError, StateError
from dmc.runtime.world import peers as peers_module
from dmc.runtime.world.board import Board
from dmc.runtime.world.launch import World
from dmc.runtime.world.peers import Peers
from dmc.runtime.world.store import Store
from tests.unit.test_world_store import on_all


def peers_of(store: Store, patience_s: float = 30) -> Any:
    peers: Any = SimpleNamespace(world=store.world, store=store, _patience_s=patience_s)
    peers.gather = lambda: Peers.gather(peers)
    peers.together = lambda do: Peers.together(peers, do)
    return peers


def test_rank_0_writes_and_all_know_whether_it_could(tmp_path: Path) -> None:
    def write(store: Store, path: Path) -> str:
        def do() -> None:
            path.write_text(str(store.world.rank))

        try:
            Peers.on_first(peers_of(store), do, lambda: None)
        except (OSError, DmcError) as error:
            return str(error)
        return path.read_text()

    assert on_all(2, lambda store: write(store, tmp_path / "file")) == ["0", "0"]
    own, other = on_all(2, lambda store: write(store, tmp_path / "none" / "file"))
    assert other.startswith(f"rank 0: {own}")


def test_what_fails_on_one_rank_is_an_error_on_all() -> None:
    def do(store: Store) -> str:
        def read() -> None:
            if store.world.rank == 1:
                raise StateError("model.safetensors", "is damaged", hint="copy it again")

        with pytest.raises(DmcError) as caught:
            Peers.together(peers_of(store), read)
        return f"{type(caught.value).__name__} {caught.value.place}: {caught.value.fact}"

    own, other, last = on_all(3, do)
    assert other == "StateError model.safetensors: is damaged"
    assert own == last == "DmcError rank 1: model.safetensors: is damaged\n  hint: copy it again"


def test_rank_0_gathers_what_is_left_although_it_cannot_write() -> None:
    """Otherwise the others would wait for it."""

    def do(store: Store) -> list[int]:
        gathered = iter(range(3))
        left: list[int] = []

        def write() -> None:
            next(gathered)
            raise OSError("no space left")

        with pytest.raises((OSError, DmcError), match="no space left"):
            Peers.on_first(peers_of(store), write, lambda: left.extend(gathered))
        return left

    assert on_all(2, do) == [[1, 2], [0, 1, 2]]


def test_a_call_that_only_one_rank_makes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    # Who has met may write for long: not what is waited for here.
    monkeypatch.setattr(peers_module, "WRITING_S", 0.1)
    store = Store(World(0, 2, 0, 2, "torchrun"), Board())
    with pytest.raises(DmcError, match=r"rank 1 did not reach 'a call that all ranks make \(state_dict.*within 0.1 s"):
        Peers.on_first(peers_of(store, 0.1), lambda: None, lambda: None)

"""The store of a world, on a board; each rank is a thread here."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import util
from typing import Any

import pytest

from dmc.errors import DmcError
from dmc.runtime.world.board import BoardKeys, serve_board
from dmc.runtime.world.launch import World
from dmc.runtime.world.store import Store
from dmc.runtime.world.tcp_store import TcpKeys

SECRET = b"of a test"


def stores(size: int) -> list[Store]:
    address = serve_board("127.0.0.1", SECRET)
    worlds = [World(rank, size, rank, size, "torchrun") for rank in range(size)]
    return [Store(world, BoardKeys(address, SECRET)) for world in worlds]


def on_all(size: int, do: Callable[[Store], object]) -> list[object]:
    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(do, stores(size)))


def test_values_are_exchanged_in_the_order_of_the_ranks_and_names_used_again() -> None:
    def twice(store: Store) -> list[list[bytes]]:
        mine = [bytes([store.world.rank, turn]) for turn in (0, 255)]
        found = [store.exchange("name", value, 5) for value in mine]
        assert store.peek(f"name/1/{store.world.rank}") is None, "read by all, and kept"
        return found

    expected = [[bytes([rank, turn]) for rank in range(3)] for turn in (0, 255)]
    assert on_all(3, twice) == [expected] * 3


def test_whoever_waits_for_a_value_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = stores(2)
    asked, peek = threading.Event(), first.peek

    def noted(key: str) -> bytes | None:
        found = peek(key)
        asked.set()
        return found

    monkeypatch.setattr(first, "peek", noted)
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(first.get, "key", 5)
        assert asked.wait(5)
        first.set("other", b"1")
        assert second.get("other", 5) == b"1"
        assert not waits.done()
        second.set("key", b"\x00\xff")
        assert waits.result(5) == b"\x00\xff"


def test_whoever_waits_stops_when_the_job_is_given_up() -> None:
    first, _ = stores(2)
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(first.barrier, "never", 60)
        first.give_up(DmcError("rank 1", "is gone"))
        with pytest.raises(DmcError, match="rank 1: is gone"):
            waits.result(5)


def test_rank_0_leaves_last() -> None:
    first, second = stores(2)
    second.leave()
    first.leave(1)
    with pytest.raises(DmcError, match=r"rank 1 did not leave within 0.1 s"):
        first.leave(0.1)


def test_numbers_are_counted_once() -> None:
    assert sorted(map(str, on_all(4, lambda store: store.add("number", 2)))) == ["2", "4", "6", "8"]


def test_missing_ranks_are_named() -> None:
    first, second, _ = stores(3)
    second.set("alone", b"")
    with pytest.raises(
        DmcError, match=r"rank 0: no rank has set 'none' within 0.1 s\n.*torchrun should have started 3"
    ):
        first.get("none", 0.1)
    with pytest.raises(DmcError, match=r"rank 0: ranks 1, 2 did not reach 'alone' within 0.1 s"):
        first.barrier("alone", 0.1)
    assert first.peek("none") is None


def test_a_store_that_ends_is_named() -> None:
    class Gone:
        where = "the store"

        def set(self, key: str, value: bytes) -> None:
            raise ConnectionResetError

        def get(self, key: str) -> bytes | None:
            raise EOFError

        def delete(self, key: str) -> None:
            raise OSError

        def add(self, key: str, amount: int) -> int:
            raise RuntimeError

    store = Store(World(1, 2, 1, 2, "torchrun"), Gone())
    for ask in (
        lambda: store.set("a", b""),
        lambda: store.delete("a"),
        lambda: store.peek("a"),
        lambda: store.add("a", 1),
    ):
        with pytest.raises(DmcError, match="rank 1: the store does not answer"):
            ask()


def test_a_port_in_use_is_told() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        world = World(0, 2, 0, 2, "none", f"127.0.0.1:{other.getsockname()[1]}")
        with pytest.raises(DmcError, match=r"rank 0: the store of none at .* opened \(.*address already in use"):
            TcpKeys(world, 5)


def test_only_who_has_the_secret_may_ask() -> None:
    address = serve_board("127.0.0.1", SECRET)
    with pytest.raises(Exception, match="digest"):
        BoardKeys(address, b"another")
    assert any(thread.name == "dmc board" for thread in threading.enumerate())


def test_nothing_is_told_to_a_board_when_garbage_is_collected() -> None:
    """Its process may have stalled."""
    finalizers: Any = vars(util)["_finalizer_registry"]
    before = set(finalizers)
    keys = BoardKeys(serve_board("127.0.0.1", SECRET), SECRET)
    assert set(finalizers) == before
    keys.set("key", b"value")
    assert keys.get("key") == b"value"

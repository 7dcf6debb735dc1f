"""What code generators made, on disk: made once, found again, never believed when damaged, never too large."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from dmc.cache import Cache, cached, using
from dmc.cli.main import main
from dmc.errors import DmcError

RESULT = b"code" * 100


class _Maker:
    """Counts how often the result of a key is made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, key: str) -> bytes:
        def make() -> bytes:
            self.made.append(key)
            return key.encode() + RESULT

        return cached([key, b"options"], make)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def _files(cache: Cache) -> list[Path]:
    return sorted(each.path for each in cache.entries())


def test_a_result_is_made_once(cache: Cache) -> None:
    ask = _Maker()
    for _ in range(2):
        with using(cache):
            assert [ask("a"), ask("b"), ask("a")] == [b"a" + RESULT, b"b" + RESULT, b"a" + RESULT]
    assert ask.made == ["a", "b"]
    ask("a")
    assert ask.made == ["a", "b", "a"], "outside of a cache"


def test_parts_are_told_apart(cache: Cache) -> None:
    with using(cache):
        assert cached(["ab", "c"], lambda: b"1") == b"1"
        assert cached(["a", "bc"], lambda: b"2") == b"2"


@pytest.mark.parametrize(
    "damage",
    [
        lambda file, _: file.write_bytes(b""),
        lambda file, _: file.write_bytes(file.read_bytes()[:-1]),
        lambda file, _: file.write_bytes(file.read_bytes().replace(b"code", b"c0de", 1)),
        lambda file, other: file.write_bytes(other.read_bytes()),
    ],
    ids=["empty", "cut", "changed", "another's"],
)
def test_a_damaged_file_counts_as_missing(cache: Cache, damage: Callable[[Path, Path], int]) -> None:
    ask = _Maker()
    with using(cache):
        ask("a")
        (file,) = _files(cache)
        ask("b")
        (other,) = set(_files(cache)) - {file}
        damage(file, other)
        assert ask("a") == b"a" + RESULT
        assert ask("a") == b"a" + RESULT
    assert ask.made == ["a", "b", "a"]


def test_what_was_not_used_for_longest_goes_first(cache: Cache) -> None:
    ask = _Maker()
    small = Cache(cache.directory, 2 * len(RESULT) + 100)
    with using(cache):
        for key, used in (("a", 1), ("b", 2), ("c", 3)):
            before = set(_files(cache))
            ask(key)
            (file,) = set(_files(cache)) - before
            os.utime(file, (used, used))
    with using(small):
        ask("a")
    # It has not grown, and is not looked through.
    assert len(_files(cache)) == 3
    small.trim()
    with using(small):
        ask("a")
        ask("c")
        assert ask.made == ["a", "b", "c"]
        ask("b")
        assert ask.made == ["a", "b", "c", "b"]
    # It has grown, and is trimmed.
    assert len(_files(cache)) == 2


def test_only_its_own_files_are_removed(cache: Cache) -> None:
    ask = _Maker()
    with using(cache):
        ask("a")
    mine, stale = cache.directory / "thesis.txt", cache.directory / ".unfinished-x1"
    mine.write_text("mine")
    stale.write_text("left")
    os.utime(stale, (0, 0))
    Cache(cache.directory, 0).trim()
    assert os.listdir(cache.directory) == ["thesis.txt"]
    with using(cache):
        ask("a")
    cache.clear()
    assert os.listdir(cache.directory) == ["thesis.txt"]


def test_a_cache_that_cannot_be_used_is_no_reason_to_fail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING, "dmc"), using(Cache(tmp_path / "file")):
        assert _Maker()("a") == b"a" + RESULT
    assert "cannot be used (Not a directory); set DMC_CACHE" in caplog.text


def _share(directory: Path) -> int:
    ask = _Maker()
    for number in range(100):
        with using(Cache(directory, 10 * len(RESULT))):
            assert ask(str(number % 20)) == str(number % 20).encode() + RESULT
    return len(ask.made)


def test_processes_share_a_cache(cache: Cache) -> None:
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
        assert all(pool.map(_share, [cache.directory] * 3))
    assert sum(each.bytes for each in cache.entries()) <= 10 * len(RESULT)


def test_where_it_is(tmp_path: Path) -> None:
    home = {"XDG_CACHE_HOME": str(tmp_path)}
    assert Cache.of(home) == Cache(tmp_path / "dmc")
    assert Cache.of({"XDG_CACHE_HOME": "relative"}) == Cache(Path.home() / ".cache" / "dmc")
    assert Cache.of({**home, "DMC_CACHE": str(tmp_path / "own"), "DMC_CACHE_MIB": "5"}) == Cache(
        tmp_path / "own", 5 << 20
    )
    assert Cache.of({"DMC_CACHE": "off"}) is None
    with pytest.raises(DmcError, match="DMC_CACHE_MIB: is '5 GB'"):
        Cache.of({**home, "DMC_CACHE_MIB": "5 GB"})


def test_the_command_shows_and_clears_it(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DMC_CACHE", str(cache.directory))
    with using(cache):
        _Maker()("a")
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == f"{cache.directory}: 1 results, 0.0 MiB of at most 4,096 MiB\n"
    assert main(["cache", "--clear"]) == 0
    assert _files(cache) == []
    monkeypatch.setenv("DMC_CACHE", "off")
    assert main(["cache"]) == 0
    assert "no code is kept: DMC_CACHE=off" in capsys.readouterr().out

"""Replacing a file in one step."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from dmc.runtime.files.atomic import replacing


def test_old_content_until_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_exception_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail() -> None:
        with replacing(path) as file:
            file.write(b"new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_leftover_of_a_killed_writer_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "file"
    (tmp_path / ".file.tmp").write_bytes(b"much longer than the new content")
    with replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_keeps_pointing(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with replacing(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_the_usual_permissions(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        with replacing(tmp_path / "file") as file:
            file.write(b"new")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_writers_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def write(letter: bytes) -> None:
        for _ in range(20):
            with replacing(path) as file:
                for _ in range(50):
                    file.write(letter * 100)

    writers = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        if path.exists():
            content = path.read_bytes()
            assert len(content) == 5000
            assert len(set(content)) == 1
    assert list(tmp_path.iterdir()) == [path]

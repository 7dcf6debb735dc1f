"""`dmc.kernels.jit.ping_pong` for Triton's interpreter, which lacks Gluon: the same tiles, one after another."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from dmc.kernels.jit import functions

jit: Any = triton.jit


def constexpr(value: Any) -> Any:
    """A static parameter, which here is itself."""
    return value


_TOGETHER = 8


class _Room:
    """What stands for shared memory."""

    def index(self, number: Any) -> Any:
        """The room itself."""
        return self


@jit
def full(shape: Any, value: Any, dtype: Any) -> Any:
    """A typed number, or a tile filled with it."""
    return tl.full(shape, value, dtype)


@jit
def halves(x: Any) -> Any:
    """The left and the right half of a tile."""
    return tl.split(tl.permute(tl.reshape(x, [x.shape[0], 2, x.shape[1] // 2]), (0, 2, 1)))


@jit
def piece(total: Any, count: Any) -> Any:
    """The first of `count` pieces of a tile."""
    return tl.zeros([total.shape[0], total.shape[1] // count], tl.float32)


@jit
def rows(like: Any) -> Any:
    """The numbers of the rows of a tile such as `like`, as a column."""
    return tl.arange(0, like.shape[0])[:, None]


@jit
def columns(like: Any) -> Any:
    """The numbers of the columns of a tile such as `like`, as a row."""
    return tl.arange(0, like.shape[1])[None, :]


@jit
def word_rows(like: Any, width: Any) -> Any:
    """The numbers of the rows of a tile such as `like`, as a column."""
    return tl.arange(0, like.shape[0])[:, None]


@jit
def word_columns(like: Any, width: Any) -> Any:
    """The numbers of the words in a row of a tile such as `like`, as a row."""
    return tl.arange(0, like.shape[1] // width)[None, :]


@jit
def bits(words: Any, like: Any, width: Any) -> Any:
    """Whether each bit of a tile of words is set, as a tile such as `like`."""
    return functions.bits(words, width)


@jit
def fetch(ahead: Any, row: Any, column: Any, piece: Any, group: Any, c: Any) -> None:
    """Nothing is copied ahead here."""


@jit
def fetch_later(ahead: Any, row: Any, column: Any, piece: Any, group: Any, c: Any) -> None:
    """Nothing is copied ahead here."""


@jit
def wait(ahead: Any, piece: Any, turn: Any, group: Any, c: Any) -> None:
    """Nothing is copied ahead here."""


@jit
def read(ahead: Any, number: Any, corner: Any, piece: Any, group: Any, like: Any, c: Any) -> Any:
    """A piece of matrix `number`."""
    return ahead[number].load(corner)


@jit
def add_rows(sums: Any, first: Any, value: Any, most: Any) -> None:
    """Stores the sums of a tile's columns."""
    columns = first + tl.arange(0, value.shape[1])
    tl.store(sums + columns, tl.sum(value, 0), mask=columns < most if most else None)


@jit
def store(matrix: Any, room: Any, corner: Any, value: Any, waiting: Any) -> None:
    """Copies a tile to memory."""
    matrix.store(corner, value)


def _pieces(total: Any, count: int) -> list[Any]:
    if count == 1:
        return [total]
    return [part for half in halves(total) for part in _pieces(half, count // 2)]


@jit
def multiply(first: Any, second: Any, memory: Any, results: Any, operands: Any, finish: Any, c: Any) -> None:
    """The product of the matrices `first` and `second`, of which tiles go to `finish`."""
    rooms = tuple(_Room() for _ in results)
    program: Any = tl.program_id(0)
    for number in range(program, c.down * c.across, c.programs):
        group = number // (_TOGETHER * c.across)
        together = min(c.down - group * _TOGETHER, _TOGETHER)
        rest = number % (_TOGETHER * c.across)
        row, column = group * _TOGETHER + rest % together, rest // together
        total = tl.zeros([c.rows, c.columns], tl.float32)
        for step in range(c.steps):
            depth = step * c.inner
            a = first.load([depth, row * c.rows] if c.first_turned else [row * c.rows, depth])
            b = second.load([depth, column * c.columns] if c.second_turned else [column * c.columns, depth])
            total = tl.dot(tl.trans(a) if c.first_turned else a, b if c.second_turned else tl.trans(b), total)
        if not c.looped:
            finish(total, row, column, memory, rooms, operands, 0, 0, 0)
            continue
        parts = _pieces(total.to(first.dtype), c.pieces)
        for piece in range(c.pieces):
            finish(parts[piece], row, column, memory, rooms, operands, 0, 0, piece)

"""What is issued on a device is the program: its lanes, its order, its events, its offsets."""

from __future__ import annotations

from typing import Any

import pytest

from dmc.errors import ArtifactError
from dmc.program import Await, Collective, Command, Lane, Launch, Move, Program, Range, Record
from dmc.program.code import Attention, Binding, Copy, DeviceCode, Dispatch, Fill, Heads, Place, Product
from dmc.runtime.sessions.replay.issue import issue

LANES = (Lane("compute", "compute"), Lane("copy_in", "copy_in"))
BINDINGS = (Binding("ro", Place("read", 1, 0, 4)), Binding("wo", Place("write", 0, 4, 4)))
CODE = DeviceCode(
    {},
    {
        "k": (
            Fill(b"\x00\x01", Place("scratch", 0, 8, 16)),
            Dispatch("entry", (4, 1, 1), (32, 1, 1), 0, BINDINGS, (7,)),
            Copy(Place("scratch", 0, 0, 4), Place("write", 0, 0, 4)),
        )
    },
)


class Recorder:
    """Writes down what is issued."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.places: list[tuple[int, int]] = []

    def launch(self, lane: int, dispatch: Dispatch, pointers: list[int]) -> None:
        self.calls.append(("launch", lane, dispatch.entry, pointers))

    def copy(self, lane: int, target: int, source: int, length: int) -> None:
        self.calls.append(("copy", lane, target, source, length))

    def fill(self, lane: int, target: int, length: int, pattern: bytes) -> None:
        self.calls.append(("fill", lane, target, length, pattern))

    def product(self, lane: int, product: Product, pointers: list[int]) -> None:
        self.calls.append(("product", lane, product.left.rows, pointers))

    def attention(self, lane: int, attention: Attention, pointers: list[int]) -> None:
        self.calls.append(("attention", lane, attention.scale, pointers))

    def collective(self, lane: int, command: Collective, source: int, target: int) -> None:
        self.calls.append((command.kind, lane, source, target))

    def before(self, lane: int, place: int) -> None:
        self.places.append((lane, place))

    def record(self, lane: int) -> Any:
        self.calls.append(("record", lane))
        return len(self.calls)

    def wait(self, lane: int, event: Any) -> None:
        self.calls.append(("wait", lane, event))


def _issued(*commands: Command, lanes: tuple[Lane, ...] = LANES) -> list[tuple[Any, ...]]:
    recorder = Recorder()
    issue(Program(0, {}, lanes, (), commands), CODE, {"device": 1000, "pinned_host": 5000}, recorder)
    return recorder.calls


def test_lanes_begin_and_end_on_the_first() -> None:
    assert _issued() == [("record", 0), ("wait", 1, 1), ("record", 1), ("wait", 0, 3)]
    assert _issued(lanes=LANES[:1]) == []


def test_steps_of_a_kernel_are_at_the_offsets_of_the_launch() -> None:
    at = [Range("device", offset, 32) for offset in (0, 100, 200, 300)]
    calls = _issued(Launch(0, "k", (at[0], at[1]), (at[2],), at[3]), lanes=LANES[:1])
    assert calls == [
        ("fill", 0, 1308, 16, b"\x00\x01"),
        ("launch", 0, "entry", [1100, 1204]),
        ("copy", 0, 1200, 1300, 4),
    ]


def test_attention_has_its_pointers_in_order() -> None:
    shape, strides = (1, 1, 2, 128), (256, 256, 128, 1)
    q, k, v = (Heads(Place("read", 0, 64 * number, 64), shape, strides) for number in range(3))
    out, level = Heads(Place("write", 0, 0, 64), shape, strides), Place("write", 1, 8, 8)
    step = Attention(q, k, v, out, level, "bf16", 0.5, True, Place("scratch", 0, 16, 16))
    at = [Range("device", offset, 512) for offset in (0, 1000, 2000, 3000)]
    recorder = Recorder()
    launch = Launch(0, "k", (at[0],), (at[1], at[2]), at[3])
    issue(Program(0, {}, LANES[:1], (), (launch,)), DeviceCode({}, {"k": (step,)}), {"device": 10}, recorder)
    assert recorder.calls == [("attention", 0, 0.5, [10, 74, 138, 1010, 2018, 3026])]


def test_moves_and_events_go_between_lanes() -> None:
    move = Move(1, Range("pinned_host", 64, 8), Range("device", 32, 8))
    calls = _issued(move, Record(1, 5), Await(0, 5))
    assert calls[2:-2] == [("copy", 1, 1032, 5064, 8), ("record", 1), ("wait", 0, 4)]


HERE, THERE = Range("device", 16, 4), Range("device", 64, 4)


def test_movements_between_ranks_go_to_their_lane() -> None:
    reduce = Collective(1, "all_reduce", "dp", (0, 1), 0, "f32", 1, HERE, HERE, "sum", "f32", label="loss")
    send = Collective(1, "send", "dp", (0, 1), 1, "f32", 1, HERE, None, peer=1)
    calls = _issued(reduce, Record(1, 5), Await(0, 5), send)
    assert calls[2:-2] == [
        ("all_reduce", 1, 1016, 1016),
        ("record", 1),
        ("wait", 0, 4),
        ("send", 1, 1016, 0),
    ]


def test_the_end_of_a_movement_is_marked_on_a_lane_of_its_own() -> None:
    recorder = Recorder()
    reduce = Collective(1, "all_reduce", "dp", (0, 1), 0, "f32", 1, HERE, HERE, "sum", "f32")
    program = Program(0, {}, LANES, (), (Move(1, HERE, THERE), Record(1, 5), reduce))
    issue(program, CODE, {"device": 1000}, recorder, lambda *given: recorder.calls.append(("mark", *given)))
    assert recorder.calls[:3] == [("record", 0), ("wait", 1, 1), ("wait", 2, 1)]
    assert recorder.calls[5:-4] == [("all_reduce", 1, 1016, 1016), ("mark", 1, 2)]
    # Events say themselves what is waited for.
    assert recorder.places == [(1, 0), (1, 2)]
    assert [each[:2] for each in recorder.calls[-4:]] == [("record", 1), ("wait", 0), ("record", 2), ("wait", 0)]


def test_whoever_a_permute_gives_nothing_has_zeros() -> None:
    """Of rank 0, member 1 of its group."""
    there = Collective(1, "permute", "pp", (1, 0), 0, "f32", 1, HERE, THERE, pairs=((1, 0),))
    assert _issued(there)[2:-2] == [("fill", 1, 1064, 4, b"\0"), ("permute", 1, 1016, 1064)]
    back = Collective(1, "permute", "pp", (1, 0), 0, "f32", 1, HERE, THERE, pairs=((0, 1),))
    assert _issued(back)[2:-2] == [("permute", 1, 1016, 1064)]


def test_code_survives_a_file() -> None:
    assert DeviceCode.from_bytes(CODE.to_bytes()) == CODE
    with pytest.raises(ArtifactError, match="damaged"):
        DeviceCode.from_bytes(CODE.to_bytes()[:-3])

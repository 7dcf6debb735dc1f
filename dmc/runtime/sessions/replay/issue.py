"""Issues the program of one rank on the streams of a device: each lane a stream, events between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from dmc.program import Await, Collective, Launch, Move, Program, Range, Record, Space, Work
from dmc.program.code import Attention, Copy, DeviceCode, Dispatch, Fill, Place, Product

# Called with the lane and the place of a command.
Mark: TypeAlias = Callable[[int, int], None]


class Streams(Protocol):
    """What a program needs from a device. Addresses are in bytes; work goes to the lane's stream."""

    def launch(self, lane: int, dispatch: Dispatch, pointers: list[int]) -> None:
        """Launches a kernel."""

    def copy(self, lane: int, target: int, source: int, length: int) -> None:
        """Copies bytes, also between memory spaces."""

    def fill(self, lane: int, target: int, length: int, pattern: bytes) -> None:
        """Fills memory with a pattern of 1, 2 or 4 bytes."""

    def product(self, lane: int, product: Product, pointers: list[int]) -> None:
        """Multiplies matrices: the first two pointers into the third, with a workspace at the fourth."""

    def attention(self, lane: int, attention: Attention, pointers: list[int]) -> None:
        """Computes attention: of the first three pointers into the next two, with a workspace at the last."""

    def collective(self, lane: int, command: Collective, source: int, target: int) -> None:
        """This rank's part in a movement between ranks; an address is 0 where the command names no bytes."""

    def before(self, lane: int, place: int) -> None:
        """Called before the command at `place` of the program, whose lane waits for what the plan does not say."""

    def record(self, lane: int) -> Any:
        """Records an event that is signalled when all work issued on the lane so far is done."""

    def wait(self, lane: int, event: Any) -> None:
        """Makes all later work on the lane wait for the event."""


def issue(
    program: Program,
    code: DeviceCode,
    bases: Mapping[Space, int],
    streams: Streams,
    mark: Mark | None = None,
    stamp: Mark = lambda lane, place: None,
) -> None:
    """Issues every command, in the order of the program; `bases` are the addresses of its arenas.

    mark: called after each movement between ranks, with its lane and its place in the program; it has one more lane for
    itself, the last. stamp: called before and after each command that takes time.

    Lane 0 begins before all others and ends after them, so that everything can be captured as one graph from its
    stream.
    """
    events: dict[int, Any] = {}
    others = range(1, len(program.lanes) + (mark is not None))
    if others:
        begun = streams.record(0)
        for lane in others:
            streams.wait(lane, begun)
    for place, command in enumerate(program.commands):
        match command:
            case Record():
                events[command.event] = streams.record(command.lane)
            case Await():
                streams.wait(command.lane, events[command.event])
            case _:
                streams.before(command.lane, place)
                stamp(command.lane, place)
                _work(program.rank, command, code, bases, streams)
                stamp(command.lane, place)
                if isinstance(command, Collective) and mark is not None:
                    mark(command.lane, place)
    for lane in others:
        streams.wait(0, streams.record(lane))


def _work(rank: int, command: Work, code: DeviceCode, bases: Mapping[Space, int], streams: Streams) -> None:
    match command:
        case Launch():
            _launch(command, code, bases, streams)
        case Move():
            target, source = (_address(each, bases) for each in (command.target, command.source))
            streams.copy(command.lane, target, source, command.source.length)
        case Collective():
            _collective(rank, command, bases, streams)


def _collective(rank: int, command: Collective, bases: Mapping[Space, int], streams: Streams) -> None:
    source, target = (0 if each is None else _address(each, bases) for each in (command.source, command.target))
    takers = (taker for _, taker in command.pairs)
    if command.kind == "permute" and command.target is not None and command.ranks.index(rank) not in takers:
        streams.fill(command.lane, target, command.target.length, b"\0")
    streams.collective(command.lane, command, source, target)


def _launch(command: Launch, code: DeviceCode, bases: Mapping[Space, int], streams: Streams) -> None:
    def address(part: Place) -> int:
        match part.role:
            case "read":
                where = command.reads[part.index]
            case "write":
                where = command.writes[part.index]
            case "scratch":
                assert command.scratch is not None, "a kernel with scratch is launched with scratch memory"
                where = command.scratch
        return _address(where, bases) + part.offset

    for step in code.kernels[command.kernel]:
        match step:
            case Dispatch():
                streams.launch(command.lane, step, [address(binding.place) for binding in step.bindings])
            case Fill():
                streams.fill(command.lane, address(step.target), step.target.length, step.pattern)
            case Product():
                streams.product(command.lane, step, list(map(address, (*step.places(), step.workspace))))
            case Attention():
                streams.attention(command.lane, step, list(map(address, (*step.places(), step.workspace))))
            case Copy():
                streams.copy(command.lane, address(step.target), address(step.source), step.source.length)


def _address(where: Range, bases: Mapping[Space, int]) -> int:
    return bases[where.space] + where.offset

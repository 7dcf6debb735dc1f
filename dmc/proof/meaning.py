"""The values that a dataflow prescribes for each rank: steps of all ranks, and functions on values of one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dmc.errors import ProofError
from dmc.mesh import Mesh
from dmc.program import collectives
from dmc.program.dataflow import (
    NOBODY,
    Apply,
    Body,
    Call,
    Choice,
    Local,
    Moved,
    Moving,
    Node,
    Packed,
    Pointwise,
    Read,
    Received,
    Rows,
    Sent,
    Step,
    Transpose,
    Unpacked,
)
from dmc.proof.transpositions import composed, joined
from dmc.proof.values import Segment, Values

# The values of a body on one rank, by number.
Held = list[int]
# What was sent and not yet received, by the number of the message and the rank that receives it.
Mail = dict[tuple[int, int], int]
# Called for each function call of a step: the call, and its operands and results on each rank.
OnCall = Callable[[Call | Choice, int, tuple[int, ...], tuple[int, ...]], None]


@dataclass
class Meaning:
    """Finds the values of steps and functions on a mesh. A function on the same values is evaluated once.

    stages: the axes along which ranks are stages of a pipeline.
    """

    mesh: Mesh
    values: Values
    functions: Mapping[str, Body]
    on_call: OnCall | None = None
    stages: Sequence[str] = ()
    _known: dict[tuple[str, tuple[int, ...]], tuple[int, ...]] = field(default_factory=dict)
    _moves: dict[str, bool] = field(default_factory=dict)

    def of_step(self, step: Step) -> dict[int, Held]:
        """The values of every rank. Linear in the nodes, times the ranks."""
        ((_, held),) = of_stages([(self, step)])
        return held

    def stage(self, step: Step, mail: Mail) -> Generator[int, None, dict[int, Held]]:
        """The values of the ranks that run a step; stops, with the node's number, where a message has not been sent."""
        ranks = self.ranks_of(step)
        held = {rank: [self.argument(name, rank, size) for name, size in step.arguments] for rank in ranks}
        for number, node in enumerate(step.nodes):
            match node:
                case Sent():
                    for rank, own in held.items():
                        mail[node.number, self.reader(node, rank)] = own[node.operand]
                case Received():
                    while any((node.number, rank) not in mail for rank in held):
                        yield number
                    for rank, own in held.items():
                        own.append(mail.pop((node.number, rank)))
                case _:
                    self._run((node,), held, self.on_call)
        return held

    def ranks_of(self, step: Step) -> Sequence[int]:
        """The ranks that run a step, and whose values are found."""
        return step.ranks or self.mesh.ranks

    def without_stages(self, rank: int) -> int:
        """The rank whose values of a step of all ranks are those of this one."""
        return rank

    def reader(self, message: Sent, rank: int) -> int:
        """The rank that receives what a rank sends."""
        return self.mesh.group(rank, message.axes)[message.peer]

    def argument(self, name: str, rank: int, size: int) -> int:
        """An argument of the step."""
        return self.values.made(("argument", name, alike(self.mesh, self.stages, rank)), size)

    def of_call(self, function: str, operands: tuple[int, ...]) -> tuple[int, ...]:
        """The results of a function without movements between ranks."""
        known = self._known.get((function, operands))
        if known is None:
            body = self.functions[function]
            held = list(operands)
            self._run(body.nodes, {0: held})
            known = self._known[function, operands] = tuple(held[i] for i in body.results)
        return known

    def _run(self, nodes: Iterable[Node], held: Mapping[int, Held], on_call: OnCall | None = None) -> None:
        for node in nodes:
            if isinstance(node, Moved):
                self._move(node, held)
            elif isinstance(node, Call) and self._is_moving(node.function):
                self._call_of_all(self.functions[node.function], node, held)
            else:
                assert not isinstance(node, Sent | Received), "messages are in a step itself"
                for rank, own in held.items():
                    self._on_rank(node, rank, own, on_call)

    def _on_rank(self, node: Local | Choice, rank: int, own: Held, on_call: OnCall | None) -> None:
        local = node.choices[self.mesh.index_in_group(rank, node.axes)] if isinstance(node, Choice) else node
        results = self.of_local(local, own)
        if on_call is not None and isinstance(local, Call):
            on_call(local, rank, tuple(own[i] for i in local.operands), results)
        own.extend(results)

    def of_local(self, node: Local, own: Held) -> tuple[int, ...]:
        """The results of a node, given the values before it."""
        return tuple(_RULES[type(node)](self, node, own))

    def _call_of_all(self, body: Body, call: Call, held: Mapping[int, Held]) -> None:
        inner = {rank: [own[i] for i in call.operands] for rank, own in held.items()}
        self._run(body.nodes, inner)
        for rank, given in inner.items():
            held[rank].extend(given[i] for i in body.results)

    def _is_moving(self, function: str) -> bool:
        """Whether a function differs between ranks, or moves data between ranks."""
        if function not in self._moves:
            nodes = self.functions[function].nodes
            self._moves[function] = any(
                isinstance(node, Moved | Choice) or (isinstance(node, Call) and self._is_moving(node.function))
                for node in nodes
            )
        return self._moves[function]

    def _move(self, node: Moved, held: Mapping[int, Held]) -> None:
        for group in self.mesh.groups(node.axes):
            if group[0] not in held:
                continue
            results = delivered(self.values, node.kind, [held[rank][node.operand] for rank in group], node.how)
            for rank, result in zip(group, results, strict=True):
                held[rank].append(result)


def alike(mesh: Mesh, stages: Sequence[str], rank: int) -> int:
    """The first rank that has the same arguments: what several stages have, they have alike."""
    if not stages:
        return rank
    first = 0
    for axis, index in mesh.coordinates(rank).items():
        first = first * mesh.axis_size(axis) + (0 if axis in stages else index)
    return first


def of_stages(stages: Sequence[tuple[Meaning, Step]]) -> list[tuple[Step, dict[int, Held]]]:
    """The values of the ranks of each stage of a pipeline, each as far as possible without the others.

    Raises ProofError where stages wait for each other's messages.
    """
    mail: Mail = {}
    walks = [meaning.stage(step, mail) for meaning, step in stages]
    done: dict[int, dict[int, Held]] = {}
    places = dict.fromkeys(range(len(walks)), -1)
    while places:
        # Until the end a walk says where it waits.
        moved = {number: _next(walks[number], number, done) for number in places}
        now = {number: place for number, place in moved.items() if number not in done}
        if now == places:
            fact = f"stages {', '.join(map(str, places))} wait for messages that none of them sends before"
            raise ProofError("V11", "stage scheduled, dm-split-stages", fact, "use another schedule")
        places = now
    return [(step, done[number]) for number, (_, step) in enumerate(stages)]


def _next(walk: Generator[int, None, dict[int, Held]], number: int, done: dict[int, dict[int, Held]]) -> int:
    try:
        return next(walk)
    except StopIteration as stop:
        done[number] = stop.value
        return -1


@dataclass(frozen=True)
class _Sent:
    """Ranges of values, as a movement combines and divides them."""

    values: Values
    how: Moving

    def reduced(self, values: Sequence[Segment]) -> Segment:
        members = [value for value, *_ in values]
        return self.values.reduced(members, self.how.reduction, self.how.size), 0, self.how.size

    def piece(self, value: Segment, index: int, count: int) -> Segment:
        whole, first, length = value
        return whole, first + index * (length // count), length // count

    def joined(self, values: Sequence[Segment]) -> Segment:
        return self.values.row(values), 0, sum(length for *_, length in values)

    def zeros(self, like: Segment) -> Segment:
        return self.values.made(("zero",), 0, everywhere=True), 0, like[2]


def delivered(values: Values, kind: str, given: Sequence[int], how: Moving) -> list[int]:
    """The values that each member of a group receives, given those sent, in group order."""
    sent = [(value, 0, how.size) for value in given]
    return [values.part(*each) for each in collectives.delivered(kind, sent, _Sent(values, how), how.root, how.pairs)]


def _pointwise(meaning: Meaning, node: Pointwise, own: Held) -> Iterable[int]:
    values = meaning.values
    operands = tuple(own[i] for i in node.operands)
    everywhere = all(map(values.is_everywhere, operands))
    return (values.made((node.code, operands), node.size, everywhere, operands),)


def _read(meaning: Meaning, node: Read, own: Held) -> Iterable[int]:
    operand = own[node.operand]
    if meaning.values.is_everywhere(operand):
        return (operand,)
    return (meaning.values.made((node.code, operand), node.size, node.everywhere, [operand]),)


def _transpose(meaning: Meaning, node: Transpose, own: Held) -> Iterable[int]:
    values, value = meaning.values, own[node.operand]
    if values.is_everywhere(value):
        return (value,)
    how, turned = values.how(value), joined(node.shape, node.order)
    if how[0] == "transpose" and how[3] == node.element and turned[0]:
        both = composed(how[2], turned)
        value, turned = (how[1], both) if both is not None else (value, turned)
    # The inverse of an inverse is the original.
    how = ("transpose", value, turned, node.element)
    return (values.made(how, node.size, of=[value]) if turned[0] else value,)


def _packed(meaning: Meaning, node: Packed, own: Held) -> Iterable[int]:
    operand = own[node.operand]
    return (meaning.values.made(("packed", operand, node.width), node.size, of=[operand]),)


def _unpacked(meaning: Meaning, node: Unpacked, own: Held) -> Iterable[int]:
    how = meaning.values.how(own[node.operand])
    if how[0] == "packed" and how[2] == node.width:
        return (how[1],)
    operand = own[node.operand]
    return (meaning.values.made(("unpacked", operand, node.width), node.size, of=[operand]),)


def _apply(meaning: Meaning, node: Apply, own: Held) -> Iterable[int]:
    operands = tuple(own[i] for i in node.operands)
    return [meaning.values.made((node.code, operands, i), size, of=operands) for i, size in enumerate(node.sizes)]


def _rows(meaning: Meaning, node: Rows, own: Held) -> Iterable[int]:
    values = meaning.values
    pieces = [(values.unwritten if i == NOBODY else own[i], first, length) for i, first, length in node.pieces]
    return (values.part(*pieces[0]) if len(pieces) == 1 else values.row(pieces),)


def _call(meaning: Meaning, node: Call, own: Held) -> Iterable[int]:
    return meaning.of_call(node.function, tuple(own[i] for i in node.operands))


_RULES: dict[type[Local], Callable[[Meaning, Any, Held], Iterable[int]]] = {
    Pointwise: _pointwise,
    Read: _read,
    Transpose: _transpose,
    Packed: _packed,
    Unpacked: _unpacked,
    Apply: _apply,
    Rows: _rows,
    Call: _call,
}

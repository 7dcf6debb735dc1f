"""A data-parallel GPT step as a planned job, written directly as data: for experiments with sizes that take long to
compile."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from dmc.program import (
    Await,
    Buffer,
    Channel,
    Collective,
    Command,
    Job,
    Kernel,
    Lane,
    Launch,
    Move,
    Operand,
    Program,
    Range,
    Record,
    aligned,
)

LANES = (Lane("compute", "compute"), Lane("dp", "comm", "dp"), Lane("copy_in", "copy_in"), Lane("copy_out", "copy_out"))
COMPUTE, DP, IN, OUT = range(4)
BF16 = 2


@dataclass(frozen=True)
class Shape:
    """A GPT: `tokens` on each rank, `width`, `layers`; the MLP is four times as wide; no embeddings."""

    layers: int
    width: int = 4096
    tokens: int = 8192

    @property
    def layer_parameters(self) -> int:
        """The parameters of one layer: queries, keys, values, output and the two of the MLP."""
        return 12 * self.width**2


@dataclass
class _Writer:
    """Writes the program of a rank; memory is allocated once, in order, and never reused."""

    shape: Shape
    rank: int
    ranks: tuple[int, ...]
    kernels: dict[str, Kernel] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    events: int = 0
    top: int = 0

    def take(self, length: int) -> Range:
        """Fresh device memory."""
        place = Range("device", self.top, length)
        self.top += aligned(length)
        return place

    def launch(self, name: str, kind: str, shapes: tuple[tuple[int, ...], ...], flops: int, label: str) -> Range:
        """A kernel of bf16 tensors, the last of which is its result."""
        operands = tuple(Operand("bf16", shape) for shape in shapes)
        traffic = BF16 * sum(map(prod, shapes))
        self.kernels[name] = Kernel(name, operands[:-1], operands[-1:], flops, traffic, kind=kind)
        places = tuple(Range("device", 0, BF16 * prod(shape)) for shape in shapes[:-1])
        result = self.take(BF16 * prod(shapes[-1]))
        self.commands.append(Launch(COMPUTE, name, places, (result,), label=label))
        return result

    def order(self, before: int, after: int) -> None:
        """Makes later work on lane `after` wait for work issued on lane `before`."""
        self.commands += [Record(before, self.events), Await(after, self.events)]
        self.events += 1

    def signal(self, lane: int) -> int:
        """Signals a new event."""
        self.commands.append(Record(lane, self.events))
        self.events += 1
        return self.events - 1

    def keep(self, label: str, category: str, place: Range, first: int) -> None:
        """Declares the contents of a range, up to the last command."""
        self.buffers.append(Buffer(label, category, place, first, len(self.commands) - 1))


def gpt_job(shape: Shape, ranks: int) -> Job:
    """Forward, backward followed by an all-reduce of each layer's gradients, and an update of each layer."""
    writers = [_Writer(shape, rank, tuple(range(ranks))) for rank in range(ranks)]
    for writer in writers:
        _step(writer)
    programs = tuple(
        Program(w.rank, {"device": w.top, "pinned_host": 1 << 20}, LANES, (), tuple(w.commands), tuple(w.buffers))
        for w in writers
    )
    return Job.of({"dp": ranks}, (Channel("dp", ("dp",)),), writers[0].kernels, programs)


def _step(writer: _Writer) -> None:
    shape, gradients, reduced = writer.shape, [], []
    batch = writer.take(8 * shape.tokens)
    writer.commands.append(Move(IN, Range("pinned_host", 0, 8 * shape.tokens), batch, "tokens"))
    writer.order(IN, COMPUTE)
    saved = [(len(writer.commands), _layer(writer, f"h.{layer}", 1)) for layer in range(shape.layers)]
    for layer in reversed(range(shape.layers)):
        first = len(writer.commands)
        _layer(writer, f"h.{layer}", 2)
        gradient = writer.take(BF16 * shape.layer_parameters)
        writer.order(COMPUTE, DP)
        label = f"gradient of h.{layer}"
        writer.commands.append(
            Collective(
                DP,
                "all_reduce",
                "dp",
                writer.ranks,
                layer,
                "bf16",
                shape.layer_parameters,
                gradient,
                gradient,
                "sum",
                "f32",
                label=label,
            )
        )
        reduced.append((layer, writer.signal(DP)))
        gradients.append((gradient, first))
        writer.keep(f"h.{layer}", "activation", saved[layer][1], saved[layer][0])
    for (layer, event), (gradient, first) in zip(reduced, gradients, strict=True):
        writer.commands.append(Await(COMPUTE, event))
        count = (shape.layer_parameters,)
        writer.launch("update", "elementwise", (count, count, count, count), 12 * count[0], f"h.{layer} update")
        writer.keep(f"gradient of h.{layer}", "gradient", gradient, first)
    writer.order(COMPUTE, OUT)
    writer.commands.append(Move(OUT, Range("device", 0, 4), Range("pinned_host", 1 << 19, 4), "loss"))
    for layer in range(shape.layers):
        writer.keep(f"h.{layer}", "parameter", writer.take(BF16 * shape.layer_parameters), 0)


def _layer(writer: _Writer, label: str, times: int) -> Range:
    """The kernels of a layer, forward once or backward twice; what it writes, as one range."""
    t, w = writer.shape.tokens, writer.shape.width
    begin = writer.top
    for turn in range(times):
        way = "backward" if times > 1 else "forward"
        for name, kind, shapes, flops in (
            ("norm", "reduction", ((t, w), (t, w)), 8 * t * w),
            ("qkv", "matmul", ((t, w), (w, 3 * w), (t, 3 * w)), 6 * t * w * w),
            ("attention", "other", ((t, 3 * w), (t, w)), 4 * t * 1024 * w),
            ("out", "matmul", ((t, w), (w, w), (t, w)), 2 * t * w * w),
            ("norm", "reduction", ((t, w), (t, w)), 8 * t * w),
            ("up", "matmul", ((t, w), (w, 4 * w), (t, 4 * w)), 8 * t * w * w),
            ("gelu", "elementwise", ((t, 4 * w), (t, 4 * w)), 8 * t * 4 * w),
            ("down", "matmul", ((t, 4 * w), (4 * w, w), (t, w)), 8 * t * w * w),
        ):
            writer.launch(name, kind, shapes, flops, f"{label}.{name} {way}{turn or ''}")
    return Range("device", begin, writer.top - begin)

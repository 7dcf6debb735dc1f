"""Random steps of form scheduled, as text: kernels, movements on two channels and the copy queues, buckets, views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.random_text import Choose

RANKS = 2
SIZES = (64, 128, 512, 2048)  # elements
LARGEST = 4096  # that is gathered
MESH = (
    '"dm.mesh"() {sym_name = "mesh", axes = ["dp", "tp"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">, '
    'links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()'
)
CHANNELS = [
    f'"dm.channel"() {{sym_name = "{axis}", group = #dm.group<@mesh, ["{axis}"]>}} : () -> ()' for axis in ("dp", "tp")
]


@dataclass
class _Writer:
    """values: names and sizes of what there is. pending: waits that are not written yet, by the size they deliver."""

    choose: Choose
    lines: list[str] = field(default_factory=list[str])
    bodies: dict[str, str] = field(default_factory=dict[str, str])
    values: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    pending: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    tokens: list[str] = field(default_factory=list[str])
    count: int = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def pick(self) -> tuple[str, int]:
        """A value; recent ones are likelier."""
        return self.values[max(self.choose(len(self.values)), self.choose(len(self.values)))]

    def pick_between(self, smallest: int, largest: int) -> tuple[str, int]:
        """A value of so many elements."""
        fitting = [each for each in self.values if smallest <= each[1] <= largest]
        return fitting[self.choose(len(fitting))]

    def kernel(self, size: int | None = None) -> None:
        """A kernel of one to three operands, of which the first may be large: it takes from 1 µs to 1 ms."""
        inputs = [self.pick() for _ in range(1 + self.choose(3))]
        size = size or SIZES[self.choose(len(SIZES))]
        body = self.body([each for _, each in inputs], size)
        name = self.fresh()
        scratch = f", scratch = {256 * self.choose(8)} : i64" if self.choose(4) == 0 else ""
        types = ", ".join(kind(each) for _, each in inputs)
        self.lines.append(
            f'{name} = "dm.kernel"({", ".join(each for each, _ in inputs)}) {{body = @{body}, '
            f"flops = {10 ** self.choose(11)} : i64, bytes = 1024 : i64{scratch}}} : ({types}) -> {kind(size)}"
        )
        self.values.append((name, size))

    def body(self, sizes: list[int], size: int) -> str:
        """A function that adds up what it takes, cut or padded to `size`, doubled."""
        name = f"sum_{'_'.join(map(str, sizes))}_to_{size}"
        arguments = ", ".join(f"%a{i}: {kind(each)}" for i, each in enumerate(sizes))
        lines = [f"%s = arith.constant dense<1.0> : {kind(size)}"]
        total = "%s"
        for i, each in enumerate(sizes):
            if each >= size:
                lines.append(f"%c{i} = tensor.extract_slice %a{i}[0] [{size}] [1] : {kind(each)} to {kind(size)}")
            else:
                lines.append(
                    f"%c{i} = tensor.insert_slice %a{i} into %s[0] [{each}] [1] : {kind(each)} into {kind(size)}"
                )
            lines.append(f"%t{i} = arith.addf {total}, %c{i} : {kind(size)}")
            total = f"%t{i}"
        text = "\n  ".join([*lines, f"return {total} : {kind(size)}"])
        head = f'func.func private @{name}({arguments}) -> {kind(size)} attributes {{dm.kind = "other"}}'
        self.bodies[name] = f"{head} {{\n  {text}\n}}"
        return name

    def start(self, value: str, size: int, movement: str, queue: str, result: int) -> None:
        """Starts a movement, behind one of those before now and then; its wait is written later."""
        handle, token = self.fresh(), self.fresh()
        after = [self.tokens[self.choose(len(self.tokens))]] if self.tokens and self.choose(4) == 0 else []
        types = ", ".join([kind(size), *["!dm.token"] * len(after)])
        self.lines.append(
            f'{handle}, {token} = "dm.start"({", ".join([value, *after])}) ({{\n  ^bb0(%a: {kind(size)}):\n'
            f'    %r = "dm.{movement} : ({kind(size)}) -> {kind(result)}\n'
            f'    "dm.yield"(%r) : ({kind(result)}) -> ()\n  }}) {{queue = #dm.queue<"{queue}">, '
            f"instance = {len(self.tokens)} : i64, operandSegmentSizes = array<i32: 1, {len(after)}>}} : "
            f"({types}) -> (!dm.handle<{kind(result)}>, !dm.token)"
        )
        self.tokens.append(token)
        self.pending.append((handle, result))

    def wait(self) -> None:
        """Waits for one of the movements that are still in flight."""
        if not self.pending:
            return
        self.wait_for(self.choose(len(self.pending)))

    def wait_for(self, place: int) -> None:
        handle, size = self.pending.pop(place)
        name = self.fresh()
        self.lines.append(f'{name} = "dm.wait"({handle}) : (!dm.handle<{kind(size)}>) -> {kind(size)}')
        self.values.append((name, size))

    def move(self) -> None:
        """A collective on one of the channels."""
        value, size = self.pick_between(16, LARGEST)
        axis = ("dp", "tp")[self.choose(2)]
        on = f'group = #dm.group<@mesh, ["{axis}"]>, channel = @{axis}'
        adds = f'reduction = #dm.reduction<"sum">, accumulate = f32, {on}'
        match self.choose(3):
            case 0:
                self.start(value, size, f'all_reduce"(%a) {{{adds}}}', "comm", size)
            case 1:
                self.start(value, size, f'all_gather"(%a) {{dim = 0 : i64, {on}}}', "comm", size * RANKS)
            case _:
                self.start(value, size, f'reduce_scatter"(%a) {{dim = 0 : i64, {adds}}}', "comm", size // RANKS)

    def bucket(self) -> None:
        """Two values, reduced as one."""
        (one, size), (other, more) = self.pick(), self.pick()
        flat = self.fresh()
        offsets = f"{{offsets = array<i64: 0, {size}>}}"
        types = f"{kind(size)}, {kind(more)}"
        self.lines.append(f'{flat} = "dm.pack"({one}, {other}) {offsets} : ({types}) -> {kind(size + more)}')
        on = 'reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>, channel = @dp'
        self.start(flat, size + more, f'all_reduce"(%a) {{{on}}}', "comm", size + more)
        self.wait_for(len(self.pending) - 1)
        name, _ = self.values.pop()
        parts = [(self.fresh(), size), (self.fresh(), more)]
        names = ", ".join(each for each, _ in parts)
        self.lines.append(f'{names} = "dm.unpack"({name}) {offsets} : ({kind(size + more)}) -> ({types})')
        self.values += parts

    def view(self) -> None:
        """A reshape there and back, and a slice."""
        value, size = self.pick_between(16, LARGEST)
        square, flat, half = self.fresh(), self.fresh(), self.fresh()
        wide = f"tensor<2x{size // 2}xf32>"
        self.lines.append(
            f"{square} = tensor.expand_shape {value} [[0, 1]] output_shape [2, {size // 2}] : {kind(size)} into {wide}"
        )
        self.lines.append(f"{flat} = tensor.collapse_shape {square} [[0, 1]] : {wide} into {kind(size)}")
        self.lines.append(
            f"{half} = tensor.extract_slice {flat}[0] [{size // 2}] [1] : {kind(size)} to {kind(size // 2)}"
        )
        self.values += [(flat, size), (half, size // 2)]


def random_scheduled(choose: Choose, operations: int) -> str:
    """A module in form scheduled: `@step` of two parameters, of which it may give new values, and a batch."""
    writer = _Writer(choose)
    sizes = [SIZES[choose(len(SIZES))] for _ in range(3)]
    writer.values = [("%p0", sizes[0]), ("%p1", sizes[1])]
    spaces = 'source = #dm.space<"pinned_host">, target = #dm.space<"device">'
    writer.start("%b", sizes[2], f'copy"(%a) {{{spaces}}}', "copy_in", sizes[2])
    makers: tuple[Callable[[], None], ...] = (
        *[writer.kernel] * 5,
        *[writer.move] * 3,
        *[writer.wait] * 3,
        writer.bucket,
        writer.view,
    )
    for _ in range(operations):
        makers[choose(len(makers))]()
    while writer.pending:
        writer.wait()
    results: list[tuple[str, int, str]] = []
    for i in range(2):
        if choose(3):
            writer.kernel(sizes[i])
            results.append((*writer.values[-1], f"p{i}"))
    writer.kernel()
    results.append((*writer.values[-1], "out"))
    return _module(writer, sizes, results)


def _module(writer: _Writer, sizes: list[int], results: list[tuple[str, int, str]]) -> str:
    roles = zip(("%p0", "%p1", "%b"), ("p0", "p1", "b"), ("parameter", "parameter", "batch"), sizes, strict=True)
    given = ", ".join(f'{v}: {kind(size)} {{dm.name = "{name}", dm.role = "{role}"}}' for v, name, role, size in roles)
    types = ", ".join(f'{kind(size)} {{dm.name = "{name}"}}' for _, size, name in results)
    last = f"return {', '.join(v for v, _, _ in results)} : {', '.join(kind(size) for _, size, _ in results)}"
    step = "\n  ".join([f"func.func @step({given}) -> ({types}) {{", *writer.lines, last])
    return "\n".join([MESH, *CHANNELS, *writer.bodies.values(), step, "}"])


def kind(size: int) -> str:
    """The type of a value."""
    return f"tensor<{size}xf32>"

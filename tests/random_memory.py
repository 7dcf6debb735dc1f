"""Random steps of form scheduled in which much can share memory: updates, elementwise chains, buckets of all kinds."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.random_scheduled import CHANNELS, MESH
from tests.random_text import Choose

# Elements: some pad a bucket, some are alike.
SIZES = (64, 64, 128, 100)
_TOTAL = {size: -(-size // 64) * 64 for size in SIZES}
_ON = 'group = #dm.group<@mesh, ["dp"]>, channel = @dp'


def random_memory(choose: Choose, operations: int) -> str:
    """A module in form scheduled, whose `@step` has five parameters, each of which it changes now and then."""
    writer = _Writer(choose)
    sizes = [SIZES[choose(len(SIZES))] for _ in range(5)]
    parameters = [(f"%p{i}", size) for i, size in enumerate(sizes)]
    writer.values = list(parameters)
    makers = (writer.kernel, writer.kernel, writer.kernel, writer.start, writer.wait, writer.bucket, writer.view)
    for _ in range(operations):
        makers[choose(len(makers))]()
    value, size = writer.pick()
    spaces = 'source = #dm.space<"device">, target = #dm.space<"pinned_host">'
    writer.begin(value, size, f'copy"(%a) {{{spaces}}}', size, "copy_out")
    out = writer.pending.pop()
    results = [(writer.update(name, size), size, name[1:]) for name, size in parameters if choose(4)]
    while writer.pending:
        writer.wait()
    writer.pending = [out]
    results.append((writer.end(0), size, "out"))
    return _module(writer, parameters, results)


@dataclass
class _Writer:
    """values: names and sizes. pending: handles and the sizes they deliver. bodies: functions by name."""

    choose: Choose
    lines: list[str] = field(default_factory=list[str])
    values: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    pending: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    bodies: dict[str, str] = field(default_factory=dict[str, str])
    count: int = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def pick(self) -> tuple[str, int]:
        """A value; recent ones are likelier."""
        return self.values[max(self.choose(len(self.values)), self.choose(len(self.values)))]

    def like(self, size: int) -> str | None:
        """Another value of the same size, if there is one."""
        fit = [name for name, own in self.values if own == size]
        return fit[self.choose(len(fit))] if fit else None

    def kernel(self) -> None:
        """Of one or two values of one size, element by element or by way of a slice of the first."""
        first, size = self.pick()
        self.values.append((self.call(first, self.like(size) or first, size), size))

    def call(self, first: str, second: str, size: int) -> str:
        name, is_pointwise = self.fresh(), bool(self.choose(3))
        body = self.body(size, is_pointwise)
        types = f"({kind(size)}, {kind(size)}) -> {kind(size)}"
        scratch = ", scratch = 300 : i64" if self.choose(5) == 0 else ""
        self.lines.append(f'{name} = "dm.kernel"({first}, {second}) {{body = @{body}{scratch}}} : {types}')
        return name

    def update(self, old: str, size: int) -> str:
        """The new value of state: by a kernel, from what a bucket brings, or by a movement."""
        made = self.call(old, self.like(size) or old, size)
        match self.choose(4):
            case 0:
                self.values.append((made, size))
                return self.move(made, size, f'all_reduce"(%a) {{{_reduction()}}}', size)
            case 1:
                return self.reshape(made, size)
            case _:
                return made

    def body(self, size: int, is_pointwise: bool) -> str:
        name = f"{'add' if is_pointwise else 'turn'}_{size}"
        of = kind(size)
        lines = [f"%r = arith.addf %a, %b : {of}"]
        if not is_pointwise:
            half = kind(size // 2)
            lines = [
                f"%h = tensor.extract_slice %a[{size // 2}] [{size // 2}] [1] : {of} to {half}",
                f"%r = tensor.insert_slice %h into %b[0] [{size // 2}] [1] : {half} into {of}",
            ]
        text = "\n  ".join([*lines, f"return %r : {of}"])
        self.bodies[name] = f"func.func private @{name}(%a: {of}, %b: {of}) -> {of} {{\n  {text}\n}}"
        return name

    def start(self) -> None:
        """An all-reduce, or a gather or scatter by one of two ranks."""
        value, size = self.pick()
        what = (
            f'all_reduce"(%a) {{{_reduction()}}}',
            f'all_to_all"(%a) {{split_dim = 0 : i64, concat_dim = 0 : i64, {_ON}}}',
        )
        self.begin(value, size, what[self.choose(2)], size)

    def begin(self, value: str, size: int, movement: str, result: int, queue: str = "comm") -> None:
        handle, token = self.fresh(), self.fresh()
        self.lines.append(
            f'{handle}, {token} = "dm.start"({value}) ({{\n  ^bb0(%a: {kind(size)}):\n'
            f'    %r = "dm.{movement} : ({kind(size)}) -> {kind(result)}\n'
            f'    "dm.yield"(%r) : ({kind(result)}) -> ()\n  }}) {{queue = #dm.queue<"{queue}">, '
            f"instance = {self.count} : i64, operandSegmentSizes = array<i32: 1, 0>}} : "
            f"({kind(size)}) -> (!dm.handle<{kind(result)}>, !dm.token)"
        )
        self.pending.append((handle, result))

    def wait(self) -> None:
        """Waits for one of the movements that are under way, if there is one."""
        if self.pending:
            self.end(self.choose(len(self.pending)))

    def end(self, index: int) -> str:
        handle, size = self.pending.pop(index)
        name = self.fresh()
        self.lines.append(f'{name} = "dm.wait"({handle}) : (!dm.handle<{kind(size)}>) -> {kind(size)}')
        self.values.append((name, size))
        return name

    def move(self, value: str, size: int, movement: str, result: int) -> str:
        """A movement, waited for at once or behind something else."""
        self.begin(value, size, movement, result)
        place = len(self.pending) - 1
        if self.choose(2):
            self.kernel()
        return self.end(place)

    def bucket(self) -> None:
        """Some values, parameters among them, packed, reduced or not, and unpacked."""
        members = [self.pick() for _ in range(1 + self.choose(4))]
        if self.choose(3) == 0:
            members = [each for each in self.values if each[0].startswith("%p")][: 2 + self.choose(4)]
        offsets, end = [], 0
        for _, size in members:
            offsets.append(end)
            end += _TOTAL.get(size, size)
        flat, types = self.fresh(), ", ".join(kind(size) for _, size in members)
        at = f"{{offsets = array<i64: {', '.join(map(str, offsets))}>}}"
        names = ", ".join(name for name, _ in members)
        self.lines.append(f'{flat} = "dm.pack"({names}) {at} : ({types}) -> {kind(end)}')
        if self.choose(4):
            flat = self.move(flat, end, f'all_reduce"(%a) {{{_reduction()}}}', end)
            self.values.pop()
        parts = [(self.fresh(), size) for _, size in members]
        names = ", ".join(name for name, _ in parts)
        self.lines.append(f'{names} = "dm.unpack"({flat}) {at} : ({kind(end)}) -> ({types})')
        self.values += parts

    def view(self) -> None:
        """A reshape, or a half: by a constant place or by the rank's."""
        value, size = self.pick()
        if self.choose(2) or size % 4:
            self.values.append((self.reshape(value, size), size))
            return
        half, half_size = self.fresh(), size // 2
        if self.choose(2):
            text = f"tensor.extract_slice {value}[{half_size}] [{half_size}] [1] : {kind(size)} to {kind(half_size)}"
        else:
            slice_ = f'"dm.all_slice"({value}) {{dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>}}'
            text = f"{slice_} : ({kind(size)}) -> {kind(half_size)}"
        self.lines.append(f"{half} = {text}")
        self.values.append((half, half_size))

    def reshape(self, value: str, size: int) -> str:
        wide, flat = self.fresh(), self.fresh()
        square = f"tensor<2x{size // 2}xf32>"
        self.lines.append(
            f"{wide} = tensor.expand_shape {value} [[0, 1]] output_shape [2, {size // 2}] : {kind(size)} into {square}"
        )
        self.lines.append(f"{flat} = tensor.collapse_shape {wide} [[0, 1]] : {square} into {kind(size)}")
        return flat


def _reduction() -> str:
    return f'reduction = #dm.reduction<"sum">, accumulate = f32, {_ON}'


def _module(writer: _Writer, parameters: list[tuple[str, int]], results: list[tuple[str, int, str]]) -> str:
    given = ", ".join(f'{v}: {kind(size)} {{dm.name = "{v[1:]}", dm.role = "parameter"}}' for v, size in parameters)
    types = ", ".join(f'{kind(size)} {{dm.name = "{name}"}}' for _, size, name in results)
    last = f"return {', '.join(v for v, _, _ in results)} : {', '.join(kind(size) for _, size, _ in results)}"
    step = "\n  ".join([f"func.func @step({given}) -> ({types}) {{", *writer.lines, last])
    return "\n".join([MESH, *CHANNELS, *writer.bodies.values(), step, "}"])


def kind(size: int) -> str:
    """The type of a value."""
    return f"tensor<{size}xf32>"

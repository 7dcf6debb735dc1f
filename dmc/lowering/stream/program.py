"""A planned job → one IREE module at command level, with the job's own order, ranges and events.

Each lane of each rank is a device of the module (`device_count`). `@step` takes the arenas of all ranks, one buffer per
rank and memory space in order, and two fences; it allocates nothing.
"""

from __future__ import annotations

import os

from dmc.errors import DmcError, ProofError
from dmc.lowering.iree.compiler import Executable, check_products, compile_stream
from dmc.lowering.iree.cpu_features import required_features, with_used_features
from dmc.lowering.iree.isolation import of_launches
from dmc.lowering.kernel_code import CodeLibrary, Copy, KernelCode
from dmc.lowering.kernels.panel_loops import is_marked, with_panel_loops
from dmc.lowering.stream.collectives import rendezvous_code
from dmc.lowering.stream.matmul_tiles import with_tiles
from dmc.lowering.stream.panel_packing import with_packing_tiles
from dmc.lowering.stream.regions import Item, Local, Region, Regions, Rendezvous, regions_of
from dmc.lowering.stream.subnormals import with_subnormals
from dmc.lowering.stream.text import Arena, Bound, Text, indented, span
from dmc.program import Job, Launch
from dmc.program.code import Place
from dmc.program.contract import breach, check_contracts
from dmc.program.devices import device_count
from dmc.target import CPU, Target

# IREE could record each region once, when the module is loaded, but then takes ten times as long to compile: 13.5 s
# instead of 1.4 for 450 regions of 2100 dispatches.
_RECORDED_ANEW = "--iree-hal-memoization=false"

# The approximate number of commands per function: some of IREE's passes are quadratic in it.
_PART = 500
_NOT_INLINED = "inlining_policy = #util.inline.never"
_RESOURCE, _POINT = "!stream.resource<external>", "!stream.timepoint"


def compile_job(job: Job, code: CodeLibrary, target: Target) -> Executable:
    """Compiles `job`, whose kernels have `code`, for `target`; raises CodegenError, with the kernels at fault, if IREE
    fails.

    The executable's `step` is exactly the job: IREE adds no ordering, memory or copies.
    """
    return of_launches(job, lambda some: _compiled(some, code, target))


def _compiled(job: Job, code: CodeLibrary, target: Target) -> Executable:
    text = stream_module(job, code)
    if target.name == CPU.name:
        cores = os.cpu_count() or 1
        text = with_tiles(with_panel_loops(with_packing_tiles(with_used_features(text)), cores), cores)
        text = with_subnormals(text)
        if is_marked(text):
            raise DmcError("target 'cpu'", "a product would read panels as a matrix", hint="please report the model")
    statistics = {"dispatches": text.count("stream.cmd.dispatch ")}
    data = compile_stream(text, target, _RECORDED_ANEW)
    if target.name != CPU.name:
        # A module holds the PTX of its kernels as text.
        check_products(data.decode("latin-1"))
    return Executable(data, statistics, required_features(text))


def stream_module(job: Job, code: CodeLibrary) -> str:
    """The text of the module.

    Raises ProofError for code that violates its launches, DmcError for what cannot be executed, such as lanes that wait
    for each other.
    """
    check_contracts(job, {name: kernel.phases() for name, kernel in code.kernels.items()})
    regions = regions_of(job)
    return _Module(job, code, regions).text()


class _Module:
    def __init__(self, job: Job, code: CodeLibrary, regions: Regions) -> None:
        self._job = job
        self._code = code
        self._regions = regions
        lanes = [(program.rank, index) for program in job.programs for index in range(len(program.lanes))]
        self._count = device_count(job)
        self._device_of = {lane: number % self._count for number, lane in enumerate(lanes)}
        arenas = {
            Arena(program.rank, space): max(size, 1)
            for program in job.programs
            for space, size in program.arenas.items()
        }
        self._known = dict(code.executables)
        self._text = Text(self._known, arenas)
        self._parts: list[list[str]] = []
        # By region: the last that awaits it, or one past all if a lane ends with it.
        self._last_reader = {each: number for number, region in enumerate(regions.regions) for each in region.awaits}
        self._last_reader |= dict.fromkeys(regions.last, len(regions.regions))

    def text(self) -> str:
        """Everything."""
        body = self._body()
        devices = [
            f"util.global private @lane{number} = {_with_ordinal(self._code.device, number)} : !hal.device"
            for number in range(self._count)
        ]
        executables = [line for text in self._text.used.values() for line in text.splitlines()]
        parts = [line for part in self._parts for line in part]
        lines = [*devices, *executables, *parts, *self._function(body)]
        default = f"stream.affinity.default = {_affinity(0)}"
        return "\n".join([f"module @job attributes {{{default}}} {{", *indented(lines, 2), "}", ""])

    def _function(self, body: list[str]) -> list[str]:
        arguments = [f"%{arena.name}_view: !hal.buffer_view" for arena in self._text.arenas]
        arguments += ["%wait: !hal.fence", "%signal: !hal.fence"]
        names = ", ".join(f"%{arena.name}" for arena in self._text.arenas)
        reflection = f'iree.abi.declaration = "async func @step({names})", iree.abi.model = "coarse-fences"'
        attributes = f"iree.abi.stub, iree.reflection = {{{reflection}}}"
        head = f"util.func public @step({', '.join(arguments)}) attributes {{{attributes}}} {{"
        return [head, *indented([*self._text.take_definitions(), *body, "util.return"], 2), "}"]

    def _body(self) -> list[str]:
        first = _affinity(0)
        calls = [call for numbers in self._cuts() for call in self._part(numbers)]
        lines = [f"%start = stream.timepoint.import on({first}) %wait : (!hal.fence) => !stream.timepoint"]
        for arena, size in self._text.arenas.items():
            owner = _affinity(self._device_of[arena.rank, 0])
            kind = f"tensor<{size}xi8> in {self._text.resource(arena)}"
            lines.append(
                f"%{arena.name}_all = stream.tensor.import on({owner}) %{arena.name}_view : !hal.buffer_view -> {kind}"
            )
        done, joining = _joined("done", self._regions.last)
        lines += [*calls, *joining, f"stream.timepoint.chain_external on({first}) {done} => (%signal : !hal.fence)"]
        return lines

    def _cuts(self) -> list[range]:
        """The regions in runs of about equal work."""
        cuts, work = [0], 0
        for number, region in enumerate(self._regions.regions):
            work += len(region.items)
            if work >= _PART:
                cuts.append(number + 1)
                work = 0
        ends = [*cuts[1:], len(self._regions.regions)]
        return [range(first, end) for first, end in zip(cuts, ends, strict=True) if first < end]

    def _part(self, numbers: range) -> list[str]:
        """Puts these regions into their own function, and returns its call."""
        regions = self._regions.regions
        awaited = {each for number in numbers for each in regions[number].awaits if each not in numbers}
        given = [self._last_reader[number] >= numbers.stop for number in numbers]
        arenas = [f"%{arena.name}_all" for arena in self._text.arenas]
        points = ["%start", *(f"%t{number}" for number in sorted(awaited))]
        results = [f"%t{number}" for number, leaves in zip(numbers, given, strict=True) if leaves]
        types = [*[_RESOURCE] * len(arenas), *[_POINT] * len(points)]
        taken = ", ".join(f"{name}: {kind}" for name, kind in zip([*arenas, *points], types, strict=True))
        made = ", ".join([_POINT] * len(results))
        body = [line for number in numbers for line in self._region(number, regions[number])]
        name = f"@part{len(self._parts)}"
        head = f"util.func private {name}({taken}) -> ({made}) attributes {{{_NOT_INLINED}}} {{"
        returned = f"util.return {', '.join(results)} : {made}"
        self._parts.append([head, *indented([*self._text.take_definitions(), *body, returned], 2), "}"])
        passed = f"{name}({', '.join([*arenas, *points])}) : ({', '.join(types)}) -> ({made})"
        return [f"{', '.join(results)} = util.call {passed}"]

    def _region(self, number: int, region: Region) -> list[str]:
        bounds = [self._bound(item) for item in region.items]
        arenas = sorted({each.arena for bound in bounds for each in bound.spans()})
        captured = ", ".join(f"%{arena.name}_all as %{arena.name}: {self._text.resource(arena)}" for arena in arenas)
        awaited, joining = _joined(f"before_{number}", region.awaits)
        on = _affinity(self._device_of[region.on])
        head = f"%t{number} = stream.cmd.execute on({on}) await({awaited}) => with({captured}) {{"
        commands = [line for bound in bounds for line in self._text.commands(bound)]
        return [*joining, head, *indented(commands, 2), "} => !stream.timepoint"]

    def _bound(self, item: Item) -> Bound:
        match item:
            case Rendezvous():
                code, executables = rendezvous_code(item)
                self._known.update(executables)
                reads = [span(rank, member.source) for rank, member in item.members.items()]
                writes = [span(rank, member.target) for rank, member in item.members.items()]
                if (fact := breach(code.phases(), reads, writes, None)) is not None:
                    raise ProofError("V12", code.name, fact, hint="please report this")
                return Bound(code, reads, writes)
            case Local(rank, Launch() as launch):
                return self._launch(rank, launch)
            case Local(rank, move):
                whole = Copy(Place("read", 0, 0, move.source.length), Place("write", 0, 0, move.target.length))
                return Bound(KernelCode("move", (whole,), 0), [span(rank, move.source)], [span(rank, move.target)])

    def _launch(self, rank: int, launch: Launch) -> Bound:
        code = self._code.kernels[launch.kernel]
        reads, writes = ([span(rank, each) for each in ranges] for ranges in (launch.reads, launch.writes))
        return Bound(code, reads, writes, span(rank, launch.scratch))


def _joined(name: str, regions: tuple[int, ...]) -> tuple[str, list[str]]:
    """The timepoint of several regions, and its definition; without any, that of the start."""
    points = [f"%t{number}" for number in regions] or ["%start"]
    if len(points) == 1:
        return points[0], []
    return f"%{name}", [f"%{name} = stream.timepoint.join max({', '.join(points)}) => !stream.timepoint"]


def _affinity(device: int) -> str:
    return f"#hal.device.affinity<@lane{device}>"


def _with_ordinal(device: str, ordinal: int) -> str:
    return device.replace('<"local", ', f'<"local", {{ordinal = {ordinal} : index}}, ', 1)

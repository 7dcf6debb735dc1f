"""The kernels of a job as CUDA code: PTX, and the size of each launch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dmc.errors import DmcError
from dmc.lowering.cuda.buffers import with_true_arguments
from dmc.lowering.iree.compiler import check_products, dumped_binaries, run_iree
from dmc.lowering.iree.isolation import of_launches, without_launches
from dmc.lowering.kernel_code import CodeLibrary, Copy, Dispatch, Fill, KernelCode, leaves
from dmc.lowering.stream.program import stream_module
from dmc.lowering.stream.text import ALIGNMENT, at_alignment
from dmc.program import Await, Job, Launch, Move, Record, code
from dmc.program.code import MAIN, CodeModule, DeviceCode, Extent
from dmc.program.device_contract import check_device_code, given_buffers
from dmc.target import Target

_EXPORT = re.compile(
    r"hal\.executable\.export public @(?P<entry>[\w$.]+)[^\n]*\n(?P<count>.*?)\n\s*\} <(?P<properties>[^\n]*)>",
    re.DOTALL,
)
_CONSTANT = re.compile(r"(%[\w#]+) = arith\.constant (\d+) : index")
_COUNT = re.compile(r"hal\.return (%[\w#]+), (%[\w#]+), (%[\w#]+) : index, index, index")
_BLOCK = re.compile(r"workgroup_size = \[(\d+) : index, (\d+) : index, (\d+) : index\]")
_SHARED = re.compile(r"workgroup_local_memory = (\d+)")
_VALUE = re.compile(r"(-?\d+|true|false)(?: : i(\d+))?$")


@dataclass(frozen=True)
class _Geometry:
    grid: Extent
    block: Extent
    shared: int


def device_code(job: Job, library: CodeLibrary, target: Target) -> DeviceCode:
    """The code of `library`, compiled for `target`, for the launches of `job` outside IREE.

    Raises DmcError, naming the entry, if the size of a launch is not known at compile time, CodegenError for kernels
    for which IREE makes no code, and ProofError if the code violates its launches.
    """
    if library.native:
        # Triton takes long to load.
        from dmc.lowering.cuda.native import as_launched

        library = as_launched(library, job)
    native = {name: library.native[name] for name in job.kernels if name in library.native}
    others = without_launches(job, native).only(Launch, Move, Record, Await)
    made = of_launches(others, lambda some: _made_by_iree(some, library, target))
    steps = {name: kernel.steps for name, kernel in native.items()}
    used = {step.module for each in steps.values() for step in each if isinstance(step, code.Dispatch)}
    modules = {name: library.modules[name] for name in sorted(used)}
    whole = DeviceCode({**made.modules, **modules}, {**made.kernels, **steps})
    check_device_code(job, whole)
    return whole


def _made_by_iree(job: Job, library: CodeLibrary, target: Target) -> DeviceCode:
    """IREE compiles an executable for its dispatches, so it gets whole lanes; the executables are extracted."""
    if not job.kernels:
        return DeviceCode({}, {})
    text = stream_module(job, library)
    configured = run_iree(text.encode(), target, "--compile-from=stream", "--compile-to=executable-targets").decode()
    geometries = _geometries(configured)
    kernels = {name: _steps(library.kernels[name], geometries) for name in job.kernels}
    configured = with_true_arguments(
        configured, {entry: each for (_, entry), each in given_buffers(job, kernels).items()}
    )
    # Kernels that only fill and copy need no code.
    ptx = dumped_binaries(configured.encode(), target, ".ptx", "--compile-from=executable-targets").decode()
    check_products(ptx)
    return DeviceCode({MAIN: CodeModule(ptx)} if ptx else {}, kernels)


def _geometries(text: str) -> dict[str, _Geometry]:
    return {match["entry"]: _geometry(match) for match in _EXPORT.finditer(text)}


def _geometry(export: re.Match[str]) -> _Geometry:
    constants = {name: int(value) for name, value in _CONSTANT.findall(export["count"])}
    count, block = _COUNT.search(export["count"]), _BLOCK.search(export["properties"])
    if count is None or block is None or not set(count.groups()) <= set(constants):
        fact = "the number of its blocks or threads is not constant"
        raise DmcError(f"kernel entry {export['entry']}", fact, hint="shapes must be static; please report the model")
    shared = _SHARED.search(export["properties"])
    x, y, z = (constants[name] for name in count.groups())
    i, j, k = (int(size) for size in block.groups())
    return _Geometry((x, y, z), (i, j, k), int(shared[1]) if shared else 0)


def _steps(kernel: KernelCode, geometries: Mapping[str, _Geometry]) -> tuple[code.Step, ...]:
    return tuple(_step(command, geometries) for command in leaves(kernel.commands))


def _step(command: Dispatch | Fill | Copy, geometries: Mapping[str, _Geometry]) -> code.Step:
    match command:
        case Fill():
            return code.Fill(_pattern(command.value), command.target)
        case Copy():
            return code.Copy(command.source, command.target)
        case Dispatch():
            entry = _entry(command, geometries)
            known = geometries[entry]
            scalars = tuple(int.from_bytes(_pattern(value), "little", signed=True) for value in command.scalars)
            ordered = tuple(sorted(command.ordered))
            return code.Dispatch(entry, known.grid, known.block, known.shared, command.bindings, scalars, ordered)


def _entry(command: Dispatch, geometries: Mapping[str, _Geometry]) -> str:
    """Of its entries, the one for the smallest alignment: all launches of a kernel share its steps."""
    suffix = command.entry.removeprefix(command.executable)
    alignments = (1 << power for power in range(ALIGNMENT.bit_length()))
    entries = (f"{at_alignment(command.executable, alignment)}{suffix}" for alignment in alignments)
    return next((entry for entry in entries if entry in geometries), command.entry)


def _pattern(value: str) -> bytes:
    """`0 : i32` as bytes in memory."""
    match = _VALUE.match(value.strip())
    if match is None:
        raise DmcError("a fill", f"writes '{value}', which is not an integer", hint="please report the model")
    number = int(match[1] == "true") if match[1] in ("true", "false") else int(match[1])
    width = max(int(match[2] or 8), 8) // 8
    return (number % (1 << 8 * width)).to_bytes(width, "little")

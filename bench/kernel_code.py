"""Compiled candidates in a directory: cubins, and a JSON file that says how each is launched."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.kernel_cases import CASES
from dmc.errors import DmcError
from dmc.kernels.code import KernelCode, compile_recipe
from dmc.kernels.implementation import implementation_of
from dmc.kernels.recipe import Buffer
from dmc.lowering.cuda.native_steps import tensor_map
from dmc.program.code import TensorMap

INDEX = "launches.json"


@dataclass(frozen=True)
class Launch:
    """One launch of a candidate. buffers: what each pointer points to; nulls: pointers after them that are zero.

    maps: for each buffer the tensor map that stands for its pointer, or None.
    """

    file: str
    entry: str
    programs: int
    threads: int
    shared: int
    buffers: tuple[Buffer, ...]
    nulls: int
    maps: tuple[TensorMap | None, ...]


@dataclass(frozen=True)
class Compiled:
    """A candidate of a case, or why it did not compile."""

    case: str
    candidate: int
    launches: tuple[Launch, ...]
    error: str = ""


def compile_all(directory: Path, cases: list[str], workers: int) -> None:
    """Compiles every candidate of `cases` for compute capability 9.0 and prints what each took."""
    directory.mkdir(parents=True, exist_ok=True)
    jobs = [(directory, case, index) for case in cases for index in range(_count(case))]
    with ProcessPoolExecutor(workers) as pool:
        compiled = list(pool.map(_compile, *zip(*jobs, strict=True)))
    old = [each for each in stored(directory) if each.case not in cases]
    text = msgspec.json.format(msgspec.json.encode((*old, *compiled)), indent=1).decode()
    (directory / INDEX).write_text(text, encoding="utf-8")
    size = sum(path.stat().st_size for path in directory.iterdir())
    failed = [f"{each.case} {each.candidate}: {each.error}" for each in compiled if each.error]
    print("\n".join([f"{len(compiled)} candidates, {size:,} bytes", *failed]))


def stored(directory: Path) -> tuple[Compiled, ...]:
    """What `compile_all` has left in a directory."""
    path = directory / INDEX
    return msgspec.json.decode(path.read_bytes(), type=tuple[Compiled, ...]) if path.exists() else ()


def _count(case: str) -> int:
    return len(implementation_of(CASES[case]).candidates(CASES[case]))


def _compile(directory: Path, case: str, index: int) -> Compiled:
    problem = CASES[case]
    implementation = implementation_of(problem)
    recipe = implementation.recipe(problem, implementation.candidates(problem)[index])
    try:
        code = compile_recipe(problem, recipe)
    except DmcError as error:
        return Compiled(case, index, (), str(error))
    return Compiled(case, index, written(directory, f"{case}.{index}", code))


def written(directory: Path, stem: str, code: KernelCode) -> tuple[Launch, ...]:
    """Writes the cubins of a recipe, as `stem.0.cubin`, `stem.1.cubin` …; returns how each is launched."""
    launches: list[Launch] = []
    for number, entry in enumerate(code.entries):
        file = f"{stem}.{number}.cubin"
        (directory / file).write_bytes(entry.cubin)
        maps = tuple(each and tensor_map(each) for each in entry.maps)
        launches.append(
            Launch(file, entry.name, entry.programs, entry.threads, entry.shared, entry.buffers, entry.nulls, maps)
        )
    return tuple(launches)

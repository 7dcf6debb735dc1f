"""Compiles recipes to machine code, ahead of time, on a machine without a GPU. Triton is needed only here."""

from __future__ import annotations

import hashlib
import importlib
import linecache
import re
import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dmc.dtypes import dtype_of
from dmc.errors import DmcError
from dmc.kernels.problem import Problem, TensorType
from dmc.kernels.recipe import Buffer, Call, Recipe, View, type_of
from dmc.memo import kept

_ALIGNMENT = 16
_THREADS = 32
# The limit per block, on Hopper.
_MOST_SHARED = 227 << 10


@dataclass(frozen=True)
class Map:
    """A tensor map of a buffer: its view, the size of its boxes, and their layout in shared memory."""

    dtype: str
    view: View
    box: tuple[int, ...]
    swizzle: int


@dataclass(frozen=True)
class Entry:
    """One launch of machine code: a pointer for each of `buffers`, then `nulls` null pointers.

    Pointers are multiples of 16 bytes, unless requested otherwise. threads: per block; shared: bytes of dynamic shared
    memory per block. maps: for each buffer the tensor map that the code takes instead of a pointer, followed by shape
    and strides, or None.
    """

    name: str
    cubin: bytes
    ptx: str
    programs: int
    threads: int
    shared: int
    buffers: tuple[Buffer, ...]
    nulls: int
    maps: tuple[Map | None, ...]


@dataclass(frozen=True)
class KernelCode:
    """The launches of a recipe in order, and the memory that they need besides operands and results."""

    entries: tuple[Entry, ...]
    scratch: tuple[TensorType, ...]


def compile_recipe(
    problem: Problem, recipe: Recipe, architecture: int = 90, loose: frozenset[Buffer] = frozenset()
) -> KernelCode:
    """Compiles every launch for compute capability `architecture` ÷ 10. Equal input gives equal bytes.

    Buffers begin at multiples of 16 bytes, except those in `loose`, which are only aligned to their element. Raises
    DmcError if Triton fails.
    """
    calls = [call.aligned(loose) for call in recipe.calls]
    entries = tuple(_compile(call, problem, recipe, architecture, loose) for call in calls)
    return KernelCode(entries, recipe.scratch)


def function_of(call: Call) -> Any:
    """The Triton function that a call launches. Equal sources give one function."""
    module, name = call.function.split(".")
    if call.source:
        return getattr(_module(call.source), name)
    return getattr(importlib.import_module(f"dmc.kernels.jit.{module}"), name)


def arguments_of(call: Call) -> tuple[Any, ...]:
    """The arguments of a call's function after its pointers."""
    return () if call.source else (call.shape,)


@kept(4096)
def _module(source: str) -> types.ModuleType:
    """The module with the text `source`."""
    name = f"generated_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    module = types.ModuleType(name)
    module.__file__ = f"<{name}>"
    # Triton reads the source of its functions with `inspect`, which looks here for code that is not in a file.
    linecache.cache[module.__file__] = (len(source), None, source.splitlines(keepends=True), module.__file__)
    exec(compile(source, module.__file__, "exec"), module.__dict__)
    return module


def _compile(call: Call, problem: Problem, recipe: Recipe, architecture: int, loose: frozenset[Buffer]) -> Entry:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource

    function, static = function_of(call), arguments_of(call)
    pointers = function.arg_names[: len(call.buffers)]
    is_gluon = function.is_gluon()
    types = [_parameter(type_of(buffer, problem, recipe), view, is_gluon) for buffer, view in call.parameters()]
    constants = dict(zip(function.arg_names[len(pointers) :], static, strict=True))
    signature = {**dict(zip(pointers, types, strict=True)), **dict.fromkeys(constants, "constexpr")}
    divisible = [["tt.divisibility", _ALIGNMENT]]
    aligned = {
        (index,): divisible
        for index, (buffer, view) in enumerate(call.parameters())
        if view is None and buffer not in loose
    }
    source = (GluonASTSource if is_gluon else ASTSource)(function, signature, constants, aligned)
    # Functions of libdevice keep subnormal numbers, too.
    options = {"num_warps": call.warps, "num_stages": call.stages, "enable_reflect_ftz": False}
    options |= {"maxnreg": call.registers} if call.registers else {}
    # Where the source lies on this machine is no part of the code.
    with triton.knobs.compilation.scope():
        triton.knobs.compilation.disable_line_info = True
        try:
            kernel = triton.compile(source, target=GPUTarget("cuda", architecture, _THREADS), options=options)
        except (triton.TritonError, RuntimeError) as error:
            raise DmcError(f"{call.function} for {problem}", f"does not compile ({error})", "choose another") from error
    dtypes = [type_of(buffer, problem, recipe).dtype for buffer in call.buffers]
    return _entry(kernel, call, dtypes)


def _entry(kernel: Any, call: Call, dtypes: Sequence[str]) -> Entry:
    metadata = kernel.metadata
    if metadata.global_scratch_size or metadata.profile_scratch_size:
        raise DmcError(call.function, "requires hidden memory", hint="let the host make the tensor maps of the kernel")
    if metadata.shared > _MOST_SHARED:
        fact = f"requires {metadata.shared} bytes of shared memory; the limit is {_MOST_SHARED}"
        raise DmcError(call.function, fact, hint="choose smaller tiles or fewer stages")
    entry = re.search(r"\.visible \.entry \w+\((.*?)\n\)", kernel.asm["ptx"], re.DOTALL)
    assert entry is not None, "PTX has an entry"
    parameters = entry[1].count(".param")
    maps = _maps(kernel, call, dtypes)
    return Entry(
        name=metadata.name,
        cubin=kernel.asm["cubin"],
        ptx=kernel.asm["ptx"],
        programs=call.programs,
        threads=_THREADS * metadata.num_warps,
        shared=metadata.shared,
        buffers=call.buffers,
        nulls=parameters - sum(1 if each is None else 1 + 2 * len(each.box) for each in maps),
        maps=maps,
    )


def _maps(kernel: Any, call: Call, dtypes: Sequence[str]) -> tuple[Map | None, ...]:
    described = iter(kernel.metadata.tensordesc_meta or ())
    maps: list[Map | None] = []
    for (_, view), dtype in zip(call.parameters(), dtypes, strict=True):
        known = None if view is None else next(described)
        maps.append(view and known and Map(dtype, view, tuple(known["block_size"]), known["swizzle"]))
    return tuple(maps)


def _parameter(tensor: TensorType, view: View | None, is_gluon: bool) -> str:
    dtype = dtype_of(tensor.dtype).pointee
    if view is None:
        return f"*{dtype}"
    tile = f"{dtype}[{', '.join(map(str, view.tile))}]"
    return f"tensordesc<{tile}, {_layout(tensor, view)!r}>" if is_gluon else f"tensordesc<{tile}>"


def _layout(tensor: TensorType, view: View) -> Any:
    """How a tile lies in shared memory, which Triton chooses by itself."""
    from triton.experimental.gluon import language as gl

    # Its type differs between versions of Triton.
    make: Any = gl.NVMMASharedLayout.get_default_for
    return make(list(view.tile), getattr(gl, dtype_of(tensor.dtype).triton))

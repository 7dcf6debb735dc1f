"""Triton's code in the cache on disk (`dmc.cache`), by recipe, the sources of `dmc.kernels`, and versions."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Collection
from importlib import metadata
from pathlib import Path

import msgspec

from dmc.cache import find, keep
from dmc.errors import CodegenError, DmcError
from dmc.kernels.code import KernelCode
from dmc.kernels.problem import Problem
from dmc.kernels.recipe import Buffer, Recipe

# The code, or why there is none: place, fact and hint of an error.
_Stored = KernelCode | list[str]


def find_code(problem: Problem, recipe: Recipe, loose: Collection[Buffer]) -> KernelCode | DmcError | None:
    """The code of a recipe, or why there is none; None if that is not known."""
    stored = find(_parts(problem, recipe, loose))
    if stored is None:
        return None
    known = msgspec.msgpack.decode(stored, type=_Stored)
    return known if isinstance(known, KernelCode) else DmcError(*known)


def keep_code(problem: Problem, recipe: Recipe, loose: Collection[Buffer], answer: KernelCode | DmcError) -> None:
    """Keeps the code of a recipe, or why there is none. That the compiler crashed or hung may not repeat."""
    if isinstance(answer, CodegenError):
        return
    stored = [answer.place, answer.fact, answer.hint] if isinstance(answer, DmcError) else answer
    keep(_parts(problem, recipe, loose), msgspec.msgpack.encode(stored))


def _parts(problem: Problem, recipe: Recipe, loose: Collection[Buffer]) -> list[str]:
    settings = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("TRITON_PTXAS")]
    ordered = sorted(loose, key=lambda each: (each.role, each.index))
    return [metadata.version("triton"), sources(), *settings, repr(problem), repr(recipe), repr(ordered)]


@functools.cache
def sources() -> str:
    """The digest of all sources of `dmc.kernels`."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()

"""Compiles recipes in separate processes, several at a time.

Triton cannot compile in a process where it interprets, holds Python's lock while it compiles, and may crash or hang its
process: such a recipe is isolated, and the others are still compiled.
"""

from __future__ import annotations

import importlib
import os
import pickle
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from dmc import processes
from dmc.errors import CodegenError, CodegenFailure, DmcError
from dmc.kernels.code import KernelCode, compile_recipe
from dmc.kernels.kept import find_code, keep_code
from dmc.kernels.problem import Problem
from dmc.kernels.recipe import Buffer, Recipe

# A recipe may take so long to compile: a hundred times what most take on one idle core.
PATIENCE_S, _START_S = 300.0, 300.0
# More processes than this do not compile a step's kernels faster.
_MOST = 8


@dataclass(frozen=True)
class Request:
    """The arguments of `compile_recipe`."""

    problem: Problem
    recipe: Recipe
    loose: frozenset[Buffer] = frozenset()


# The code, or why there is none.
Answer: TypeAlias = KernelCode | DmcError


def compile_all(requests: Sequence[Request]) -> list[Answer]:
    """The answer to each request, in order."""
    kept = {each: find_code(each.problem, each.recipe, each.loose) for each in requests}
    missing = [each for each, answer in kept.items() if answer is None]
    made = dict(zip(missing, _compiled(missing), strict=True))
    for each, answer in made.items():
        keep_code(each.problem, each.recipe, each.loose, answer)
    return [kept[each] or made[each] for each in requests]


def _compiled(requests: Sequence[Request]) -> list[Answer]:
    workers = min(os.cpu_count() or 1, len(requests), _MOST)
    shares = [list(range(first, len(requests), workers)) for first in range(workers)]
    answers: dict[int, Answer] = {}
    with ThreadPoolExecutor(max(workers, 1)) as pool, tempfile.TemporaryDirectory() as directory:
        for share, answered in zip(
            shares, pool.map(lambda each: _answered([requests[i] for i in each], directory), shares), strict=True
        ):
            answers.update(zip(share, answered, strict=True))
    return [answers[i] for i in range(len(requests))]


def _answered(requests: Sequence[Request], directory: str) -> list[Answer]:
    """The answers of one process, or of several, if one crashes or hangs."""
    answers: list[Answer] = []
    while len(answers) < len(requests):
        answers += _asked(requests[len(answers) :], directory)
    return answers


def _asked(requests: Sequence[Request], directory: str) -> Iterator[Answer]:
    """The answers of one process, until it has answered all, or crashes or hangs."""
    count = 0
    how: CodegenFailure = "crashed"
    try:
        for answer in _said(requests, directory):
            count += 1
            yield answer
    except TimeoutError:
        how = "late"
    if count < len(requests):
        fact = "crashes Triton's compiler" if how == "crashed" else "takes Triton's compiler too long"
        yield CodegenError(str(requests[count].problem), fact, "please report the model", how=how)


def _said(requests: Sequence[Request], directory: str) -> Iterator[Answer]:
    """The answers of one process, until it ends. Raises TimeoutError if one takes too long."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    # This process may have found dmc where a new one would not look.
    environment["PYTHONPATH"] = processes.own_path()
    # Triton's own cache has no limit; the results are kept in dmc's.
    environment["TRITON_CACHE_DIR"] = directory
    with tempfile.NamedTemporaryFile(dir=directory) as asked:
        asked.write(pickle.dumps(list(requests)))
        asked.flush()
        process = processes.start([sys.executable, "-m", __name__, asked.name], environment, errors=None)
        try:
            frames = _frames(process)
            if next(frames, None) is None:
                raise CodegenError("Triton's compiler", "does not start", hint="is Triton installed?")
            for kind, value in frames:
                yield value if kind == "code" else DmcError(*value)
        finally:
            processes.stop(process)


def _frames(process: subprocess.Popen[bytes]) -> Iterator[tuple[str, Any]]:
    """What `_serve` writes, until the process ends. Raises TimeoutError if it writes nothing for too long."""
    assert process.stdout is not None
    out, said, patience = process.stdout.fileno(), b"", _START_S
    while select.select([out], [], [], patience)[0]:
        data = os.read(out, 1 << 20)
        if not data:
            return
        said, patience = said + data, PATIENCE_S
        while len(said) >= 8 and len(said) >= (end := 8 + int.from_bytes(said[:8], "little")):
            yield pickle.loads(said[8:end])
            said = said[end:]
    raise TimeoutError


def _serve(requests: Sequence[Request], out: BinaryIO) -> None:
    """Writes that it is ready, and the answers, each as soon as it is known, prefixed by its length."""
    importlib.import_module("triton")
    _write(("ready", None), out)
    for each in requests:
        try:
            _write(("code", compile_recipe(each.problem, each.recipe, loose=each.loose)), out)
        except DmcError as error:
            _write(("error", (error.place, error.fact, error.hint)), out)


def _write(frame: tuple[str, Any], out: BinaryIO) -> None:
    data = pickle.dumps(frame)
    out.write(len(data).to_bytes(8, "little") + data)
    out.flush()


if __name__ == "__main__":
    # Redirects whatever Triton prints.
    _out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _serve(pickle.loads(Path(sys.argv[1]).read_bytes()), _out)

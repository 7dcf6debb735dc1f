"""Compiles recipes in separate processes, several at a time.

Triton cannot compile in a process where it interprets, holds Python's lock while it compiles, and may crash its
process: such a recipe is isolated, and the others are still compiled.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

from dmc.errors import DmcError
from dmc.kernels.code import KernelCode, compile_recipe
from dmc.kernels.problem import Problem
from dmc.kernels.recipe import Buffer, Recipe

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
    workers = min(os.cpu_count() or 1, len(requests), _MOST)
    shares = [list(range(first, len(requests), workers)) for first in range(workers)]
    answers: dict[int, Answer] = {}
    with ThreadPoolExecutor(max(workers, 1)) as pool:
        for share, answered in zip(
            shares, pool.map(lambda each: _answered([requests[i] for i in each]), shares), strict=True
        ):
            answers.update(zip(share, answered, strict=True))
    return [answers[i] for i in range(len(requests))]


def _answered(requests: Sequence[Request]) -> list[Answer]:
    """The answers of one process, or of several, if one crashes."""
    answers: list[Answer] = []
    while len(answers) < len(requests):
        rest = requests[len(answers) :]
        found = list(_asked(rest))
        answers += found
        if len(found) < len(rest):
            fact = "crashes Triton's compiler"
            answers.append(DmcError(str(rest[len(found)].problem), fact, "please report the model"))
    return answers


def _asked(requests: Sequence[Request]) -> Iterator[Answer]:
    """The answers of one process, until it ends or crashes."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    # This process may have found dmc where a new one would not look.
    environment["PYTHONPATH"] = os.pathsep.join(each for each in sys.path if each)
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        said, _ = process.communicate(pickle.dumps(list(requests)))
    stream = memoryview(said)
    while stream:
        size = int.from_bytes(stream[:8], "little")
        if len(stream) < 8 + size:
            return
        kind, value = pickle.loads(stream[8 : 8 + size])
        yield value if kind == "code" else DmcError(*value)
        stream = stream[8 + size :]


def _serve(requests: Sequence[Request], out: BinaryIO) -> None:
    """Writes the answers, each as soon as it is known, prefixed by its length."""
    for each in requests:
        answer: tuple[str, Any]
        try:
            answer = "code", compile_recipe(each.problem, each.recipe, loose=each.loose)
        except DmcError as error:
            answer = "error", (error.place, error.fact, error.hint)
        data = pickle.dumps(answer)
        out.write(len(data).to_bytes(8, "little") + data)
        out.flush()


if __name__ == "__main__":
    # Redirects whatever Triton prints.
    _out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _serve(pickle.loads(sys.stdin.buffer.read()), _out)

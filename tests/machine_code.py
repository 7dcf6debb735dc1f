"""Generated kernels as machine code for a GPU.

They are compiled in a process of its own: Triton's interpreter, which other tests use, cannot compile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

PROGRAM = r"""
import json, sys, tempfile, triton
from dmc import dialect
from dmc._mlir import ir
from dmc.kernels.code import compile_recipe
from dmc.kernels.generated import generate

triton.knobs.cache.dir = tempfile.mkdtemp()
with ir.Context() as context, ir.Location.unknown():
    dialect.load(context)
    for text, number in json.load(sys.stdin):
        module = ir.Module.parse(text)
        generated = generate(module.body.operations[0])
        recipe = generated.recipes[number]
        entries = compile_recipe(generated.problem, recipe).entries
        print(json.dumps([
            {"name": each.name, "ptx": each.ptx, "is_elf": each.cubin[:4] == b"\x7fELF", "threads": each.threads,
             "pointers": len(each.buffers) + each.nulls, "stages": call.stages}
            for each, call in zip(entries, recipe.calls)
        ]))
"""


def machine_code(regions: Sequence[tuple[str, int]]) -> list[list[dict[str, Any]]]:
    """The entries of the code of each region, by its text and the number of a recipe."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        input=json.dumps(regions),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]

"""The sources of generated kernels as they read, and the machine code that they become."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.generated_golden import SIZES, source
from tests.generated_regions import FOLDER

# A process of its own: Triton's interpreter, which other tests use, cannot compile.
PROGRAM = r"""
import re, sys, tempfile, triton
from dmc import dialect
from dmc._mlir import ir
from dmc.kernels.code import compile_recipe
from dmc.kernels.generated import generate

triton.knobs.cache.dir = tempfile.mkdtemp()
with ir.Context() as context, ir.Location.unknown():
    dialect.load(context)
    for text in sys.stdin.read().split("// next"):
        module = ir.Module.parse(text)
        generated = generate(module.body.operations[0])
        code = compile_recipe(generated.problem, generated.recipes[-1])
        for entry in code.entries:
            assert entry.cubin[:4] == b"\x7fELF" and "sm_90" in entry.ptx, entry.name
            assert "generated_" not in entry.ptx, "the code says where its source lies"
            assert entry.ptx.count(".param .u64") == len(entry.buffers) + entry.nulls, entry.name
        print(*(entry.name for entry in code.entries), "wgmma" in code.entries[0].ptx)
    in_turn = compile_recipe(generated.problem, generated.recipes[0]).entries[0]
    assert in_turn.threads == 384 and "setmaxnreg" in in_turn.ptx, "two groups that multiply, and one that copies"
    # One thread says that a product is done: for its whole group, which meets at a barrier before.
    steps = re.findall(r"bar\.sync|wgmma|mbarrier\.arrive\.shared::cta", in_turn.ptx)
    before = [steps[i - 1] for i, step in enumerate(steps) if step.startswith("mbarrier")]
    assert before and set(before) == {"bar.sync"}, before
"""


@pytest.mark.parametrize("name", SIZES)
def test_a_source_reads_as_the_golden_file(context: Any, name: str) -> None:
    hint = "if the change is meant: python -m tests.generated_golden"
    assert source(name) == (FOLDER / f"{name}.golden").read_text(encoding="utf-8"), hint


def test_every_schedule_becomes_machine_code() -> None:
    texts = [(FOLDER / f"{name}.mlir.in").read_text(encoding="utf-8") for name in ("elements", "rows", "columns")]
    for i, sizes in enumerate(
        ({"r": 300, "c": 70, "n": 21000}, {"r": 300, "c": 20000, "n": 600}, {"r": 3000, "c": 65})
    ):
        for name, size in sizes.items():
            texts[i] = texts[i].replace(f"${name}", str(size))
    product = (FOLDER / "product.mlir.in").read_text(encoding="utf-8")
    for name, size in {"type": "bf16", "m": 129, "n": 70, "k": 2048}.items():
        product = product.replace(f"${name}", str(size))
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    large = (FOLDER / "product.mlir.in").read_text(encoding="utf-8")
    for name, size in {"type": "bf16", "m": 4104, "n": 1024, "k": 136}.items():
        large = large.replace(f"${name}", str(size))
    text = "// next".join([*texts, product, large])
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines == ["region False", "region False", "region region_2 False", "region region_2 True", "region True"], (
        lines
    )

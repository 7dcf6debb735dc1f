"""The kernels written by hand become machine code for a Hopper GPU on a machine without one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bench.kernel_cases import CASES
from dmc.errors import DmcError
from dmc.kernels.implementation import implementation_of, implementations
from dmc.kernels.problem import TensorType, problem
from dmc.kernels.recipe import type_of

# One problem of each family, one that is quick to compile; and attention whose bias is one row for all, and a part.
FAMILIES = (
    *("bert_attention_padded", "bert_attention_padded_backward", "gpt2_attention_part", "gpt2_attention_part_backward"),
    *("gpt2_attention", "gpt2_positions_backward", "llama_embedding_part_backward"),
    *("large_embedding_backward", "wide_attention", "wide_attention_backward", "gpt2_loss"),
    *("experts_order", "experts_backward", "experts_matrices"),
)

# A process of its own: Triton's interpreter, which other tests use, cannot compile.
PROGRAM = """
import sys, tempfile, triton
from bench.kernel_cases import CASES
from dmc.kernels.code import compile_recipe
from dmc.kernels.implementation import implementation_of

def compiled(case):
    wanted = CASES[case]
    implementation = implementation_of(wanted)
    # Nothing that an earlier compilation left behind.
    triton.knobs.cache.dir = tempfile.mkdtemp()
    return compile_recipe(wanted, implementation.recipe(wanted, implementation.candidates(wanted)[0]))

for case in sys.argv[1:]:
    code = compiled(case)
    assert case != "gpt2_attention" or "wgmma" in code.entries[0].ptx
    for entry in code.entries:
        assert entry.cubin[:4] == b"\\x7fELF" and "sm_90" in entry.ptx, entry.name
        assert "jit/" not in entry.ptx, "the code says where its source lies"
        maps = [each for each in entry.maps if each]
        # A tensor map of 128 bytes, and its strides.
        pointers = len(entry.buffers) - len(maps) + entry.nulls + sum(len(each.box) for each in maps)
        assert entry.ptx.count(".param .u64") == pointers, entry.name
        assert entry.ptx.count(".param .align 64 .b8") == len(maps), entry.name
        assert entry.threads % 32 == 0 and entry.shared <= 227 * 1024, entry.name
again = compiled(sys.argv[-1])
assert again == code, "equal input gives equal bytes"
"""


def _succeeds(program: str, *arguments: str) -> None:
    """Runs a program in a process whose kernels are compiled."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_family_becomes_machine_code() -> None:
    _succeeds(PROGRAM, *FAMILIES)


@pytest.mark.parametrize("case", CASES)
def test_every_recipe_names_what_there_is(case: str) -> None:
    wanted = CASES[case]
    implementation = implementation_of(wanted)
    for candidate in implementation.candidates(wanted):
        recipe = implementation.recipe(wanted, candidate)
        assert all(type_of(buffer, wanted, recipe).bytes for call in recipe.calls for buffer in call.buffers)
        assert all(call.programs > 0 for call in recipe.calls)
        written = {buffer for call in recipe.calls for buffer in call.buffers if buffer.role == "result"}
        assert {index for role, index in ((b.role, b.index) for b in written) if role == "result"} == set(
            range(len(wanted.results))
        )
    assert len(set(implementation.candidates(wanted))) == len(implementation.candidates(wanted))


def test_what_no_implementation_takes_is_refused_with_its_reason() -> None:
    with pytest.raises(DmcError, match="no implementation of this kind"):
        implementation_of(problem("lstm_cell", (), ()))
    operands = (TensorType("f32", (2, 8)), TensorType("i32", (2,)))
    with pytest.raises(DmcError, match="the index does not have 64 bits"):
        implementation_of(problem("embedding_backward", operands, (TensorType("f32", (9, 8)),), padding_index=-1))


def test_names_are_of_one_implementation_each() -> None:
    names = [implementation.name for implementation in implementations()]
    assert names == sorted(set(names))


LOSS = """
import re
from bench.kernel_cases import CASES
from dmc.kernels.code import compile_recipe
from dmc.kernels.implementation import implementation_of

wanted = CASES["gpt2_loss_both"]
kernel = implementation_of(wanted)
for chosen in kernel.candidates(wanted):
    ptx = compile_recipe(wanted, kernel.recipe(wanted, chosen)).entries[0].ptx
    made = dict(re.findall(r"(%r\\d+), ([^;]*);", ptx))
    code = {name: op for op, name in re.findall(r"([a-z0-9.]+)\\s+(%r\\d+),", ptx)}
    powers = re.findall(r"ex2\\.approx\\S*\\s+%r\\d+, (%r\\d+)", ptx)
    # What sums were relative to before, less what they are now: no product is computed anew in one instruction.
    rescaled = [each for each in powers if code[each].startswith("sub")]
    # Of eight lanes a thread: in the loop, in the last tile, and in the end.
    assert len(rescaled) >= 24, (chosen, len(rescaled))
    for each in rescaled:
        assert any(code.get(name, "").startswith("max") for name in made[each].split(", ")), chosen
    # Of a row: log-sum-exp and loss, then its gradient, then that of its target; in between, all threads wait.
    stores = [each.start() for each in re.finditer("st.global", ptx)]
    assert "bar.sync" in ptx[stores[1] : stores[2]] and "bar.sync" in ptx[stores[-2] : stores[-1]], chosen
"""


def test_what_only_the_machine_code_of_a_loss_shows() -> None:
    _succeeds(LOSS)


PAIRS = """
import importlib.util
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# Triton reads the sources of its functions from files.
SOURCE = '''
import triton
import triton.language as tl
from dmc.kernels.jit import functions

@triton.jit
def number(x, y):
    tl.store(y, functions.{0}(tl.load(x)))

@triton.jit
def one(x, y):
    place = tl.arange(0, 1)
    tl.store(y + place, functions.{0}(tl.load(x + place)))

@triton.jit
def two(x, y):
    place = tl.arange(0, 2)
    tl.store(y + place, functions.{0}(tl.load(x + place)))
'''
for name, type_ in (("widened", "*bf16"), ("nearest", "*fp32")):
    path = Path(tempfile.mkdtemp()) / "kernels.py"
    path.write_text(SOURCE.format(name))
    spec = importlib.util.spec_from_file_location("kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for function in (module.number, module.one, module.two):
        made = triton.compile(ASTSource(function, {"x": type_, "y": "*fp32"}), target=GPUTarget("cuda", 90, 32))
        assert ("0xffff0000" in made.asm["ptx"] or "-65536" in made.asm["ptx"]) == (function is module.two), name
"""


def test_numbers_without_a_second_for_their_pair() -> None:
    _succeeds(PAIRS)

"""IREE's code for a GPU rounds to bfloat16 wherever the step does: nothing is done for it, so it is looked at."""

from __future__ import annotations

import re

import pytest

from dmc import dialect
from dmc._mlir import ir
from dmc.lowering.cuda.device_code import device_code
from dmc.lowering.kernels.kernels import compile_kernels
from dmc.program import Job, Kernel, Lane, Launch, Operand, Program, Range
from dmc.program.code import MAIN, DeviceCode, Dispatch
from dmc.target import CUDA

# To round is an instruction, the last addition to the bits of a number of f32, or part of arithmetic in bfloat16.
ROUNDING = re.compile(r"cvt\.rn\.bf16\.f32\s|add\.s32\s[^;]*, 32767;|(?:fma|add|sub|mul)\.rn\.bf16\s")
LOOP = """
func.func private @{name}(%p: tensor<32xf32>, %q: tensor<32xf32>) -> tensor<32xf32> {{
  %empty = tensor.empty() : tensor<32xf32>
  %r = linalg.generic {{indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}}
      ins(%p, %q : tensor<32xf32>, tensor<32xf32>) outs(%empty : tensor<32xf32>) {{
  ^bb0(%x: f32, %y: f32, %out: f32):
    {body}
    linalg.yield %z : f32
  }} -> tensor<32xf32>
  return %r : tensor<32xf32>
}}"""
# Rounds in one loop, and reads the result in another, or in a sum.
LOOPS = """
func.func private @{name}(%p: tensor<32xf32>, %q: tensor<32xf32>) -> tensor<{result}> {{
  %narrow = tensor.empty() : tensor<32xbf16>
  %wide = tensor.empty() : tensor<{result}>
  %zero = arith.constant 0.0 : f32
  %filled = linalg.fill ins(%zero : f32) outs(%wide : tensor<{result}>) -> tensor<{result}>
  %a = linalg.generic {{indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}}
      ins(%p, %q : tensor<32xf32>, tensor<32xf32>) outs(%narrow : tensor<32xbf16>) {{
  ^bb0(%x: f32, %y: f32, %out: bf16):
    %b = arith.mulf %x, %y : f32
    %c = arith.truncf %b : f32 to bf16
    linalg.yield %c : bf16
  }} -> tensor<32xbf16>
  %r = linalg.generic {{indexing_maps = [#id, {map}], iterator_types = ["{kind}"]}}
      ins(%a : tensor<32xbf16>) outs(%filled : tensor<{result}>) {{
  ^bb0(%x: bf16, %out: f32):
    %d = arith.extf %x : bf16 to f32
    %e = arith.addf %d, %out : f32
    linalg.yield %e : f32
  }} -> tensor<{result}>
  return %r : tensor<{result}>
}}"""
NARROW = "%a = arith.truncf %x : f32 to bf16\n%b = arith.truncf %y : f32 to bf16\n"
WIDE = "\n%z = arith.extf %d : bf16 to f32"
# Each with how often it rounds. MLIR itself leaves out casts that say that they may be left out.
KERNELS = {
    "unrounded": (LOOP, {"body": "%z = arith.mulf %x, %y : f32"}, 0),
    "contracted": (
        LOOP,
        {
            "body": "%a = arith.truncf %x fastmath<contract> : f32 to bf16\n"
            "%z = arith.extf %a fastmath<contract> : bf16 to f32"
        },
        0,
    ),
    "cast_and_back": (LOOP, {"body": "%d = arith.truncf %x : f32 to bf16" + WIDE}, 1),
    "product_and_sum": (
        LOOP,
        {"body": f"{NARROW}%c = arith.mulf %a, %b : bf16\n%d = arith.addf %c, %a : bf16{WIDE}"},
        4,
    ),
    "quotients": (LOOP, {"body": f"{NARROW}%c = arith.divf %a, %b : bf16\n%d = arith.divf %c, %a : bf16{WIDE}"}, 4),
    "functions": (LOOP, {"body": f"{NARROW}%c = math.exp %a : bf16\n%d = math.tanh %c : bf16{WIDE}"}, 3),
    "roots": (LOOP, {"body": f"{NARROW}%c = math.sqrt %a : bf16\n%d = math.rsqrt %c : bf16{WIDE}"}, 3),
    "another_loop": (LOOPS, {"result": "32xf32", "map": "#id", "kind": "parallel"}, 1),
    "sum": (LOOPS, {"result": "f32", "map": "#none", "kind": "reduction"}, 1),
}


@pytest.fixture(scope="module")
def code() -> DeviceCode:
    """Of all kernels."""
    text = "".join(form.format(name=name, **fields) for name, (form, fields, _) in KERNELS.items())
    maps = "#id = affine_map<(d0) -> (d0)>\n#none = affine_map<(d0) -> ()>"
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        library = compile_kernels(ir.Module.parse(maps + text), list(KERNELS), CUDA)
    operand, launches, kernels = Operand("f32", (32,)), list[Launch](), dict[str, Kernel]()
    for name, (_, fields, _) in KERNELS.items():
        kernels[name] = Kernel(name, (operand, operand), (operand,), 1, 1)
        scratch = library.kernels[name].scratch
        result = Range("device", 512, 4 if fields.get("result") == "f32" else 128)
        at = Range("device", 1024, scratch) if scratch else None
        launches.append(Launch(0, name, (Range("device", 0, 128), Range("device", 256, 128)), (result,), at))
    program = Program(0, {"device": 4096}, (Lane("compute", "compute"),), (), tuple(launches))
    return device_code(Job.of({"rank": 1}, (), kernels, (program,)), library, CUDA)


@pytest.mark.parametrize("name", KERNELS)
def test_each_rounding_stands_in_the_code(code: DeviceCode, name: str) -> None:
    bodies = dict(re.findall(r"\.entry ([\w$.]+)\(.*?\)\s(.*?)ret;", code.modules[MAIN].ptx, re.DOTALL))
    entries = [step.entry for step in code.kernels[name] if isinstance(step, Dispatch)]
    assert sum(len(ROUNDING.findall(bodies[each])) for each in entries) == KERNELS[name][2]

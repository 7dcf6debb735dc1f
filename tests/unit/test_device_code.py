"""The code of kernels for a GPU, as it is taken out of what IREE makes of a job."""

from __future__ import annotations

import pytest

from dmc import dialect
from dmc._mlir import ir
from dmc.lowering.device_code import device_code
from dmc.lowering.kernels import compile_kernels
from dmc.program import Job, Kernel, Lane, Launch, Operand, Program, Range
from dmc.program.code import MAIN, Dispatch
from dmc.target import CUDA

NEGATED = """
func.func private @negated(%x: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.negf %x : tensor<64xf32>
  return %z : tensor<64xf32>
}"""


def _job(*offsets: int) -> Job:
    """The kernel on operands at these offsets."""
    operand = Operand("f32", (64,))
    kernel = Kernel("negated", (operand,), (operand,), 64, 512)
    commands = tuple(
        Launch(0, "negated", (Range("device", offset, 256),), (Range("device", 1024, 256),)) for offset in offsets
    )
    program = Program(0, {"device": 1280}, (Lane("compute", "compute"),), (), commands)
    return Job({"rank": 1}, (), {"negated": kernel}, (program,))


@pytest.mark.parametrize(("offsets", "prefix"), [((0,), ""), ((4,), "aligned_4_"), ((0, 36, 32), "aligned_4_")])
def test_the_entry_takes_the_least_aligned_operand(offsets: tuple[int, ...], prefix: str) -> None:
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        library = compile_kernels(ir.Module.parse(NEGATED), ["negated"], CUDA)
    code = device_code(_job(*offsets), library, CUDA)
    (step,) = code.kernels["negated"]
    assert isinstance(step, Dispatch)
    assert step.entry.startswith(f"{prefix}negated_dispatch_0")
    assert f".entry {step.entry}(" in code.modules[MAIN].ptx

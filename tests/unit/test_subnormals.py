"""Functions of IREE's program for a CPU begin with what lets their thread keep subnormal numbers."""

from __future__ import annotations

from dmc.lowering.stream.subnormals import with_subnormals

PROGRAM = """
  util.global private @lane0 = #hal.device.target<"local", [#hal.executable.target<{target_triple = "TRIPLE"}>]>
    builtin.module {
      func.func @add(%arg0: !stream.binding {stream.alignment = 64 : index}, %arg1: !stream.binding) {
        %c0 = arith.constant 0 : index
      }
      func.func private @other(f32) -> f32
    }
"""


def _lines(triple: str) -> list[str]:
    return with_subnormals(PROGRAM.replace("TRIPLE", triple)).splitlines()


def test_each_dispatch_begins_with_it() -> None:
    for triple, instruction in (("x86_64-unknown-unknown-eabi-elf", "ldmxcsr"), ("aarch64-unknown-linux", "msr fpcr")):
        before, after = (
            next(number for number, line in enumerate(_lines(triple)) if part in line) for part in ("@add", "%c0 =")
        )
        (first,) = _lines(triple)[before + 1 : after]
        assert "llvm.inline_asm has_side_effects" in first and instruction in first
        assert sum("inline_asm" in line for line in _lines(triple)) == 1


def test_processors_without_such_a_mode_need_nothing() -> None:
    assert _lines("riscv64-unknown-linux") == PROGRAM.replace("TRIPLE", "riscv64-unknown-linux").splitlines()

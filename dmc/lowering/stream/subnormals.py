"""Numbers below the smallest normal one are kept in code for CPUs, as PyTorch keeps them.

IREE's runtime lets its threads take such numbers for zero, read and written, and has no option for it
(`iree_task_worker_main`, in its `task/worker.c`). So each function of IREE's program begins with what clears those two
modes of its thread: a few cycles.
"""

from __future__ import annotations

import re

_TRIPLE = re.compile(r'target_triple = "(\w+?)-')
# A function by which a dispatch is called: its arguments are the buffers of the dispatch.
_ENTRY = re.compile(r"^( *)func\.func @[^\n]*!stream\.binding[^\n]*\{\n", re.MULTILINE)
# By architecture: instructions, and the registers that they change. On x86-64 the control word goes through the stack,
# beyond the 128 bytes below its top that belong to the function: without FTZ and DAZ, of which the first is bit 15. On
# ARM it is a register: without FZ and FZ16. Other processors have no such mode, as RISC-V, or IREE does not set it.
_CLEARING = {
    "x86_64": (
        (
            "subq $$136, %rsp",
            "stmxcsr (%rsp)",
            "andl $$0xffff7fbf, (%rsp)",
            "ldmxcsr (%rsp)",
            "addq $$136, %rsp",
        ),
        "~{memory},~{dirflag},~{fpsr},~{flags}",
    ),
    "aarch64": (
        ("mrs x9, fpcr", "and x9, x9, #0xfffffffffeffffff", "and x9, x9, #0xfffffffffff7ffff", "msr fpcr, x9"),
        "~{memory},~{x9}",
    ),
}


def with_subnormals(program: str) -> str:
    """The stream-level program, each of whose functions keeps subnormal numbers, whichever thread runs it."""
    architectures = set(_TRIPLE.findall(program)) & _CLEARING.keys()
    if not architectures:
        return program
    (architecture,) = architectures
    instructions, changed = _CLEARING[architecture]
    text = r"\0A".join(instructions)
    clearing = f'llvm.inline_asm has_side_effects asm_dialect = att "{text}", "{changed}" : () -> ()'
    return _ENTRY.sub(lambda entry: f"{entry[0]}{entry[1]}  {clearing}\n", program)

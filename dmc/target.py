"""The machines a step can be compiled for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dmc.errors import DmcError


@dataclass(frozen=True)
class Target:
    """A kind of machine by name, the machine for which steps are scheduled by default, and the flags of IREE's
    compiler.

    The compiler runs anywhere: no GPU is needed to compile for one. has_kernels: whether kernels of `dmc.kernels` and
    libraries run on it, or IREE's code alone. most_bindings: the most buffers that IREE's runtime accepts for a kernel.
    """

    name: str
    machine: str
    iree_flags: tuple[str, ...]
    has_kernels: bool = False
    most_bindings: int = 32

    @property
    def most_values(self) -> int:
        """The operands and results that a kernel should have at most: IREE binds some buffers of its own."""
        return self.most_bindings * 3 // 4


def _cpu(processor: str) -> Target:
    flags = ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu")
    return Target("cpu", "cpu", (*flags, f"--iree-llvmcpu-target-cpu={processor}"))


CPU = _cpu("host")
# IREE does not support Hopper; sm_80 code runs on all later GPUs. Its products on tensor cores read factors beyond
# their ends where these fill no tile, and a NaN there times zero is one: `check_products` refuses what is left of them.
_CUDA_FLAGS = (
    "--iree-hal-target-device=cuda",
    "--iree-cuda-target=sm_80",
    "--iree-codegen-llvmgpu-use-tile-and-fuse-matmul=false",
    "--iree-codegen-llvmgpu-use-vector-distribution=false",
)
CUDA = Target("cuda", "h200", _CUDA_FLAGS, has_kernels=True)
# Its plan is that of IREE's runtime (`executor="iree"`), whoever carries it out.
CUDA_BY_IREE = replace(CUDA, has_kernels=False, most_bindings=16)

TARGETS = {target.name: target for target in (CPU, CUDA)}


def target(name: str) -> Target:
    """The target of that name; raises DmcError if there is none.

    "cpu" is the processor of this machine; "cpu:x86-64-v3" names another by LLVM's name for it ("generic": any).
    "cuda:iree" is a GPU that runs IREE's code alone.
    """
    if name == "cuda:iree":
        return CUDA_BY_IREE
    kind, _, processor = name.partition(":")
    if kind == CPU.name and processor:
        return _cpu(processor)
    if name not in TARGETS:
        hint = f"use {' or '.join(TARGETS)}, or name a processor as in cpu:x86-64-v3"
        raise DmcError(f"target '{name}'", "does not exist", hint=hint)
    return TARGETS[name]


def targets(names: str) -> tuple[Target, ...]:
    """One target, or several of different kinds joined by "+" ("cpu+cuda"). Raises DmcError."""
    found = tuple(target(name) for name in names.split("+"))
    if len({each.name for each in found}) < len(found):
        raise DmcError(f"target '{names}'", "names one kind of machine twice", hint="name each kind once")
    return found

"""The cost of kernels and moves on a machine: a measured time if there is one, else a roofline."""

from __future__ import annotations

import math
import re

from dmc.errors import DmcError
from dmc.machine.machine import Machine
from dmc.program import DEVICE, HOST, PINNED_HOST, STAGED, Kernel
from dmc.program.sizes import element_bytes

_NS = 1e9
_KINDS: dict[str, str] = {HOST: PINNED_HOST, STAGED: DEVICE}


def kernel_ns(machine: Machine, kind: str, flops: int, traffic: int, dtype: str) -> float:
    """Nanoseconds of a kernel: max(flops / rate, traffic / bandwidth) / efficiency, plus the launch floor.

    kind: "matmul", "reduction", "elementwise" or "other". traffic: bytes from and to device memory. dtype: MLIR's name
    of the type that it computes in. The model is the roofline of Williams, Waterman and Patterson (2009), with one
    efficiency per kind. Raises DmcError for a kind or a type without a figure for the machine.
    """
    device = machine.device
    if kind not in device.efficiency.shares:
        hint = f"kinds are {', '.join(device.efficiency.shares)}"
        raise DmcError(f"kernel of kind '{kind}'", f"has no efficiency on {device.name}", hint=hint)
    return _roofline_ns(machine, kind, flops, traffic, dtype) / device.efficiency.shares[kind] + device.launch.ns


def launch_ns(machine: Machine, kernel: Kernel) -> float:
    """Nanoseconds of a launch of `kernel`: as measured, else by what its family attains, else `kernel_ns`."""
    device = machine.device
    if (measured := device.kernels.get(kernel.key)) is not None:
        return measured.ns
    if (family := device.families.get(kernel.family)) is not None:
        return family.ns + at_peak_ns(machine, kernel) / family.share
    return kernel_ns(machine, kernel.kind, kernel.flops, kernel.traffic, _computes_in(kernel))


def launch_bytes(machine: Machine) -> float:
    """The bytes that device memory moves in the time of an empty launch."""
    return machine.device.launch.ns / _NS * machine.device.memories["device"].bandwidth


def at_peak_ns(machine: Machine, kernel: Kernel) -> float:
    """Nanoseconds of a kernel that computes, or moves its bytes, at peak rate: whichever takes longer."""
    return _roofline_ns(machine, kernel.kind, kernel.flops, kernel.traffic, _computes_in(kernel))


def move_ns(machine: Machine, source_space: str, target_space: str, bytes: int) -> float:
    """Nanoseconds of a copy of this size between memory spaces of one rank, or within one.

    Raises DmcError if the machine has no such path.
    """
    # State that waits in host memory is in pinned memory, too, and staged inputs are in the device's.
    path = ">".join(_KINDS.get(space, space) for space in (source_space, target_space))
    copying = machine.device.copies.get(path)
    if copying is None:
        hint = f"paths are {', '.join(machine.device.copies)}"
        raise DmcError(f"copy {path}", f"is not described for {machine.device.name}", hint=hint)
    return bytes / copying.bandwidth * _NS + copying.latency_ns


def _roofline_ns(machine: Machine, kind: str, flops: int, traffic: int, dtype: str) -> float:
    computing = flops / _rate(machine, kind, dtype) if flops else 0.0
    moving = traffic / machine.device.memories["device"].bandwidth
    return max(computing, moving) * _NS


def _rate(machine: Machine, kind: str, dtype: str) -> float:
    device = machine.device
    if kind == "matmul" and dtype in device.matrix.rates:
        return device.matrix.rates[dtype]
    # Integers of all widths and signs have the same rate.
    plain = "int" if re.fullmatch(r"[su]?i\d+|index", dtype) else dtype
    if plain not in device.vector.rates:
        hint = f"add its vector rate to the description of {device.name}"
        raise DmcError(f"kernel that computes in {dtype}", f"has no rate on {device.name}", hint=hint)
    return device.vector.rates[plain]


def _computes_in(kernel: Kernel) -> str:
    """The element type: of a product, that of the narrowest floating-point matrix it reads; of anything else, that of
    its largest operand, floating point before integers: indices only select."""
    matrices = [each.dtype for each in kernel.reads if "f" in each.dtype and len(each.shape) > 1]
    if kernel.kind == "matmul" and matrices:
        return min(matrices, key=element_bytes)
    operands = kernel.reads + kernel.writes
    return max(operands, key=lambda operand: ("f" in operand.dtype, math.prod(operand.shape))).dtype

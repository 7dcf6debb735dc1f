"""The cost of kernels and moves on a machine: a measured time if there is one, else a roofline."""

from __future__ import annotations

import math
import re

from dmc.errors import DmcError
from dmc.machine.machine import Machine
from dmc.program import Kernel, Operand

_NS = 1e9


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
    """Nanoseconds of a launch of `kernel`: its entry in the machine's table, else `kernel_ns`."""
    measured = machine.device.kernels.get(kernel_key(kernel))
    if measured is not None:
        return measured.ns
    return kernel_ns(machine, kernel.kind, kernel.flops, kernel.traffic, _computes_in(kernel))


def at_peak_ns(machine: Machine, kernel: Kernel) -> float:
    """Nanoseconds of a kernel that computes, or moves its bytes, at peak rate: whichever takes longer."""
    return _roofline_ns(machine, kernel.kind, kernel.flops, kernel.traffic, _computes_in(kernel))


def kernel_key(kernel: Kernel) -> str:
    """Its key in a table of measured kernels: what it computes and its types; not its name, which is specific to a job.

    `iree matmul 402653184 4x8xbf16,8x8xbf16->4x8xbf16`: implementation, kind, flops, operands and results.
    """
    types = f"{_types(kernel.reads)}->{_types(kernel.writes)}"
    return f"{kernel.implementation} {kernel.kind} {kernel.flops} {types}"


def move_ns(machine: Machine, source_space: str, target_space: str, bytes: int) -> float:
    """Nanoseconds of a copy of this size between memory spaces of one rank, or within one.

    Raises DmcError if the machine has no such path.
    """
    path = f"{source_space}>{target_space}"
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
    """The element type of the largest operand, floating point before integers: indices only select."""
    operands = kernel.reads + kernel.writes
    return max(operands, key=lambda operand: ("f" in operand.dtype, math.prod(operand.shape))).dtype


def _types(operands: tuple[Operand, ...]) -> str:
    return ",".join("x".join([*map(str, operand.shape), operand.dtype]) for operand in operands)

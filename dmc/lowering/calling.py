"""Form lowered → the calling convention that the runtime follows."""

from __future__ import annotations

from dataclasses import replace

from dmc._mlir import ir
from dmc.runtime.signature import Arena, Signature
from dmc.step_function import ARENA, arguments, find_step


def with_arenas(signature: Signature, module: ir.Module) -> Signature:
    """`signature` with the arenas in which `@step` of `module`, in form lowered, takes its state."""
    ports = arguments(find_step(module))
    passed = {port.name for port in ports}
    arenas: list[Arena] = []
    for port in ports:
        if port.role == ARENA:
            ranked = ir.RankedTensorType(port.type)
            views = tuple(name for name in port.members if name in passed)
            arenas.append(Arena(port.name, str(ranked.element_type), ranked.shape[0], dict(port.members), views))
    return replace(signature, arenas=tuple(arenas))

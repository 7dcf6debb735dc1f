"""dm-isolate-update"""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import ir
from dmc.passes._barrier import isolate_operands
from dmc.passes.base import Pass

KIND = "optimizer_update"


@dataclass(frozen=True)
class IsolateUpdate(Pass):
    """Puts a barrier to fusion between what an optimizer update reads and what computes it.

    `p', m' = optimizer_update(p, gradient, m)` becomes `p', m' = optimizer_update(p, barrier(gradient), m)`.

    The new state is written into the storage of the old one. Without the barrier the backend may fuse the update into
    the operation that makes the gradient; where that operation also reads the old state, at other indices than the
    ones it writes, one workgroup would overwrite what another has yet to read.
    """

    name = "dm-isolate-update"

    def run(self, module: ir.Module) -> None:
        isolate_operands(module, lambda op, _: ir.StringAttr(op.attributes["kind"]).value.startswith(KIND))

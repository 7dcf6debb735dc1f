"""dm-tie-state."""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import ir
from dmc.passes.base import Pass
from dmc.step_function import TIE, find_step, mutated_state


@dataclass(frozen=True)
class TieState(Pass):
    """Gives each mutated state argument of `@step` the attribute `iree.abi.output = k`, k being its new value's result.

    `@step(%w {dm.name = "w"}) -> (tensor<4xf32> {dm.name = "w"}, …)` becomes
    `@step(%w {dm.name = "w", iree.abi.output = 0 : index}) -> …`, so that the update happens in the argument's storage.
    """

    name = "dm-tie-state"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError if a mutated state tensor changes its type or stands out of order."""
        step = find_step(module)
        ties = {argument.index: result.index for argument, result in mutated_state(step)}
        if not ties:
            return
        with module.context:
            step.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(
                [_tied(attributes, ties.get(index)) for index, attributes in enumerate(step.arg_attrs)]
            )


def _tied(attributes: ir.DictAttr, result: int | None) -> ir.DictAttr:
    if result is None:
        return attributes
    kept = {named.name: named.attr for named in attributes}
    return ir.DictAttr.get({**kept, TIE: ir.IntegerAttr.get(ir.IndexType.get(), result)})

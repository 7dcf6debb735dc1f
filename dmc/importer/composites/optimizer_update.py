"""One parameter's optimizer step, a composite for each rule of `dmc.optim`.

(parameter, gradient, slots…, clip, lr, apply, scalars…; numbers…) -> (parameter, slots…). `gradient` is multiplied by
the f32 scalar `clip`; `lr` is an f32 scalar; where the boolean scalar `apply` is false, everything keeps its old value.
Arithmetic is in f32, results in the types of the arguments, so that state can be updated in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dmc.composites import UPDATE
from dmc.importer.composites.base import REGISTRY, Definition, composite
from dmc.optim import Optimizer

_SHARED = ("clip", "lr", "apply")


def update_op(optimizer: Optimizer, shape: tuple[int, ...], scalars: int) -> Any:
    """The composite of an optimizer's rule for a parameter of this shape, which reads so many scalars.

    Its constants are those of the optimizer, in their order.
    """
    name = f"{UPDATE}{optimizer.kind(shape)}"
    if name not in REGISTRY:
        slots = [slot.name for slot in optimizer.slots(shape) if not slot.dtype]
        tensors = ["parameter", "gradient", *slots, *_SHARED, *(f"scalar{i}" for i in range(scalars))]
        constants = list(optimizer.constants())
        arguments = [f"Tensor {each}" for each in tensors] + [f"float {each}" for each in constants]
        results = ", ".join(["Tensor"] * (1 + len(slots)))
        schema = f"{name}({', '.join(arguments)}) -> {f'({results})' if slots else results}"
        composite(schema)(_definition(optimizer, len(slots), [*tensors, *constants]))
    return getattr(torch.ops.dmc, name)


def _definition(optimizer: Optimizer, slots: int, names: Sequence[str]) -> Definition:
    def update(*given: Any, **named: Any) -> Any:
        arguments = {**dict(zip(names, given, strict=False)), **named}
        parameter, gradient, *rest = (arguments[name] for name in names)
        kept, rest = rest[:slots], rest[slots:]
        (clip, lr, apply), rest = rest[: len(_SHARED)], rest[len(_SHARED) :]
        scalars = [each for each in rest if isinstance(each, Tensor)]
        rule = optimizer.with_constants(rest[len(scalars) :])
        old, slope = parameter.float(), gradient.float() * clip
        start = old * (1.0 - lr * rule.weight_decay) if rule.is_decoupled else old
        if rule.weight_decay and not rule.is_decoupled:
            slope = slope + old * rule.weight_decay
        step, *new = rule.update(old, slope, [each.float() for each in kept], lr, scalars)
        results = [
            _keep(apply, each, before) for each, before in zip([start - step, *new], [parameter, *kept], strict=True)
        ]
        return tuple(results) if slots else results[0]

    return update


def _keep(apply: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return torch.where(apply, new.to(old.dtype), old)


@composite(f"{UPDATE}keep(Tensor old, Tensor new, Tensor apply) -> Tensor")
def keep(old: Tensor, new: Tensor, apply: Tensor) -> Tensor:
    """The new value of a buffer that the forward pass writes, such as a running mean."""
    return _keep(apply, new, old)

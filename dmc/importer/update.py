"""The optimizer's half of a step, traced to a graph: gradients and old state in, new state out."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, fx
from torch.fx import traceback

from dmc.importer import origin
from dmc.importer.decompositions.nonfinite import is_finite
from dmc.importer.differentiate import trace
from dmc.optim import SLOTS, Plan, Settings

update_ops = torch.ops.dmc


@dataclass(frozen=True)
class Update:
    """`graph`: (parameters…, gradients…, slots…, old written…, new written…, step, loss, lr, guard) ->
    (parameters…, slots…, written…, step, finite).

    `parameters` are as the forward pass left them; `written` is the state that it mutates (as a result, without
    parameters). `slots` names the optimizer state "<parameter>.<slot>" in order. `step` is i64 [], `loss` the scalar
    loss, `lr` f32 [groups], `guard` and `finite` i32 [].
    """

    graph: fx.GraphModule
    slots: tuple[str, ...]


def trace_update(plan: Plan, parameters: dict[str, Tensor], written: dict[str, Tensor], loss: torch.dtype) -> Update:
    """Traces one update of `parameters` (by name) under `plan`, and of what the forward pass has `written`.

    Where `guard` is not zero and the loss (or, with clipping, the gradient norm) is not finite, nothing changes.
    """
    names = list(parameters)
    slots_of = {name: SLOTS[plan.groups[plan.group_of[name]].kind] for name in names}
    slots = tuple(f"{name}.{slot}" for name in names for slot in slots_of[name])
    slot_tensors = [parameters[name] for name in names for _ in slots_of[name]]
    tensors = [parameters[name] for name in names]

    def update(*flat: Tensor) -> list[Tensor]:
        groups = _split(flat, [len(names), len(names), len(slots), len(written), len(written), 4])
        old, gradients, state, old_written, new_written, (step, loss_value, lr, guard) = groups
        prepared = [_Prepared.of(settings, step, lr[index]) for index, settings in enumerate(plan.groups)]
        finite = is_finite(loss_value.float())
        clip = torch.ones([])
        if plan.clip_grad_norm is not None:
            norm = global_norm(gradients)
            finite = finite & is_finite(norm)
            clip = (plan.clip_grad_norm / (norm + 1e-6)).clamp(max=1.0)
        apply = finite | (guard == 0)
        remaining = iter(state)
        new_parameters: list[Tensor] = []
        new_slots: list[Tensor] = []
        for name, parameter, gradient in zip(names, old, gradients, strict=True):
            own = [next(remaining) for _ in slots_of[name]]
            with _noted(name):
                result = prepared[plan.group_of[name]].update(parameter, gradient, own, clip, apply)
            new_parameters.append(result[0])
            new_slots.extend(result[1:])
        results = {**dict(zip(written, new_written, strict=True)), **dict(zip(names, new_parameters, strict=True))}
        for name, before in zip(written, old_written, strict=True):
            results[name] = update_ops.optimizer_update_keep(before, results[name], apply)
        kept = [results[name] for name in written if name not in parameters]
        ends = [step + apply.to(torch.int64), finite.to(torch.int32)]
        return [*(results[name] for name in names), *new_slots, *kept, *ends]

    step = torch.zeros([], dtype=torch.int64)
    scalars = [step, torch.zeros([], dtype=loss), torch.zeros([len(plan.groups)]), torch.zeros([], dtype=torch.int32)]
    inputs = [tensor.detach() for tensor in [*tensors, *tensors, *slot_tensors, *written.values(), *written.values()]]
    with _noted("optimizer"):
        return Update(trace(update, [*inputs, *scalars]), slots)


@contextmanager
def _noted(name: str) -> Generator[None]:
    """Attributes operations to the update of parameter `name`; "optimizer" for shared ones."""
    before = traceback.current_meta
    traceback.current_meta = {**before, "custom": {origin.META_KEY: origin.Origin(name, "", 0, "update")}}
    try:
        yield
    finally:
        traceback.current_meta = before


def global_norm(tensors: list[Tensor]) -> Tensor:
    """The 2-norm, f32 [], of all `tensors` together."""
    total = torch.zeros([])
    for tensor in tensors:
        total = update_ops.sum_of_squares(tensor, total)
    return total.sqrt()


@dataclass(frozen=True)
class _Prepared:
    """The scalars of one parameter group in one step, computed once for all of its parameters."""

    settings: Settings
    lr: Tensor
    first: Tensor
    correction1: Tensor
    correction2_sqrt: Tensor

    @staticmethod
    def of(settings: Settings, step: Tensor, lr: Tensor) -> _Prepared:
        count = (step + 1).float()
        beta1, beta2 = settings.betas
        # 1 - βᵗ by expm1: subtraction from one would lose significant digits in the first steps.
        correction1 = -torch.expm1(count * math.log(beta1)) if beta1 > 0.0 else torch.ones([])
        correction2 = -torch.expm1(count * math.log(beta2)) if beta2 > 0.0 else torch.ones([])
        return _Prepared(settings, lr, step == 0, correction1, correction2.sqrt())

    def update(
        self, parameter: Tensor, gradient: Tensor, slots: list[Tensor], clip: Tensor, apply: Tensor
    ) -> tuple[Tensor, ...]:
        """(new parameter, new slots…)"""
        s = self.settings
        shared = (clip, self.lr, apply)
        match s.kind:
            case "sgd":
                return (update_ops.optimizer_update_sgd(parameter, gradient, *shared, s.weight_decay),)
            case "momentum":
                options = (s.weight_decay, s.momentum, s.dampening, s.nesterov)
                return update_ops.optimizer_update_momentum(parameter, gradient, *slots, *shared, self.first, *options)
            case "adam" | "adamw":
                op = update_ops.optimizer_update_adamw if s.kind == "adamw" else update_ops.optimizer_update_adam
                corrections = (self.correction1, self.correction2_sqrt)
                return op(parameter, gradient, *slots, *shared, *corrections, *s.betas, s.eps, s.weight_decay)


def _split(flat: tuple[Tensor, ...], sizes: list[int]) -> list[list[Tensor]]:
    parts: list[list[Tensor]] = []
    start = 0
    for size in sizes:
        parts.append(list(flat[start : start + size]))
        start += size
    return parts

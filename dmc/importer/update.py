"""The optimizer's half of a step, traced to a graph: gradients and old state in, new state out."""

from __future__ import annotations

import mmap
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx
from torch.fx import traceback

from dmc.importer import origin
from dmc.importer.composites.optimizer_update import update_op
from dmc.importer.decompositions.nonfinite import is_finite
from dmc.importer.differentiate import trace
from dmc.optim import OWN_COUNT, Optimizer, Plan, Slot

update_ops = torch.ops.dmc
_TYPES = {"f32": torch.float32, "i64": torch.int64}
_OF_NUMPY = {torch.float32: np.float32, torch.float64: np.float64, torch.float16: np.float16, torch.int64: np.int64}


@dataclass(frozen=True)
class Update:
    """`graph`: (parameters…, gradients…, slots…, old written…, new written…, step, loss, lr, guard) ->
    (parameters…, slots…, written…, step, finite).

    `parameters` are as the forward pass left them; `written` is the state that it mutates (as a result, without
    parameters). `slots` holds the optimizer state by its name "<parameter>.<slot>", in order. `step` is i64 [], `loss`
    the scalar loss, `lr` f32 [groups], `guard` and `finite` i32 []. steps_done: the first value of `step`.
    """

    graph: fx.GraphModule
    slots: Mapping[str, Slot]
    steps_done: int


def trace_update(plan: Plan, parameters: dict[str, Tensor], written: dict[str, Tensor], loss: torch.dtype) -> Update:
    """Traces one update of `parameters` (by name) under `plan`, and of what the forward pass has `written`.

    Where `guard` is not zero and the loss (or, with clipping, the gradient norm) is not finite, nothing changes.
    """
    names, done = list(parameters), plan.steps_done(parameters)
    slots_of = {name: plan.slots(name, tuple(parameters[name].shape), done) for name in names}
    slots = {f"{name}.{slot.name}": slot for name in names for slot in slots_of[name]}
    tensors = [parameters[name] for name in names]

    def update(*flat: Tensor) -> list[Tensor]:
        groups = _split(flat, [len(names), len(names), len(slots), len(written), len(written), 4])
        old, gradients, state, old_written, new_written, (step, loss_value, lr, guard) = groups
        rates = [lr[index] for index in range(len(plan.groups))]
        finite = is_finite(loss_value.float())
        clip = torch.ones([])
        if plan.clip_grad_norm is not None:
            norm = global_norm(gradients)
            finite = finite & is_finite(norm)
            clip = (plan.clip_grad_norm / (norm + 1e-6)).clamp(max=1.0)
        apply = finite | (guard == 0)
        prepared = [_Group.of(each, step, rate, clip, apply) for each, rate in zip(plan.groups, rates, strict=True)]
        remaining = iter(state)
        new_parameters: list[Tensor] = []
        new_slots: list[Tensor] = []
        for name, parameter, gradient in zip(names, old, gradients, strict=True):
            own = {slot.name: next(remaining) for slot in slots_of[name]}
            with _noted(name):
                result = prepared[plan.group_of[name]].update(parameter, gradient, own)
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
    slot_tensors = [first_value(slot, parameters[name]) for name in names for slot in slots_of[name]]
    inputs = [tensor.detach() for tensor in [*tensors, *tensors, *slot_tensors, *written.values(), *written.values()]]
    with _noted("optimizer"):
        return Update(trace(update, [*inputs, *scalars]), slots, done)


def first_value(slot: Slot, parameter: Tensor) -> Tensor:
    """The value of a slot before the first step."""
    dtype = _TYPES[slot.dtype] if slot.dtype else parameter.dtype
    if slot.initial or dtype not in _OF_NUMPY:
        return torch.full(slot.shape, slot.initial, dtype=dtype)
    return torch.from_numpy(_zeros(slot.shape, np.dtype(_OF_NUMPY[dtype])))


def _zeros(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """Zeros that take up no memory until they are written: torch writes its own, and so does numpy into memory that was
    in use before.
    """
    size = prod(shape) * dtype.itemsize
    if size < mmap.PAGESIZE:
        return np.zeros(shape, dtype)
    return np.frombuffer(mmap.mmap(-1, size), dtype).reshape(shape)


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
class _Group:
    """A parameter group in one step: `scalars` are computed once for all of its parameters that count with `step`."""

    optimizer: Optimizer
    lr: Tensor
    clip: Tensor
    apply: Tensor
    scalars: tuple[Tensor, ...]

    @staticmethod
    def of(optimizer: Optimizer, step: Tensor, lr: Tensor, clip: Tensor, apply: Tensor) -> _Group:
        # Ascent is descent of the negative.
        clip = -clip if optimizer.maximize else clip
        return _Group(optimizer, lr, clip, apply, optimizer.scalars((step + 1).float(), lr))

    def update(self, parameter: Tensor, gradient: Tensor, slots: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """(new parameter, new slots…)"""
        scalars, counted = self.scalars, ()
        if (own := slots.get(OWN_COUNT)) is not None:
            scalars = self.optimizer.scalars((own + 1).float(), self.lr)
            counted = (own + self.apply.to(torch.int64),)
        shape = tuple(parameter.shape)
        optimizer = self.optimizer.for_type(torch.finfo(parameter.dtype).eps)
        numbers = [slots[slot.name] for slot in optimizer.slots(shape) if slot.dtype]
        advanced = optimizer.advance(numbers, scalars)
        kept = [torch.where(self.apply, new, old) for new, old in zip(advanced, numbers, strict=True)]
        tensors = [slots[slot.name] for slot in optimizer.slots(shape) if not slot.dtype]
        shared = (self.clip, self.lr, self.apply, *scalars, *advanced)
        op = update_op(optimizer, shape, len(scalars) + len(advanced))
        results = op(parameter, gradient, *tensors, *shared, *optimizer.constants().values())
        return (*(results if tensors else (results,)), *kept, *counted)


def _split(flat: tuple[Tensor, ...], sizes: list[int]) -> list[list[Tensor]]:
    parts: list[list[Tensor]] = []
    start = 0
    for size in sizes:
        parts.append(list(flat[start : start + size]))
        start += size
    return parts

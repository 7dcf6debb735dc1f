"""The optimizer's half of a step, traced to a graph: gradients and old state in, new state out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, fx

from dmc.dtypes import dtype_of
from dmc.importer import origin
from dmc.importer.assembly import Assembly
from dmc.importer.composites.optimizer_update import update_op
from dmc.importer.decompositions.nonfinite import is_finite
from dmc.optim import OWN_COUNT, Optimizer, Plan, Slot

update_ops = torch.ops.dmc


@dataclass(frozen=True)
class Update:
    """`graph`: (parameters…, gradients…, slots…, old written…, new written…, step, loss, lr, guard) ->
    (parameters…, slots…, written…, step, finite).

    `parameters` are as the forward pass left them; `written` is the state that it mutates (as a result, without
    parameters). `slots` holds the optimizer state by its name "<parameter>.<slot>", in order. `step` is i64 [], `loss`
    the scalar loss, `lr` f32 [groups], `guard` and `finite` i32 [].
    """

    graph: fx.GraphModule
    slots: Mapping[str, Slot]


def trace_update(
    plan: Plan, parameters: dict[str, Tensor], written: dict[str, Tensor], loss: torch.dtype, done: int | None = None
) -> Update:
    """Traces one update of `parameters` (by name) under `plan`, and of what the forward pass has `written`.

    Where `guard` is not zero and the loss (or, with clipping, the gradient norm) is not finite, nothing changes. done:
    the first value of `step`; by default what the furthest of `parameters` has done.
    """
    names = list(parameters)
    done = plan.steps_done(names) if done is None else done
    slots_of = {name: tuple(plan.slots(name, tuple(parameters[name].shape), done)) for name in names}
    slots = {f"{name}.{slot.name}": slot for name in names for slot in slots_of[name]}
    graph = Assembly()
    old, gradients = ({name: graph.argument(parameters[name]) for name in names} for _ in range(2))
    own = {name: [graph.argument(first_value(slot, parameters[name])) for slot in slots_of[name]] for name in names}
    before, results = ({name: graph.argument(each) for name, each in written.items()} for _ in range(2))
    types = ((torch.int64, ()), (loss, ()), (torch.float32, (len(plan.groups),)), (torch.int32, ()))
    step, value, rates, guard = [graph.argument(torch.zeros(shape, dtype=each)) for each, shape in types]
    squares = [] if plan.clip_grad_norm is None else _sum_of_squares(graph, gradients)
    given = [value, guard, *squares]
    apply, clip, finite = graph.call("shared", partial(_shared, plan.clip_grad_norm), given, _OPTIMIZER)
    of_groups = [
        graph.call(("group", index), partial(_of_group, optimizer, index), [step, rates, clip], _OPTIMIZER)
        for index, optimizer in enumerate(plan.groups)
    ]
    for name in names:
        index, kept = plan.group_of[name], slots_of[name]
        update = partial(_updated, plan.groups[index], kept)
        given = [old[name], gradients[name], *own[name], apply, *of_groups[index]]
        results[name], *own[name] = graph.call(("update", index, kept), update, given, _place(name))
    for name in written:
        (results[name],) = graph.call("keep", _kept, [before[name], results[name], apply], _OPTIMIZER)
    others = [results[name] for name in written if name not in parameters]
    new_slots = [slot for name in names for slot in own[name]]
    # At the end, where nothing reads the old number any more, so that it is updated in place.
    ends = graph.call("ends", _ends, [step, apply, finite], _OPTIMIZER)
    return Update(graph.finished([*(results[name] for name in names), *new_slots, *others, *ends]), slots)


def first_value(slot: Slot, parameter: Tensor) -> Tensor:
    """The value of a slot before the first step: one number in the memory of one."""
    dtype = getattr(torch, dtype_of(slot.dtype).torch) if slot.dtype else parameter.dtype
    return torch.full((), slot.initial, dtype=dtype).expand(slot.shape)


def _place(name: str) -> origin.Origin:
    """The update of parameter `name`; "optimizer" for what parameters share."""
    return origin.Origin(name, "", 0, "update")


_OPTIMIZER = _place("optimizer")


def _sum_of_squares(graph: Assembly, gradients: Mapping[str, fx.Node]) -> list[fx.Node]:
    """f32 [], over all gradients; nothing where there are none."""
    total: list[fx.Node] = []
    for gradient in gradients.values():
        total = graph.call("squares", _added_squares, [gradient, *total], _OPTIMIZER)
    return total


def _added_squares(gradient: Tensor, *total: Tensor) -> list[Tensor]:
    return [update_ops.sum_of_squares(gradient, *(total or [torch.zeros([])]))]


def _shared(limit: float | None, loss: Tensor, guard: Tensor, *squares: Tensor) -> list[Tensor]:
    """(whether anything changes, what gradients are multiplied by, whether the loss and their norm are finite)"""
    finite, clip = is_finite(loss.float()), torch.ones([])
    if limit is not None:
        norm = squares[0].sqrt()
        finite = finite & is_finite(norm)
        clip = (limit / (norm + 1e-6)).clamp(max=1.0)
    return [finite | (guard == 0), clip, finite]


def _ends(step: Tensor, apply: Tensor, finite: Tensor) -> list[Tensor]:
    """(the new step, finite as a number)"""
    return [step + apply.to(torch.int64), finite.to(torch.int32)]


def _of_group(optimizer: Optimizer, index: int, step: Tensor, rates: Tensor, clip: Tensor) -> list[Tensor]:
    """(learning rate, what gradients are multiplied by, scalars…): computed once for all parameters of a group that
    count with `step`."""
    rate = rates[index]
    # Ascent is descent of the negative.
    return [rate, -clip if optimizer.maximize else clip, *optimizer.scalars((step + 1).float(), rate)]


def _updated(optimizer: Optimizer, slots: Sequence[Slot], *given: Tensor) -> list[Tensor]:
    """(parameter, gradient, slots…, apply, learning rate, clip, scalars…) -> (new parameter, new slots…)"""
    (parameter, gradient), rest = given[:2], given[2:]
    own = {slot.name: value for slot, value in zip(slots, rest, strict=False)}
    apply, rate, clip, *scalars = rest[len(slots) :]
    counted: list[Tensor] = []
    if (count := own.get(OWN_COUNT)) is not None:
        scalars = list(optimizer.scalars((count + 1).float(), rate))
        counted = [count + apply.to(torch.int64)]
    shape = tuple(parameter.shape)
    optimizer = optimizer.for_type(torch.finfo(parameter.dtype).eps)
    numbers = [own[slot.name] for slot in optimizer.slots(shape) if slot.dtype]
    advanced = optimizer.advance(numbers, scalars)
    kept = [torch.where(apply, new, old) for new, old in zip(advanced, numbers, strict=True)]
    tensors = [own[slot.name] for slot in optimizer.slots(shape) if not slot.dtype]
    op = update_op(optimizer, shape, len(scalars) + len(advanced))
    results = op(parameter, gradient, *tensors, clip, rate, apply, *scalars, *advanced, *optimizer.constants().values())
    return [*(results if tensors else (results,)), *kept, *counted]


def _kept(old: Tensor, new: Tensor, apply: Tensor) -> list[Tensor]:
    return [update_ops.optimizer_update_keep(old, new, apply)]

"""A resolved plan's placements of values in `@step`: pins on their producers."""

from __future__ import annotations

from collections.abc import Sequence

from dmc._mlir import func, ir
from dmc.analysis.labels.updates import gradients
from dmc.analysis.loops.splats import is_splat
from dmc.analysis.requests.modules import module_values
from dmc.analysis.sharding.pins import Pin, state_pins
from dmc.errors import PlanError
from dmc.plans import ResolvedPlan
from dmc.plans.layout import AxisUse, Layout
from dmc.plans.tensors import ActivationPlan
from dmc.plans.uneven import pads_of
from dmc.step_function import arguments, find_step


def write_pins(module: ir.Module, plan: ResolvedPlan, mesh: str) -> None:
    """Pins gradients to the optimizer's placement, and activations to the plan's.

    Thus a gradient that is a partial sum is reduced and scattered at once, for all its readers: the clipping of its
    norm and the update (Rajbhandari et al. 2020, section 5). Raises PlanError for an activation with fewer dimensions
    than the plan names.
    """
    step = find_step(module)
    pins: dict[ir.Value, Pin] = {}
    _pin_gradients(step, plan, pins)
    _pin_activations(step, plan, pins)
    state_pins(pins, mesh)


def _pin_gradients(step: func.FuncOp, plan: ResolvedPlan, pins: dict[ir.Value, Pin]) -> None:
    names = {step.arguments[port.index]: port.name for port in arguments(step) if port.name in plan.tensors}
    for parameter, gradient in gradients(step):
        if parameter not in names or isinstance(gradient.owner, ir.Block) or is_splat(gradient):
            continue
        tensor = plan.tensors[names[parameter]]
        assert tensor.optimizer is not None, "what has a gradient is trained"
        # The gradient is already split like the parameter by the way it is computed.
        own = {use.axis for use in tensor.used.splits}
        at = tensor.optimizer.placement()
        brought = tuple(axis for axis in at.axes if axis not in own)
        pins[gradient] = Pin(at, plan.mesh.axes, brought, tensor.padding(tensor.optimizer))


def _pin_activations(step: func.FuncOp, plan: ResolvedPlan, pins: dict[ir.Value, Pin]) -> None:
    values = module_values(step, {each.module for each in plan.activations})
    parameters = {step.arguments[port.index] for port in arguments(step) if port.name in plan.tensors}
    for each in plan.activations:
        for value in values.get((each.module, each.side), ()):
            if value in parameters or is_splat(value):
                continue
            if isinstance(value.owner, ir.Block):
                fact = f"is the value at {_where(each)}, but comes from the batch or a loop"
                raise PlanError(_where(each), fact, "split a batch input with .shard_input(…)")
            pin = _activation_pin(each, value, plan)
            pins[value] = pins[value].and_also(pin) if value in pins else pin


def _activation_pin(activation: ActivationPlan, value: ir.Value, plan: ResolvedPlan) -> Pin:
    shape = ir.RankedTensorType(value.type).shape
    dims: list[tuple[AxisUse, ...]] = [()] * len(shape)
    for asked, uses in activation.dims.items():
        dim = _token_dimension(shape, uses, plan) if asked is None else asked
        if not -len(shape) <= dim < len(shape):
            fact = f"has shape {list(shape)} and no dimension {dim}"
            raise PlanError(_where(activation), fact, "name a dimension that it has, or another module")
        dims[dim] += uses
    layout = Layout(tuple(dims))
    at = layout.placement()
    return Pin(at, at.axes, at.axes, pads_of(shape, [layout], plan.mesh))


def _token_dimension(shape: list[int], uses: Sequence[AxisUse], plan: ResolvedPlan) -> int:
    """The batch where a rank's part of it is divisible, else the sequence, else whichever has less padding."""
    ranks = plan.mesh.group_size(use.axis for use in uses)
    parts = [plan.batch_parts() * ranks, ranks]
    return min(range(2), key=lambda dim: -(-shape[dim] // parts[dim]) * parts[dim] / shape[dim]) if shape[1:] else 0


def _where(plan: ActivationPlan) -> str:
    return f"{plan.side} of {plan.module or 'the model'}"

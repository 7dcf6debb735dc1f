"""How far a compiled step may be from PyTorch eager: what `dmc.compile` itself allows, and what some tests ask for.

Numbers are those of five steps; `dmc.runtime.comparison.tolerance` says what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from dmc.runtime.comparison.tolerance import TOLERANCE as OF_PRECISION
from dmc.runtime.comparison.tolerance import Tolerance

State = Mapping[str, torch.Tensor]


TOLERANCE = {
    **OF_PRECISION,
    "mesh": Tolerance(
        loss=1e-5,
        value=1e-5,
        change=1e-4,
        floor=2e-7,
        reason="Ranks against one rank, both compiled: sums over the batch are taken in parts, all else is the same.",
    ),
    "fp32-adamw": Tolerance(
        loss=1e-5,
        value=1e-4,
        change=1e-3,
        floor=2e-6,
        reason="Adam divides a gradient by its own size, so the rounding of an element whose gradient nearly cancels "
        "becomes a step of the size of the learning rate: at epsilon 1e-8, eager in float32 itself is 3e-3 away from "
        "float64. These comparisons of whole models take epsilon 1e-5; the optimizer's own tests take 1e-8. The floor "
        "is a five hundredth of one step at learning rate 1e-3.",
    ),
    "bf16-mixed-t5": Tolerance(
        loss=3e-3,
        value=2e-2,
        change=1.5e-1,
        floor=1e-4,
        reason="T5 does not scale attention scores, so their rounding is not small beside their differences: autocast "
        "itself is up to 6 % of a tensor's change away from float32.",
    ),
}


def assert_losses_close(actual: list[float], expected: list[float], tolerance: Tolerance) -> None:
    """Every step's loss agrees; raises AssertionError with both curves."""
    pairs = zip(actual, expected, strict=True)
    assert all(abs(a - b) <= tolerance.loss * abs(b) for a, b in pairs), f"losses {actual}, eager {expected}"


def assert_states_close(start: State, actual: State, expected: State, tolerance: Tolerance) -> None:
    """Every tensor of `expected` agrees in `actual`; raises AssertionError naming those that do not, worst first."""
    missing = sorted(expected.keys() - actual.keys())
    assert not missing, f"missing from the compiled state: {missing}"
    excess = {name: _excess(start[name], actual[name], expected[name], tolerance) for name in expected}
    wrong = sorted((name for name in excess if not excess[name] <= 1), key=excess.__getitem__, reverse=True)
    assert not wrong, "; ".join(f"{name}: {excess[name]:.3g} × the tolerance" for name in wrong[:8])


def distance(start: State, actual: State, expected: State) -> float:
    """‖actual - expected‖ / ‖expected - start‖ over all floating-point tensors together."""
    names = [name for name in expected if expected[name].is_floating_point()]
    error = sum((actual[name].double() - expected[name].double()).square().sum().item() for name in names)
    change = sum((expected[name].double() - start[name].double()).square().sum().item() for name in names)
    return (error / change) ** 0.5


def _excess(start: torch.Tensor, actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> float:
    """The error in units of the tolerance, the larger of value and change; infinite where shape or dtype differ."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    if not expected.is_floating_point() or not expected.numel():
        return 0.0 if torch.equal(actual, expected) else float("inf")
    s, a, b = start.double(), actual.double(), expected.double()
    if not a.isfinite().all():
        return float("inf")
    value_bound = tolerance.value * b.abs().max() + tolerance.floor
    # Subtracting the start leaves the rounding of the value itself, one unit in the last place of each element.
    rounding = torch.finfo(expected.dtype).eps * b.norm() + tolerance.floor * b.numel() ** 0.5
    change_bound = tolerance.change * (b - s).norm() + rounding
    return max(((a - b).abs().max() / value_bound).item(), ((a - b).norm() / change_bound).item())

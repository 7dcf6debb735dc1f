"""What actions cost: their times, and what a micro-batch keeps from its forward to its backward."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dmc.errors import PlanError
from dmc.schedules.table import Action


@dataclasses.dataclass(frozen=True)
class Costs:
    """Times by stage, in any one unit, and memory.

    message: from the end of an action until another rank has its result; both ranks compute meanwhile.
    kept: what a micro-batch keeps in each stage from its forward on, in bytes; None counts stages and micro-batches.
    kept_for_weights: what of that is still kept between the gradients of inputs and of weights; None: all of it.
    """

    forward: Sequence[float]
    backward_inputs: Sequence[float]
    backward_weights: Sequence[float]
    message: float = 0.0
    kept: Sequence[float] | None = None
    kept_for_weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        """Raises PlanError for sequences of different lengths, numbers below zero, and more kept later than before."""
        for field in dataclasses.fields(self):
            values = getattr(self, field.name)
            given = (values,) if field.name == "message" else values
            if given is None:
                continue
            if field.name != "message" and len(given) != self.stages:
                hint = "give one number for each stage"
                raise PlanError(f"costs, {field.name}", f"has {len(given)} numbers, forward {self.stages}", hint)
            if min(given, default=0) < 0:
                raise PlanError(
                    f"costs, {field.name}", f"{min(given)} is below zero", hint="give times and bytes, or 0"
                )

        for stage, rest in enumerate(self.kept_for_weights or ()):
            if rest > self.kept_by(stage):
                fact = f"{rest:g} of stage {stage} is more than the {self.kept_by(stage):g} that it keeps"
                raise PlanError("costs, kept_for_weights", fact, hint="give what is left of `kept`")

    @property
    def stages(self) -> int:
        """The number of stages."""
        return len(self.forward)

    def time(self, action: Action) -> float:
        """The time that an action takes its rank."""
        stage = action.stage
        match action.kind:
            case "F":
                return self.forward[stage]
            case "I":
                return self.backward_inputs[stage]
            case "W":
                return self.backward_weights[stage]
            case "B":
                return self.backward_inputs[stage] + self.backward_weights[stage]

    def kept_by(self, stage: int) -> float:
        """What one micro-batch keeps in a stage after its forward."""
        return 1 if self.kept is None else self.kept[stage]

    def freed(self, action: Action) -> float:
        """What is no longer kept once an action has ended."""
        kept = self.kept_by(action.stage)
        rest = kept if self.kept_for_weights is None else self.kept_for_weights[action.stage]
        return {"F": 0, "I": kept - rest, "W": rest, "B": kept}[action.kind]


def equal_costs(stages: int, forward: float, inputs: float, weights: float, message: float = 0.0) -> Costs:
    """The costs of stages that all take the same times."""
    return Costs((forward,) * stages, (inputs,) * stages, (weights,) * stages, message)

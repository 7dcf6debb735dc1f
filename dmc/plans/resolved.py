"""What a plan means for one model: frozen data, for passes, ledgers and people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from dmc.mesh import Mesh
from dmc.plans.layout import AxisUse, Layout, replicated
from dmc.runtime.signature import StateSpec, TensorSpec

Side = Literal["input", "output"]


@dataclass(frozen=True)
class TensorPlan:
    """How a parameter or buffer lies on the mesh. Where two neighbours in this list differ, data moves:

    stored: between steps. used: in forward and backward (stage 3 of ZeRO gathers). gradient: as backward leaves it,
    a partial sum over the axes of data. reduced: after the reduction. optimizer: the optimizer's state, and the
    update; then `stored` again (stages 1 and 2 gather). The last three are None for what is not trained.
    kept: the `replicate` rule that keeps the tensor whole, or "".
    """

    spec: StateSpec
    stored: Layout
    used: Layout
    gradient: Layout | None = None
    reduced: Layout | None = None
    optimizer: Layout | None = None
    kept: str = ""

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that decided, each once, in the order of dimensions."""
        layouts = [layout for layout in (self.used, self.stored, self.gradient, self.optimizer) if layout is not None]
        return tuple(dict.fromkeys(filter(None, [self.kept, *(use.rule for each in layouts for use in each.uses)])))


@dataclass(frozen=True)
class InputPlan:
    """How a batch input lies on the mesh. `kept`: the `replicate_input` rule that keeps it whole, or ""."""

    spec: TensorSpec
    layout: Layout
    kept: str = ""

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that decided, each once, in the order of dimensions."""
        return tuple(dict.fromkeys(filter(None, [self.kept, *(use.rule for use in self.layout.uses)])))


@dataclass(frozen=True)
class ActivationPlan:
    """What the plan asks of a value that a module takes or gives: dimension to the axes that split it.

    A negative dimension counts from the end. Dimensions that are not named are free. Shapes are not known here: the
    pass that applies the constraint checks ranks and sizes.
    """

    module: str
    side: Side
    dims: Mapping[int, tuple[AxisUse, ...]]


@dataclass(frozen=True)
class ResolvedPlan:
    """The placement of every parameter, buffer and input by name, and the constraints on activations.

    accumulate: into how many micro-batches each step cuts the batch; every one of them is split over the axes of data.
    unmatched: the optional rules of ready plans that matched nothing in this model.
    """

    mesh: Mesh
    accumulate: int
    tensors: Mapping[str, TensorPlan]
    inputs: Mapping[str, InputPlan]
    activations: tuple[ActivationPlan, ...]
    unmatched: tuple[str, ...]

    def state_layout(self, spec: StateSpec) -> Layout:
        """The layout of any state tensor of the compiled step between steps, optimizer state and counters included."""
        if spec.role == "optimizer":
            # "<parameter>.<slot>", see StateSpec; only what is trained has slots.
            layout = self.tensors[spec.name.rpartition(".")[0]].optimizer
            assert layout is not None
            return layout
        if spec.role in ("counter", "seed"):
            return replicated(len(spec.shape))
        return self.tensors[spec.name].stored

    def unused_axes(self) -> tuple[str, ...]:
        """Axes of more than one rank that no placement uses: along them all ranks do the same work."""
        layouts = [layout for each in self.tensors.values() for layout in (each.stored, each.used, each.optimizer)]
        layouts += [each.layout for each in self.inputs.values()]
        used = {use.axis for layout in layouts if layout is not None for use in layout.uses}
        used |= {use.axis for each in self.activations for uses in each.dims.values() for use in uses}
        return tuple(axis for axis, size in self.mesh.items() if size > 1 and axis not in used)

    def to_json(self) -> dict[str, Any]:
        """The whole as JSON data (dictionaries, lists, strings, numbers)."""
        return json.loads(json.dumps(asdict(self)))

    def table(self) -> str:
        """Every decision in one line of plain text: name, shape, placement, what one rank holds, and the rule."""
        from dmc.plans.table import table

        return table(self)

"""A plan resolved for one model: frozen data, for passes, ledgers and users."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dmc.mesh import Mesh
from dmc.placement.pads import Pads
from dmc.plans.layout import Layout, replicated
from dmc.plans.pipelines import PipelinePlan
from dmc.plans.table import table
from dmc.plans.tensors import ActivationPlan, InputPlan, TensorPlan
from dmc.program.signature import StateSpec


@dataclass(frozen=True)
class ResolvedPlan:
    """The placement of every parameter, buffer and input by name, and the constraints on activations.

    accumulate: the number of micro-batches per step, each split over the data axes. unmatched: the optional rules of
    ready-made plans that matched nothing in this model. pipeline: the stages into which the model is cut, if it is.
    """

    mesh: Mesh
    accumulate: int
    tensors: Mapping[str, TensorPlan]
    inputs: Mapping[str, InputPlan]
    activations: tuple[ActivationPlan, ...]
    unmatched: tuple[str, ...]
    pipeline: PipelinePlan | None = None

    def state_layout(self, spec: StateSpec) -> Layout:
        """The layout of any state tensor of the compiled step between steps, optimizer state and counters included."""
        if spec.role == "optimizer":
            # "<parameter>.<slot>", see StateSpec; only trained parameters have slots.
            owner = self.tensors[spec.name.rpartition(".")[0]]
            assert owner.optimizer is not None
            # A scalar, or the sums of rows and columns, are of the whole parameter.
            return owner.optimizer if spec.shape == owner.spec.shape else replicated(len(spec.shape))
        if spec.role in ("counter", "seed"):
            return replicated(len(spec.shape))
        return self.tensors[spec.name].stored

    def state_pads(self, spec: StateSpec) -> Pads:
        """The padding of any state tensor of the compiled step between steps."""
        if spec.role in ("counter", "seed"):
            return (None,) * len(spec.shape)
        owner = self.tensors[spec.name.rpartition(".")[0] if spec.role == "optimizer" else spec.name]
        is_alike = spec.shape == owner.spec.shape
        return owner.padding(self.state_layout(spec)) if is_alike else (None,) * len(spec.shape)

    def batch_parts(self) -> int:
        """Into how many parts the batch, dimension 0 of the inputs, is split."""
        layouts = [each.layout.placement() for each in self.inputs.values() if each.spec.shape]
        return max((self.mesh.group_size(layout.dims[0]) for layout in layouts), default=1)

    def unused_axes(self) -> tuple[str, ...]:
        """Axes of more than one rank that no placement uses: along them all ranks do the same work."""
        layouts = [layout for each in self.tensors.values() for layout in (each.stored, each.used, each.optimizer)]
        layouts += [each.layout for each in self.inputs.values()]
        used = {use.axis for layout in layouts if layout is not None for use in layout.uses}
        used |= {use.axis for each in self.activations for uses in each.dims.values() for use in uses}
        used |= set() if self.pipeline is None else {self.pipeline.axis}
        return tuple(axis for axis, size in self.mesh.items() if size > 1 and axis not in used)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON data (dictionaries, lists, strings, numbers)."""
        return json.loads(json.dumps(asdict(self)))

    def table(self) -> str:
        """Every decision in one line of plain text: name, shape, placement, what one rank holds, and the rule."""
        notes = [f"matched nothing: {rule}" for rule in self.unmatched]
        notes += [f"axis '{axis}' splits nothing: all ranks along it do the same work" for axis in self.unused_axes()]
        return table(self.mesh, self.tensors, self.inputs, self.activations, self.pipeline, notes)

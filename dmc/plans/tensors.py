"""A plan's decisions for single tensors of one model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dmc.placement.pads import Pads
from dmc.plans.layout import AxisUse, Layout
from dmc.plans.uneven import of_split
from dmc.program.signature import StateSpec, TensorSpec

Side = Literal["input", "output"]


@dataclass(frozen=True)
class TensorPlan:
    """How a parameter or buffer is placed on the mesh. Where two neighbours in this list differ, data moves:

    stored: between steps. used: in forward and backward (stages 2 and 3 of ZeRO gather). gradient: as backward leaves
    it, a partial sum over the data axes. reduced: after the reduction. optimizer: its state, and the update; then
    `stored` again (stage 1 gathers). The last three are None for untrained tensors. kept: the `replicate` rule that
    keeps the tensor whole, or "". is_freed: what is gathered is freed after each pass, and gathered again (stage 3).
    pads: how dimensions are padded where they are split.
    """

    spec: StateSpec
    stored: Layout
    used: Layout
    gradient: Layout | None = None
    reduced: Layout | None = None
    optimizer: Layout | None = None
    kept: str = ""
    is_freed: bool = False
    pads: Pads = ()

    def padding(self, layout: Layout) -> Pads:
        """The padding of the tensor in one of its layouts."""
        return of_split(self.pads, layout)

    @property
    def rules(self) -> tuple[str, ...]:
        """The deciding rules, each once, in the order of dimensions."""
        layouts = [layout for layout in (self.used, self.stored, self.gradient, self.optimizer) if layout is not None]
        return tuple(dict.fromkeys(filter(None, [self.kept, *(use.rule for each in layouts for use in each.uses)])))


@dataclass(frozen=True)
class InputPlan:
    """How a batch input is placed on the mesh, and padded. `kept`: the `replicate_input` rule that keeps it whole."""

    spec: TensorSpec
    layout: Layout
    kept: str = ""
    pads: Pads = ()

    @property
    def rules(self) -> tuple[str, ...]:
        """The deciding rules, each once, in the order of dimensions."""
        return tuple(dict.fromkeys(filter(None, [self.kept, *(use.rule for use in self.layout.uses)])))


@dataclass(frozen=True)
class ActivationPlan:
    """A plan's constraint on an input or output of a module: dimension to the axes that split it.

    A negative dimension counts from the end; None stands for the batch, or for the sequence (dimension 1) where the
    batch is not divisible. Dimensions not named are unconstrained. Shapes are not known here: the pass that applies the
    constraint checks ranks and sizes.
    """

    module: str
    side: Side
    dims: Mapping[int | None, tuple[AxisUse, ...]]

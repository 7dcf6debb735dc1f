"""ZeRO: which pieces of parameters, gradients and optimizer state a data-parallel rank keeps."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from dmc.mesh import Mesh
from dmc.plans.layout import AxisUse, Layout
from dmc.plans.rules import DataParallel
from dmc.plans.uneven import local_shape, pads_of

# The first stage of ZeRO that splits each (Rajbhandari et al. 2020). From stage 2 on a parameter is in pieces between
# steps: the optimizer writes a piece only. The forward pass gathers it in the type in which it computes, while kernels
# run. Updated pieces in f32, gathered at the end of a step, would have nothing beside them, and in mixed precision be
# twice as many bytes. What is not trained would only be gathered more often.
OPTIMIZER, GRADIENT, PARAMETER, FROZEN = 1, 2, 2, 3


# The first stage that gathers a weight for each pass that reads it.
FREED = 3


def is_freed(stored: Layout, used: Layout, rules: Sequence[DataParallel]) -> bool:
    """Whether what is stored in pieces is gathered for each pass: over the axis of a rule of stage 3."""
    gathered = {use.axis for use in stored.splits} - {use.axis for use in used.splits}
    return any(rule.zero >= FREED and rule.axis in gathered for rule in rules)


def split_from_stage(
    layout: Layout,
    shape: Sequence[int],
    mesh: Mesh,
    rules: Sequence[DataParallel],
    stage: int,
    units: Sequence[int] = (),
) -> Layout:
    """`layout` split further over the axis of every rule of at least that stage of ZeRO.

    Higher stages come first, so that what a rank keeps of the optimizer state is always part of its piece of the
    gradient, which in turn is part of its piece of the parameter. units: as in `pads_of`, for `layout`.
    """
    used = layout
    for rule in sorted(rules, key=lambda rule: -rule.zero):
        if rule.zero >= stage and all(use.axis != rule.axis for use in layout.splits):
            layout = _split(used, layout, shape, mesh, AxisUse(rule.axis, rule=str(rule)), units)
    return layout


def _split(
    used: Layout, layout: Layout, shape: Sequence[int], mesh: Mesh, use: AxisUse, units: Sequence[int]
) -> Layout:
    """Splits the first dimension whose local size the axis divides; where there is none, the one that leaves a rank the
    fewest elements, with padding.

    The first, because pieces of the leading dimension are contiguous in memory, so that gathering is concatenation.
    What is no smaller in pieces stays as it is.
    """

    def local(given: Layout) -> tuple[int, ...]:
        return local_shape(shape, given, mesh, pads_of(shape, [used, given], mesh, units))

    ranks = mesh.axis_size(use.axis)
    for dim, size in enumerate(local(layout)):
        if size % ranks == 0:
            return layout.with_split(dim, use)
    return min(
        [layout, *(layout.with_split(dim, use) for dim in range(len(shape)))], key=lambda each: prod(local(each))
    )

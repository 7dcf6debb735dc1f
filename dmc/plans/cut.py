"""One more split of one dimension, checked."""

from __future__ import annotations

from dmc.errors import PlanError
from dmc.plans.layout import AxisUse, Layout
from dmc.program.signature import TensorSpec


def cut(layout: Layout, spec: TensorSpec, dim: int, use: AxisUse) -> Layout:
    """`layout` of the tensor `spec` with dimension `dim` (negative: from the end) split by `use` as well.

    Requesting the same split twice is one split. Raises PlanError where the dimension does not exist, the axis splits
    another one, or the dimension is not made of the blocks.
    """
    place, rank = f"{spec.name} {list(spec.shape)}", len(spec.shape)
    if not -rank <= dim < rank:
        hint = f"dimensions are 0 to {rank - 1}" if rank else "a scalar cannot be split"
        raise PlanError(place, f"dimension {dim} of {use.rule} is out of range", hint)
    dim %= rank
    for taken, uses in enumerate(layout.dims):
        for other in uses:
            if other == use and taken == dim:
                return layout
            if other.axis == use.axis:
                raise PlanError(
                    place,
                    f"axis '{use.axis}' is used twice: on dimension {taken} by {other.rule}, and on dimension {dim} by "
                    f"{use.rule}",
                    hint="an axis splits a tensor once; drop one of the rules, or put .replicate(…) between them",
                )
    if spec.shape[dim] % use.blocks:
        fact = f"dimension {dim} of size {spec.shape[dim]} is not {use.blocks} equal blocks, as {use.rule} requires"
        raise PlanError(place, fact, hint="name the number of blocks that are side by side in it")
    return layout.with_split(dim, use)

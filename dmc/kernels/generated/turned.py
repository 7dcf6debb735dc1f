"""Elements that are read in another order than they are written: tiles that are long in both directions.

A flat tile would read neighbours far apart. A two-dimensional tile reads rows and writes columns, and transposes in
shared memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dmc.kernels.generated.index import Index, delinearise, linearise, variable
from dmc.kernels.generated.launch import Launch, Root, power_of_two
from dmc.kernels.implementation import Candidate, candidate
from dmc.kernels.recipe import Call

CANDIDATES = (candidate(across=64, along=64, warps=4), candidate(across=32, along=64, warps=4))
# Fewer elements in a row, or in a tensor, are not worth it.
_LEAST_ROW, _LEAST_ELEMENTS = 16, 4096


def turned_dimension(launch: Launch, root: Root) -> int | None:
    """The dimension of a root, other than the last, along which an operand of a flat launch is contiguous."""
    dims = [dim for dim, size in enumerate(root.shape) if size > 1]
    if not dims or root.shape[dims[-1]] < _LEAST_ROW:
        return None
    for value, number in launch.emitter.loads:
        if math.prod(value.type.shape) < _LEAST_ELEMENTS or not number.is_computed():
            continue
        steps = {dim: _step(number, math.prod(root.shape[dim + 1 :])) for dim in dims}
        if steps[dims[-1]] > _LEAST_ROW:
            return next((dim for dim in dims if steps[dim] == 1 and root.shape[dim] >= _LEAST_ROW), None)
    return None


def turned(launch: Launch, roots: Sequence[Root], across: int, chosen: Candidate) -> Call:
    """Computes `roots`, all with the same number of elements, by tiles of the first one's last dimension and of
    `across`."""
    shape = roots[0].shape
    along = max(dim for dim, size in enumerate(shape) if size > 1)
    tiles: list[int] = []
    places: dict[int, Index] = {}
    program = "tl.program_id(0)"
    for name, dim, end in (("along", along, "[None, :]"), ("across", across, "[:, None]")):
        size = shape[dim]
        block = min(chosen[name], power_of_two(size))
        tiles.append(-(-size // block))
        mask = f"{{}} < {size}" if size % block else ""
        launch.variable(name, f"{program} % {tiles[-1]} * {block} + tl.arange(0, {block}){end}", mask)
        places[dim] = variable(name, size)
        program = f"tl.program_id(0) // {math.prod(tiles)}"
    outer = [1 if dim in places else size for dim, size in enumerate(shape)]
    count = math.prod(outer)
    if count > 1:
        launch.variable("outer", program)
    whole = delinearise(variable("outer", count), outer)
    number = linearise([places.get(dim, place) for dim, place in enumerate(whole)], shape)
    for root in roots:
        launch.root(root, number)
    return launch.call(count * math.prod(tiles), chosen.warps, 1)


def _step(number: Index, distance: int) -> int:
    """The read distance of two elements at this write distance."""
    return abs(number.at(distance) - number.at(0))

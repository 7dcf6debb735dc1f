"""Which loops of one operation each mesh axis splits: requested by operands, at the fewest bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dmc.analysis.loops.loops import SUM, Dims, Loops, Split
from dmc.memo import kept
from dmc.mesh import Mesh
from dmc.placement.path import cheapest_path
from dmc.placement.placement import Placement
from dmc.placement.transitions import Tensor


@dataclass(frozen=True)
class Operand:
    """A tensor operand: its available placements, first the one in which it was produced.

    is_splat: a rank creates any part of it itself; is_zero: any partial sum of it, too. ruled: the axes along which a
    rule of the plan splits it, if it is a weight.
    """

    tensor: Tensor
    placements: tuple[Placement, ...]
    is_splat: bool = False
    is_zero: bool = False
    ruled: frozenset[str] = frozenset()

    def bytes_to(self, target: Placement) -> int:
        """The bytes moved to get it in `target`, over all ranks."""
        if self.is_splat or target in self.placements:
            return 0
        return movement_bytes(nearest(self.placements, target, self.tensor), target, self.tensor)


@dataclass(frozen=True)
class Choice:
    """reasons: one per axis requested by an operand or a result. refused: operand and axis, if it cannot. is_ruled: a
    rule of the plan decides about an axis.
    """

    split: Split
    bytes: int
    reasons: tuple[str, ...]
    refused: tuple[tuple[int, str], ...]
    is_ruled: bool = False


# Kept: layers repeat, and so do their choices.
@kept(4096)
def choose(
    loops: Loops,
    operands: tuple[Operand | None, ...],
    wishes: tuple[Placement | None, ...],
    shapes: tuple[Tensor, ...],
    mesh: Mesh,
) -> Choice:
    """Decides axis by axis, in the order of the mesh.

    An axis is assigned to a loop over which an operand is split, or over which a result should be split (`wishes`, one
    per result, whose global tensors are `shapes`), or passes a partial value on. Among several the one that moves the
    fewest bytes wins, then the first: the bytes of resharding operands, and of completing results that become partial,
    or scattering them where that is what is wanted. But what the plan splits is computed split: along the axis of a
    rule, a weight stays where it is, and other operands are brought to it (tensor parallelism), whatever that moves.
    Work is never replicated on ranks that could divide it, unless there is little of it (`is_light`).
    """
    split, reasons, refused = loops.unsplit(mesh), list[str](), list[tuple[int, str]]()
    is_ruled = False
    for axis in mesh.axes:
        if mesh.axis_size(axis) == 1:
            continue
        asked = list(_asked(loops, operands, wishes, split, axis))
        fitting = [(each, operand, why) for each, operand, why in asked if each is not None and loops.fits(each)]
        ruled = [(each, f"{why}, as the plan says") for each, i, why in fitting if _is_ruled(operands, i, axis)]
        is_ruled |= bool(ruled)
        possible = ruled or [(each, why) for each, _, why in fitting]
        if possible and not ruled and loops.is_light:
            possible.append((split, f"every rank of {axis} does the little work of all"))
        if possible:
            costs = [_bytes(loops, operands, each) + _completing(loops, shapes, wishes, each) for each, _ in possible]
            split, why = possible[costs.index(min(costs))]
            different = {each.axes for each, _ in possible}
            reasons.append(why if len(different) < 2 else f"{why} ({min(costs)} B, else {max(costs)} B)")
            continue
        wanting = [operand for _, operand, _ in asked if operand is not None]
        refused += [(operand, axis) for operand in wanting]
        if wanting:
            reasons.append(f"{axis} splits operand {wanting[0]}, but {loops.why or 'the parts would not be equal'}")
    return Choice(split, _bytes(loops, operands, split), tuple(reasons), tuple(refused), is_ruled)


def nearest(sources: Iterable[Placement], target: Placement, tensor: Tensor) -> Placement:
    """The placement from which resharding to `target` moves the fewest bytes, or the first of these.

    A partial placement other than a sum can only come from the same one.
    """
    fixed = [(axis, kind) for axis, kind in target.partial if kind != SUM]
    possible = [source for source in sources if all(source.kind(axis) == kind for axis, kind in fixed)]
    return min(possible, key=lambda source: movement_bytes(source, target, tensor))


def movement_bytes(source: Placement, target: Placement, tensor: Tensor) -> int:
    """The bytes of the cheapest resharding from `source` to `target`, over all ranks."""
    return sum(step.bytes for step in cheapest_path(source, target, tensor))


def _asked(
    loops: Loops,
    operands: Sequence[Operand | None],
    wishes: Sequence[Placement | None],
    split: Split,
    axis: str,
) -> Iterator[tuple[Split | None, int | None, str]]:
    """Each requested use of `axis`: the split, None if impossible, the requesting operand, and why."""
    kind = _handed_on(loops, operands, axis)
    if kind is not None:
        if any(_is_complete(operands[i], axis) for i, _ in loops.read() if i not in loops.coefficients):
            # Such as a residual that a norm has read: what is added to it may be narrower than the sum.
            yield split, None, f"an operand is there, complete over {axis}"
        yield split.handing_on(axis, kind), None, f"partial ({kind}) over {axis} goes through"
    for i, dims in loops.read():
        operand = operands[i]
        assert operand is not None
        made = operand.placements[0] if operand.placements else None
        if i in loops.carried and made is not None and made.kind(axis) == SUM:
            # A replicated operand is then summed in parts.
            yield from ((each, None, f"a sum is partial over {axis}") for each in _adding(loops, dims, split, axis))
        if operand.is_splat or made is None or not any(axis in axes for axes in made.dims):
            continue
        yield loops.extended(split, dims, made, axis), i, f"{axis} splits operand {i}"
    is_free = next(loops.read(), None) is None  # Computed whole; slices of it are free.
    for i, wish in enumerate(() if is_free else wishes):
        wished = None if wish is None else loops.extended(split, loops.results[i], wish, axis)
        if wished is not None:
            yield wished, None, f"{axis} splits result {i}, as its readers want"


def _adding(loops: Loops, dims: Dims, split: Split, axis: str) -> Iterator[Split]:
    """The splits of summation loops."""
    present = {loop for own in dims for loop in own}
    for i, loop in enumerate(loops.loops):
        if i not in present and loop.kind == SUM:
            yield split.with_axis(i, axis)


def _is_ruled(operands: Sequence[Operand | None], number: int | None, axis: str) -> bool:
    operand = None if number is None else operands[number]
    return operand is not None and axis in operand.ruled


def _is_complete(operand: Operand | None, axis: str) -> bool:
    return operand is not None and any(each.kind(axis) is None for each in operand.placements[1:])


def _handed_on(loops: Loops, operands: Sequence[Operand | None], axis: str) -> str | None:
    kinds: set[str | None] = set()
    for i, _ in loops.read():
        operand = operands[i]
        assert operand is not None
        if i not in loops.coefficients and not operand.is_zero:
            kinds.add(None if operand.is_splat else operand.placements[0].kind(axis))
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    return kind if kind in loops.passes else None


def _bytes(loops: Loops, operands: Sequence[Operand | None], split: Split) -> int:
    total = 0
    for i, _ in loops.read():
        operand = operands[i]
        assert operand is not None
        total += operand.bytes_to(loops.operand(i, split))
    return total


def _completing(loops: Loops, shapes: Sequence[Tensor], wishes: Sequence[Placement | None], split: Split) -> int:
    """The bytes of completing partial results, or of each rank's part where that is what readers want."""
    total = 0
    for i, (tensor, wish) in enumerate(zip(shapes, wishes, strict=False)):
        made = loops.result(i, split)
        wanted = [made.complete(), *(() if wish is None or wish.partial else (wish,))]
        total += min(movement_bytes(made, each, tensor) for each in wanted) if made.partial else 0
    return total

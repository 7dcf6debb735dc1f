"""Rules of the collectives and of `dm.all_slice`: shapes, reductions, members."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.dialect._dm_gen import (
    AllGatherOp,
    AllReduceOp,
    AllSliceOp,
    AllToAllOp,
    BroadcastOp,
    PermuteOp,
    ReduceScatterOp,
)
from dmc.dialect.rules import Violation, rule, symbol_rule
from dmc.dialect.symbols import Symbols

COLLECTIVES = (AllGatherOp, AllReduceOp, AllToAllOp, BroadcastOp, PermuteOp, ReduceScatterOp)


@rule(AllGatherOp)
def all_gather_grows_one_dimension(op: AllGatherOp) -> None:
    """The result is the operand with `dim` a multiple."""
    dim = op.dim.value
    operand, result = _shapes(op, dim)
    _check_multiple(dim, "result", result[dim], "operand", operand[dim])
    _check_other_dimensions(operand, result, (dim,))


@rule(ReduceScatterOp, AllSliceOp)
def piece_shrinks_one_dimension(op: ReduceScatterOp | AllSliceOp) -> None:
    """The operand is the result with `dim` a multiple."""
    dim = op.dim.value
    operand, result = _shapes(op, dim)
    _check_multiple(dim, "operand", operand[dim], "result", result[dim])
    _check_other_dimensions(operand, result, (dim,))


@rule(AllToAllOp)
def all_to_all_moves_a_factor(op: AllToAllOp) -> None:
    """The factor removed from `split_dim` is that added to `concat_dim`."""
    split, concat = op.split_dim.value, op.concat_dim.value
    operand, result = _shapes(op, split, concat)
    if split == concat:
        _check_other_dimensions(operand, result, ())
        return
    _check_multiple(split, "operand", operand[split], "result", result[split])
    _check_multiple(concat, "result", result[concat], "operand", operand[concat])
    _check_other_dimensions(operand, result, (split, concat))
    if operand[split] * operand[concat] != result[split] * result[concat]:
        raise Violation(
            f"dimension {split} goes from {operand[split]} to {result[split]} but dimension {concat} from "
            f"{operand[concat]} to {result[concat]}; one loses the factor that the other gains"
        )


@rule(AllReduceOp, ReduceScatterOp)
def reduction_suits_the_element_type(op: AllReduceOp | ReduceScatterOp) -> None:
    """`accumulate` is in the element type's class and no narrower; a mean requires floating point."""
    check_reduction(op.input.type.element_type, op.accumulate.value, op.reduction.value)


def check_reduction(element: ir.Type, accumulate: ir.Type, reduction: str) -> None:
    """Raises Violation if elements of this type cannot be combined this way."""
    classes = [cls for cls in (ir.FloatType, ir.IntegerType) if isinstance(element, cls)]
    if not classes:
        raise Violation(f"elements of type {element} cannot be reduced; they must be floating point or integers")
    if not isinstance(accumulate, classes[0]) or accumulate.width < element.width:
        raise Violation(f"accumulates {element} in {accumulate}; it must be in the same class and no narrower")
    if reduction == "mean" and classes[0] is not ir.FloatType:
        raise Violation(f"has no mean for {element}; reduce with sum and divide, or convert to floating point first")


@rule(PermuteOp)
def permute_pairs_are_one_to_one(op: PermuteOp) -> None:
    """No rank sends twice and no rank receives twice."""
    shape = op.source_target_pairs.type.shape
    if len(shape) != 2 or shape[1] != 2 or shape[0] == 0:
        given = op.source_target_pairs.type
        raise Violation(f"source_target_pairs is a {given}; it must have one row (source, target) per pair")
    sources, targets = permute_sources_and_targets(op)
    for kind, ranks in (("source", sources), ("target", targets)):
        for i, rank in enumerate(ranks):
            if rank < 0:
                raise Violation(f"{kind} {rank} is negative; it is an index in the group")
            if rank in ranks[:i]:
                raise Violation(f"rank {rank} is a {kind} twice; each rank sends and receives at most once")


def permute_sources_and_targets(op: PermuteOp) -> tuple[list[int], list[int]]:
    """The sources and the targets of the pairs, in the order of the pairs."""
    flat = [int(rank) for rank in op.source_target_pairs]
    return flat[0::2], flat[1::2]


@symbol_rule(AllGatherOp, ReduceScatterOp, AllSliceOp)
def dimension_changes_by_the_group(op: AllGatherOp | ReduceScatterOp | AllSliceOp, symbols: Symbols) -> None:
    """The factor between the shapes is the group's size."""
    dim, n = op.dim.value, symbols.group_size(op.group)
    values = {"operand": op.input, "result": op.result}
    piece, whole = ("operand", "result") if isinstance(op, AllGatherOp) else ("result", "operand")
    small, large = values[piece].type.shape[dim], values[whole].type.shape[dim]
    if large != n * small:
        raise Violation(
            f"dimension {dim} of the {whole} is {large}; with {n} ranks in {op.group} and {small} in the {piece} it "
            f"must be {n * small}"
        )


@symbol_rule(AllToAllOp)
def all_to_all_factor_is_the_group(op: AllToAllOp, symbols: Symbols) -> None:
    """The factor that moves is the group's size."""
    n, split, concat = symbols.group_size(op.group), op.split_dim.value, op.concat_dim.value
    operand, result = op.input.type.shape[split], op.result.type.shape[split]
    if split == concat and operand % n:
        raise Violation(f"dimension {split} is {operand}, which is not divisible by the {n} ranks of {op.group}")
    if split != concat and operand != n * result:
        raise Violation(f"dimension {split} goes from {operand} to {result}; {op.group} has {n} ranks")


@symbol_rule(BroadcastOp)
def broadcast_root_is_a_member(op: BroadcastOp, symbols: Symbols) -> None:
    """`root` is below the group's size."""
    symbols.check_member("root", op.root.value, op.group)


@symbol_rule(PermuteOp)
def permute_ranks_are_members(op: PermuteOp, symbols: Symbols) -> None:
    """Every source and target is below the group's size."""
    for kind, ranks in zip(("source", "target"), permute_sources_and_targets(op), strict=True):
        for rank in ranks:
            symbols.check_member(kind, rank, op.group)


@symbol_rule(*COLLECTIVES)
def collective_is_on_its_channel(op: ir.OpView, symbols: Symbols) -> None:
    """The group exists; the channel, where given, is one for this group."""
    symbols.group_size(op.group)
    symbols.check_channel(op.channel, op.group)


def _shapes(op: AllGatherOp | ReduceScatterOp | AllSliceOp | AllToAllOp, *dims: int) -> tuple[list[int], list[int]]:
    operand, result = op.input.type, op.result.type
    if operand.element_type != result.element_type or operand.rank != result.rank:
        raise Violation(f"turns {operand} into {result}; element type and rank must not change")
    for dim in dims:
        if dim >= operand.rank:
            raise Violation(f"dimension {dim} does not exist in {operand}")
    return list(operand.shape), list(result.shape)


def _check_multiple(dim: int, whole: str, large: int, piece: str, small: int) -> None:
    # Empty pieces form an empty whole.
    if large < small or (large % small if small else large):
        raise Violation(f"dimension {dim} of the {whole} is {large}; it must be a multiple of the {piece}'s {small}")


def _check_other_dimensions(operand: list[int], result: list[int], but: tuple[int, ...]) -> None:
    for dim, (old, new) in enumerate(zip(operand, result, strict=True)):
        if dim not in but and old != new:
            raise Violation(f"dimension {dim} is {old} in the operand but {new} in the result; it must not change")

"""Products that read what an attention's gradient gives: side by side, it is the factor of one product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.kernels.casts import WIDEN, is_cast
from dmc.analysis.kernels.layouts import permutation
from dmc.analysis.requests.keeping import ModuleWord
from dmc.passes.scheduled.tensors.merge_products.chains import (
    GENERIC,
    MOVES,
    TRANSPOSE,
    are_told_apart,
    ends,
    is_aligned,
    is_product,
    only_reader,
)
from dmc.passes.scheduled.tensors.merge_products.side_by_side import (
    Family,
    SideBySide,
    Values,
    is_given,
    is_read_inside,
)
from dmc.passes.scheduled.tensors.merge_products.sums import leave_out, terms_of
from dmc.walk import loop_kinds

_ROWS, _COLUMNS = 0, 1


@dataclass(frozen=True)
class _Gradient:
    """A matrix of the gradient and its readers: the products for the input and for the weight, and the bias's sum."""

    value: ir.Value
    to_input: ir.Operation | None
    to_weight: ir.Operation
    to_bias: ir.Operation | None


def merge_behind(op: dm.CompositeOp, side: SideBySide, words: Sequence[ModuleWord]) -> None:
    """For gradients P, Q, R of `x·A`, `x·B`, `x·C`: `P·Aᵀ + Q·Bᵀ + R·Cᵀ` becomes `[P Q R]·[A B C]ᵀ`, the gradients of
    the weights slices of `[P Q R]ᵀ·x`, and those of biases slices of a sum over the rows of `[P Q R]`.

    All or none, as the attention's kernel writes its results side by side only if nothing reads them apart.
    """
    for group in _groups(op):
        merger = _Merger(side, group)
        if merger.is_possible(words):
            merger.merge()


def _groups(op: dm.CompositeOp) -> Iterator[tuple[_Gradient, ...]]:
    """The gradients by the input of their linear layers, where they have the same readers."""
    found: dict[object, list[_Gradient]] = {}
    for result in op.outputs[:3]:
        gradient = _gradient(result)
        if gradient is not None:
            key = gradient.to_weight.operands[1], gradient.to_input is None, gradient.to_bias is None
            found.setdefault(key, []).append(gradient)
    yield from (tuple(some) for some in found.values() if len(some) > 1)


def _gradient(result: ir.Value) -> _Gradient | None:
    """The matrix that a result is after moves of which each is the only reader; None if others read it, too."""
    value = result
    while (op := only_reader(value)) is not None and op.name in MOVES and len(value.type.shape) != 2:
        value = op.results[0]
    found: dict[str, list[ir.Operation]] = {"input": [], "weight": [], "bias": []}
    for use in value.uses:
        kind, reader = _kind(use.owner.operation, use.operand_number)
        found.setdefault(kind, []).append(reader)
    if len(value.type.shape) != 2 or len(found) > 3 or len(found["weight"]) != 1 or max(map(len, found.values())) > 1:
        return None
    (weight,) = found["weight"]
    return _Gradient(value, next(iter(found["input"]), None), weight, next(iter(found["bias"]), None))


def _kind(op: ir.Operation, index: int) -> tuple[str, ir.Operation]:
    """What a reader of a gradient computes: "" for anything else than what follows a linear layer."""
    behind = only_reader(op.results[0]) if len(op.results) == 1 else None
    if is_product(op) and index == 0:
        return "input", op
    if op.name == TRANSPOSE and permutation(op) == [1, 0] and behind is not None and is_product(behind):
        return ("weight", behind) if behind.operands[0] == op.results[0] else ("", op)
    if is_cast(op, WIDEN) and behind is not None and _sums_rows(behind):
        return "bias", behind
    return ("bias", op) if _sums_rows(op) else ("", op)


def _sums_rows(op: ir.Operation) -> bool:
    """Whether an operation reduces over the first of two dimensions."""
    if op.name != GENERIC or len(op.results) != 1:
        return False
    return loop_kinds(op) == ["reduction", "parallel"]


class _Merger:
    """The rewrite of one group of gradients; `parts`: what is computed at once, and along which dimension."""

    def __init__(self, side: SideBySide, group: Sequence[_Gradient]) -> None:
        self.side = side
        self.gradients = tuple(each.value for each in group)
        self.products = [each.to_weight for each in group]
        self.inputs = [each.to_input for each in group if each.to_input is not None]
        self.parts: list[tuple[Values, int]] = [
            (ends(tuple(each.to_weight.results[0] for each in group), _ROWS), _ROWS)
        ]
        sums = tuple(each.to_bias.results[0] for each in group if each.to_bias is not None)
        if sums:
            last = len(sums[0].type.shape) - 1
            self.parts.append((ends(sums, last), last))
        self.weights = tuple(op.operands[1] for op in self.inputs)

    def families(self) -> list[tuple[Values, int, Family]]:
        found = [(values, dim, self.side.family(values, dim)) for values, dim in self.parts]
        if self.weights:
            found.append((self.weights, _ROWS, self.side.family(self.weights, _ROWS)))
        return found

    def is_possible(self, words: Sequence[ModuleWord]) -> bool:
        families = self.families()
        ops = {op for _, _, family in families for op in family.ops}
        return (
            all(map(is_aligned, self.gradients))
            and all(is_given(family, self.gradients) for *_, family in families)
            and all(is_read_inside(family, values, ops) for values, _, family in families)
            and (not self.inputs or terms_of(self.inputs) is not None)
            and not are_told_apart(self.products, words)
        )

    def merge(self) -> None:
        families = self.families()
        with ir.InsertionPoint(self.parts[0][0][0].owner):
            if self.inputs:
                self._sum()
            for values, dim, family in families:
                self.side.replace(family, values, dim)

    def _sum(self) -> None:
        terms, last = terms_of(self.inputs), self.inputs[-1]
        assert terms is not None
        for term in terms[:-1]:
            leave_out(term)
        product = last.clone()
        product.operands[0] = self.side.of(self.gradients, _COLUMNS)
        product.operands[1] = self.side.of(self.weights, _ROWS)
        product.location = ir.Location.fused([op.location for op in self.inputs])
        last.results[0].replace_all_uses_with(product.results[0])

"""Single operations of what masks choose, beside PyTorch's of the chosen elements alone: whole tensors hold NaN, or
numbers out of range, where nothing is chosen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.utils import _pytree as pytree

from dmc.importer.forward.chosen import chosen
from dmc.importer.forward.chosen.values import Choice, Choices, Chosen, Extent, size_of

# Two masks that choose as many of six places.
MASKS: Mapping[str, Tensor] = {
    "m": torch.tensor([False, True, True, False, True, False]),
    "n": torch.tensor([True, False, True, False, False, True]),
}
PLACES, COUNT = 6, 3


@dataclass(frozen=True)
class Rows:
    """An operand [..]: sizes, or names of masks that choose along a dimension. kind: "float", "weight" (which has no
    gradient), "index" or "bool"."""

    sizes: tuple[int | str, ...]
    kind: str = "float"
    below: int = COUNT

    def of(self, sizes: Mapping[str, Any]) -> list[Any]:
        """Its sizes, of which some are given by mask."""
        return [sizes[size] if isinstance(size, str) else size for size in self.sizes]

    def whole(self) -> Tensor:
        """All places, those that are not chosen with garbage."""
        shape = [PLACES if isinstance(size, str) else size for size in self.sizes]
        if self.kind == "index":
            result, garbage = torch.randint(self.below, shape), torch.tensor(0)
        elif self.kind == "bool":
            result, garbage = torch.rand(shape) < 0.5, torch.tensor(True)
        else:
            result, garbage = torch.rand(shape, requires_grad=self.kind == "float"), torch.tensor(math.nan)
        for dim, size in enumerate(self.sizes):
            if isinstance(size, str):
                mask = MASKS[size].reshape([-1 if each == dim else 1 for each in range(len(shape))])
                result = torch.where(mask, result, garbage)
        return result


Arguments = Sequence[Any]


@dataclass(frozen=True)
class Operation:
    """A call of `target` with operands and other arguments."""

    target: Any
    arguments: Arguments

    def with_masks(self, names: Sequence[str]) -> Operation:
        """The same, with masks of these names in order."""
        left = iter(names)

        def renamed(leaf: Any) -> Any:
            if not isinstance(leaf, Rows):
                return leaf
            sizes = tuple(next(left) if isinstance(size, str) else size for size in leaf.sizes)
            return Rows(sizes, leaf.kind, leaf.below)

        return Operation(self.target, pytree.tree_map(renamed, list(self.arguments)))

    def masks(self) -> list[str]:
        """Those of all operands, in order."""
        leaves = [leaf for leaf in pytree.tree_leaves(list(self.arguments)) if isinstance(leaf, Rows)]
        return [size for leaf in leaves for size in leaf.sizes if isinstance(size, str)]

    def run(self, is_known: bool = True) -> tuple[Any, Any]:
        """What dmc computes, of which the chosen is taken, and what PyTorch does of the chosen elements. is_known:
        whether PyTorch says of what it combines that it is of one size, as `export` does."""
        mode = FakeTensorMode(shape_env=ShapeEnv())
        with mode:
            symbols = {name: torch.ones(PLACES).nonzero().shape[0] for name in MASKS}
        choices = {name: Choice(mask) for name, mask in MASKS.items()}
        wholes = [each.whole() if isinstance(each, Rows) else each for each in pytree.tree_leaves(list(self.arguments))]
        leaves, tree = pytree.tree_flatten(list(self.arguments))
        recorded, sizes = self._recorded(mode, wholes, symbols)
        if not is_known:
            sizes = {name: size_of(symbol) for name, symbol in symbols.items()}
        given = [_chosen(leaf, whole, sizes, choices) for leaf, whole in zip(leaves, wholes, strict=True)]
        few = [
            _few(leaf.sizes, whole) if isinstance(leaf, Rows) else whole
            for leaf, whole in zip(leaves, wholes, strict=True)
        ]
        made = chosen.computed(
            *(self.target, pytree.tree_unflatten(given, tree), {}, recorded, _run, Choices(), []), is_written=False
        )
        return pytree.tree_map(_taken, made), self.target(*pytree.tree_unflatten(few, tree))

    def _recorded(self, mode: FakeTensorMode, wholes: list[Any], symbols: Mapping[str, Any]) -> tuple[Any, Any]:
        """The result as exported, and the size of what each mask chooses."""
        leaves, tree = pytree.tree_flatten(list(self.arguments))

        def run(by_name: Mapping[str, Any]) -> Any:
            fakes = [
                torch.empty(leaf.of(by_name), dtype=whole.dtype) if isinstance(leaf, Rows) else leaf
                for leaf, whole in zip(leaves, wholes, strict=True)
            ]
            return self.target(*pytree.tree_unflatten(fakes, tree))

        with mode:
            try:
                recorded = run(symbols)
            except GuardOnDataDependentSymNode:
                # PyTorch must know that they are as many; then they are of one size.
                symbols = dict.fromkeys(symbols, symbols["m"])
                recorded = run(symbols)
        return recorded, {name: size_of(symbol) for name, symbol in symbols.items()}


def _run(target: Any, args: Any, kwargs: Any) -> Any:
    return target(*args, **kwargs)


def _chosen(leaf: Any, whole: Any, sizes: Mapping[str, Any], choices: Mapping[str, Choice]) -> Any:
    if not isinstance(leaf, Rows) or not any(isinstance(size, str) for size in leaf.sizes):
        return whole
    extents = tuple(Extent(choices[size]) if isinstance(size, str) else None for size in leaf.sizes)
    return Chosen(whole, extents, tuple(leaf.of(sizes)), is_raw=True)


def _few(sizes: Sequence[int | str], whole: Tensor) -> Tensor:
    for dim, size in enumerate(sizes):
        if isinstance(size, str):
            whole = whole.index_select(dim, MASKS[size].nonzero()[:, 0])
    return whole


def _taken(leaf: Any) -> Any:
    """The chosen elements of a result."""
    if not isinstance(leaf, Chosen):
        return leaf
    result = leaf.tensor
    for dim, extent in enumerate(leaf.extents):
        if extent is not None:
            result = result.index_select(dim, extent.mask.nonzero()[:, 0])
    return result


aten = torch.ops.aten
X, ROWS, INDEX, WEIGHT = Rows(("m", 4)), Rows(("m", 4, 2)), Rows(("m",), "index"), Rows((4,), "weight")
_SIMPLE: dict[Callable[..., Any], Sequence[Arguments]] = {
    aten.add.Tensor: [(X, X), (X, Rows((4,))), (ROWS, Rows((4, 2))), (X, Rows(("m", 1)))],
    aten.where.self: [(Rows(("m", 4), "bool"), X, X)],
    aten.stack.default: [([X, X], 0), ([X, X], 1)],
    aten.cat.default: [([X, X], 1), ([X, X], 0), ([X, Rows((2, 4))], 0)],
    aten.transpose.int: [(X, 0, 1)],
    aten.prelu.default: [(X, Rows((4,))), (X, Rows((1,))), (Rows((2, "m")), Rows((1,)))],
    aten.index_select.default: [(X, 1, Rows((2,), "index")), (Rows((4, "m")), 0, Rows(("m",), "index"))],
    aten.embedding.default: [(Rows((4, 3)), INDEX)],
    aten.gather.default: [(X, 1, Rows(("m", 2), "index"))],
    aten.layer_norm.default: [(X, [4], Rows((4,)), Rows((4,)))],
    aten.scaled_dot_product_attention.default: [tuple([Rows(("m", 2, 3, 4))] * 3)],
    aten.pairwise_distance.default: [(X, X), (X, Rows((4,)))],
    aten.cosine_similarity.default: [(X, X), (Rows(("m", 4, 2)), Rows(("m", 4, 2)), 1)],
    aten.conv1d.default: [(ROWS, Rows((3, 4, 1)), Rows((3,)))],
    aten.softmax.int: [(X, 0), (X, 1), (Rows(("m", "m")), 1)],
    aten.log_softmax.int: [(X, 0)],
    aten.cumsum.default: [(X, 0), (X, 1)],
    aten.topk.default: [(X, 2, 1), (X, 2, 0), (X, 2, 0, False)],
    aten.flip.default: [(X, [1])],
    aten.sum.dim_IntList: [(X, [0]), (X, [0], True), (X, [1]), (Rows(("m", "m")), [1])],
    aten.prod.dim_int: [(X, 0)],
    aten.mean.dim: [(X, [0]), (X, [1]), (Rows(("m", "m")), [0])],
    aten.mean.default: [(X,)],
    aten.var.correction: [(X, [0])],
    aten.amax.default: [(X, [0]), (X, [1])],
    aten.max.dim: [(X, 0)],
    aten.argmin.default: [(X, 0)],
    aten.linalg_vector_norm.default: [(X, 2, [0])],
}
_PRODUCTS: dict[Callable[..., Any], Sequence[Arguments]] = {
    aten.mm.default: [(X, Rows((4, "m"))), (Rows((4, "m")), X), (Rows(("m", "m")), X)],
    aten.bmm.default: [
        (ROWS, Rows(("m", 2, 3))),
        (Rows((2, "m", 4)), Rows((2, 4, "m"))),
        (Rows((2, 4, "m")), Rows((2, "m", 3))),
    ],
    aten.matmul.default: [
        *((X, Rows((4,))), (Rows(("m",)), X), (X, Rows((4, "m"))), (Rows((2, "m", 4)), Rows((4, 3)))),
        *((Rows((2, 3, "m")), X), (Rows(("m", 3, 4)), Rows(("m", 4, 2))), (Rows(("m",)), Rows(("m",)))),
    ],
    aten.addmm.default: [(X, X, Rows((4, 4))), (Rows((4,)), X, Rows((4, 4))), (Rows((4, 4)), Rows((4, "m")), X)],
    aten.linear.default: [(X, Rows((3, 4)), Rows((3,))), (Rows((3, "m")), Rows((2, "m"))), (X, X)],
    aten.mv.default: [(X, Rows((4,))), (Rows((4, "m")), Rows(("m",)))],
    aten.dot.default: [(Rows(("m",)), Rows(("m",)))],
    aten.outer.default: [(Rows(("m",)), Rows(("m",))), (Rows(("m",)), Rows((4,)))],
    aten.einsum.default: [
        *(("nd,nd->n", [X, X]), ("nd,nd->", [X, X]), ("nd,nd->d", [X, X]), ("nd,md->nm", [X, X])),
        *(("...nd,...de->...ne", [ROWS, Rows((2, 3))]), ("nd,nd", [X, X]), ("nn->", [Rows(("m", "m"))])),
    ],
}
_LOSSES: dict[Callable[..., Any], Sequence[Arguments]] = {
    aten.cross_entropy_loss.default: [
        *((X, INDEX, None, reduction) for reduction in range(3)),
        *((X, X, None, 0), (X, INDEX, WEIGHT, 1, -100, 0.1)),
    ],
    aten.nll_loss_nd.default: [(X, INDEX)],
    aten.mse_loss.default: [(X, X, reduction) for reduction in range(3)] + [(ROWS, ROWS)],
    aten.l1_loss.default: [(X, X)],
    aten.huber_loss.default: [(X, X)],
    aten.smooth_l1_loss.default: [(Rows((4, "m")), Rows((4, "m")))],
    aten.binary_cross_entropy.default: [(X, X), (X, X, WEIGHT)],
    aten.binary_cross_entropy_with_logits.default: [(X, X, None, WEIGHT)],
    aten.kl_div.default: [(X, X)],
    aten.triplet_margin_loss.default: [(X, X, X), (ROWS, ROWS, ROWS)],
    aten.cosine_embedding_loss.default: [(X, X, Rows(("m",)))],
    aten.multi_margin_loss.default: [(X, INDEX), (X, INDEX, 1, 1.0, WEIGHT)],
    aten.margin_ranking_loss.default: [(Rows(("m",)), Rows(("m",)), Rows(("m",)))],
}
_SELECTING: dict[Callable[..., Any], Sequence[Arguments]] = {
    aten.index.Tensor: [(Rows((3, 4)), [INDEX]), (Rows((3, 4)), [INDEX, INDEX]), (X, [None, Rows((2,), "index")])],
    aten.index_put.default: [
        *((Rows((3, 4)), [Rows(("m",), "index")], Rows((4,))), (Rows((3, 4)), [INDEX], X, True)),
        *((Rows((3, 4)), [INDEX, INDEX], Rows(("m",)), True), (Rows((3, 4, 2)), [INDEX, INDEX], Rows(("m", 2)), True)),
    ],
    aten.new_zeros.default: [(X, [2, 3])],
}
OPERATIONS = [
    Operation(target, arguments)
    for group in (_SIMPLE, _PRODUCTS, _LOSSES, _SELECTING)
    for target, given in group.items()
    for arguments in given
]

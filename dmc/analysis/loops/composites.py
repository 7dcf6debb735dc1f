"""What may be split in each kind of composite so that every rank's part is again a composite of that kind.

Anything else is whole. Splits that a kind does not allow (classes of a cross entropy, positions of a draw) are
possible in its decomposition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dmc._mlir import ir
from dmc.analysis.loops.loops import PARALLEL, SUM, Loop, Loops
from dmc.dialect.compute import is_absent
from dmc.dialect.kinds import kind_of, traits_of

Rule = Callable[[ir.Operation], Loops | None]
# A name per dimension; dimensions of the same name are one loop, those named WHOLE are not split.
Names = Sequence[str]
WHOLE = ""
# Of tensors in the order of experts: parts, and what is in that order.
_SORTED = ("p", WHOLE)

RULES: dict[str, Rule] = {}


def composite_loops(op: ir.Operation) -> Loops | None:
    """The loops of a `dm.composite`; None where its kind has no rule or its parameters allow no split."""
    rule = RULES.get(kind_of(op), _elementwise if traits_of(op).is_elementwise else None)
    return None if rule is None else rule(op)


def meant_loops(op: ir.Operation) -> Loops | None:
    """The loops of what a `dm.composite` means, where a part of it need not be a composite of that kind again.

    A part of a random mask is in its decomposition.
    """
    return _elementwise(op) if kind_of(op) == "dropout" else composite_loops(op)


def _rule(*kinds: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, function))
        return function

    return register


def _loops(
    op: ir.Operation,
    operands: Sequence[Names],
    results: Sequence[Names],
    sums: Names = (),
    carried: Sequence[int] = (),
) -> Loops:
    """sums: the names over which results without them are sums."""
    sizes: dict[str, int] = {}
    for value, names in zip([*op.operands, *op.results], [*operands, *results], strict=True):
        for name, size in zip(names, _shape(value), strict=True):
            assert name == WHOLE or sizes.setdefault(name, size) == size
    order = [name for name in sizes if name != WHOLE]

    def dims(names: Names) -> tuple[tuple[int, ...], ...]:
        return tuple((order.index(name),) if name != WHOLE else () for name in names)

    loops = tuple(Loop(sizes[name], SUM if name in sums else PARALLEL) for name in order)
    every = tuple(map(dims, operands)), tuple(map(dims, results))
    return Loops(loops, *every, carried=frozenset(carried), why=f"{kind_of(op)} requires the whole dimension")


@_rule("gelu", "gelu_backward")
def _elementwise(op: ir.Operation) -> Loops:
    """All operands and results have the shape of the first operand, or are scalars."""
    names = _numbered("d", len(_shape(op.operands[0])))
    operands = [names[: len(_shape(operand))] for operand in op.operands]
    return _loops(op, operands, [names] * len(op.results))


@_rule("layer_norm", "rms_norm")
def _norm(op: ir.Operation) -> Loops:
    rows, columns = _rows_and_columns(op, 0)
    statistics = [[*rows, *columns]] * (len(op.results) - 1)
    return _loops(op, [[*rows, *columns], *[columns] * (len(op.operands) - 1)], [[*rows, *columns], *statistics])


@_rule("layer_norm_backward", "rms_norm_backward")
def _norm_backward(op: ir.Operation) -> Loops:
    rows, columns = _rows_and_columns(op, 0)
    x = [*rows, *columns]
    statistics = [x] * (len(op.operands) - 3)
    return _loops(op, [x, x, columns, *statistics], [x, *[columns] * (len(op.results) - 1)], sums=rows)


def _rows_and_columns(op: ir.Operation, operand: int) -> tuple[Names, Names]:
    axes = ir.IntegerAttr(_parameter(op, "axes")).value
    return _numbered("r", len(_shape(op.operands[operand])) - axes), [WHOLE] * axes


@_rule("attention")
def _attention(op: ir.Operation) -> Loops | None:
    """Batches and heads. A part, by rows, of a causal mask is no mask of the same kind."""
    names = _attention_names(op, first=0)
    if names is None:
        return None
    q, k, bias = names
    scalars: list[Names] = [[], []]
    return _drawn(op, _loops(op, [q, k, k, *bias, *scalars], [q, q]))


@_rule("attention_backward")
def _attention_backward(op: ir.Operation) -> Loops | None:
    names = _attention_names(op, first=1)
    if names is None:
        return None
    q, k, bias = names
    scalars: list[Names] = [[], []]
    # Without a bias its gradient is the scalar zero.
    sums = q if bias else []
    return _drawn(op, _loops(op, [q, q, k, k, *bias, q, q, *scalars], [q, k, k, *(bias or [[]])], sums))


def _drawn(op: ir.Operation, loops: Loops) -> Loops:
    """With dropout: what an element draws depends on its batch and head, over which all loops are."""
    if not 0.0 < ir.FloatAttr(_parameter(op, "p")).value < 1.0:
        return loops
    return replace(loops, loops=tuple(replace(loop, numbered=True) for loop in loops.loops))


def _attention_names(op: ir.Operation, first: int) -> tuple[Names, Names, list[Names]] | None:
    """Names of queries, of keys and values, and of the bias if any; `first` is the operand index of the query."""
    q, k, v = (_shape(op.operands[first + i]) for i in range(3))
    if not q[:-2] == k[:-2] == v[:-2]:
        return None
    leading = _numbered("b", len(q) - 2)
    names = [*leading, WHOLE, WHOLE]
    parameters = ir.DictAttr(op.attributes["parameters"])
    if "bias" in parameters and is_absent(parameters["bias"]):
        return names, names, []
    bias = _shape(op.operands[first + 3])
    own = names[len(names) - len(bias) :]
    return names, names, [[WHOLE if size == 1 else name for name, size in zip(own, bias, strict=True)]]


@_rule("softmax_cross_entropy")
def _cross_entropy(op: ir.Operation) -> Loops:
    return _loops(op, [["n", WHOLE], ["n"]], [[], ["n"]], sums=["n"])


@_rule("softmax_cross_entropy_backward")
def _cross_entropy_backward(op: ir.Operation) -> Loops:
    return _loops(op, [[], ["n", WHOLE], ["n"], ["n"]], [["n", WHOLE]])


@_rule("embedding")
def _embedding(op: ir.Operation) -> Loops:
    """A rank has some rows, and contributes zero for others (`dmc/passes/placed/partition/vocabulary.py`)."""
    index = _numbered("i", len(_shape(op.operands[1])))
    return _rows_in_order(_loops(op, [["v", "d"], index], [[*index, "d"]], sums=["v"]), 0)


@_rule("embedding_backward")
def _embedding_backward(op: ir.Operation) -> Loops:
    index = _numbered("i", len(_shape(op.operands[1])))
    loops = _rows_in_order(_loops(op, [[*index, "d"], index], [["v", "d"]], sums=index), len(index) + 1)
    # Linear in the embedded values: if they are a partial sum, as the gradient of positions is, so is the table's
    # gradient. A rank adds all rows as soon as these are fewer bytes than the table.
    return replace(loops, passes=frozenset((SUM,)), coefficients=frozenset((1,)), is_light=True)


def _rows_in_order(loops: Loops, row: int) -> Loops:
    """A rank knows its rows by the index of the first."""
    ordered = replace(loops.loops[row], in_order=True, numbered=True)
    return replace(loops, loops=(*loops.loops[:row], ordered, *loops.loops[row + 1 :]))


@_rule("expert_order")
def _expert_order(op: ir.Operation) -> Loops:
    """Parts are sorted apart; what is in order within one depends on all of it."""
    return _loops(op, [_SORTED], [_SORTED] * 4)


@_rule("dispatch", "combine")
def _dispatch(op: ir.Operation) -> Loops:
    """Columns, too. What goes to the experts is moved, or summed: a partial sum stays one."""
    loops = _loops(op, [[*_SORTED, "d"], _SORTED, _SORTED], [[*_SORTED, "d"]])
    return replace(loops, passes=frozenset((SUM,)), coefficients=frozenset((1, 2)))


@_rule("grouped_product")
def _grouped_product(op: ir.Operation) -> Loops:
    """Rows of parts, and columns and the depth of matrices, of which every rank has those of all groups."""
    turned = ir.BoolAttr(_parameter(op, "turned")).value
    matrices = [WHOLE, "n", "k"] if turned else [WHOLE, "k", "n"]
    loops = _loops(op, [[*_SORTED, "k"], matrices, _SORTED, _SORTED], [[*_SORTED, "n"]], sums=["k"])
    return replace(loops, passes=frozenset((SUM,)), coefficients=frozenset((1, 2, 3)))


@_rule("grouped_outer_product")
def _grouped_outer_product(op: ir.Operation) -> Loops:
    return _loops(op, [[*_SORTED, "k"], [*_SORTED, "n"], _SORTED, _SORTED], [[WHOLE, "k", "n"]], sums=["p"])


@_rule("lstm_cell", "lstm_cell_backward", "gru_cell", "gru_cell_backward")
def _cell(op: ir.Operation) -> Loops:
    """The batch. Gates lie side by side in one dimension."""
    row = ["b", WHOLE]
    return _loops(op, [row] * len(op.operands), [row] * len(op.results))


@_rule("max_pool2d", "max_pool2d_backward")
def _max_pool(op: ir.Operation) -> Loops:
    image = ["n", "c", WHOLE, WHOLE]
    return _loops(op, [image] * len(op.operands), [image])


@_rule("sum_of_squares")
def _sum_of_squares(op: ir.Operation) -> Loops:
    names = _numbered("d", len(_shape(op.operands[0])))
    return _loops(op, [names, []], [[]], sums=names, carried=[1])


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{i}" for i in range(count)]


def _parameter(op: ir.Operation, name: str) -> ir.Attribute:
    return ir.DictAttr(op.attributes["parameters"])[name]


def _shape(value: ir.Value) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)

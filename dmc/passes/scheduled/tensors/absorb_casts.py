"""dm-absorb-casts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.kernels.casts import NARROW, WIDEN, is_cast
from dmc.analysis.kernels.problems import problem_of, refusal
from dmc.analysis.storage.pieces import RESHAPES
from dmc.dialect.kinds import traits_of
from dmc.passes.base import Pass
from dmc.passes.shared.reshapes import COLLAPSE, EXPAND, reshape
from dmc.step_function import find_step


@dataclass(frozen=True)
class AbsorbCasts(Pass):
    """Lets composites read and return narrow tensors, where casts precede and follow them.

    `%w = extf %logits : bf16 to f32`, `dm.composite(%w) {decomposition = @loss_0}` becomes `dm.composite(%logits)
    {decomposition = @loss_0_narrow}`, whose decomposition first widens; likewise a result that is only read narrowed.
    Only where an implementation supports the narrow types, so on CUDA: it still computes in f32, and the wide tensors,
    twice as large, are no longer in memory.
    """

    name = "dm-absorb-casts"

    def run(self, module: ir.Module) -> None:
        wrappers = _Wrappers(module)
        for view in list(find_step(module).entry_block.operations):
            if isinstance(view, dm.CompositeOp) and traits_of(view).classes is not None:
                _absorb(view, wrappers)


def _absorb(op: dm.CompositeOp, wrappers: _Wrappers) -> None:
    sources = [_cast_from(value) for value in op.inputs]
    results = [_cast_to(value) for value in op.outputs]
    if not any(sources) and not any(results):
        return
    taken = [_with_type_of(value, source) for value, source in zip(op.inputs, sources, strict=True)]
    given = [_with_type_of(value, result) for value, result in zip(op.outputs, results, strict=True)]
    with ir.InsertionPoint(op.operation), op.location:
        inputs = [
            value if source is None else _reshaped(source, type_)
            for value, source, type_ in zip(op.inputs, sources, taken, strict=True)
        ]
        new = dm.composite(
            inputs,
            outputs=given,
            kind=op.kind.value,
            decomposition=wrappers.of(op, taken, given),
            parameters={each.name: each.attr for each in op.parameters},
            loc=op.location,
        )
    if refusal(problem_of(new)) is not None:
        new.operation.erase()
        return
    for old, made, cast in zip(op.outputs, new.outputs, results, strict=True):
        if cast is None:
            old.replace_all_uses_with(made)
        else:
            with ir.InsertionPoint.after(new.operation), op.location:
                cast.replace_all_uses_with(_reshaped(made, cast.type))


def _cast_from(value: ir.Value) -> ir.Value | None:
    """The narrow value that a value is widened from, through reshapes."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in RESHAPES:
        value = value.owner.operands[0]
    if isinstance(value.owner, ir.Block) or not is_cast(value.owner.operation, WIDEN):
        return None
    return value.owner.operands[0]


def _cast_to(value: ir.Value) -> ir.Value | None:
    """The narrowed value that is a value's only use, through reshapes."""
    while len(uses := list(value.uses)) == 1:
        reader = uses[0].owner.operation
        if is_cast(reader, NARROW):
            return reader.results[0]
        if reader.name not in RESHAPES:
            return None
        value = reader.results[0]
    return None


def _with_type_of(value: ir.Value, other: ir.Value | None) -> ir.RankedTensorType:
    shape = ir.RankedTensorType(value.type).shape
    return ir.RankedTensorType.get(shape, (value if other is None else other).type.element_type)


def _reshaped(value: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """The same elements in another shape: all dimensions collapsed, and expanded again."""
    flat = ir.RankedTensorType.get([prod(type_.shape)], type_.element_type)
    if value.type != flat and len(value.type.shape) > 1:
        value = reshape(COLLAPSE, value, flat, [range(len(value.type.shape))])
    return value if value.type == type_ else reshape(EXPAND, value, type_, [range(len(type_.shape))])


@dataclass
class _Wrappers:
    """Decompositions that widen and narrow around others, each created once."""

    module: ir.Module
    names: dict[tuple[str, str], str] = field(default_factory=dict)

    def of(self, op: dm.CompositeOp, taken: Sequence[ir.Type], given: Sequence[ir.Type]) -> str:
        """The name of the function of these types that calls the decomposition of `op`."""
        inner = op.decomposition.value
        key = inner, str((*taken, "->", *given))
        if key not in self.names:
            symbols = ir.SymbolTable(self.module.operation)
            text = _wrapper(f"{inner}_narrow", op, taken, given)
            parsed = ir.Module.parse(text, self.module.context)
            *_, function = parsed.body.operations
            with ir.InsertionPoint(self.module.body):
                copy = function.operation.clone()
            self.names[key] = symbols.insert(copy).value
        return self.names[key]


def _wrapper(name: str, op: dm.CompositeOp, taken: Sequence[ir.Type], given: Sequence[ir.Type]) -> str:
    """The text of a module whose last function casts, calls the decomposition, and casts."""
    wide, made = [value.type for value in op.inputs], [value.type for value in op.outputs]
    lines: list[str] = []
    operands = [_cast(lines, f"%a{i}", *types) for i, types in enumerate(zip(taken, wide, strict=True))]
    results = ", ".join(f"%r{i}" for i in range(len(made)))
    types = f"({', '.join(map(str, wide))}) -> ({', '.join(map(str, made))})"
    inner = op.decomposition.value
    lines.append(f"{results} = func.call @{inner}({', '.join(operands)}) : {types}")
    returned = [_cast(lines, f"%r{i}", *types) for i, types in enumerate(zip(made, given, strict=True))]
    arguments = ", ".join(f"%a{i}: {type_}" for i, type_ in enumerate(taken))
    given_types = ", ".join(map(str, given))
    body = "\n".join(lines)
    head = f"func.func private @{name}({arguments}) -> ({given_types})"
    wrapper = f"{head} {{\n{body}\nreturn {', '.join(returned)} : {given_types}\n}}"
    return f"func.func private @{inner}{types}\n{wrapper}"


def _cast(lines: list[str], value: str, source: ir.Type, target: ir.Type) -> str:
    """Adds the cast of a value to another type, and returns its name."""
    if source == target:
        return value
    rank = len(ir.RankedTensorType(source).shape)
    dims = ", ".join(f"d{i}" for i in range(rank))
    same = f"affine_map<({dims}) -> ({dims})>"
    loops = ", ".join(['"parallel"'] * rank)
    types = [ir.FloatType(ir.RankedTensorType(each).element_type) for each in (source, target)]
    cast, made = (NARROW if types[0].width > types[1].width else WIDEN), f"{value}_cast"
    lines += [
        f"{made}_empty = tensor.empty() : {target}",
        f"{made} = linalg.generic {{indexing_maps = [{same}, {same}],",
        f"  iterator_types = [{loops}]}} ins({value} : {source}) outs({made}_empty : {target}) {{",
        f"^bb0(%in: {types[0]}, %out: {types[1]}):",
        f"  %y = {cast} %in : {types[0]} to {types[1]}",
        f"  linalg.yield %y : {types[1]}",
        f"}} -> {target}",
    ]
    return made

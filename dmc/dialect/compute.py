"""Kernels and composites: builders and rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from dmc._mlir import ir
from dmc.dialect import build as b
from dmc.dialect._dm_gen import CompositeOp, KernelOp, yield_
from dmc.dialect.movement import check_region_takes, listed
from dmc.dialect.rules import Violation, region_rule, rule, symbol_rule
from dmc.dialect.symbols import Symbols, module_rule
from dmc.errors import DmcError
from dmc.walk import walk

EFFECTS = ("dm.start", "dm.wait", "dm.send", "dm.recv")


def kernel(
    inputs: Sequence[ir.Value],
    body: Callable[..., Sequence[ir.Value]],
    *,
    outputs: Sequence[ir.Type],
    implementation: str | None = None,
    tiles: Mapping[str, ir.Attribute] | None = None,
    estimated_ns: int | None = None,
    estimated_bytes: int | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> KernelOp:
    """Builds `dm.kernel`: a computation that is scheduled as one unit.

    `body` builds the computation on the region's arguments, one for each of `inputs`, and returns the values to yield,
    of the types `outputs`. Raises DmcError where a rule does not hold.
    """

    def fill(block: ir.Block) -> None:
        with ir.InsertionPoint(block):
            yield_(body(*block.arguments), loc=loc)

    return b.build(
        KernelOp,
        operands=[inputs],
        results=[outputs],
        attributes={
            "implementation": b.optional(b.string, implementation),
            "tiles": b.optional(b.dictionary, tiles),
            "estimated_ns": b.optional(b.i64, estimated_ns),
            "estimated_bytes": b.optional(b.i64, estimated_bytes),
        },
        loc=loc,
        ip=ip,
        body=fill,
    )


@rule(KernelOp)
def kernel_takes_its_inputs(op: KernelOp) -> None:
    """The region's arguments are the inputs."""
    check_region_takes([value.type for value in op.inputs], op.regions[0].blocks[0])


@region_rule(KernelOp)
def kernel_yields_its_results(op: KernelOp) -> None:
    """The region ends in a yield of the results' types and moves nothing."""
    *_, last = op.regions[0].blocks[0].operations
    if last.operation.name != "dm.yield":
        raise Violation(f"ends in {last.operation.name}; it must end in dm.yield")
    given = [value.type for value in last.operands]
    wanted = [value.type for value in op.results]
    if given != wanted:
        raise Violation(f"yields ({listed(given)}), but its results are ({listed(wanted)}); they must be the same")
    for inner in _inside(op):
        if inner.name.startswith("dm.") and inner.name not in ("dm.yield", "dm.composite"):
            raise Violation(f"holds {inner.name}; nothing moves inside a kernel, so move it out")


@rule(CompositeOp)
def composite_has_a_kind(op: CompositeOp) -> None:
    """The kind is what implementations are found by."""
    if not op.kind.value:
        raise Violation("its kind is empty; name what it computes, such as layer_norm")


@symbol_rule(CompositeOp)
def composite_means_its_decomposition(op: CompositeOp, symbols: Symbols) -> None:
    """The decomposition is a private function with a body and of the composite's type."""
    name = op.decomposition
    function = symbols.ops.get(name.value)
    if function is None or function.name != "func.func":
        found = "not defined" if function is None else f"a {function.name}"
        raise Violation(f"decomposition {name} is {found}; it must be a function of the module")
    visibility = function.attributes.get("sym_visibility")
    if visibility is None or visibility.value != "private":
        raise Violation(f"decomposition {name} is public; make it private, so that it goes when it is inlined")
    if not len(function.regions[0].blocks):
        raise Violation(f"decomposition {name} has no body; it says what the composite computes")
    given = function.attributes["function_type"].value
    for kind, wanted, has in (("operand", op.operands, given.inputs), ("result", op.results, given.results)):
        types = [value.type for value in wanted]
        if types != list(has):
            raise Violation(f"{kind} types are ({listed(types)}), but decomposition {name} has ({listed(has)})")


@module_rule(CompositeOp)
def decompositions_end(ops: Sequence[CompositeOp]) -> None:
    """No decomposition reaches itself, and none has effects. Visits each decomposition once."""
    if not ops:
        return
    functions = ir.SymbolTable(_module_of(ops[0]))
    state: dict[str, str] = {}
    for op in ops:
        _visit(op, functions, state)


def _visit(op: CompositeOp, functions: ir.SymbolTable, state: dict[str, str]) -> None:
    name = op.decomposition.value
    if state.get(name) == "open":
        raise DmcError(op.operation, f"decomposition @{name} reaches itself", hint="inlining it would never end")
    if name in state:
        return
    state[name] = "open"
    for inner in walk(functions[name]):
        if inner.name in EFFECTS:
            raise DmcError(inner, f"in decomposition @{name}", hint="a composite is pure; move this out of it")
        if inner.name == CompositeOp.OPERATION_NAME:
            _visit(inner.opview, functions, state)
    state[name] = "done"


def _module_of(op: CompositeOp) -> ir.Operation:
    parent = op.operation.parent
    while parent.operation.parent is not None:
        parent = parent.operation.parent
    return parent.operation


def _inside(op: KernelOp) -> Iterator[ir.Operation]:
    inner = walk(op)
    next(inner)
    return inner

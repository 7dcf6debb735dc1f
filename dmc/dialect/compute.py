"""Kernels and composites: rules."""

from __future__ import annotations

from collections.abc import Sequence

from dmc._mlir import ir
from dmc.dialect._dm_gen import CompositeOp, KernelOp
from dmc.dialect.movement import listed
from dmc.dialect.rules import Violation, rule, symbol_rule
from dmc.dialect.symbols import Symbols, module_rule
from dmc.errors import DmcError
from dmc.walk import walk

EFFECTS = ("dm.start", "dm.wait", "dm.send", "dm.recv")


@rule(KernelOp)
def kernel_variants_have_a_group(op: KernelOp) -> None:
    """Variants are for the members of a group, and the first is the body."""
    if (op.variants is None) != (op.group is None):
        raise Violation("has variants without a group, or a group without variants; both or neither must be given")
    if op.variants is not None and (not len(op.variants) or op.variants[0] != op.body):
        raise Violation(f"its first variant is not its body {op.body}")


@symbol_rule(KernelOp)
def kernel_runs_its_body(op: KernelOp, symbols: Symbols) -> None:
    """Body and variants are private functions of the kernel's type; there is one variant per member."""
    _check_function(op, "body", op.body, symbols)
    if op.variants is None or op.group is None:
        return
    for variant in op.variants:
        _check_function(op, "variant", variant, symbols)
    members = symbols.group_size(op.group)
    if len(op.variants) != members:
        raise Violation(f"has {len(op.variants)} variants, but {op.group} has {members} members")


@module_rule(KernelOp)
def nothing_moves_inside_a_kernel(ops: Sequence[KernelOp]) -> None:
    """A body contains no movement. Visits each body once."""
    if not ops:
        return
    functions = ir.SymbolTable(_module_of(ops[0]))
    names = {name.value: op for op in ops for name in (op.variants or (op.body,))}
    for name, op in names.items():
        for inner in walk(functions[name]):
            if inner.name.startswith("dm.") and inner.name != CompositeOp.OPERATION_NAME:
                fact = f"is in @{name}, which the dm.kernel at {op.location} runs"
                raise DmcError(inner, fact, hint="a kernel must not contain movements; move it out")


@rule(CompositeOp)
def composite_has_a_kind(op: CompositeOp) -> None:
    """Implementations are looked up by kind."""
    if not op.kind.value:
        raise Violation("its kind is empty; name what it computes, such as layer_norm")


@symbol_rule(CompositeOp)
def composite_means_its_decomposition(op: CompositeOp, symbols: Symbols) -> None:
    """The decomposition is a private function with a body and the composite's type."""
    _check_function(op, "decomposition", op.decomposition, symbols)


def absent() -> ir.Attribute:
    """The parameter of a composite for an argument that was not given: `bias = none`."""
    return ir.TypeAttr.get(ir.NoneType.get())


def is_absent(parameter: ir.Attribute) -> bool:
    """Whether this is `absent()`."""
    return isinstance(parameter, ir.TypeAttr) and isinstance(parameter.value, ir.NoneType)


@rule(CompositeOp)
def parameters_have_values(op: CompositeOp) -> None:
    """A parameter says its value, or `none` for an argument that was not given."""
    for each in op.parameters:
        if isinstance(each.attr, ir.UnitAttr):
            way_out = f"write {each.name} = none for an argument that was not given"
            raise Violation(f"its parameter '{each.name}' has no value; {way_out}")


def _check_function(op: CompositeOp | KernelOp, role: str, name: ir.FlatSymbolRefAttr, symbols: Symbols) -> None:
    """Raises Violation unless `name` is a private function with a body and the op's type."""
    given = symbols.signatures.get(name.value)
    if given is None:
        given = symbols.signatures[name.value] = _signature(role, name, symbols)
    for kind, wanted, has in zip(("operand", "result"), (op.operands, op.results), given, strict=True):
        types = [value.type for value in wanted]
        if types != has:
            raise Violation(f"{kind} types are ({listed(types)}), but {role} {name} has ({listed(has)})")


def _signature(role: str, name: ir.FlatSymbolRefAttr, symbols: Symbols) -> tuple[list[ir.Type], list[ir.Type]]:
    """The types of the operands and results of a function. Raises Violation unless it is private, with a body."""
    function = symbols.ops.get(name.value)
    if function is None or function.name != "func.func":
        found = "not defined" if function is None else f"a {function.name}"
        raise Violation(f"{role} {name} is {found}; it must be a function of the module")
    visibility = function.attributes.get("sym_visibility")
    if visibility is None or visibility.value != "private":
        raise Violation(f"{role} {name} is public; make it private, so that it is erased when unused")
    if not len(function.regions[0].blocks):
        raise Violation(f"{role} {name} has no body; the body defines what is computed")
    given = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return list(given.inputs), list(given.results)


@module_rule(CompositeOp)
def decompositions_end(ops: Sequence[CompositeOp]) -> None:
    """No decomposition is recursive, and none has effects. Visits each decomposition once."""
    if not ops:
        return
    functions = ir.SymbolTable(_module_of(ops[0]))
    state: dict[str, str] = {}
    for op in ops:
        _visit(op, functions, state)


def _visit(op: CompositeOp, functions: ir.SymbolTable, state: dict[str, str]) -> None:
    name = op.decomposition.value
    if state.get(name) == "open":
        raise DmcError(op.operation, f"decomposition @{name} is recursive", hint="inlining it would not terminate")
    if name in state:
        return
    state[name] = "open"
    for inner in walk(functions[name]):
        if inner.name in EFFECTS:
            raise DmcError(inner, f"in decomposition @{name}", hint="a composite is pure; move this out of it")
        if inner.name == CompositeOp.OPERATION_NAME:
            _visit(inner.opview, functions, state)
    state[name] = "done"


def _module_of(op: CompositeOp | KernelOp) -> ir.Operation:
    parent = op.operation.parent
    while parent.operation.parent is not None:
        parent = parent.operation.parent
    return parent.operation

"""The forms of the design: what a module may contain between two stages of the compiler, and what must hold there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dmc._mlir import func, ir
from dmc.analysis.ranks.replicas import verify_replicas
from dmc.analysis.storage.pieces import is_view
from dmc.analysis.storage.spaces import verify_spaces
from dmc.dialect import (
    AllSliceOp,
    KernelOp,
    MeshOp,
    PackOp,
    ProgramOp,
    StartOp,
    UnpackOp,
    WaitOp,
    verify_symbols,
)
from dmc.dialect.collectives import COLLECTIVES
from dmc.dialect.iree import FUSION_BARRIER
from dmc.dialect.placements import placement_of
from dmc.dialect.plan import COMMANDS, DECLARATIONS
from dmc.dialect.transfers import SHARDING
from dmc.errors import DmcError, PipelineError
from dmc.placement.placement import Placement
from dmc.stages import stages_of
from dmc.step_function import (
    ROLES,
    STATE_ROLES,
    Port,
    arguments,
    find_step,
    functions,
    is_public,
    mutated_state,
    results,
    symbol,
)
from dmc.walk import listed


@dataclass(frozen=True)
class Form:
    """A checked value: the dialects and single operations that may appear, and further verifiers, run in order.

    `way_out` is the hint for a module with an operation that may not appear.
    """

    name: str
    dialects: tuple[str, ...]
    ops: tuple[str, ...]
    verifiers: tuple[Callable[[ir.Module], None], ...]
    way_out: str

    def allows(self, op_name: str) -> bool:
        """Whether an operation of this full name may appear."""
        return op_name.partition(".")[0] in self.dialects or op_name in self.ops


def verify_form(module: ir.Module, form: Form) -> None:
    """Raises DmcError, naming operation, location and way out, for the first violation of `form`.

    Raises MLIRError if the module is not even valid MLIR. Of stages each is one.
    """
    module.operation.verify()
    with stages_of(module) as parts:
        for part in parts:
            _verify_part(part, form)


def _verify_part(module: ir.Module, form: Form) -> None:
    for op in listed(module.operation):
        if not form.allows(op.name):
            raise DmcError(op, f"not allowed in form '{form.name}'", form.way_out)
    for verifier in form.verifiers:
        verifier(module)


def form_named(name: str) -> Form:
    """The form of this name; raises PipelineError if there is none."""
    for form in FORMS:
        if form.name == name:
            return form
    raise PipelineError(None, f"no form '{name}'", f"the forms are {', '.join(form.name for form in FORMS)}")


def _verify_one_public_step(module: ir.Module) -> None:
    find_step(module)
    for function in functions(module):
        if function.is_external:
            raise DmcError(function.operation, f"@{symbol(function)} has no body", "a step calls no external function")
        is_step = symbol(function) == "step"
        if is_step and not is_public(function):
            raise DmcError(function.operation, "@step is private", "make it public: it is what the runtime calls")
        if not is_step and is_public(function):
            raise DmcError(function.operation, f"@{symbol(function)} is public; only @step may be", "make it private")


def _verify_static_shapes(module: ir.Module) -> None:
    step = find_step(module)
    for kind, ports in (("argument", arguments(step)), ("result", results(step))):
        for port in ports:
            if not isinstance(port.type, ir.RankedTensorType) or not port.type.has_static_shape:
                raise DmcError(
                    step.operation,
                    f"{kind} {port.index} '{port.name}' of @step is {port.type}, not a tensor of static shape",
                    "a step is compiled for one shape: export with example tensors of fixed sizes",
                )


def _verify_names(module: ir.Module) -> None:
    step = find_step(module)
    for kind, ports in (("argument", arguments(step)), ("result", results(step))):
        seen: dict[str, Port] = {}
        for port in ports:
            if not port.name:
                raise DmcError(step.operation, f"{kind} {port.index} of @step has no name", "set its attribute dm.name")
            if port.name in seen:
                fact = f"{kind}s {seen[port.name].index} and {port.index} of @step are both named '{port.name}'"
                raise DmcError(step.operation, fact, "give each a unique name")
            seen[port.name] = port


def _verify_roles(module: ir.Module) -> None:
    step = find_step(module)
    latest = 0
    for argument in arguments(step):
        if argument.role not in ROLES:
            raise DmcError(
                step.operation,
                f"argument {argument.index} '{argument.name}' of @step has role '{argument.role}'",
                f"set its attribute dm.role to one of {', '.join(ROLES)}",
            )
        group = 0 if argument.role in STATE_ROLES else ROLES.index(argument.role)
        if group < latest:
            fact = f"argument {argument.index} '{argument.name}' of @step, a {argument.role}, is out of order"
            raise DmcError(step.operation, fact, "state comes first, then controls, then the batch")
        latest = group


def _verify_mutated_state(module: ir.Module) -> None:
    mutated_state(find_step(module))


def _verify_shardings(module: ir.Module) -> None:
    """On a mesh, every argument and result of the step has a placement, and state leaves as it came."""
    meshes = [op for op in module.body.operations if isinstance(op, MeshOp)]
    if not meshes:
        return
    if len(meshes) > 1:
        raise DmcError(meshes[1].operation, "is a second mesh", "a job has exactly one dm.mesh")
    step = find_step(module)
    given = _placements(step, "argument", arguments(step), "arg_attrs")
    left = _placements(step, "result", results(step), "res_attrs")
    for argument, result in mutated_state(step):
        before, after = given[argument.index], left[result.index]
        if before != after:
            fact = f"state '{argument.name}' comes as {before} and leaves as {after}"
            raise DmcError(step.operation, fact, "reshard the new value to the placement of the old one")


def _placements(step: func.FuncOp, kind: str, ports: tuple[Port, ...], attributes: str) -> list[Placement]:
    placements: list[Placement] = []
    for port, own in zip(ports, step.operation.attributes[attributes], strict=True):
        what = f"{kind} '{port.name}' of @step"
        if SHARDING not in own:
            raise DmcError(step.operation, f"{what} has no placement on the mesh", "run dm-partition")
        placements.append(placement_of(own[SHARDING]))
        if placements[-1].partial:
            raise DmcError(step.operation, f"{what} is {placements[-1]}", "reduce it: nothing after the step does")
    return placements


def verify_only_kernels_compute(module: ir.Module) -> None:
    """Raises DmcError for an operation that may not appear in `@step` in form scheduled."""
    *body, _ = find_step(module).entry_block.operations
    for view in body:
        op = view.operation
        if op.name not in _SCHEDULED_OPS and not is_view(op):
            hint = "computation belongs in dm.kernel (dm-form-kernels), movements in dm.start (dm-async)"
            raise DmcError(op, "may not appear in @step in form 'scheduled'", hint)


def _verify_only_programs(module: ir.Module) -> None:
    programs = [op for op in module.body.operations if isinstance(op, ProgramOp)]
    if not programs:
        raise DmcError(module.operation, "contains no dm.program", "lower the step (dm-lower-to-plan)")
    for function in functions(module):
        if is_public(function):
            raise DmcError(function.operation, f"@{symbol(function)} is public", "kernels must be private functions")


_SIGNATURE = (
    _verify_one_public_step,
    _verify_static_shapes,
    _verify_names,
    _verify_roles,
    verify_spaces,
    _verify_mutated_state,
)

# builtin is there for the module itself; func for @step, decompositions and calls to them.
_TENSOR_DIALECTS = ("builtin", "func", "linalg", "tensor", "arith", "math", "scf")
# Synchronous collectives of a whole group: what a change of placement has become.
_VALUE_COLLECTIVES = tuple(op.OPERATION_NAME for op in (*COLLECTIVES, AllSliceOp))

# Tensors side by side, so that one collective moves them all.
_BUCKETS = (PackOp.OPERATION_NAME, UnpackOp.OPERATION_NAME)

_MODULE_OPS = ("dm.mesh", "dm.channel", "dm.composite")
# What @step may contain in form scheduled, apart from views.
_SCHEDULED_OPS = (*(op.OPERATION_NAME for op in (KernelOp, StartOp, WaitOp)), *_BUCKETS)
_PLAN_OPS = tuple(op.OPERATION_NAME for op in (ProgramOp, *DECLARATIONS, *COMMANDS))

IMPORTED = Form(
    name="imported",
    dialects=_TENSOR_DIALECTS,
    ops=("dm.composite", "dm.mesh"),
    verifiers=(*_SIGNATURE, verify_symbols),
    way_out=f"it holds {', '.join(_TENSOR_DIALECTS)}, dm.composite and dm.mesh only; decompose it in the importer",
)

PLACED = Form(
    name="placed",
    dialects=_TENSOR_DIALECTS,
    ops=("dm.composite", "dm.mesh", FUSION_BARRIER, *_BUCKETS, *_VALUE_COLLECTIVES),
    verifiers=(*_SIGNATURE, verify_symbols, _verify_shardings, verify_replicas),
    way_out=f"it holds {', '.join(_TENSOR_DIALECTS)}, dm.composite, dm.mesh, {FUSION_BARRIER}, buckets and collectives "
    "on values only; lower it",
)

SCHEDULED = Form(
    name="scheduled",
    dialects=_TENSOR_DIALECTS,
    ops=(*_SCHEDULED_OPS, *_MODULE_OPS, *_VALUE_COLLECTIVES, "dm.copy", "dm.send", "dm.recv", "dm.yield"),
    verifiers=(*_SIGNATURE, verify_symbols, _verify_shardings, verify_only_kernels_compute),
    way_out="a step holds kernels, movements in dm.start, buckets and views only; lower it",
)

PLANNED = Form(
    name="planned",
    dialects=_TENSOR_DIALECTS,
    ops=(*_MODULE_OPS, *_PLAN_OPS),
    verifiers=(verify_symbols, _verify_only_programs),
    way_out="it holds dm.program, the functions of kernels, dm.mesh and dm.channel only; lower it",
)

# In the order in which a module passes through them.
FORMS = (IMPORTED, PLACED, SCHEDULED, PLANNED)

"""PyTorch model and loss → one exported graph from parameters and batch to the loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.export.graph_signature import InputKind, InputSpec

from dmc.errors import ImportFailure
from dmc.importer import origin
from dmc.importer.capture import tree
from dmc.importer.capture.checks import check_hooks, check_nodes, check_results, check_tensors
from dmc.importer.capture.doubles import narrow
from dmc.importer.capture.export import export
from dmc.importer.capture.objective import MODEL, Loss, Objective, registered
from dmc.importer.capture.overlaps import check_overlaps
from dmc.importer.capture.own_loss import OfModel, OwnLoss, check_given, reader_of
from dmc.importer.capture.registered import describe
from dmc.importer.capture.stand_ins import put_stand_ins
from dmc.importer.capture.turned import turn_by_views
from dmc.importer.python.calls import PythonCall
from dmc.importer.python.state import PythonState
from dmc.importer.torch_internals import buffers_of, hooks_of, parameters_of
from dmc.program.signature import Tree

__all__ = ["MODEL", "Capture", "Loss", "capture"]

Hook = Callable[[torch.Tensor], torch.Tensor | None]


@dataclass(frozen=True)
class Capture:
    """The forward pass and loss as ATen operations, not yet decomposed, with the inputs by name.

    The graph takes the state tensors that `inputs` names, in order, then the batch; it returns the loss, then the
    auxiliary outputs, then the new values of the buffers in `replaced`. `state` maps the user's names to tensors, a
    tied one once; `aliases` maps a name to the other names of its tensor, `kinds` to "parameter", "buffer" or
    "constant". `aux` is the tree over the auxiliary outputs. memory: the user's own tensors of the same names, as
    they were before any conversion. hooks: those on parameters' gradients. calls: the Python calls that nodes stand
    for. saved: the keys of the model's `state_dict()`. unset: the names of tensors without numbers, which are on the
    device meta; in `state`, others stand in for them.
    """

    graph: fx.GraphModule
    inputs: tuple[str, ...]
    state: Mapping[str, torch.Tensor]
    kinds: Mapping[str, str]
    aliases: Mapping[str, tuple[str, ...]]
    batch: tuple[tuple[str, torch.Tensor], ...]
    args: Tree
    kwargs: Tree
    aux: Tree | None
    replaced: tuple[str, ...]
    memory: Mapping[str, torch.Tensor]
    hooks: Mapping[str, tuple[Hook, ...]]
    calls: tuple[PythonCall, ...]
    saved: frozenset[str]
    unset: frozenset[str]


def capture(
    model: nn.Module, loss: Loss | OwnLoss | OfModel | None, example: Any, dtype: torch.dtype | None, parts: int = 1
) -> Capture:
    """Exports `model` with its `loss` on `example`, a tuple of positional or a mapping of keyword inputs.

    `dtype`: the type that parameters, buffers and floating inputs are converted to, or None to leave them.
    `parts`: of the batch, whose tokens are sent to experts apart.
    Raises ImportFailure naming the operation, the module and the source line that cannot be exported.
    """
    args, kwargs, batch = _inputs(model, loss, example)
    python_state = PythonState({"": model, "loss": loss.function if isinstance(loss, OfModel) else loss})
    try:
        objective = Objective(model, loss, args, kwargs, dtype, python_state)
        check_hooks(objective)
        memory = registered(objective)
        unset = put_stand_ins(model, objective.loss, dtype)
        if dtype is not None:
            _convert(objective, dtype)
        program = _exported(objective, tuple(tensor for _, tensor in batch), parts)
        narrow(program, MODEL)
        inputs, state, kinds, aliases = _state(program, objective, python_state)
    finally:
        python_state.restore()
    turn_by_views(program.graph_module)
    check_nodes(program.graph_module, MODEL)
    check_results(program.graph_module)
    check_overlaps(program.graph_module, MODEL)
    check_tensors("parameter", state)
    return Capture(
        program.graph_module,
        inputs,
        state,
        kinds,
        aliases,
        tuple(batch),
        args,
        kwargs,
        objective.seen.aux,
        objective.seen.replaced,
        memory={name: memory.get(name, tensor) for name, tensor in state.items()},
        hooks={name: hooks_of(memory[name]) for name, kind in kinds.items() if kind == "parameter"},
        calls=tuple(objective.seen.watch.calls.calls),
        saved=frozenset(model.state_dict()),
        unset=unset & state.keys(),
    )


def _exported(objective: Objective, batch: tuple[torch.Tensor, ...], parts: int) -> torch.export.ExportedProgram:
    """The program of every call. Where the first call sets attributes to constants, as a model that finds out its kind
    of problem, that is the second's: it must compute the same, and change nothing further.
    """
    program = export(objective, batch, parts)
    if not objective.seen.changed:
        return program
    (_, error), *_ = objective.seen.changed
    objective.settle()
    again = export(objective, batch, parts)
    if objective.seen.changed or not _is_same(program, again):
        raise error
    return again


def _is_same(one: torch.export.ExportedProgram, other: torch.export.ExportedProgram) -> bool:
    """Whether two programs are equal, operation by operation, constants included."""
    same_code = one.graph_module.code == other.graph_module.code and one.graph_signature == other.graph_signature
    pairs = [(one.constants[name], other.constants.get(name)) for name in one.constants]
    return same_code and all(
        a is b or (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and torch.equal(a, b)) for a, b in pairs
    )


def _inputs(
    model: nn.Module, loss: Loss | OwnLoss | OfModel | None, example: Any
) -> tuple[Any, Any, list[tuple[str, torch.Tensor]]]:
    """How the inputs are nested, those by position and those by keyword; and their tensors by name."""
    batch: list[tuple[str, torch.Tensor]] = []
    positional, keyword = _split_example(example)
    is_own, function = reader_of(loss) is not None, model.forward
    if isinstance(loss, OfModel):
        is_own, function = True, loss.called()
    if is_own:
        check_given(function, positional, keyword)
    names = _positional_names(function, len(positional), with_target=not is_own and bool(positional))
    trees = [tree.flatten(value, name, batch) for name, value in zip(names, positional, strict=True)]
    args, kwargs = {"tuple": trees}, tree.flatten(keyword, "", batch)
    check_tensors("input", dict(batch))
    # A tensor passed twice is two inputs; tracing tells them apart by identity.
    return args, kwargs, [(name, tensor.detach()) for name, tensor in batch]


def _convert(objective: Objective, dtype: torch.dtype) -> None:
    """Replaces parameters and buffers by converted tensors while the model is traced."""
    converted: dict[int, torch.Tensor] = {}
    registries = [registry(module) for module in objective.modules() for registry in (parameters_of, buffers_of)]
    for registry in registries:
        floating = {
            name: tensor for name, tensor in registry.items() if tensor is not None and tensor.is_floating_point()
        }
        for name, tensor in floating.items():
            if id(tensor) not in converted:
                converted[id(tensor)] = _converted(tensor, dtype)
            registry[name] = converted[id(tensor)]


def _converted(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    new = tensor.detach().to(dtype)
    return nn.Parameter(new, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else new


def _split_example(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, Mapping):
        return (), dict(example)
    if isinstance(example, tuple):
        return example, {}
    hint = "pass example=(inputs, targets) or example={'input_ids': …}"
    if not isinstance(example, torch.Tensor) and hasattr(example, "__iter__"):
        hint += "; of a DataLoader one batch, as next(iter(loader)), in such a form"
    raise ImportFailure("example", f"expected a tuple or a dictionary, got {describe(example)}", hint)


def _state(
    program: torch.export.ExportedProgram, objective: Objective, python_state: PythonState
) -> tuple[tuple[str, ...], dict[str, torch.Tensor], dict[str, str], dict[str, tuple[str, ...]]]:
    """(inputs, state, kinds, aliases) of `Capture`, from the lifted inputs of the exported graph."""
    by_name = registered(objective)
    own = dict(objective.model.named_parameters(remove_duplicate=False))
    own |= dict(objective.model.named_buffers(remove_duplicate=False))
    names_of: dict[int, list[str]] = {}
    for name, tensor in by_name.items():
        names_of.setdefault(id(tensor), []).append(name)
    inputs: list[str] = []
    state: dict[str, torch.Tensor] = {}
    kinds: dict[str, str] = {}
    aliases: dict[str, tuple[str, ...]] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT:
            continue
        target = spec.target or ""
        name = target.removeprefix(f"{MODEL}.")
        tensor = by_name.get(name, program.constants.get(target))
        if spec.kind not in _KINDS or not isinstance(tensor, torch.Tensor):
            raise _captured(program, spec)
        if tensor is not own.get(name):
            _check_no_parameter(name, tensor, python_state)
        first, *others = names_of.get(id(tensor), [name])
        inputs.append(first)
        state[first], kinds[first], aliases[first] = tensor, _KINDS[spec.kind], tuple(others)
    return tuple(inputs), state, kinds, aliases


def _captured(program: torch.export.ExportedProgram, spec: InputSpec) -> ImportFailure:
    """The error for an input of a program that is no tensor, such as a generator of random numbers."""
    placeholders = program.graph.find_nodes(op="placeholder")
    user = next((user for node in placeholders if node.name == spec.arg.name for user in node.users), None)
    place = "the model or its loss" if user is None else str(origin.of_exported_node(user, MODEL))
    kind = type(program.constants.get(spec.target or "")).__name__
    hint = (
        "leave out `generator=`: the step draws by its seed, dmc.compile(…, seed=…); of other objects use tensors only"
    )
    return ImportFailure(place, f"uses an object that is no tensor, a {kind}", hint)


def _check_no_parameter(name: str, tensor: torch.Tensor, python_state: PythonState) -> None:
    """Raises ImportFailure for a tensor outside the model that eager would give a gradient, or a parameter removed from
    the model.
    """
    place = name if tensor.requires_grad else python_state.trained(tensor)
    if place is not None:
        raise ImportFailure(
            place,
            "is a parameter that `forward` or the loss does not read from the model",
            hint="register it, or its module, in the model and read it from there; for a constant, use a copy: "
            ".detach().clone()",
        )


_KINDS = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
}


def _positional_names(function: Callable[..., Any], count: int, with_target: bool) -> list[str]:
    """Names for positional inputs: those of the model's `forward`, "targets" for the one passed to the loss."""
    names = [name for name, p in inspect.signature(function).parameters.items() if p.kind in _BY_POSITION]
    inputs = count - with_target
    named = [names[index] if index < len(names) else f"input{index}" for index in range(inputs)]
    return [*named, "targets"] if with_target else named


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

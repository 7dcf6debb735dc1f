"""PyTorch model and loss → one exported graph from parameters and batch to the loss."""

from __future__ import annotations

import copy
import inspect
import logging
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import fx, nn
from torch.export.graph_signature import InputKind
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx.proxy import TracerBase

from dmc.errors import DmcError, ImportFailure
from dmc.importer import origin, tree
from dmc.importer.checks import check_nodes, check_tensors
from dmc.runtime.signature import Tree

Loss = Callable[[Any, Any], Any]
MODEL = "model"
TARGET_NAMES = ("targets", "target", "labels", "label")


@dataclass(frozen=True)
class Capture:
    """The forward pass and loss as ATen operations, still whole (no decomposition), with its inputs by name.

    The graph takes the state tensors that `inputs` names, in order, then the batch; it gives the loss, then the
    auxiliary outputs. `state` maps the user's names to tensors, a tied one once; `aliases` maps a name to the further
    names of its tensor, `kinds` to "parameter", "buffer" or "constant". `aux` is the tree over the auxiliary outputs.
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


def capture(model: nn.Module, loss: Loss | None, example: Any, dtype: torch.dtype | None) -> Capture:
    """Exports `model` with its `loss` on `example`, a tuple of positional or a mapping of keyword inputs.

    `dtype`: the type that parameters, buffers and floating inputs are converted to, or None to leave them.
    Raises ImportFailure naming the operation, the module and the source line that cannot be exported.
    """
    batch: list[tuple[str, torch.Tensor]] = []
    positional, keyword = _split_example(example)
    names = _positional_names(model, len(positional), with_target=loss is not None and bool(positional))
    trees = [tree.flatten(value, name, batch) for name, value in zip(names, positional, strict=True)]
    args, kwargs = {"tuple": trees}, tree.flatten(keyword, "", batch)
    check_tensors("input", dict(batch))
    # A tensor given twice is two inputs; tracing tells them apart by identity.
    batch = [(name, tensor.detach()) for name, tensor in batch]
    if dtype is not None:
        model = copy.deepcopy(model).to(dtype)
    objective = _Objective(model, loss, args, kwargs, dtype)
    program = _export(objective, tuple(tensor for _, tensor in batch))
    check_nodes(program.graph_module, MODEL)
    inputs, state, kinds, aliases = _state(program, model)
    check_tensors("parameter", state)
    return Capture(program.graph_module, inputs, state, kinds, aliases, tuple(batch), args, kwargs, objective.seen.aux)


@dataclass
class _Seen:
    """What a traced run of the objective has met. Export undoes assignments to the module's own attributes."""

    aux: Tree | None = None


class _Objective(nn.Module):
    """Model and loss as one module over the flat list of batch tensors: (loss, *auxiliary outputs)."""

    def __init__(self, model: nn.Module, loss: Loss | None, args: Tree, kwargs: Tree, dtype: torch.dtype | None):
        super().__init__()
        self.model = model
        # As a module, so that what the loss computes is known as its own.
        self.loss = loss if loss is None or isinstance(loss, nn.Module) else _Function(loss)
        self.args, self.kwargs, self.dtype = args, kwargs, dtype
        self.seen = _Seen()
        self.train(model.training)

    def forward(self, *batch: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if self.dtype is not None:
            batch = tuple(tensor.to(self.dtype) if tensor.is_floating_point() else tensor for tensor in batch)
        positional: tuple[Any, ...] = tree.unflatten(self.args, batch)
        keyword: dict[str, Any] = tree.unflatten(self.kwargs, batch)
        result = self._objective(positional, keyword)
        value, aux = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
        if not isinstance(value, torch.Tensor) or value.dim() or not value.is_floating_point():
            raise ImportFailure(
                "loss",
                f"expected a floating-point scalar tensor, got {_describe(value)}",
                hint="return the loss, or a pair (loss, auxiliary outputs)",
            )
        leaves: list[tuple[str, torch.Tensor]] = []
        self.seen.aux = None if aux is None else tree.flatten(aux, "aux", leaves)
        return value, *(leaf.detach() for _, leaf in leaves)

    def _objective(self, positional: tuple[Any, ...], keyword: dict[str, Any]) -> Any:
        if self.loss is None:
            return _own_loss(self.model(*positional, **keyword))
        if positional:
            *inputs, targets = positional
            return self.loss(self.model(*inputs, **keyword), targets)
        name = next((name for name in TARGET_NAMES if name in keyword), None)
        if name is None:
            raise ImportFailure(
                "example",
                f"no target among the keyword inputs {', '.join(keyword)}",
                hint=f"name one of them {' or '.join(TARGET_NAMES)}, or let the model return its own loss",
            )
        targets = keyword.pop(name)
        return self.loss(self.model(**keyword), targets)


class _Function(nn.Module):
    """A loss that is no module."""

    def __init__(self, function: Loss) -> None:
        super().__init__()
        self.function = function

    def forward(self, output: Any, targets: Any) -> Any:
        return self.function(output, targets)


def _own_loss(output: Any) -> Any:
    if isinstance(output, torch.Tensor):
        return output
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if loss is None and isinstance(output, tuple | list) and output:
        loss = output[0]
    if loss is None:
        raise ImportFailure(
            "loss", "the model returned no loss", hint="pass labels in the example, or a loss function as `loss=`"
        )
    return loss


def _split_example(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, Mapping):
        return (), dict(example)
    if isinstance(example, tuple):
        return example, {}
    raise ImportFailure(
        "example",
        f"expected a tuple or a dictionary, got {_describe(example)}",
        hint="pass example=(inputs, targets) or example={'input_ids': …}",
    )


def _export(objective: _Objective, batch: tuple[torch.Tensor, ...]) -> torch.export.ExportedProgram:
    try:
        with warnings.catch_warnings(), _whole_stacks(), _quiet_refusals():
            # nn.LSTM renews its list of weights at each call; they are parameters all the same.
            warnings.filterwarnings("ignore", "The tensor attributes? .*were? assigned during export")
            return torch.export.export(objective, batch, strict=False)
    except DmcError:
        raise
    # Export reports a model it cannot take by many exception types; each is re-raised with the place it names.
    except Exception as error:
        place = origin.of_exception(error, objective.model)
        op = getattr(error, "func", None)
        what = origin.op_name(op) if op is not None else "the model"
        if isinstance(error, GuardOnDataDependentSymNode):
            what = "a Python number taken from a tensor (by .item(), int(), a slice or a condition)"
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ImportFailure(
            str(place),
            f"{what} cannot be exported: {first}",
            hint="the step is compiled once for fixed shapes: values may not decide shapes or Python control flow; "
            "use masks and torch.where instead",
        ) from error


@contextmanager
def _whole_stacks() -> Generator[None]:
    """Lets export note whole stacks: by itself it keeps the frames named `forward` only, and loses helper functions."""
    with mock.patch.object(TracerBase, "_filter_traceback_frames", lambda _, stack: stack):
        yield


@contextmanager
def _quiet_refusals() -> Generator[None]:
    """Keeps export from printing the graph it has so far, and symbols, when data decides control flow: the error that
    follows says where.
    """
    log = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with mock.patch("torch.export._trace.print", create=True):
            yield
    finally:
        log.setLevel(level)


def _state(
    program: torch.export.ExportedProgram, model: nn.Module
) -> tuple[tuple[str, ...], dict[str, torch.Tensor], dict[str, str], dict[str, tuple[str, ...]]]:
    """(inputs, state, kinds, aliases) of `Capture`, from the lifted inputs of the exported graph."""
    own = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    by_name = dict(own)
    names_of: dict[int, list[str]] = {}
    for name, tensor in own:
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
            raise ImportFailure(name, f"the model captures a {spec.kind.name.lower()}", hint="capture tensors only")
        first, *others = names_of.get(id(tensor), [name])
        inputs.append(first)
        state[first], kinds[first], aliases[first] = tensor, _KINDS[spec.kind], tuple(others)
    return tuple(inputs), state, kinds, aliases


_KINDS = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
}


def _positional_names(model: nn.Module, count: int, with_target: bool) -> list[str]:
    """Names for positional inputs: those of the model's `forward`, "targets" for the one that goes to the loss."""
    names = [name for name, p in inspect.signature(model.forward).parameters.items() if p.kind in _BY_POSITION]
    inputs = count - with_target
    named = [names[index] if index < len(names) else f"input{index}" for index in range(inputs)]
    return [*named, "targets"] if with_target else named


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of {value.dtype} with shape {list(value.shape)}"
    return f"a {type(value).__name__}"

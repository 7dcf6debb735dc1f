"""Model and loss as one module whose forward pass exposes all changed state to the step."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from dmc.errors import ImportFailure
from dmc.importer import origin
from dmc.importer.capture import tree
from dmc.importer.capture.own_loss import OfModel, OwnLoss, reader_of
from dmc.importer.capture.registered import ONCE, Registered, check_shapes, describe
from dmc.importer.python.accesses import Accesses
from dmc.importer.python.state import Change, PythonState, is_missing
from dmc.importer.python.watch import Watch
from dmc.importer.torch_internals import traced_node
from dmc.program.signature import Tree

# The path of the user's model in an objective; its loss is at "loss".
MODEL = "model"
Loss = Callable[[Any, Any], Any] | int | str
_PLAIN = (bool, int, float, str)
TARGET_NAMES = ("targets", "target", "labels", "label")


@dataclass
class Seen:
    """The findings of a traced run of the objective. Export undoes assignments to the module's own attributes.

    aux: the tree over the auxiliary outputs. replaced: the buffers whose new values are the outputs after these.
    changed: attributes that were set to a plain constant, each with the error if a later call sets them otherwise.
    """

    aux: Tree | None = None
    replaced: tuple[str, ...] = ()
    watch: Watch = field(default_factory=Watch)
    changed: list[tuple[Change, ImportFailure]] = field(default_factory=list[tuple[Change, ImportFailure]])


class Objective(nn.Module):
    """Model and loss as one module over the flat list of batch tensors."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss | OwnLoss | OfModel | None,
        args: Tree,
        kwargs: Tree,
        dtype: torch.dtype | None,
        python_state: PythonState,
    ) -> None:
        super().__init__()
        # Every module keeps its own mode, so `train` and `eval` must not be called on this one.
        self.training = model.training
        self.model = model
        # As a module, so that the loss's operations are attributed to it.
        self.own_loss = reader_of(loss)
        self.of_model = loss if isinstance(loss, OfModel) else None
        if self.of_model is None:
            _check_loss(loss, 1 if isinstance(loss, OwnLoss) else 2)
        function = loss.function if isinstance(loss, OfModel) else loss
        self.loss = None if self.own_loss else function if isinstance(function, nn.Module) else _Function(function)
        self.args, self.kwargs, self.dtype = args, kwargs, dtype
        self.python_state = python_state
        self.originals = {id(tensor): name for name, tensor in Registered.of(self.model, self.loss).by_name.items()}
        self.seen = Seen()
        self.settled: dict[tuple[int, str], Any] = {}

    def settle(self) -> None:
        """Leaves the changed attributes as the traced call left them, for another one; export may have undone that."""
        for change, _ in self.seen.changed:
            setattr(change.owner, change.attribute, change.after)
            self.settled[id(change.owner), change.attribute] = change.after
        self.seen = Seen()

    def forward(self, *batch: Tensor) -> tuple[Tensor, ...]:
        """The loss, the auxiliary outputs, and the new values of reassigned buffers."""
        before, accesses, watch = Registered.of(self.model, self.loss), Accesses(), self.seen.watch
        shapes = {name: tensor.shape for name, tensor in before.by_name.items()}
        watch.registered = before.by_name
        try:
            with accesses.watched():
                value, leaves = self._outputs(batch)
            watch.close(Registered.of(self.model, self.loss).by_name.values())
        finally:
            watch.registered = {}
        check_shapes(shapes, before.by_name)
        self._check_python_state(before, accesses)
        replaced = before.replaced()
        self.seen.replaced = tuple(replaced)
        return value, *leaves, *replaced.values()

    def _outputs(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, list[Tensor]]:
        if self.dtype is not None:
            batch = tuple(tensor.to(self.dtype) if tensor.is_floating_point() else tensor for tensor in batch)
        positional: tuple[Any, ...] = tree.unflatten(self.args, batch)
        keyword: dict[str, Any] = tree.unflatten(self.kwargs, batch)
        result = self._objective(positional, keyword)
        value, aux = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
        if not isinstance(value, Tensor) or value.numel() != 1 or not value.is_floating_point():
            raise ImportFailure(
                "loss",
                f"expected a floating-point tensor of one element, got {describe(value)}",
                hint="return the loss, or a pair (loss, auxiliary outputs)",
            )
        leaves: list[tuple[str, Tensor]] = []
        self.seen.aux = None if aux is None else tree.flatten(aux, "aux", leaves)
        return value.reshape(()), [leaf.detach() for _, leaf in leaves]

    def _objective(self, positional: tuple[Any, ...], keyword: dict[str, Any]) -> Any:
        if self.own_loss is not None:
            return self.own_loss(self.model(*positional, **keyword))
        assert self.loss is not None, "what is not the model's own is a function"
        if self.of_model is not None:
            result = self.loss(self.model, *positional, **keyword)
            return torch.zeros(()) if result is None and not self.of_model.needs_loss else result
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

    def _check_python_state(self, before: Registered, accesses: Accesses) -> None:
        """Raises ImportFailure where the call has changed Python state that a later call reads, other than registered
        tensors. Attributes set to plain constants are noted: a later call may set them to the same."""
        names = {id(tensor): name for name, tensor in before.by_name.items()}
        for change in self.python_state.changes(names | self.originals):
            if accesses.is_scratch(change.owner, change.attribute) or self._is_settled(change):
                continue
            module = change.path.rpartition(".")[0] if isinstance(change.owner, nn.Module) else ""
            place = _made_at(change.after) or accesses.place(change.owner, module, change.attribute)
            error = _unregistered(change, place)
            if change.owner is None or not isinstance(change.after, _PLAIN):
                raise error
            self.seen.changed.append((change, error))

    def _is_settled(self, change: Change) -> bool:
        key = id(change.owner), change.attribute
        return key in self.settled and isinstance(change.after, _PLAIN) and self.settled[key] == change.after


def registered(objective: Objective) -> dict[str, Tensor]:
    """Parameters and buffers of the model, then those of the loss, by name; a tied one under each of its names."""
    return dict(Registered.of(objective.model, objective.loss).by_name)


def _unregistered(change: Change, place: str) -> ImportFailure:
    what = "is changed"
    if isinstance(change.before, _PLAIN) and isinstance(change.after, _PLAIN):
        what = f"changes from {change.before!r} to {change.after!r}"
    elif is_missing(change.before) or change.before is None:
        what = "is created"
    output = "return it beside the loss, as an auxiliary output, and keep that after the step: (loss, {'mean': mean})"
    if change.owner is None:
        fact = f"'{change.path}', in a list or dictionary, {what} in `forward`: a compiled step would not do that again"
        return ImportFailure(place, fact, hint=output)
    fact = f"'{change.path}' {what} in `forward` but is not a buffer, so a compiled step would not carry it over"
    return ImportFailure(place, fact, hint=f"use register_buffer, or {output}; {ONCE}")


def _made_at(value: Any) -> str:
    """Where a traced tensor is made; "" for anything else."""
    node = traced_node(value)[0] if isinstance(value, Tensor | torch.SymFloat | torch.SymInt) else None
    return "" if node is None else str(origin.of_exported_node(node, MODEL))


def _check_loss(loss: Any, count: int) -> None:
    """Raises ImportFailure, at the line of its definition, for a loss that cannot be called with so many arguments."""
    function = loss.read if isinstance(loss, OwnLoss) else loss.forward if isinstance(loss, nn.Module) else loss
    if not callable(function):
        return
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError as error:
        code = getattr(inspect.unwrap(function), "__code__", None)
        place = "the loss" if code is None else f"the loss ({code.co_filename}:{code.co_firstlineno})"
        called = "the model's output" if count == 1 else "the model's output and the targets"
        hint = f"it is called with {called}; where the model returns its own loss, leave `loss` out, or give its place"
        name = getattr(function, "__qualname__", "the loss")
        raise ImportFailure(place, f"TypeError: {name}{inspect.signature(function)}: {error}", hint) from error
    except ValueError:
        return  # A builtin without a signature.


class _Function(nn.Module):
    """Wraps a loss that is not a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Any, **named: Any) -> Any:
        return self.function(*given, **named)

"""A PyTorch model, loss and optimizer → form imported: the whole training step as one module, and its first state."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from dmc import optim
from dmc._mlir import ir
from dmc.errors import DmcError, ImportFailure
from dmc.importer import link, shared_state
from dmc.importer.capture.capture import Capture, Loss, capture
from dmc.importer.capture.indices import index_bounds
from dmc.importer.differentiate import Gradients, differentiate, results_of
from dmc.importer.forward.precision import Precision
from dmc.importer.linalg.lowering import TorchModule
from dmc.importer.python.sharing import check_sharing
from dmc.importer.shared_state import Shared
from dmc.importer.torch_internals import without_trace_log
from dmc.importer.traced import Asked, Traced, added_to_seed, dtype_name
from dmc.importer.update import Update, trace_update
from dmc.program.signature import Signature, StateSpec, TensorSpec, counter_of


@dataclass(frozen=True)
class ImportedStep:
    """`module` in form imported, its calling convention, and the first value of each state tensor by name.

    modules: the paths of the model's own modules, which plans address. unset: the names of state tensors without
    numbers, those of a model on the device meta.
    """

    module: ir.Module
    signature: Signature
    state: dict[str, torch.Tensor]
    modules: tuple[str, ...]
    unset: frozenset[str]


def import_step(
    model: nn.Module,
    loss: Loss | None,
    optimizer: Any,
    example: Any,
    precision: Precision,
    accumulate: int,
    seed: int,
    context: ir.Context,
    parts: int = 1,
) -> ImportedStep:
    """Imports one training step of `model`; see `dmc.compile` for the arguments. parts: `plans.data_parts`.

    Raises ImportFailure (or DmcError from the optimizer) for what cannot be compiled.
    """
    asked = Asked(model, loss, optimizer, example, precision, accumulate, seed)
    return import_steps({"": asked}, context, parts)[""]


def import_steps(asked: Mapping[str, Asked], context: ir.Context, parts: int = 1) -> dict[str, ImportedStep]:
    """Imports programs over one state, by name: the state that any of them has, which each takes whole and of which it
    changes its own. Raises as `import_step`, and ImportFailure where they do not fit together."""
    traced = shared_state.fitted({name: _placed(each, parts) for name, each in asked.items()})
    with computing_in_f32(), without_trace_log():
        updates = {name: _update(each) for name, each in traced.items()}
        shared = shared_state.Shared.of(traced, updates)
        return {name: _finished(each, updates[name], name, shared, context) for name, each in traced.items()}


def _placed(asked: Asked, parts: int) -> Traced:
    """Traces; errors of one of several phases name it."""
    try:
        return _trace(asked, parts)
    except DmcError as error:
        if asked.phase:
            error.inside(asked.place)
        raise


def _trace(asked: Asked, parts: int) -> Traced:
    plan = _plan(asked)
    mixed, accumulate = asked.precision is Precision.BF16_MIXED, asked.accumulate
    with without_trace_log():
        captured = capture(asked.model, asked.loss, _micro_batch(asked.example, accumulate), asked.dtype, parts)
    with computing_in_f32(), without_trace_log():
        held, trains = frozenset(plan.group_of), asked.optimizer is not None
        gradients = differentiate(captured, mixed, held, accumulate, trains=trains)
        check_sharing(captured.memory, _tensors(asked.example), {*gradients.trained, *gradients.written})
    return Traced(asked, captured, gradients, plan)


def _plan(asked: Asked) -> optim.Plan:
    if asked.optimizer is None:
        # A rate that nothing has.
        return optim.plan(optim.SGD(lr=0.0), {})
    return optim.plan_for(asked.model, asked.optimizer)


def _update(traced: Traced) -> Update:
    parameters = {name: traced.converted(name) for name in traced.gradients.trained}
    written = {name: traced.converted(name) for name in traced.gradients.written}
    return trace_update(traced.plan, parameters, written, _results(traced.gradients)[0].dtype, traced.done)


def _finished(traced: Traced, update: Update, name: str, shared: Shared, context: ir.Context) -> ImportedStep:
    captured, gradients, asked = traced.captured, traced.gradients, traced.asked
    signature = _signature(traced, shared.specs[name])
    check_names(signature)
    torch_module = TorchModule(context)
    torch_module.add(gradients.graph.graph, link.GRADIENTS)
    torch_module.add(update.graph.graph, link.UPDATE)
    torch_module.lower()
    names = tuple(captured.state), gradients.written, gradients.trained, tuple(update.slots)
    order = link.Order(*names, gradients.aux, counter_of(asked.phase), added_to_seed(asked.number))
    link.link(torch_module.module, signature, order, asked.accumulate)
    paths = tuple(path for path, _ in asked.model.named_modules())
    return ImportedStep(torch_module.module, signature, shared.state, paths, shared.unset)


@contextmanager
def computing_in_f32() -> Generator[None]:
    """The default type of new tensors: the user's while the model runs, this one in dmc's own code."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _tensors(example: Any) -> dict[str, torch.Tensor]:
    paths = pytree.tree_leaves_with_path(example)
    return {f"example{pytree.keystr(path)}": leaf for path, leaf in paths if isinstance(leaf, torch.Tensor)}


def _micro_batch(example: Any, accumulate: int) -> Any:
    """The first of `accumulate` equal parts of `example` along dimension 0."""
    if accumulate < 1:
        raise ImportFailure("accumulate", f"expected a positive number, got {accumulate}")
    if accumulate == 1:
        return example

    def cut(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 0 or tensor.shape[0] % accumulate:
            raise ImportFailure(
                "example",
                f"an input of shape {list(tensor.shape)} cannot be cut into accumulate={accumulate} equal parts",
                hint="dimension 0 of every input is the batch; make it a multiple of `accumulate`",
            )
        return tensor[: tensor.shape[0] // accumulate]

    return pytree.tree_map_only(torch.Tensor, cut, example)


def _signature(traced: Traced, state: tuple[StateSpec, ...]) -> Signature:
    captured, gradients, plan, accumulate = traced.captured, traced.gradients, traced.plan, traced.asked.accumulate
    return Signature(
        state=state,
        controls=(TensorSpec("lr", "f32", (len(plan.groups),)), TensorSpec("guard", "i32", ())),
        batch=batch_specs(captured, accumulate),
        outputs=_step_outputs(_results(gradients)[: 1 + gradients.aux], accumulate),
        args=captured.args,
        kwargs=captured.kwargs,
        aux=captured.aux,
        learning_rates=tuple(group.lr for group in plan.groups),
        bounds=index_bounds(captured.graph, captured.batch, accumulate),
        phase=traced.asked.phase,
    )


def check_names(signature: Signature) -> None:
    """Raises ImportFailure where two tensors of the step, such as a parameter and an input, have the same name."""
    others = {"control": signature.controls, "input": signature.batch, "output": signature.outputs}
    named = [(kind, spec.name) for kind, specs in others.items() for spec in specs]
    shared_state.check_names([*((spec.role, spec.name) for spec in signature.state), *named])


def _step_outputs(values: Sequence[torch.Tensor], accumulate: int) -> tuple[TensorSpec, ...]:
    if accumulate > 1 and any(value.dim() or not value.is_floating_point() for value in values[1:]):
        raise ImportFailure(
            "loss",
            "auxiliary outputs of a step with accumulate > 1 must be floating-point scalars",
            hint="return their means, or use accumulate=1",
        )
    loss, *aux = output_specs(values)
    return (loss, TensorSpec("finite", "i32", ()), *aux)


def output_specs(values: Sequence[torch.Tensor]) -> tuple[TensorSpec, ...]:
    """The loss and the auxiliary outputs, as outputs of a program."""
    named = {"aux" + str(index - 1) if index else "loss": value for index, value in enumerate(values)}
    return tuple(TensorSpec(name, dtype_name(name, value.dtype), tuple(value.shape)) for name, value in named.items())


def batch_specs(captured: Capture, accumulate: int = 1) -> tuple[TensorSpec, ...]:
    """The inputs of a program, each of `accumulate` times the rows that were captured."""
    return tuple(_batch_spec(name, tensor, accumulate) for name, tensor in captured.batch)


def _batch_spec(name: str, tensor: torch.Tensor, accumulate: int) -> TensorSpec:
    shape = tuple(tensor.shape) if accumulate == 1 else (tensor.shape[0] * accumulate, *tensor.shape[1:])
    return TensorSpec(name, dtype_name(name, tensor.dtype), shape)


def _results(gradients: Gradients) -> list[torch.Tensor]:
    return [node.meta["val"] for node in results_of(gradients.graph)]

"""A PyTorch model, loss and optimizer → form imported: the whole training step as one module, and its first state."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from dmc import optim
from dmc._mlir import ir
from dmc.errors import ImportFailure
from dmc.importer import link
from dmc.importer.capture.capture import Capture, Loss, capture
from dmc.importer.capture.indices import index_bounds
from dmc.importer.differentiate import Gradients, differentiate, results_of
from dmc.importer.forward.precision import Precision
from dmc.importer.linalg.lowering import TorchModule
from dmc.importer.python.sharing import check_sharing
from dmc.importer.torch_internals import without_trace_log
from dmc.importer.update import Update, first_value, trace_update
from dmc.runtime.signature import Role, Signature, StateSpec, TensorSpec

# Not float64: the backend computes it in 32 bits.
MLIR_NAMES = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int8: "i8",
    torch.uint8: "ui8",
    torch.bool: "i1",
}


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
    dtype = torch.bfloat16 if precision is Precision.BF16 else None
    plan = optim.plan_for(model, optimizer)
    with without_trace_log():
        captured = capture(model, loss, _micro_batch(example, accumulate), dtype, parts)
    with computing_in_f32(), without_trace_log():
        gradients, update = _trace(captured, plan, precision is Precision.BF16_MIXED, accumulate, dtype)
        check_sharing(captured.memory, _tensors(example), {*gradients.trained, *gradients.written})
        signature = _signature(captured, gradients, update, plan, accumulate, dtype)
        check_names(signature)
        torch_module = TorchModule(context)
        torch_module.add(gradients.graph.graph, link.GRADIENTS)
        torch_module.add(update.graph.graph, link.UPDATE)
        torch_module.lower()
    order = link.Order(tuple(captured.state), gradients.written, gradients.trained, tuple(update.slots), gradients.aux)
    link.link(torch_module.module, signature, order, accumulate)
    paths = tuple(name for name, _ in model.named_modules())
    state = _first_state(signature, captured, plan, update, seed)
    return ImportedStep(torch_module.module, signature, state, paths, captured.unset)


@contextmanager
def computing_in_f32() -> Generator[None]:
    """The default type of new tensors: the user's while the model runs, this one in dmc's own code."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _trace(
    captured: Capture, plan: optim.Plan, mixed: bool, accumulate: int, dtype: torch.dtype | None
) -> tuple[Gradients, Update]:
    gradients = differentiate(captured, mixed, frozenset(plan.group_of), accumulate)
    parameters = {name: _converted(captured.state[name], dtype) for name in gradients.trained}
    written = {name: _converted(captured.state[name], dtype) for name in gradients.written}
    return gradients, trace_update(plan, parameters, written, _results(gradients)[0].dtype)


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


def _signature(
    captured: Capture,
    gradients: Gradients,
    update: Update,
    plan: optim.Plan,
    accumulate: int,
    dtype: torch.dtype | None,
) -> Signature:
    return Signature(
        state=tuple(_state_specs(captured, gradients, update, dtype)),
        controls=(TensorSpec("lr", "f32", (len(plan.groups),)), TensorSpec("guard", "i32", ())),
        batch=batch_specs(captured, accumulate),
        outputs=_step_outputs(_results(gradients)[: 1 + gradients.aux], accumulate),
        args=captured.args,
        kwargs=captured.kwargs,
        aux=captured.aux,
        learning_rates=tuple(group.lr for group in plan.groups),
        bounds=index_bounds(captured.graph, captured.batch, accumulate),
    )


def check_names(signature: Signature) -> None:
    """Raises ImportFailure where two tensors of the step, such as a parameter and an input, have the same name."""
    kinds: dict[str, str] = {}
    others = {"control": signature.controls, "input": signature.batch, "output": signature.outputs}
    named = [(kind, spec.name) for kind, specs in others.items() for spec in specs]
    for kind, name in (*((spec.role, spec.name) for spec in signature.state), *named):
        if name in kinds:
            raise ImportFailure(
                name, f"names two tensors of the step, {kinds[name]} and {kind}", hint="rename one of the two"
            )
        kinds[name] = kind


def _state_specs(captured: Capture, gradients: Gradients, update: Update, dtype: torch.dtype | None) -> list[StateSpec]:
    trained, written = set(gradients.trained), set(gradients.written)
    specs: dict[str, StateSpec] = {}
    for name, tensor in captured.state.items():
        role: Role = "parameter" if name in trained else "frozen"
        if captured.kinds[name] != "parameter" or (name in written and name not in trained):
            role = (
                "buffer"  # A frozen parameter that the forward pass changes, such as a teacher's, is simply a buffer.
            )
        kind = _dtype_name(name, _converted(tensor, dtype).dtype)
        mutated = name in trained or name in written
        aliases = captured.aliases[name]
        transient = tuple(each for each in (name, *aliases) if each not in captured.saved)
        specs[name] = StateSpec(name, kind, tuple(tensor.shape), role, mutated, aliases, transient)
    owners = [specs[slot.rpartition(".")[0]] for slot in update.slots]
    slots = [
        StateSpec(name, slot.dtype or owner.dtype, slot.shape, "optimizer")
        for (name, slot), owner in zip(update.slots.items(), owners, strict=True)
    ]
    counter, seed = StateSpec("step", "i64", (), "counter"), StateSpec("seed", "i64", (), "seed", mutated=False)
    return [*specs.values(), *slots, counter, seed]


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
    return tuple(TensorSpec(name, _dtype_name(name, value.dtype), tuple(value.shape)) for name, value in named.items())


def batch_specs(captured: Capture, accumulate: int = 1) -> tuple[TensorSpec, ...]:
    """The inputs of a program, each of `accumulate` times the rows that were captured."""
    return tuple(_batch_spec(name, tensor, accumulate) for name, tensor in captured.batch)


def _batch_spec(name: str, tensor: torch.Tensor, accumulate: int) -> TensorSpec:
    shape = tuple(tensor.shape) if accumulate == 1 else (tensor.shape[0] * accumulate, *tensor.shape[1:])
    return TensorSpec(name, _dtype_name(name, tensor.dtype), shape)


def _dtype_name(name: str, dtype: torch.dtype) -> str:
    if dtype not in MLIR_NAMES:
        raise ImportFailure(
            name, f"has the unsupported type {dtype}", hint=f"use one of {', '.join(map(str, MLIR_NAMES))}"
        )
    return MLIR_NAMES[dtype]


def _results(gradients: Gradients) -> list[torch.Tensor]:
    return [node.meta["val"] for node in results_of(gradients.graph)]


def _converted(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    return tensor.detach().to(dtype) if dtype is not None and tensor.is_floating_point() else tensor.detach()


def _first_state(
    signature: Signature, captured: Capture, plan: optim.Plan, update: Update, seed: int
) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = {}
    for spec in signature.state:
        match spec.role:
            case "counter":
                state[spec.name] = torch.tensor(update.steps_done)
            case "seed":
                state[spec.name] = torch.tensor(seed)
            case "optimizer":
                owner = state[spec.name.rpartition(".")[0]]
                first = first_value(update.slots[spec.name], owner)
                taken = plan.state.get(spec.name)
                state[spec.name] = first if taken is None else taken.detach().to(first.dtype)
            case _:
                state[spec.name] = captured.state[spec.name].detach()
    return state

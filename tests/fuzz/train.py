"""The steps of a program in eager, by the interpreter on form imported, and compiled: what each leaves, by name."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor, nn

import dmc
from dmc import dialect, optim
from dmc._mlir import ir
from dmc.dtypes import Array
from dmc.importer.forward.precision import Precision
from dmc.importer.step import ImportedStep, import_step
from dmc.interpreter.bodies import Bodies
from dmc.verification.choices import FirstOfEqual
from dmc.verification.draws import Draws
from tests.eager import split

STEPS = 2
# What a step leaves: its loss, the outputs beside it, and the state after it, by name.
Trace = dict[str, Tensor]


@dataclass(frozen=True)
class Mode:
    """How a step is compiled; ranks: of data parallelism."""

    precision: str = "fp32"
    accumulate: int = 1
    ranks: int = 1

    def __str__(self) -> str:
        return f"precision={self.precision} accumulate={self.accumulate} ranks={self.ranks}"


PLAIN = Mode()


@dataclass(frozen=True)
class Case:
    """A program that was executed: its module, the batch that every step gets, and its optimizer (of `dmc.optim`).

    mode: the one in which it was found to differ.
    """

    module: nn.Module
    inputs: tuple[Tensor, ...]
    optimizer: Any
    mode: Mode = PLAIN

    def fresh(self) -> Case:
        """The same with a module and a batch of its own, which a step may change."""
        return replace(self, module=copy.deepcopy(self.module), inputs=tuple(_cloned(each) for each in self.inputs))

    @property
    def example(self) -> tuple[Tensor, ...]:
        """The batch, and a target that the loss does not look at, with as many rows."""
        rows = [each.shape[0] for each in self.inputs if each.dim()]
        return (*self.inputs, torch.zeros(rows[0] if rows else 1))


def case_of(text: str, wide: bool = False) -> Case:
    """Executes the source of a program; `wide`: with float64 in place of every other floating type."""
    names: dict[str, Any] = {"__name__": "program"}
    default = torch.get_default_dtype()
    if wide:
        text = re.sub(r"torch\.(float32|bfloat16|float16)\b", "torch.float64", text)
    torch.set_default_dtype(torch.float64 if wide else default)
    try:
        exec(compile(text, "<program>", "exec"), names)
        return Case(names["Step"](), names["INPUTS"], names["OPTIMIZER"], names.get("MODE", PLAIN))
    finally:
        torch.set_default_dtype(default)


def objective(result: tuple[Tensor, list[Tensor]], target: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The loss of a program, which it computes itself."""
    return result


def mean_objective(result: tuple[Tensor, list[Tensor]], target: Tensor) -> Tensor:
    """The loss alone: micro-batches give no other outputs."""
    return result[0]


def by_eager(case: Case, mode: Mode = PLAIN, steps: int = STEPS) -> list[Trace]:
    """What eager leaves."""
    case = case.fresh()
    parameters = [each for each in case.module.parameters() if each.requires_grad]
    optimizer = _torch_optimizer(case.optimizer, parameters)
    traces: list[Trace] = []
    for counter in range(steps):
        optimizer.zero_grad()
        loss, outputs = _eager_loss(case, mode, counter)
        if case.optimizer.clip_grad_norm is not None:
            nn.utils.clip_grad_norm_(parameters, case.optimizer.clip_grad_norm)
        optimizer.step()
        trace = {"loss": loss, **{f"output {i}": output for i, output in enumerate(outputs)}}
        traces.append({name: each.detach().clone() for name, each in {**trace, **_state(case.module)}.items()})
    return traces


def _eager_loss(case: Case, mode: Mode, counter: int) -> tuple[Tensor, list[Tensor]]:
    """The mean loss and the outputs, after going backward; with the draws of a step after `counter` others."""
    total, outputs = torch.zeros([]), []
    for number, part in enumerate(split(case.inputs, mode.accumulate)):
        assert isinstance(part, tuple)
        # The batch is the user's: a step must not change it.
        cast = torch.autocast("cpu", torch.bfloat16) if mode.precision == "bf16-mixed" else nullcontext()
        with FirstOfEqual(), Draws(0, counter * mode.accumulate + number) as draws:
            with cast:
                loss, outputs = case.module(*(_cloned(each) for each in part))
            # An output may be a view of a parameter, which the optimizer will change.
            outputs = [each.detach().clone() for each in outputs]
            draws.close()
            (loss / mode.accumulate).backward()
        total = total + loss.detach() / mode.accumulate
    return total, [] if mode.accumulate > 1 else outputs


def _cloned(tensor: Tensor) -> Tensor:
    """A copy that lies in memory as its original does."""
    return torch.empty(0, dtype=tensor.dtype).set_(
        tensor.untyped_storage().clone(), tensor.storage_offset(), tensor.shape, tensor.stride()
    )


def _torch_optimizer(settings: Any, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
    given = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    match settings:
        case optim.SGD():
            return torch.optim.SGD(
                parameters,
                **given,
                momentum=settings.momentum,
                dampening=settings.dampening,
                nesterov=settings.nesterov,
            )
        case optim.AdamW():
            return torch.optim.AdamW(parameters, **given, betas=settings.betas, eps=settings.eps)
        case _:
            return torch.optim.Adam(parameters, **given, betas=settings.betas, eps=settings.eps)


def _state(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def by_interpreter(case: Case, steps: int = STEPS, precision: Precision = Precision.FP32) -> list[Trace]:
    """What the interpreter leaves, on form imported."""
    case = case.fresh()
    with ir.Context() as context, ir.Location.unknown(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dialect.load(context)
        given = (case.module, objective, case.optimizer, case.example)
        step = import_step(*given, precision, 1, 0, context)
        return _interpreted(step, case, steps)


def _interpreted(step: ImportedStep, case: Case, steps: int) -> list[Trace]:
    signature, bodies = step.signature, Bodies.of(step.module)
    values = {spec.name: _array(step.state[spec.name]) for spec in signature.state}
    values |= {"lr": np.array(signature.learning_rates, np.float32), "guard": np.array(0, np.int32)}
    values |= {spec.name: _array(each) for spec, each in zip(signature.batch, case.example, strict=True)}
    arguments = [spec.name for spec in (*signature.state, *signature.controls, *signature.batch)]
    results = [spec.name for spec in signature.state if spec.mutated] + [spec.name for spec in signature.outputs]
    traces: list[Trace] = []
    for _ in range(steps):
        values |= zip(results, bodies.call("step", [values[name] for name in arguments]), strict=True)
        traces.append(_trace(values, case.module))
    return traces


def _trace(values: Mapping[str, Array], module: nn.Module) -> Trace:
    """What eager's trace holds, of the tensors of a step by their names."""
    outputs = [name for name in values if name.startswith("aux")]
    found = {"loss": values["loss"], **{f"output {name.removeprefix('aux')}": values[name] for name in outputs}}
    # A parameter or buffer that is never read is not part of the step.
    found |= {name: values[name] for name in _state(module) if name in values}
    return {name: _tensor(array) for name, array in found.items()}


def by_compiled(case: Case, mode: Mode = PLAIN, steps: int = STEPS, verify: bool | None = None) -> list[Trace]:
    """What a compiled step on the CPU leaves; `verify` as `dmc.compile` takes it."""
    case = case.fresh()
    loss = mean_objective if mode.accumulate > 1 else objective
    mesh = dmc.Mesh(dp=mode.ranks) if mode.ranks > 1 else None
    plan = None if mesh is None else dmc.plan(mesh).use(dmc.plans.data_parallel("dp"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = dmc.compile(
            case.module,
            loss=loss,
            optimizer=case.optimizer,
            example=case.example,
            precision=mode.precision,
            accumulate=mode.accumulate,
            mesh=mesh,
            plan=plan,
            verify=verify,
        )
    return [_compiled_trace(step, case) for _ in range(steps)]


def _compiled_trace(step: Any, case: Case) -> Trace:
    result = step(*case.example)
    loss, outputs = result if isinstance(result, tuple) else (result, [])
    values: dict[str, Array] = {
        "loss": np.array(float(loss), np.float32),
        **{f"aux{i}": np.asarray(each) for i, each in enumerate(outputs)},
    }
    model = {name: _array(torch.as_tensor(each)) for name, each in step.state_dict()["model"].items()}
    return _trace({**values, **model}, case.module)


def _array(tensor: Tensor) -> Array:
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().copy().view(ml_dtypes.bfloat16)
    # Contiguous, but of rank 0 where the tensor is.
    array = np.array(tensor.numpy(), order="C")
    # Builtin integers carry no sign.
    return array.view(np.int8) if array.dtype == np.uint8 else array


def _tensor(array: Array) -> Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(np.array(array, order="C").view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(array, order="C"))

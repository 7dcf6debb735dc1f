"""A model in eval mode and its loss → form imported: a program that reads the state of a step, and changes none."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from dmc._mlir import ir
from dmc.errors import ImportFailure
from dmc.importer import link
from dmc.importer.capture.capture import Capture, Loss, capture
from dmc.importer.capture.checks import check_traced
from dmc.importer.capture.indices import index_bounds, unchecked
from dmc.importer.capture.own_loss import OfModel, OwnLoss
from dmc.importer.capture.registered import describe
from dmc.importer.differentiate import Gradients, arranged, forward_of, results_of, select, trace_functional
from dmc.importer.forward.precision import Precision
from dmc.importer.linalg.lowering import TorchModule
from dmc.importer.step import ImportedStep, batch_specs, check_names, computing_in_f32, output_specs
from dmc.program.signature import Signature

# In elements.
_LARGEST_LITERAL = 1 << 16
_WAY_OUT = "do that in training only (if self.training: …), or register it as a buffer of the model"


def import_evaluation(
    model: nn.Module,
    loss: Loss | OwnLoss | OfModel | None,
    example: object,
    precision: Precision,
    step: ImportedStep,
    context: ir.Context,
    parts: int = 1,
) -> ImportedStep:
    """Imports `model` in eval mode with `loss`, as a program over the state of `step`.

    Its `@step` takes the whole state, that of the optimizer included, then the batch; it returns the loss and the
    auxiliary outputs. Raises ImportFailure for what cannot be compiled, and for a model that changes state, or reads
    state that the step does not have.
    """
    dtype = torch.bfloat16 if precision is Precision.BF16 else None
    function = loss.function if isinstance(loss, OfModel) else loss
    with _evaluating([model, *([function] if isinstance(function, nn.Module) else [])]):
        captured = capture(model, loss, example, dtype, parts)
    literals = _literals(captured, step)
    with computing_in_f32():
        forward = _traced(captured, literals, precision is Precision.BF16_MIXED)
        if forward.written:
            fact = f"changes {', '.join(forward.written)} in eval mode, and an evaluation leaves the state as it is"
            raise ImportFailure("evaluation", fact, hint=_WAY_OUT)
        signature = _signature(captured, forward, step.signature)
        check_names(signature)
        torch_module = TorchModule(context)
        torch_module.add(forward.graph.graph, link.FORWARD)
        torch_module.lower()
    link.link_forward(torch_module.module, signature, tuple(name for name in captured.state if name not in literals))
    return replace(step, module=torch_module.module, signature=signature)


@contextmanager
def _evaluating(roots: Sequence[nn.Module]) -> Generator[None]:
    """Inside, the modules are in eval mode, as `eval()` puts them; afterwards each is in its own mode again."""
    modes = {module: module.training for root in roots for module in root.modules()}
    try:
        for root in roots:
            root.eval()
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def _literals(captured: Capture, step: ImportedStep) -> dict[str, Tensor]:
    """Constants that the program reads and the step does not have, such as those with which a cache of keys begins:
    they become part of the program. Raises ImportFailure for one that is too large for that."""
    found: dict[str, Tensor] = {}
    for name, tensor in captured.state.items():
        own = step.state.get(name)
        is_same = own is not None and own.shape == tensor.shape and own.dtype == tensor.dtype
        if is_same and (captured.kinds[name] != "constant" or torch.equal(step.state[name], tensor)):
            continue
        if captured.kinds[name] != "constant" or tensor.numel() > _LARGEST_LITERAL:
            fact = f"{describe(tensor)} that the model reads in eval mode, but not in training"
            raise ImportFailure(name, f"is {fact}", hint="register it as a buffer of the model")
        found[name] = tensor
    return found


def _traced(captured: Capture, literals: Mapping[str, Tensor], mixed: bool) -> Gradients:
    """The forward pass alone: (state…, seed, counter, batch…) -> (loss, aux…, written state…), without `literals`."""
    arranged(captured)
    indices = unchecked(captured.graph, captured.batch, 1)
    names = [name for name in captured.state if name not in literals]
    numbers = {name: tensor.tolist() for name, tensor in literals.items()}

    def evaluate(*flat: Tensor) -> list[Tensor]:
        given = iter(flat)
        state = [
            _literal(numbers[name], old) if name in numbers else next(given) for name, old in captured.state.items()
        ]
        values, outputs = forward_of(captured, (*state, *given), frozenset(), mixed, indices)
        return [*outputs, *(values[name].detach() for name in names)]

    scalars = [torch.zeros([], dtype=torch.int64) for _ in range(2)]
    arguments = [*(captured.state[name].detach() for name in names), *scalars, *(t for _, t in captured.batch)]
    with torch.no_grad():
        graph = trace_functional(captured, evaluate, arguments)
    check_traced(graph)
    return select(graph, names, [])


def _literal(numbers: object, old: Tensor) -> Tensor:
    return torch.tensor(numbers, dtype=old.dtype).reshape(old.shape)


def _signature(captured: Capture, forward: Gradients, step: Signature) -> Signature:
    return replace(
        step,
        state=tuple(replace(spec, mutated=False) for spec in step.state),
        controls=(),
        batch=batch_specs(captured),
        outputs=output_specs([node.meta["val"] for node in results_of(forward.graph)][: 1 + forward.aux]),
        args=captured.args,
        kwargs=captured.kwargs,
        aux=captured.aux,
        bounds=index_bounds(captured.graph, captured.batch, 1),
        phase="",
    )

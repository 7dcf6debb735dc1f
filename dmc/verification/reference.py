"""One step of PyTorch eager: the user's own module and loss, its autograd, and `torch.optim`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils import _pytree as pytree

from dmc.dtypes import Array
from dmc.importer.capture import tree
from dmc.importer.capture.objective import TARGET_NAMES
from dmc.importer.capture.own_loss import OfModel, reader_of
from dmc.importer.forward.precision import Precision
from dmc.program.labels import GRADIENT
from dmc.verification.arrays import array_of, copy_of, tensor_of, view_of
from dmc.verification.borrowed import borrowed
from dmc.verification.choices import FirstOfEqual
from dmc.verification.draws import Draws
from dmc.verification.optimizer import Optimizers, torch_optimizers
from dmc.verification.other_means import OtherMeans
from dmc.verification.other_roundings import NARROW, OtherRoundings
from dmc.verification.request import Request

# Elements whose squares are summed in f64 at a time.
_PIECE = 1 << 16
# The path of a module, and its output, call by call.
ModuleOutputs = list[tuple[str, Array]]


@dataclass(frozen=True)
class Reference:
    """The results of an eager step.

    values: by the names of a step's signature, loss and auxiliary outputs, and the state after the step, as far as
    eager has it. rates: the learning rates, by group.
    """

    values: Mapping[str, Array]
    rates: tuple[float, ...]


def eager_step(request: Request, counter: int, noise: float = 0.0) -> Reference:
    """The step after `counter` steps, with the initial state of `request`, on its example.

    noise: a random perturbation of each parameter, relative to its largest element; means, and results in narrow types,
    are then rounded otherwise, too. Raises whatever eager raises.
    """
    with borrowed(request.modes, request.dtype), _disturbed(request, noise):
        return _Eager.of(request).step(counter)


def eager_steps(
    request: Request,
    counter: int,
    examples: Sequence[Any],
    rates: Sequence[float],
    states: Sequence[Mapping[str, Array]],
    noise: float = 0.0,
) -> list[Reference]:
    """Steps of one model and one optimizer after `counter` steps, one for each of `examples`; see `eager_step`.

    rates: of all steps, by group. states: before each step but the first, what the state becomes, as far as eager has
    it.
    """
    found: list[Reference] = []
    with borrowed(request.modes, request.dtype):
        eager = _Eager.of(request)
        for number, example in enumerate(examples):
            if number:
                eager.take(states[number - 1])
            own = replace(eager, request=replace(request, example=example))
            with _disturbed(request, noise):
                reference = own.step(counter + number, rates)
            # The next step writes to what this one has left.
            found.append(replace(reference, values={name: each.copy() for name, each in reference.values.items()}))
    return found


def eager_evaluation(request: Request, counter: int, noise: float = 0.0) -> Reference:
    """The outputs in eval mode, after `counter` steps, without gradients; see `eager_step`."""
    with borrowed(request.modes, request.dtype), torch.no_grad(), _disturbed(request, noise):
        loss = request.loss.function if isinstance(request.loss, OfModel) else request.loss
        for module in (request.model, *([loss] if isinstance(loss, nn.Module) else [])):
            module.eval()
        with FirstOfEqual(), Draws(request.draws_by, counter), autocast(request.precision):
            outputs = objective(request, request.example)
        return Reference(_arrays(_named(outputs)), ())


def mean_gradients(request: Request, counter: int) -> dict[str, Array]:
    """The gradients of that step, by parameter, before clipping."""
    with borrowed(request.modes, request.dtype):
        _Eager.of(request).gradients(counter)
        return _arrays({name: p.grad for name, p in request.model.named_parameters() if p.grad is not None})


def eager_gradients(request: Request, counter: int, seen: ModuleOutputs) -> dict[str, Array]:
    """For the first micro-batch: the outputs, the state after the forward pass, and "gradient of" each parameter.

    Adds the outputs of the model's modules to `seen`, in the order in which they finish.
    """
    first = replace(request, example=micro_batch(request.example, 0, request.accumulate), accumulate=1)
    paths = {id(module): path for path, module in request.model.named_modules()}

    def note(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and id(module) in paths:
            seen.append((paths[id(module)], array_of(output)))

    with borrowed(request.modes, request.dtype):
        hook = register_module_forward_hook(note)
        try:
            values = _Eager.of(first).gradients(counter * request.accumulate)
        finally:
            hook.remove()
        gradients = {GRADIENT + name: p.grad for name, p in request.model.named_parameters() if p.grad is not None}
        return values | _arrays({**names_of(request.model), **gradients})


@dataclass(frozen=True)
class _Eager:
    """Runs steps of borrowed modules, with optimizers, and the norm to which they clip, if any."""

    request: Request
    optimizers: Optimizers
    clip: float | None

    @staticmethod
    def of(request: Request) -> _Eager:
        trainable = {name: p for name, p in request.model.named_parameters() if p.requires_grad}
        return _Eager(request, *torch_optimizers(request.optimizer, trainable))

    def take(self, state: Mapping[str, Array]) -> None:
        """Overwrites the state, as far as there is any."""
        names = names_of(self.request.model)
        with torch.no_grad():
            for name, tensor in {**names, **self.optimizers.slots(names)}.items():
                if name in state:
                    tensor.copy_(tensor_of(state[name]))

    def step(self, counter: int, rates: Sequence[float] | None = None) -> Reference:
        """rates: by group; by default those that reveal the gradients."""
        request, optimizers = self.request, self.optimizers
        rates = optimizers.rates() if rates is None else rates
        outputs = self.gradients(counter)
        if self.clip is not None:
            held = [p for group in optimizers.groups() for p in group["params"] if p.requires_grad]
            nn.utils.clip_grads_with_norm_(held, self.clip, _norm_of_gradients(held))
        optimizers.step(rates)
        # Only now: a module may have replaced a buffer by another tensor.
        names = names_of(request.model)
        # Copied, so that nothing changes it any more. A buffer's may be a tensor of the user's.
        own = {name: tensor for name, tensor in names.items() if isinstance(tensor, nn.Parameter)}
        views = {name: view_of(tensor) for name, tensor in {**own, **optimizers.slots(names)}.items()}
        buffers = _arrays({name: tensor for name, tensor in names.items() if name not in own})
        return Reference(outputs | views | buffers, tuple(rates))

    def gradients(self, counter: int) -> dict[str, Array]:
        """Stores the mean gradients of all micro-batches in the parameters; returns the means of their outputs."""
        request, parts = self.request, self.request.accumulate
        for parameter in request.model.parameters():
            parameter.grad = None
        totals: list[Tensor] = []
        for part in range(parts):
            with FirstOfEqual(), Draws(request.draws_by, counter * parts + part) as draws:
                with autocast(request.precision):
                    loss, *aux = objective(request, micro_batch(request.example, part, parts))
                draws.close()
                if request.optimizer is not None:
                    (loss / parts).backward()
                _densify(request.model)
            own = [each.detach() for each in (loss, *aux)]
            totals = [total + each for total, each in zip(totals, own, strict=True)] if totals else own
        means = [total / parts if parts > 1 else total for total in totals]
        return _arrays(_named(means))


def _densify(model: nn.Module) -> None:
    """An embedding with `sparse=True` has a sparse gradient, which means the same."""
    for parameter in model.parameters():
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.to_dense()


def _named(outputs: Sequence[Tensor]) -> dict[str, Tensor]:
    return {"loss" if i == 0 else f"aux{i - 1}": each for i, each in enumerate(outputs)}


def _norm_of_gradients(parameters: Sequence[Tensor]) -> Tensor:
    """f32 []. Not eager's own: it sums squares sequentially, which loses 0.1 % over 16 M elements."""
    gradients = (p.grad.reshape(-1).split(_PIECE) for p in parameters if p.grad is not None)
    pieces = (piece.double() for pieces in gradients for piece in pieces)
    # The sum overflows where it does in f32.
    return torch.tensor(sum(float(piece.dot(piece)) for piece in pieces), dtype=torch.float32).sqrt()


def objective(request: Request, example: Any) -> list[Any]:
    """The loss of a batch, then the auxiliary outputs."""
    model, loss = request.model, request.loss
    example = pytree.tree_map_only(Tensor, lambda tensor: _given(tensor, request.dtype), micro_batch(example, 0, 1))
    keyword: dict[str, Any] = dict(example) if isinstance(example, Mapping) else {}
    positional: list[Any] = [] if isinstance(example, Mapping) else list(example)
    if isinstance(loss, OfModel):
        result: Any = loss.function(model, *positional, **keyword)
        result = torch.zeros(()) if result is None and not loss.needs_loss else result
    elif (read := reader_of(loss)) is not None:
        result = read(model(*positional, **keyword))
    else:
        assert callable(loss), "a loss that is not the model's own is a function"
        name = next((name for name in TARGET_NAMES if name in keyword), "")
        target = keyword.pop(name) if name else positional.pop()
        result = loss(model(*positional, **keyword), target)
    value, aux = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    leaves: list[tuple[str, Tensor]] = []
    if aux is not None:
        tree.flatten(aux, "aux", leaves)
    return [value.reshape(()), *(leaf for _, leaf in leaves)]


def micro_batch(example: Any, part: int, parts: int) -> Any:
    """The rows of micro-batch `part` of `parts`."""
    example = dict(example) if isinstance(example, Mapping) else example
    if parts == 1:
        return example
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.chunk(parts)[part], example)


def autocast(precision: Precision) -> AbstractContextManager[Any]:
    """The context in which eager computes a forward pass of this precision."""
    return torch.autocast("cpu", torch.bfloat16) if precision is Precision.BF16_MIXED else nullcontext()


def names_of(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of a model, each under the first of its names."""
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    names: dict[int, str] = {}
    for name, tensor in named:
        names.setdefault(id(tensor), name)
    return {name: tensor for name, tensor in named if names[id(tensor)] == name}


def _given(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    # A copy: a model may write to its inputs.
    copy = copy_of(tensor)
    return copy.to(dtype) if dtype is not None and copy.is_floating_point() else copy


@contextmanager
def _disturbed(request: Request, noise: float) -> Generator[None]:
    """The context of a step with that noise in its parameters, and other roundings of means and of narrow numbers."""
    if not noise:
        yield
        return
    _disturb(request.model, noise)
    with OtherMeans(), OtherRoundings(0, NARROW) if request.is_narrow() else nullcontext():
        yield


def _disturb(model: nn.Module, noise: float) -> None:
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        if parameter.is_floating_point():
            # In f32, from which every floating type can be cast. Relative to the largest element, so that zeros, as in
            # a new router, break ties differently.
            sizes = parameter.data.abs().float()
            finite = sizes[sizes.isfinite()]
            largest = float(finite.max()) if finite.any() else 1.0
            apart = noise * largest * (2.0 * torch.rand(parameter.shape, generator=generator) - 1.0)
            parameter.data.copy_(parameter.data + apart)


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    return {name: array_of(tensor) for name, tensor in tensors.items()}

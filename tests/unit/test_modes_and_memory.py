"""Modes of submodules, losses with state, memory that tensors share, and regions of another mode in `forward`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dmc
from dmc.errors import DmcError, ImportFailure
from dmc.importer.forward.precision import Precision
from tests.interpreted import InterpretedStep, assert_trains_as_eager, fingerprint

WIDTH = 6
mse = nn.functional.mse_loss


def _batches() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(4, WIDTH, generator=generator), torch.randn(4, WIDTH, generator=generator)) for _ in range(3)]


def test_a_frozen_batch_norm_stays_frozen(context: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.BatchNorm1d(WIDTH)).train()
    model[1].eval()
    step = assert_trains_as_eager(context, model, mse, _batches())
    assert not model[1].training and model[2].training
    assert step.model_state()["1.num_batches_tracked"] == 0
    assert step.model_state()["2.num_batches_tracked"] == 3


def test_dropout_that_is_kept_on_in_an_eval_model(context: Any) -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 64), nn.Dropout(), nn.Linear(64, WIDTH)).eval()
    model[1].train()
    step = InterpretedStep(context, model, mse, _batches()[0])
    assert "dropout" in str(step.module), "nothing is drawn"
    assert model[1].training and not model.training


def test_a_loss_keeps_its_mode_and_its_buffers(context: Any) -> None:
    class Centred(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(WIDTH, affine=False)
            self.scale = nn.Parameter(torch.tensor(2.0), requires_grad=False)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, output: Tensor, target: Tensor) -> Tensor:
            self.seen = self.seen + 1
            return self.scale * mse(self.norm(output), target) / self.seen

    torch.manual_seed(0)
    model, loss = nn.Linear(WIDTH, WIDTH).eval(), Centred().train()
    ours = copy.deepcopy(loss)
    before = fingerprint(ours)
    step = InterpretedStep(context, model, ours, _batches()[0])
    assert fingerprint(ours) == before
    for x, y in _batches():
        value = loss(model(x), y)
        value.backward()
        assert step(x, y) == pytest.approx(value.item(), rel=1e-5)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(0.1 * (torch.zeros(()) if parameter.grad is None else parameter.grad))
        model.zero_grad()
    state = step.model_state()
    for name, tensor in {**model.state_dict(), **{f"loss.{k}": v for k, v in loss.state_dict().items()}}.items():
        torch.testing.assert_close(state[name], tensor, rtol=1e-5, atol=1e-6)


def test_a_loss_that_reads_the_model_sees_what_is_trained(context: Any) -> None:
    """Also where the step is computed in another type than the model has."""
    torch.manual_seed(0)
    model = nn.Linear(WIDTH, WIDTH)

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return (output * 0).sum() + model.weight.square().sum() + (target * 0).sum()

    x, y = _batches()[0]
    for precision in (Precision.FP32, Precision.BF16):
        step = InterpretedStep(context, model, loss, (x, y), precision=precision)
        assert step.signature.state[0].aliases == ()
        assert {spec.name for spec in step.signature.state if spec.mutated} >= {"weight"}
    step = InterpretedStep(context, model, loss, (x, y))
    step(x, y)
    torch.testing.assert_close(step.model_state()["weight"], model.weight.detach() * 0.8)
    assert model.weight.dtype == torch.float32


class _Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return self.scale * mse(output, target)


def _own_module(model: nn.Linear) -> Any:
    head = nn.Linear(WIDTH, WIDTH)
    return lambda output, target: mse(head(output), target)


def _own_tensor(model: nn.Linear) -> Any:
    weight = model.weight
    return lambda output, target: mse(output, target) + weight.square().sum()


def _own_view(model: nn.Linear) -> Any:
    weight = model.weight.detach()
    return lambda output, target: mse(output, target) + weight.square().sum()


def _counting(model: nn.Linear) -> Any:
    count = 0

    def loss(output: Tensor, target: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return mse(output, target) / count

    return loss


LOSSES: dict[str, tuple[Callable[[nn.Linear], Any], str]] = {
    "parameters": (lambda model: _Loss(), r"^loss\.scale: .*does not read from the model"),
    "module in a closure": (_own_module, r"^loss\.head\.(weight|bias): .*does not read from the model"),
    "tensor in a closure": (_own_tensor, r"^weight: .*does not read from the model"),
    "view in a closure": (_own_view, r"^weight: .*does not read from the model"),
    "counter in a closure": (_counting, r"'loss\.count', in a list or dictionary, changes from 0 to 1"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_with_other_state_are_refused(context: Any, name: str) -> None:
    make, fact = LOSSES[name]
    model = nn.Linear(WIDTH, WIDTH)
    with pytest.raises(ImportFailure, match=fact) as caught:
        InterpretedStep(context, model, make(model), _batches()[0])
    assert caught.value.hint


class Pair(nn.Module):
    """Two weights, that a test makes share memory, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.table = nn.Buffer(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """f32[4, WIDTH] → f32[4, WIDTH]."""
        return self.other(self.one(x)) * self.table


def _transposed(model: Pair) -> None:
    model.other.weight = nn.Parameter(model.one.weight.data.t())


def _same_data(model: Pair) -> None:
    model.other.weight = nn.Parameter(model.one.weight.data)


def _buffer_of_data(model: Pair) -> None:
    model.table = model.one.weight.data[0]


def _overlapping(model: Pair) -> None:
    flat = torch.randn(50)
    model.one.weight = nn.Parameter(flat[:36].view(WIDTH, WIDTH))
    model.other.weight = nn.Parameter(flat[14:].view(WIDTH, WIDTH))


def _expanded(model: Pair) -> None:
    model.one.weight = nn.Parameter(torch.randn(1, WIDTH).expand(WIDTH, WIDTH))


SHARED: dict[str, tuple[Callable[[Pair], None], str]] = {
    "transposed": (_transposed, r"^one\.weight: shares memory with other\.weight"),
    "same data": (_same_data, r"^one\.weight: shares memory with other\.weight"),
    "buffer of data": (_buffer_of_data, r"^one\.weight: shares memory with table, and the step changes one\.weight"),
    "overlapping": (_overlapping, r"^one\.weight: shares memory with other\.weight"),
    "expanded": (_expanded, r"^one\.weight: has elements that share memory"),
}


@pytest.mark.parametrize("name", SHARED)
def test_shared_memory_is_refused_by_name(context: Any, name: str) -> None:
    share, fact = SHARED[name]
    model = Pair()
    share(model)
    for precision in (Precision.FP32, Precision.BF16):
        with pytest.raises(ImportFailure, match=fact) as caught:
            InterpretedStep(context, model, mse, _batches()[0], precision=precision)
        assert caught.value.hint


def test_an_example_that_shares_memory_with_state(context: Any) -> None:
    model = Pair()
    x, y = model.one.weight.detach()[:4], torch.randn(4, WIDTH)
    with pytest.raises(ImportFailure, match=r"^one\.weight: shares memory with example\[0\]"):
        InterpretedStep(context, model, mse, (x, y))


def _tied(model: Pair) -> None:
    model.other.weight = model.one.weight


def _side_by_side(model: Pair) -> None:
    wide = torch.randn(WIDTH, 2 * WIDTH)
    model.one.weight, model.other.weight = nn.Parameter(wide[:, :WIDTH]), nn.Parameter(wide[:, WIDTH:])


def _both_constant(model: Pair) -> None:
    model.other.weight = nn.Parameter(torch.ones(WIDTH, WIDTH), requires_grad=False)
    model.table = model.other.weight.data[0]


@pytest.mark.parametrize("share", [_tied, _side_by_side, _both_constant])
def test_memory_that_may_be_shared(context: Any, share: Callable[[Pair], None]) -> None:
    torch.manual_seed(0)
    model = Pair()
    share(model)
    assert_trains_as_eager(context, model, mse, _batches())


class Region(nn.Module):
    """A linear layer computed under a mode of its own."""

    def __init__(self, region: Callable[[], Any]) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.region = region

    def forward(self, x: Tensor) -> Tensor:
        """f32[4, WIDTH] → f32[4, WIDTH]."""
        with self.region():
            h = self.one(x)
        return self.other(x) * h.float()


def test_a_region_under_autocast_computes_as_it_says(context: Any) -> None:
    torch.manual_seed(0)
    model = Region(lambda: torch.autocast("cpu", torch.bfloat16))
    x, y = _batches()[0]
    step = InterpretedStep(context, model, mse, (x, y))
    assert step(x, y) == pytest.approx(mse(model(x), y).item(), rel=1e-3)
    assert "bf16" in str(step.module)


def test_a_region_under_autocast_to_half_precision_is_refused(context: Any) -> None:
    with pytest.raises(DmcError, match=r"autocast to torch\.float16") as caught:
        InterpretedStep(context, Region(lambda: torch.autocast("cpu", torch.float16)), mse, _batches()[0])
    assert caught.value.hint


def test_regions_without_gradients(context: Any) -> None:
    torch.manual_seed(0)

    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                frozen = self.one(x)
                with torch.enable_grad():
                    trained = self.other(x)
            return frozen * trained + self.one(x).detach()

    assert_trains_as_eager(context, Nested(), mse, _batches())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_default_type_is_the_users(context: Any, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
    optimizer = dmc.optim.AdamW(lr=0.1, clip_grad_norm=1.0)
    usual = str(InterpretedStep(context, model, mse, _batches()[0], optimizer=optimizer).module)
    example = _batches()[0]
    torch.set_default_dtype(dtype)
    try:
        step = InterpretedStep(context, model, mse, example, optimizer=optimizer)
    finally:
        torch.set_default_dtype(torch.float32)
    assert str(step.module) == usual

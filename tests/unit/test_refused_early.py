"""What `dmc.compile` refuses before it traces anything, and Python's own errors at the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch.nn import functional

import dmc
from dmc import compilation
from dmc.errors import DmcError, ImportFailure

X = torch.randn(2, 4)
MESH = dmc.Mesh(tp=2)


class Block(nn.Module):
    """Named like GPT-2's, with the layers of nanoGPT."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(4, 12), "c_proj": nn.Linear(12, 4)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attn["c_proj"](self.attn["c_attn"](x))


def _plan(rules: Any) -> dict[str, Any]:
    return {"mesh": MESH, "plan": rules(dmc.plan(MESH))}


EARLY: dict[str, tuple[dict[str, Any], str]] = {
    "machine": ({"machine": "h1000"}, "machine 'h1000': is not described\n  hint: use one of cpu, h"),
    "target": ({"target": "tpu"}, "target 'tpu': does not exist\n  hint: use cpu or cuda"),
    "processor": (
        {"target": "cpu:znver9"},
        "target 'cpu:znver9': is not a processor that LLVM knows\n  hint: use LLVM's name for it, such as znver",
    ),
    "parameter": (
        _plan(lambda plan: plan.shard("c_att.weight", dim=0, axis="tp")),
        r"'c_att.weight' matches no parameter or buffer\n  hint: the closest are attn.c_attn.weight \[12, 4\]",
    ),
    "module": (
        _plan(lambda plan: plan.sequence_parallel("tp", between=["ln_1"])),
        "'ln_1' matches no module\n  hint: there are",
    ),
    "layers": (
        _plan(lambda plan: plan.use(dmc.plans.megatron_gpt2("tp"))),
        r"is for weights of Conv1D, \[in, out\], but 'attn.c_attn' is a Linear, whose are \[out, in\]\n"
        r"  hint: use dmc.plans.megatron\(.tp.\), which finds the layers of any model",
    ),
    **{
        f"loss {loss}": (
            {"loss": loss},
            f"loss: is {loss}; it must be a function, or the index or key of the loss",
        )
        for loss in (True, 1.5)
    },
    "examples": ({"example": []}, "example: is an empty list\n  hint: pass one example, or a list with one for each"),
    "batch": (
        {"example": [X, X]},
        "example: is a list, which means several shapes, with one program for each, but holds a tensor of "
        r"torch.float32 with shape \[2, 4\]\n  hint: pass one batch as a tuple",
    ),
    **{
        f"seed {seed}": (
            {"seed": seed},
            rf"seed: is {seed}; it must be an integer that fits 64 bits\n  hint: pass an int",
        )
        for seed in (1.5, True, None, 2**63)
    },
}


@pytest.mark.parametrize("name", EARLY)
def test_refused_before_anything_is_traced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options, message = EARLY[name]
    monkeypatch.setattr(compilation, "import_steps", _traced)
    with pytest.raises(DmcError, match=message):
        _compile(Block(), **options)


def _traced(*_: Any) -> None:
    raise AssertionError("traced")


MODELS: dict[str, tuple[Callable[[], Any], str]] = {
    "function": (
        lambda: functional.relu,
        r"model: expected a torch.nn.Module, got a function\n  hint: wrap a function in a class of torch.nn.Module",
    ),
    "class": (lambda: nn.Linear, "model: expected a torch.nn.Module, got a type"),
    "lazy": (
        lambda: nn.Sequential(nn.LazyLinear(4)),
        r"parameter '0.weight': has no shape yet: .*\n  hint: run the model once on a batch before",
    ),
    "lazy buffer": (lambda: nn.LazyBatchNorm1d(affine=False), "buffer 'running_mean': has no shape yet"),
    "script": (
        lambda: torch.jit.script(nn.Linear(4, 4)),
        r"the model: is a TorchScript module, which cannot be compiled\n  hint: pass the original module, before",
    ),
    "trace": (
        lambda: nn.Sequential(cast(Any, torch.jit.trace(nn.Linear(4, 4), X))),
        "module '0': is a TorchScript module",
    ),
}


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", MODELS)
def test_models_that_are_refused_before_anything_is_traced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, message = MODELS[name]
    model = make()
    monkeypatch.setattr(compilation, "import_steps", _traced)
    for plan in ({}, _plan(lambda plan: plan)):
        with pytest.raises(ImportFailure, match=message):
            _compile(model, **plan)


def test_a_lazy_loss_is_refused() -> None:
    class Headed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.LazyLinear(1)

        def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return (self.head(output) - target).square().mean()

    with pytest.raises(ImportFailure, match=r"parameter 'loss.head.weight': has no shape yet"):
        _compile(Block(), Headed())


def test_optimizer_options_are_refused_before_anything_is_traced() -> None:
    model = Block()
    model.forward = _traced  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(DmcError, match="differentiable=True is not supported"):
        _compile(model, functional.mse_loss, optimizer=torch.optim.Adam(model.parameters(), differentiable=True))


class Wrong(nn.Module):
    """A model that PyTorch does not run either."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.linear, self.kind = nn.Linear(4, 4), kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "attribute":
            return self.layer(x)  # pyright: ignore[reportCallIssue]
        if self.kind == "name":
            return undefined(x)  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
        if self.kind == "arguments":
            return self.linear(x, 3)
        return {"x": x}["y"]


OWN = {
    "attribute": "AttributeError: 'Wrong' object has no attribute 'layer'",
    "name": "NameError: name 'undefined' is not defined",
    "arguments": "TypeError: Linear.forward.. takes 2 positional arguments but 3 were given",
    "key": "KeyError: 'y'",
}


@pytest.mark.parametrize("kind", OWN)
def test_pythons_own_errors_are_told_as_such_at_their_line(kind: str) -> None:
    with pytest.raises(
        ImportFailure, match=rf"test_refused_early.py:\d+\): {OWN[kind]}\n  hint: run the model"
    ) as raised:
        _compile(Wrong(kind), functional.mse_loss)
    assert isinstance(raised.value.__cause__, Exception)


def _of_output(output: torch.Tensor) -> torch.Tensor:
    return output.sum()


def test_a_loss_with_other_arguments() -> None:
    message = (
        r"the loss \(.*test_refused_early.py:\d+\): TypeError: _of_output\(output.*: too many positional arguments"
    )
    with pytest.raises(ImportFailure, match=message):
        _compile(Block(), _of_output)
    with pytest.raises(ImportFailure, match=r"TypeError: Wrong\.forward"):
        _compile(Block(), Wrong("key"))


def test_a_loss_of_its_own_that_a_model_does_not_have() -> None:
    """As where `loss` is forgotten, or names a function."""
    both = r"example: cannot be passed to the model, forward\(x: .*\).*: too many positional arguments\n"
    for loss in (None, "mse", 0):
        with pytest.raises(
            ImportFailure, match=both + "  hint: a model with its own loss takes the whole example; pass"
        ):
            _compile(Block(), loss)
    for loss in ("mse", "sum"):
        with pytest.raises(
            ImportFailure, match=f"loss='{loss}' names no .* a tensor of shape .2, 4.\n  hint: pass a function"
        ):
            _compile(Block(), loss, example=(X,))


def _compile(model: nn.Module, loss: Any = functional.mse_loss, **options: Any) -> None:
    given: dict[str, Any] = {"optimizer": dmc.optim.SGD(lr=0.1), "example": (X, X), **options}
    dmc.compile_artifact(model, loss=loss, verify=False, **given)

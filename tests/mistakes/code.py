"""Python that a compiled step would lose, or that does not run in eager either."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.mistakes.table import FEATURES, Layer, compiled, forward, mistake

EAGER = "eager"


@mistake(r"AttributeError: .*has no attribute 'linaer'", EAGER)
def misspells_an_attribute() -> Any:
    return forward(lambda module, x: module.linaer(x))  # here


@mistake(r"ValueError: three channels", EAGER)
def raises_its_own_error() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        if x.shape[1] != 3:
            raise ValueError("three channels are expected")  # here
        return x

    return forward(then)


@mistake(r"AssertionError: wrong width", EAGER)
def asserts_a_shape() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        assert x.shape[1] == 3, "wrong width"  # here
        return x

    return forward(then)


@mistake(r"AssertionError", EAGER)
def asserts_without_words() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        assert x.shape[1] == 3  # here
        return x

    return forward(then)


@mistake("Model has no method `forward`", "`forward`", place="the model")
def forgets_forward() -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(FEATURES, FEATURES)

    return compiled(Model())


@mistake(r"RecursionError", EAGER)
def calls_itself() -> Any:
    def then(module: Any, x: Tensor) -> Tensor:
        return then(module, x)  # here

    return forward(then)


@mistake(r"'history\[0\]', in a list", "auxiliary output")
def appends_to_a_list() -> Any:
    def then(module: Any, x: Tensor) -> Tensor:
        module.history.append(x.detach())  # here
        return x

    model: Any = Layer(then)
    model.history = []
    return compiled(model)


@mistake(r"'calls' changes from 0 to 1", "register_buffer")
def counts_calls() -> Any:
    def then(module: Any, x: Tensor) -> Tensor:
        module.calls += 1  # here
        return x / module.calls

    model: Any = Layer(then)
    model.calls = 0
    return compiled(model)


@mistake("writes into a parameter in place", r"torch\.no_grad")
def changes_a_weight_in_place() -> Any:
    def then(module: Any, x: Tensor) -> Tensor:
        module.linear.weight.mul_(0.9)  # here
        return module.linear(x)

    return forward(then)


@mistake("old values the backward pass needs", "clone")
def overwrites_what_the_gradient_needs() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        y = x.exp()
        z = y * y
        y.add_(1)  # here
        return z + y

    return forward(then)


@mistake(r"reads \.grad", "buffer")
def reads_a_gradient() -> Any:
    return forward(lambda module, x: x * module.linear.weight.grad.norm())  # here


@mistake(r"gradients inside the step", r"torch\.autograd\.grad")
def calls_backward_in_a_loss() -> Any:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        value = nn.functional.mse_loss(output, target)
        value.backward()  # here
        return value

    return forward(lambda _, x: x, loss=loss)


@mistake(r"requires_grad", "before compiling")
def freezes_in_forward() -> Any:
    def then(module: Any, x: Tensor) -> Tensor:
        module.linear.weight.requires_grad_(False)  # here
        return module.linear(x)

    return forward(then)


@mistake(r"manual_seed", "seed=")
def seeds_in_forward() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        torch.manual_seed(0)  # here
        return x + torch.rand_like(x)

    return forward(then)


@mistake("a Generator", "seed=")
def draws_by_a_generator() -> Any:
    generator = torch.Generator()
    return forward(lambda _, x: x + torch.rand(x.shape, generator=generator))  # here


@mistake(r"backward hook", "register_hook", place="module 'linear'")
def hooks_the_backward_pass() -> Any:
    model = Layer(lambda _, x: x)
    model.linear.register_full_backward_hook(lambda *_: None)
    return compiled(model)


class _OnInstances(torch.autograd.Function):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


@mistake("calls an autograd.Function as an object", "static")
def function_without_static_methods() -> Any:
    return forward(lambda _, x: _OnInstances()(x))  # here


class _OneWay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2


@mistake("has no method `backward`", "static", place="_OneWay")
def function_without_backward() -> Any:
    return forward(lambda _, x: _OneWay.apply(x))


class _ByNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.from_numpy(x.numpy() * 2)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * 2


@mistake(r"numbers leave the step, by Tensor\.numpy", "PyTorch", place="code.py")
def function_by_numpy() -> Any:
    return forward(lambda _, x: _ByNumpy.apply(x))


@torch.library.custom_op("dmc_mistakes::doubled", mutates_args=())
def _doubled(x: Tensor) -> Tensor:
    return x * 2


@mistake("an operator that is not PyTorch's: dmc_mistakes::doubled", "PyTorch's operations")
def own_operation() -> Any:
    return forward(lambda _, x: torch.ops.dmc_mistakes.doubled(x))  # here


@mistake("the function of scores or of a mask calls sum, where it is of one element", "functions of elements")
def scores_of_several_elements() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    def then(_: Any, x: Tensor) -> Any:
        q = x.reshape(1, 1, *x.shape)
        return flex_attention(q, q, q, lambda score, *_: score + score.sum())[0, 0]  # here

    return forward(then)


@mistake(r"TypeError.*missing 1 required positional argument: 'mask'", EAGER)
def forgets_an_argument() -> Any:
    def then(module: Any, x: Tensor) -> Tensor:
        masked: Any = with_mask
        return masked(x)  # here

    def with_mask(x: Tensor, mask: Tensor) -> Tensor:
        return x * mask

    return forward(then)


@mistake(r"forward mode", r"torch\.func\.grad")
def differentiates_forwards() -> Any:
    return forward(lambda _, x: torch.func.jvp(torch.sin, (x,), (x,))[1])  # here


@mistake(r"expected a torch\.nn\.Module", "class", place="model")
def passes_a_function() -> Any:
    return compiled(lambda x: x * 2)


@mistake(r"does not depend on any parameter", "no_grad", place="loss")
def detaches_the_output() -> Any:
    return forward(lambda _, x: x.detach())


@mistake(r"does not depend on any parameter", "no_grad", place="loss")
def compiles_without_gradients() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        with torch.inference_mode():
            return x * 2

    return forward(then)

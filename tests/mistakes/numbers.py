"""Python that looks at the numbers of a tensor, which are known only when the step runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.mistakes.table import forward, mistake

BRANCH = r"torch\.where"
HOST = r"step\.evaluate.*, then the match, then step"


@mistake(r"decides by the numbers of a tensor", BRANCH)
def branch_on_a_sum() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        if x.sum() > 0:  # here
            return x
        return -x

    return forward(then)


@mistake(r"decides by the numbers of a tensor", BRANCH)
def loop_until_it_is_small() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        while x.norm() > 1:  # here
            x = x / 2
        return x

    return forward(then)


@mistake(r"decides by the numbers of a tensor", BRANCH)
def conditional_expression() -> Any:
    return forward(lambda _, x: x if x.abs().max() < 10 else x / 10)  # here


@mistake(r"decides by the numbers of a tensor", BRANCH)
def assertion_on_values() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        assert x.sum() > 0, "must be positive"  # here
        return x

    return forward(then)


@mistake(r"decides by the numbers of a tensor", "check_finite=True")
def raises_for_nan() -> Any:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        value = nn.functional.mse_loss(output, target)
        if torch.isnan(value):  # here
            raise ValueError("nan")
        return value

    return forward(lambda _, x: x, loss=loss)


@mistake(r"takes a Python number from a tensor", "stay with the tensor")
def item_as_a_factor() -> Any:
    return forward(lambda _, x: x * x.max().item())  # here


@mistake(r"takes a Python number from a tensor", "stay with the tensor")
def float_of_a_mean() -> Any:
    return forward(lambda _, x: x * float(x.mean()))  # here


@mistake(r"takes a Python number from a tensor", r"torch\.sqrt")
def root_by_math() -> Any:
    return forward(lambda _, x: x / math.sqrt(x.square().sum()))  # here


@mistake(r"takes a Python number from a tensor", "index_select")
def slice_to_the_maximum() -> Any:
    return forward(lambda _, x: x[: int(x[0].argmax())])  # here


@mistake(r"takes a Python number from a tensor", "index_select")
def loop_over_lengths() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        for row in range(int(x[0, 0].round())):  # here
            x = x + row
        return x

    return forward(then)


@mistake(r"takes a Python number from a tensor", "index_select")
def size_from_data() -> Any:
    return forward(lambda _, x: torch.zeros(int(x.sum())) + x.mean())  # here


@mistake(r"takes a Python number from a tensor", "stay with the tensor")
def loop_over_a_list() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        for factor in x[0].tolist():  # here
            x = x * factor
        return x

    return forward(then)


@mistake(r"takes a Python number from a tensor", "auxiliary output")
def prints_a_number() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        print(f"mean {x.mean().item():.3f}")  # here
        return x

    return forward(then)


@mistake(r"prints or formats a tensor", "auxiliary output")
def formats_a_tensor() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        print(f"mean {x.mean():.3f}")  # here
        return x

    return forward(then)


@mistake(r"prints or formats a tensor", "auxiliary output")
def prints_a_tensor() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        print(x)  # here
        return x

    return forward(then)


@mistake(r"'loss\.history\[0\]', in a list", "auxiliary output")
def keeps_a_history_of_losses() -> Any:
    history: list[float] = []

    def loss(output: Tensor, target: Tensor) -> Tensor:
        value = nn.functional.mse_loss(output, target)
        history.append(value.item())  # here
        return value

    return forward(lambda _, x: x, loss=loss)


@mistake(r"numbers leave the step, by Tensor\.numpy", HOST)
def matches_by_numpy() -> Any:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        rows = torch.as_tensor(output.detach().cpu().numpy().argmax(0))  # here
        return (output[rows] - target).abs().mean()

    return forward(lambda _, x: x, loss=loss)


@mistake(r"numbers leave the step, by a function of NumPy", HOST)
def matches_by_asarray() -> Any:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        rows = torch.as_tensor(np.asarray(output.detach()).argmax(0))  # here
        return (output[rows] - target).abs().mean()

    return forward(lambda _, x: x, loss=loss)


@mistake(r"numbers leave the step, by a function of NumPy", HOST)
def logarithm_by_numpy() -> Any:
    return forward(lambda _, x: x + np.log(x.detach()))  # here


@mistake("asks for the address of a tensor", "PyTorch's operations")
def asks_for_an_address() -> Any:
    return forward(lambda _, x: x * (x.data_ptr() % 2))  # here


@mistake(r"works along a dimension whose size a mask decides", r"torch\.where")
def sorts_what_a_mask_chooses() -> Any:
    return forward(lambda _, x: x[x > 0].sort()[0][:3].mean() + x)  # here


@mistake(r"combines elements that different masks choose", "the same mask")
def multiplies_what_two_masks_choose() -> Any:
    return forward(lambda _, x: (x[x > 0] * x[x > 1]).mean() + x)  # here


@mistake(r"len of what a mask chooses", r"mask\.sum")
def finds_what_is_not_zero() -> Any:
    return forward(lambda _, x: x + len(torch.nonzero(x)))  # here


@mistake(r"shape depends on data", "fixed")
def different_values() -> Any:
    return forward(lambda _, x: x + x.round().unique().sum())  # here


@mistake(r"shape depends on data", "output_size")
def repeats_by_data() -> Any:
    return forward(lambda _, x: x.repeat_interleave(x[:, 0].long().abs(), 0).mean() + x)  # here


@mistake(r"takes a Python number from a tensor", "fixed: use a mask")
def range_to_a_tensor() -> Any:
    arange: Any = torch.arange
    return forward(lambda _, x: arange(x.sum().long()).float().sum() + x)  # here


@mistake(r"size depends on data", "fixed: use a mask", place="module 'loss'")
def view_with_a_tensor() -> Any:
    def then(_: Any, x: Any) -> Tensor:
        return x.view(x[0, 0].long(), -1)

    return forward(then)


@mistake("makes a tensor of the numbers of others", r"torch\.stack")
def tensor_of_tensors() -> Any:
    return forward(lambda _, x: x * torch.tensor([x.mean(), x.std()]).sum())  # here


@mistake(r"_pack_padded_sequence\S* returns a tensor whose shape depends on data", "mask")
def packs_sequences() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x[None], x[0, :1].long().cpu())  # here
        return x * packed.data.sum()

    return forward(then)


@mistake(r"draws or seeds random numbers of random ", "PyTorch", place="the model or its loss")
def drops_a_layer_by_chance() -> Any:
    import random

    return forward(lambda _, x: x if random.random() < 0.5 else -x)


@mistake(r"decides by the numbers of a tensor", BRANCH)
def drops_a_layer_by_a_draw() -> Any:
    return forward(lambda _, x: x if torch.rand(()).item() < 0.5 else -x)  # here

"""Types, shapes, devices and memory of tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dmc.compiled_step import CompiledStep
from tests.mistakes.table import FEATURES, ROWS, batch, compiled, forward, mistake


@mistake(r"RuntimeError: .*\[8, 5\] X \[6, 6\]", r"eager.*\[8, 5\]", place="module 'linear'")
def wrong_width() -> Any:
    return forward(lambda _, x: x, example=(torch.randn(ROWS, 5), torch.randn(ROWS, 5)))


@mistake(r"broadcast", r"eager.*\[8, 6\]")
def shapes_that_do_not_broadcast() -> Any:
    return forward(lambda _, x: x + torch.ones(4))  # here


@mistake("is invalid for input of size 48", "eager")
def view_of_another_size() -> Any:
    return forward(lambda _, x: x.view(5, 5))  # here


@mistake("Cannot view a tensor", "reshape")
def view_of_a_transposition() -> Any:
    return forward(lambda _, x: x.t().view(-1).sum() + x)  # here


@mistake("RuntimeError: .*index", r"targets\.long", place="module 'loss'")
def targets_of_floats() -> Any:
    loss = nn.functional.nll_loss
    return forward(lambda _, x: x, loss=loss, example=(torch.randn(ROWS, FEATURES), torch.zeros(ROWS)))


@mistake(r"input batch_size \(8\)", r"eager.*\[5\]", place="loss")
def targets_of_another_batch() -> Any:
    loss = nn.functional.cross_entropy
    example = (torch.randn(ROWS, FEATURES), torch.zeros(5, dtype=torch.long))
    return forward(lambda _, x: x, loss=loss, example=example)


@mistake(r"of different types, f32\[8, 6\] and bf16\[6, 6\]", r"x\.to")
def product_of_two_types() -> Any:
    return forward(lambda _, x: x @ torch.ones(FEATURES, FEATURES, dtype=torch.bfloat16))  # here


@mistake(r"buffer on the device 'meta', which no file of weights has", "init_empty_weights", place="1.mask")
def buffer_without_data() -> Any:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mask", torch.ones(FEATURES, FEATURES).tril(), persistent=False)

    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(FEATURES, FEATURES), Masked())
    return compiled(model)


@mistake(r"on the device 'meta' that is neither a parameter nor a buffer", "as a buffer on the CPU")
def attribute_without_data() -> Any:
    with torch.device("meta"):
        ones = torch.ones(FEATURES)
    return forward(lambda _, x: x * ones)  # here


@mistake(r"inside of torch\.device\('meta'\)", "behind the block", place="dmc.compile")
def compiled_without_data() -> Any:
    example = batch()
    with torch.device("meta"):
        return compiled(nn.Linear(FEATURES, FEATURES), example=example)


@mistake(r"parameter 'weight' is on the device 'meta'", "small sizes", place="verify=True")
def verified_without_data() -> Any:
    with torch.device("meta"):
        model = nn.Linear(FEATURES, FEATURES)
    return compiled(model, verify=True)


@mistake(r"has no weights yet: 2 tensors .* \(bias, weight\)", "load_weights", place="the step")
def step_without_weights() -> Any:
    with torch.device("meta"):
        model = nn.Linear(FEATURES, FEATURES)
    return CompiledStep(compiled(model))(*batch())


@mistake(r"is on the device 'meta'", "on the CPU", place="example[0]")
def batch_without_data() -> Any:
    x, y = batch()
    return compiled(nn.Linear(FEATURES, FEATURES), example=(x.to("meta"), y))


@mistake("is a fake tensor", "outside", place="parameter 'weight'")
def fake_model() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        model = nn.Linear(FEATURES, FEATURES)
    return compiled(model)


@mistake("cuda", "name no device")
def moves_to_a_gpu() -> Any:
    return forward(lambda _, x: x.cuda())  # here


@mistake("cuda", "name no device")
def makes_a_tensor_on_a_gpu() -> Any:
    return forward(lambda _, x: x + torch.ones(FEATURES, device="cuda"))  # here


@mistake(r"float64", "float32", place="weight")
def model_of_doubles() -> Any:
    return compiled(nn.Linear(FEATURES, FEATURES).double(), example=tuple(t.double() for t in batch()))


@mistake(r"nested", "pad|dense")
def nested_tensor() -> Any:
    return forward(lambda _, x: torch.nested.nested_tensor([x[:2], x[2:]]).to_padded_tensor(0.0).sum() + x)  # here


@mistake(r"no elements", "at least 1", place="x")
def empty_batch() -> Any:
    return forward(lambda _, x: x, example=(torch.zeros(0, FEATURES), torch.zeros(0, FEATURES)))


@mistake(r"expected a tuple or a dictionary, got a tensor", "example=", place="example")
def example_without_targets() -> Any:
    return forward(lambda _, x: x, example=batch()[0])


@mistake(r"DataLoader", r"next\(iter", place="example")
def example_is_a_loader() -> Any:
    data = torch.utils.data.TensorDataset(*batch())
    return forward(lambda _, x: x, example=torch.utils.data.DataLoader(data))


@mistake(r"ndarray", r"torch\.as_tensor", place="x")
def example_of_numpy() -> Any:
    x, y = batch()
    return forward(lambda _, x: x, example=(x.numpy(), y))


@mistake("must be Tensor, not str", "eager", place="module 'linear'")
def example_of_text() -> Any:
    return forward(lambda _, x: x, example=("some text", batch()[1]))


@mistake("missing 1 required positional argument: 'mask'", "eager", place="model")
def too_few_inputs() -> Any:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(FEATURES, FEATURES)

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return self.linear(x) * mask

    return compiled(Two())


@mistake(r"no target among", "labels", place="example")
def dictionary_without_labels() -> Any:
    x, y = batch()
    return forward(lambda _, x: x, example={"x": x, "y": y})


@mistake("AttributeError: 'dict'", "eager", place="module 'loss'")
def loss_of_a_dictionary() -> Any:
    return forward(lambda _, x: {"logits": x})


@mistake(r"expected a floating-point tensor of one element", "return the loss", place="loss")
def loss_of_each_row() -> Any:
    return forward(lambda _, x: x, loss=nn.MSELoss(reduction="none"))


@mistake(r"expected a floating-point tensor of one element, got a NoneType", "return the loss", place="loss")
def loss_without_return() -> Any:
    def loss(output: Tensor, target: Tensor) -> None:
        nn.functional.mse_loss(output, target)

    return forward(lambda _, x: x, loss=loss)


@mistake(r"writes into a view of a tensor whose shape is changed in place", r"y = y\.t\(\)")
def view_taken_before_a_turn() -> Any:
    def then(_: Any, x: Tensor) -> Tensor:
        y = x * 2
        z = y.view(-1)
        y.t_()
        z.add_(1.0)  # here
        return y.t() + z.view(ROWS, FEATURES)

    return forward(then)


@mistake(r"elements share memory", "clone")
def writes_into_an_expansion() -> Any:
    return forward(lambda _, x: x[0].expand(ROWS, FEATURES)[1].mul_(2.0))  # here


@mistake(r"as_strided", "contiguous|slices")
def reads_raw_memory() -> Any:
    return forward(lambda _, x: x[:, 1:].as_strided((2, 2), (1, 1)).sum() + x)  # here


@mistake(r"nextafter cannot be compiled", "simpler")
def operation_without_a_lowering() -> Any:
    return forward(lambda _, x: torch.nextafter(x, x + 1))  # here


@mistake("is quantized", "before", place="module '0'")
def quantized_model() -> Any:
    quantization: Any = torch.ao.quantization
    model = quantization.quantize_dynamic(nn.Sequential(nn.Linear(FEATURES, FEATURES)), {nn.Linear})
    return compiled(model)

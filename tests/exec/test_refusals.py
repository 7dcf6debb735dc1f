"""What cannot be compiled is refused with the operation, the module, the source line and a way out."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dmc

FEATURES = 6


class Inner(nn.Module):
    """Holds the operation under test, so that the error has a module path to name."""

    def __init__(self, operation: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.operation = operation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[8, FEATURES] → a tensor."""
        return self.operation(x)


class Outer(nn.Module):
    """A trained layer before the operation under test."""

    def __init__(self, operation: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, FEATURES)
        self.block = nn.ModuleList([Inner(operation)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[8, FEATURES] → a tensor."""
        return self.block[0](self.linear(x))


def _nonzero(x: torch.Tensor) -> torch.Tensor:
    return x.flatten()[torch.nonzero(x.flatten() > 0)].flip(0).cumsum(0)


def _boolean_index(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0] + x[x < 0]


def _length_from_data(x: torch.Tensor) -> torch.Tensor:
    return x[: int(x.argmax())]


def _branch_on_data(x: torch.Tensor) -> torch.Tensor:
    return x if x.sum() > 0 else -x


def _complex(x: torch.Tensor) -> torch.Tensor:
    return torch.fft.rfft(x).tanh().abs()


def _sparse(x: torch.Tensor) -> torch.Tensor:
    return torch.sparse.mm(x.to_sparse(), x.T)


def _next_number(x: torch.Tensor) -> torch.Tensor:
    return torch.nextafter(x, x + 1.0)


def _large_svd(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.svdvals(x.repeat(3, 3))


def _all_of_a_part_as_strided(x: torch.Tensor) -> torch.Tensor:
    return (x * 1.0)[:2].as_strided((4, 1), (x.shape[1], 1))


def _columns_as_strided(x: torch.Tensor) -> torch.Tensor:
    return x[:, 1:].as_strided((2, 2), (1, 1))


def _to_unsigned(x: torch.Tensor) -> torch.Tensor:
    return x + x.to(torch.uint8).float()


def _unique(x: torch.Tensor) -> torch.Tensor:
    return x.unique()


def _own_statistics(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.batch_norm(x, x.detach()[0], torch.ones(FEATURES), training=True)


def _statistics_read_before(x: torch.Tensor) -> torch.Tensor:
    mean, variance = torch.zeros(FEATURES), torch.ones(FEATURES)
    scaled = x * mean.view(1, FEATURES)
    return scaled + nn.functional.batch_norm(x, mean, variance, training=True)


def _row_of_an_expansion(x: torch.Tensor) -> torch.Tensor:
    rows = x[0].expand(4, FEATURES)
    return rows[1].mul_(2.0)


def _expansion_in_a_region(x: torch.Tensor) -> torch.Tensor:
    row = x.detach().clone()[0].expand(4, FEATURES)[1]
    with torch.no_grad():
        return row.add_(1.0)


def _overlapping_windows(x: torch.Tensor) -> torch.Tensor:
    windows = x.detach().clone().as_strided((2, 3), (2, 1))
    return windows[0].add_(1.0)


def _unsigned_in_a_region(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return x.to(torch.uint8).float()


def _hardly_dropped(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.dropout(x, 1e-6)


def _hardly_kept(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=1.0 - 1e-6)


def _rarely_kept(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.dropout(x, 0.9999)


OPERATIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "nonzero": (_nonzero, r"aten\.flip: works along a dimension whose size a mask decides"),
    "boolean-index": (_boolean_index, r"aten\.add\.Tensor: combines elements that different masks choose"),
    "length-from-data": (_length_from_data, "slice|item|argmax"),
    "branch-on-data": (_branch_on_data, "decides by the numbers of a tensor"),
    "complex": (_complex, r"aten\.tanh\S* is complex"),
    "sparse": (_sparse, "sparse"),
    "next-number": (_next_number, r"no lowering for 'aten\.nextafter'"),
    "large-svd": (_large_svd, r"aten\.linalg_svdvals: finds .*singular values of a matrix of 18 columns"),
    "to-unsigned": (_to_unsigned, "unsigned"),
    "unsigned-in-a-region": (_unsigned_in_a_region, r"aten\.to\S* computes with unsigned"),
    "row-of-an-expansion": (_row_of_an_expansion, r"aten\.mul_\S* writes into a tensor whose elements share memory"),
    "expansion-in-a-region": (
        _expansion_in_a_region,
        r"aten\.add_\S* writes into a tensor whose elements share memory",
    ),
    "overlapping-windows": (_overlapping_windows, r"aten\.add_\S* writes into a tensor whose elements share memory"),
    "part-of-memory": (_columns_as_strided, "a part of a tensor in memory"),
    "beyond-a-part": (_all_of_a_part_as_strided, "a part of a tensor in memory"),
    "unique": (_unique, "unique"),
    "hardly-dropped": (_hardly_dropped, r"drops with probability 1e-06, which rounds to 0 in"),
    "hardly-kept": (_hardly_kept, r"drops with probability 0\.999999, which rounds to 1 in"),
    "rarely-kept": (_rarely_kept, r"drops with probability 0\.9999, which rounds to 0\.999893"),
    "own-statistics": (_own_statistics, "its own running statistics"),
    "statistics-read-before": (_statistics_read_before, "running statistics that an earlier operation reads"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_that_cannot_be_compiled(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    operation, fact = OPERATIONS[name]
    levels = _log_levels()
    with pytest.raises(dmc.errors.DmcError, match=fact) as caught:
        _compile(Outer(operation))
    lines, first = inspect.getsourcelines(operation)
    error = caught.value
    assert "block.0" in error.place
    assert f"{__file__}:{first + len(lines) - 1}" in error.place, f"no source line in: {error.place}"
    assert error.hint
    assert capfd.readouterr() == ("", ""), "something is printed beside the error"
    assert _log_levels() == levels


def _log_levels() -> dict[str, int]:
    return {name: logging.getLogger(name).level for name in ("torch", "torch.fx.experimental.symbolic_shapes")}


@pytest.mark.parametrize(
    ("example", "fact"),
    [
        ((torch.zeros(8, FEATURES, dtype=torch.complex64), torch.zeros(())), "complex"),
        ((torch.zeros(8, FEATURES).to_sparse(), torch.zeros(())), "sparse"),
        (torch.zeros(8, FEATURES), "got a tensor"),
    ],
    ids=["complex", "sparse", "tensor"],
)
def test_examples_that_cannot_be_compiled(example: Any, fact: str) -> None:
    with pytest.raises(dmc.errors.DmcError, match=fact) as caught:
        _compile(nn.Linear(FEATURES, 1), example=example)
    assert caught.value.hint


@pytest.mark.parametrize(("dtype", "fact"), [(torch.complex64, "complex"), (torch.float64, r"weight: .*float64")])
def test_parameters_of_types_that_cannot_be_compiled(dtype: torch.dtype, fact: str) -> None:
    model = nn.Sequential(Inner(lambda x: x.to(dtype)), nn.Linear(FEATURES, 1, dtype=dtype))
    with pytest.raises(dmc.errors.DmcError, match=fact) as caught:
        _compile(model)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["x", "targets", "lr", "loss", "step"])
def test_names_that_stand_for_two_tensors(name: str) -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_parameter(name, nn.Parameter(torch.ones(8, FEATURES)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * getattr(self, name)

    with pytest.raises(dmc.errors.ImportFailure, match=f"^{name}: names two tensors") as caught:
        _compile(Named())
    assert "rename" in caught.value.hint


def test_a_parameter_named_like_an_output_of_the_evaluation_alone() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.aux0 = nn.Parameter(torch.ones(8, FEATURES))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.aux0

    with pytest.raises(dmc.errors.ImportFailure, match=r"^aux0: names two tensors"):
        _compile(Named(), evaluation=lambda output, targets: (output.mean(), output))


@pytest.mark.parametrize(
    ("loss", "fact"),
    [
        (lambda output, target: output, "one element"),
        (lambda output, target: output.sum().long(), "floating"),
        (lambda output, target: output.sum().item(), "loss|item"),
        (None, "loss"),
    ],
    ids=["not-scalar", "integer", "python-number", "none"],
)
def test_losses_that_cannot_be_compiled(loss: Any, fact: str) -> None:
    with pytest.raises(dmc.errors.DmcError, match=fact) as caught:
        _compile(nn.Linear(FEATURES, 2), loss=loss)
    assert caught.value.hint


def test_a_model_without_trained_parameters_is_refused() -> None:
    model = nn.Linear(FEATURES, 1).requires_grad_(False)
    with pytest.raises(dmc.errors.DmcError, match="parameter"):
        _compile(model)


@pytest.mark.parametrize(
    ("option", "value"),
    [("precision", "fp8"), ("target", "abacus"), ("accumulate", 0), ("accumulate", 3)],
)
def test_options_that_do_not_exist_or_fit(option: str, value: Any) -> None:
    with pytest.raises(dmc.errors.DmcError, match=str(value)):
        _compile(nn.Linear(FEATURES, 1), **{option: value})


def _sum(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return output.sum() - target


def _compile(model: nn.Module, example: Any = None, loss: Any = _sum, **options: Any) -> None:
    if example is None:
        example = (torch.randn(8, FEATURES), torch.zeros(()))
    dmc.compile(model, loss=loss, optimizer=dmc.optim.SGD(lr=0.1), example=example, progress=False, **options)

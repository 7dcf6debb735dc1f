"""The loss and auxiliary scalars of a step are numbers, which wait for the step when they are used."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from dmc.program.signature import TensorSpec
from dmc.runtime.outputs import LazyArray, Loss, output_kind
from dmc.runtime.tensors.ranks import Spread


def output(value: Any, dtype: str = "f32", index: int = 0) -> Any:
    """An output of a step that is not waited for until it is used; its number of uses is `fetched`."""
    fetched: list[int] = []

    def fetch(reading: Any, entry: int) -> np.ndarray:
        fetched.append(entry)
        return np.array(value)

    spec = TensorSpec("loss", dtype, np.shape(value))
    session: Any = SimpleNamespace(fetch=fetch, is_done=lambda entry: False)
    made: Any = output_kind(spec, index)(session, [session], Spread(spec.shape, ((),) * len(spec.shape), {}), spec, 3)
    made.fetched = fetched
    return made


USES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "sum": (lambda x: sum([x, x]), 5.0),
    "mean": (lambda x: (x + x, x - 1, x * 2, x / 2), (5, 1.5, 5, 1.25)),
    "reversed": (lambda x: (1 + x, 10 - x, 2 * x, 10 / x, 2**x), (3.5, 7.5, 5, 4, 2**2.5)),
    "powers": (
        lambda x: (x**2, x // 2, x % 2, -x, abs(output(-2.5)), +x, 7 // x, 7 % x),
        (6.25, 1, 0.5, -2.5, 2.5, 2.5, 2, 2),
    ),
    "comparison": (lambda x: (x < 3, x <= 2, x > 2.5, x >= 2.5, x == 2.5, x != 2.5, bool(x)), (1, 0, 0, 1, 1, 0, 1)),
    "of two": (lambda x: (min(x, output(1.5)) == 1.5, x < output(9.0), x + output(1.0)), (True, True, 3.5)),
    "rounding": (
        lambda x: (round(x), round(x, 1), math.floor(x), math.ceil(x), math.trunc(x), int(x)),
        (2, 2.5, 2, 3, 2, 2),
    ),
    "print": (str, "2.5"),
    "format": (lambda x: f"{x:.2f} {x}", "2.50 2.5"),
    "json": (lambda x: json.dumps({"loss": x}, default=float), '{"loss": 2.5}'),
    "complex": (complex, 2.5 + 0j),
    "exp": (math.exp, math.exp(2.5)),
    "hash": (lambda x: {2.5: "here"}[x], "here"),
    "numpy": (lambda x: float(np.mean([x, x])), 2.5),
    "torch": (lambda x: (torch.tensor(x).item(), (torch.ones(2) * x).tolist()), (2.5, [2.5, 2.5])),
}


@pytest.mark.parametrize("name", USES)
def test_a_loss_is_a_number_that_waits_when_it_is_used(name: str) -> None:
    use, expected = USES[name]
    loss = output(2.5)
    assert (type(loss), loss.fetched) == (Loss, [])
    assert use(loss) == expected
    assert loss.fetched == [3]


def test_other_outputs() -> None:
    """A count is an integer, bfloat16 a number like others; what has dimensions stays an array."""
    count, narrow, pair = output(3, "i64", 1), output(ml_dtypes.bfloat16(2.5), "bf16"), output([1.0, 2.0], index=1)
    assert (repr(count + 1), f"{count}", [0, 1, 2, 5][int(count)]) == ("4", "3", 5)
    assert (narrow * 2, torch.tensor(narrow).item()) == (5.0, 2.5)
    assert type(pair) is LazyArray


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_an_array_becomes_a_tensor(dtype: str) -> None:
    value = np.array([[1.0, 2.0], [3.0, 4.0]], ml_dtypes.bfloat16 if dtype == "bf16" else np.float32)
    logits = output(value, dtype, index=2)
    assert torch.as_tensor(logits).argmax(-1).tolist() == torch.tensor(logits).argmax(-1).tolist() == [1, 1]
    assert torch.as_tensor(logits).dtype == torch.float32

"""Whatever a user hands over, as an array of an exact type or an error that says what is wrong."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from dmc.dtypes import byte_count, dtype_of
from dmc.errors import DmcError, InputError
from dmc.program.signature import TensorSpec
from dmc.runtime.tensors.arrays import to_array

TYPES = ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "ui8", "i1")


def _to_array(value: Any, dtype: str, shape: tuple[int, ...] = ()) -> np.ndarray:
    return to_array(value, TensorSpec("x", dtype, shape), "input 'x'", InputError)


@pytest.mark.parametrize("dtype", TYPES)
def test_torch_tensor_of_every_type(dtype: str) -> None:
    name = {"f": "float", "b": "bfloat", "i": "int", "u": "uint"}[dtype[0]] + dtype.lstrip("bfui")
    tensor = torch.tensor([[1, 0, 2], [3, 0, 1]]).to(torch.bool if dtype == "i1" else getattr(torch, name))
    array = _to_array(tensor.T, dtype, (3, 2))
    assert array.dtype == dtype_of(dtype).numpy
    np.testing.assert_array_equal(array.astype(np.float64), tensor.T.double().numpy())


def test_bfloat16_keeps_its_bits() -> None:
    bits = np.array([0x3F80, 0xC2F7, 0x0001, 0x7F80], np.uint16)
    tensor = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)
    np.testing.assert_array_equal(_to_array(tensor, "bf16", (4,)).view(np.uint16), bits)
    assert _to_array(tensor[1], "bf16").dtype == ml_dtypes.bfloat16


def test_a_leaf_parameter_is_accepted() -> None:
    assert _to_array(torch.nn.Parameter(torch.ones(2)), "f32", (2,)).tolist() == [1, 1]


def test_memory_is_shared_where_it_can_be() -> None:
    tensor = torch.zeros(4)
    assert np.shares_memory(_to_array(tensor, "f32", (4,)), tensor.numpy())


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (2, "f32", 2.0),
        (2.5, "bf16", 2.5),
        (7, "i64", 7),
        (-3, "i8", -3),
        (True, "i1", True),
        (np.float32(1.5), "f32", 1.5),
    ],
)
def test_numbers_for_an_empty_shape(value: Any, dtype: str, expected: Any) -> None:
    array = _to_array(value, dtype)
    assert (array.dtype, array.item()) == (dtype_of(dtype).numpy, expected)


@pytest.mark.parametrize(
    ("value", "dtype", "shape", "message"),
    [
        (np.zeros((2, 3), np.float32), "f32", (3, 2), r"input 'x': expected f32\[3, 2\], got f32\[2, 3\]"),
        (np.zeros(2), "f32", (2,), r"input 'x': expected f32\[2\], got f64\[2\]"),
        (torch.zeros(2, dtype=torch.int32), "i64", (2,), r"expected i64\[2\], got i32\[2\]"),
        (2.5, "i64", (), r"expected i64\[\], got f64\[\]"),
        (True, "f32", (), r"expected f32\[\], got i1\[\]"),
        (1, "i1", (), r"expected i1\[\], got i64\[\]"),
        (300, "i8", (), r"expected i8\[\], got i64\[\]"),
        (1.0, "f32", (1,), r"expected f32\[1\], got f32\[\]"),
        ("text", "f32", (), r"expected a tensor, got str"),
        ([1.0], "f32", (1,), r"expected a tensor, got list"),
        (None, "f32", (1,), r"expected a tensor, got NoneType"),
        (torch.zeros(2, 2).to_sparse(), "f32", (2, 2), r"cannot be read as a dense array"),
        (torch.zeros(2, device="meta"), "f32", (2,), r"cannot be read as a dense array"),
        (np.zeros(1, np.complex64), "f32", (1,), r"expected f32\[1\], got complex64\[1\]"),
    ],
)
def test_refusals(value: Any, dtype: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _to_array(value, dtype, shape)


def test_bytes_of_a_tensor() -> None:
    assert byte_count(TensorSpec("x", "bf16", (3, 5))) == 30
    assert byte_count(TensorSpec("x", "i1", ())) == 1


def test_unknown_element_type() -> None:
    with pytest.raises(DmcError, match=r"element type 'f8': not one of f64, f32"):
        dtype_of("f8")

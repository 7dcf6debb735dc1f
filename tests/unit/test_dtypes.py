"""Element types are said once, and all that read the table find what they look for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import triton.language as tl
from iree.runtime import HalElementType

from dmc.dtypes import DTYPES, FACTORS, NARROW, DType, dtype_of, numpy_type
from dmc.program.sizes import element_bytes

DMC = Path(__file__).resolve().parents[2] / "dmc"
NAMES = {each.name for each in DTYPES}
# Tables by element type that hold what was measured or decided, not what a type is.
TABLES = {
    "dmc/runtime/sessions/replay/tuner.py": "how exact candidates are",
    "dmc/calibration/gpu.py": "sizes of products that are measured",
    "dmc/passes/placed/pad_uneven/facts.py": "the types in which a number can be found; all others are as f64",
}


def _tables() -> Iterator[str]:
    for path in sorted(DMC.rglob("*.py")):
        if any(_types(node) > 1 for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))):
            yield path.relative_to(DMC.parent).as_posix()


def _types(node: ast.AST) -> int:
    """The element types among the keys of a dictionary."""
    keys = node.keys if isinstance(node, ast.Dict) else ()
    return len({key.value for key in keys if isinstance(key, ast.Constant)} & NAMES)


def test_no_other_file_has_a_table_of_types() -> None:
    assert sorted(set(_tables())) == sorted(TABLES)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda each: each.name)
def test_every_name_exists_and_means_the_same_size(dtype: DType) -> None:
    size = dtype.numpy.itemsize
    assert element_bytes(dtype.name) == size
    assert getattr(torch, dtype.torch).itemsize == size
    assert hasattr(HalElementType, dtype.hal)
    if dtype.triton:
        assert max(getattr(tl, dtype.triton).primitive_bitwidth, 8) == 8 * size


def test_what_libraries_take() -> None:
    assert [dtype_of(name).tensor_map for name in FACTORS] == [7, 9, 6]
    assert [dtype_of(name).cuda for name in FACTORS] == [0, 14, 2]
    assert [dtype_of(name).cudnn for name in NARROW] == ["BFLOAT16", "HALF"]
    assert [each.pointee for each in DTYPES] == ["fp64", "fp32", "fp16", "bf16", "i64", "i32", "i16", "i8", "ui8", "i1"]
    assert numpy_type("index") == np.int64

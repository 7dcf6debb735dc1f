"""Matrix products by cuBLASLt, through NVIDIA's bindings (nvmath-python), which only machines with a GPU need.

cuBLASLt's matrices are column-major. A row-major matrix is a transposed column-major one in memory, so C = A·B is
computed as Cᵀ = Bᵀ·Aᵀ, without moving data.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from dmc.errors import DmcError
from dmc.program.code import Matrix, Product

# CUDA's numbers: cudaDataType_t, cublasComputeType_t, cublasLtReductionScheme_t.
_DTYPES = {"f32": 0, "f16": 2, "bf16": 14}
_COMPUTE_F32 = 68
# Partial sums in f32, added in a fixed order: the same bits each time.
_REDUCTION_IN_F32 = 2
Multiply = Callable[[int, int, int, int, int], None]


def open_library() -> Library:
    """The library on the current device. Raises DmcError where it is not installed."""
    try:
        return Library(importlib.import_module("nvmath.bindings.cublasLt"))
    except (ImportError, RuntimeError) as error:
        raise DmcError("device 'cuda'", f"requires cuBLASLt ({error})", hint="pip install 'dmc[cuda]'") from error


class Library:
    """cuBLASLt, with one handle."""

    def __init__(self, bindings: Any) -> None:
        self._lt = bindings
        self._handle = bindings.create()
        self._one, self._zero = np.ones(1, np.float32), np.zeros(1, np.float32)

    def prepared(self, product: Product) -> Multiply:
        """A function of the addresses of left, right, result and workspace, and of a stream, that multiplies.

        Raises DmcError where the library has no algorithm for the product.
        """
        lt = self._lt
        first, second = product.right, product.left
        operation = lt.matmul_desc_create(_COMPUTE_F32, _DTYPES["f32"])
        attributes = lt.MatmulDescAttribute
        self._set(lt.matmul_desc_set_attribute, operation, attributes.TRANSA, np.int32(first.transposed))
        self._set(lt.matmul_desc_set_attribute, operation, attributes.TRANSB, np.int32(second.transposed))
        layouts = [self._layout(each) for each in (first, second, product.result)]
        algorithm = self._algorithm(product, operation, layouts)
        size = product.workspace.length
        one, zero = self._one.ctypes.data, self._zero.ctypes.data

        def multiply(left: int, right: int, result: int, workspace: int, stream: int) -> None:
            a, b, c = layouts
            operands = (right, a, left, b, zero, result, c, result, c)
            lt.matmul(self._handle, operation, one, *operands, algorithm.ctypes.data, workspace, size, stream)

        return multiply

    def _layout(self, matrix: Matrix) -> Any:
        lt = self._lt
        layout = lt.matrix_layout_create(_DTYPES[matrix.dtype], matrix.columns, matrix.rows, matrix.columns)
        if matrix.batch > 1:
            attributes = lt.MatrixLayoutAttribute
            self._set(lt.matrix_layout_set_attribute, layout, attributes.BATCH_COUNT, np.int32(matrix.batch))
            stride = np.int64(matrix.rows * matrix.columns)
            self._set(lt.matrix_layout_set_attribute, layout, attributes.STRIDED_BATCH_OFFSET, stride)
        return layout

    def _algorithm(self, product: Product, operation: Any, layouts: list[Any]) -> np.ndarray:
        if product.algorithm:
            return np.frombuffer(product.algorithm, np.uint8)
        lt = self._lt
        preference = lt.matmul_preference_create()
        attributes = lt.MatmulPreferenceAttribute
        set_ = lt.matmul_preference_set_attribute
        self._set(set_, preference, attributes.MAX_WORKSPACE_BYTES, np.uint64(product.workspace.length))
        self._set(set_, preference, attributes.REDUCTION_SCHEME_MASK, np.uint32(_REDUCTION_IN_F32))
        for operand in "ABCD":
            alignment = getattr(attributes, f"MIN_ALIGNMENT_{operand}_BYTES")
            self._set(set_, preference, alignment, np.uint32(product.alignment))
        found = lt.MatmulHeuristicResult(1)
        count = np.zeros(1, np.int32)
        a, b, c = layouts
        lt.matmul_algo_get_heuristic(self._handle, operation, a, b, c, c, preference, 1, found.ptr, count.ctypes.data)
        lt.matmul_preference_destroy(preference)
        if not count[0]:
            raise DmcError(str(product), "cuBLASLt has no algorithm for this product", hint="please report the model")
        return np.frombuffer(memoryview(found[0]["algo"]).tobytes(), np.uint8)

    def _set(self, setter: Any, target: Any, attribute: int, value: np.generic) -> None:
        array = np.array([value])
        setter(target, int(attribute), array.ctypes.data, array.nbytes)

"""Matrix products by cuBLASLt, through NVIDIA's bindings (nvmath-python), which only machines with a GPU need.

cuBLASLt's matrices are column-major. A row-major matrix is a transposed column-major one in memory, so C = A·B is
computed as Cᵀ = Bᵀ·Aᵀ, without moving data.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec.structs import replace

from dmc.distribution import install
from dmc.dtypes import dtype_of
from dmc.errors import DmcError
from dmc.program.code import ALGORITHM, Matrix, Product
from dmc.program.tuning import label_of

# CUDA's numbers: cublasComputeType_t, cublasLtReductionScheme_t.
_COMPUTE_F32 = 68
# Partial sums in f32, added in a fixed order: the same bits each time.
_REDUCTION_IN_F32 = 2
# Of a cublasLtMatmulAlgo_t.
_ALGORITHM_BYTES = 64
Multiply = Callable[[int, int, int, int, int], None]


def open_library() -> Library:
    """The library on the current device. Raises DmcError where it is not installed."""
    try:
        return Library(importlib.import_module("nvmath.bindings.cublasLt"))
    except (ImportError, RuntimeError) as error:
        raise DmcError("device 'cuda'", f"requires cuBLASLt ({error})", hint=install("cuda")) from error


class Library:
    """cuBLASLt, with one handle."""

    def __init__(self, bindings: Any) -> None:
        self._lt = bindings
        self._handle = bindings.create()
        self._one, self._zero = np.ones(1, np.float32), np.zeros(1, np.float32)

    def prepared(self, product: Product) -> Multiply:
        """A function of the addresses of left, right, result and workspace, and of a stream, that multiplies.

        Where this version of the library lacks the algorithm that the product names, it warns and takes the library's
        choice. Raises DmcError where the library has no algorithm for the product.
        """
        lt = self._lt
        operation, layouts = self._described(product)
        algorithm = self._chosen(product, operation, layouts)
        size = product.workspace.length
        one, zero = self._one.ctypes.data, self._zero.ctypes.data

        def multiply(left: int, right: int, result: int, workspace: int, stream: int) -> None:
            a, b, c = layouts
            operands = (right, a, left, b, zero, result, c, result, c)
            lt.matmul(self._handle, operation, one, *operands, algorithm.ctypes.data, workspace, size, stream)

        return multiply

    def _chosen(self, product: Product, operation: Any, layouts: list[Any]) -> np.ndarray:
        """The algorithm that a product names, or the first of the heuristic."""
        if product.algorithm:
            try:
                return self._named(product, operation, layouts)
            except DmcError as error:
                text = f"{error.fact}; the library's choice may be slower and give other bits (hint: {error.hint})"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
        return self._promising(product, operation, layouts, 1)[0]

    def algorithms(self, product: Product, count: int) -> list[tuple[int, ...]]:
        """The algorithms that the library's heuristic gives for a product, the most promising first, as `ALGORITHM`.

        Those that can be had again by these numbers.
        """
        attributes = self._lt.MatmulAlgoConfigAttribute
        numbers = [getattr(attributes, name) for name in ALGORITHM]
        operation, layouts = self._described(product)
        found = self._promising(product, operation, layouts, count)
        named = dict.fromkeys(tuple(self._get(each, number) for number in numbers) for each in found)
        return [each for each in named if self._is_known(replace(product, algorithm=each), operation, layouts)]

    def _is_known(self, product: Product, operation: Any, layouts: list[Any]) -> bool:
        try:
            self._named(product, operation, layouts)
        except DmcError:
            return False
        return True

    @property
    def version(self) -> int:
        """The library's version, as it numbers them."""
        return self._lt.get_version()

    def _described(self, product: Product) -> tuple[Any, list[Any]]:
        """The operation, and the layouts of both factors and of the result, in the library's order."""
        lt = self._lt
        first, second = product.right, product.left
        operation = lt.matmul_desc_create(_COMPUTE_F32, dtype_of("f32").cuda)
        attributes = lt.MatmulDescAttribute
        self._set(lt.matmul_desc_set_attribute, operation, attributes.TRANSA, np.int32(first.transposed))
        self._set(lt.matmul_desc_set_attribute, operation, attributes.TRANSB, np.int32(second.transposed))
        return operation, [self._layout(each) for each in (first, second, product.result)]

    def _layout(self, matrix: Matrix) -> Any:
        lt = self._lt
        layout = lt.matrix_layout_create(dtype_of(matrix.dtype).cuda, matrix.columns, matrix.rows, matrix.columns)
        if matrix.batch > 1:
            attributes = lt.MatrixLayoutAttribute
            self._set(lt.matrix_layout_set_attribute, layout, attributes.BATCH_COUNT, np.int32(matrix.batch))
            stride = np.int64(matrix.rows * matrix.columns)
            self._set(lt.matrix_layout_set_attribute, layout, attributes.STRIDED_BATCH_OFFSET, stride)
        return layout

    def _named(self, product: Product, operation: Any, layouts: list[Any]) -> np.ndarray:
        """The algorithm that a product names. Raises DmcError where this version of the library has none such."""
        lt = self._lt
        a, b, c = layouts
        dtypes = [dtype_of(each.dtype).cuda for each in (product.right, product.left, product.result, product.result)]
        algorithm, result = np.zeros(_ALGORITHM_BYTES, np.uint8), lt.MatmulHeuristicResult(1)
        try:
            lt.matmul_algo_init(
                self._handle, _COMPUTE_F32, dtype_of("f32").cuda, *dtypes, product.algorithm[0], algorithm.ctypes.data
            )
            for name, value in zip(ALGORITHM[1:], product.algorithm[1:], strict=True):
                attribute = getattr(lt.MatmulAlgoConfigAttribute, name)
                typed = np.dtype(lt.get_matmul_algo_config_attribute_dtype(attribute)).type(value)
                self._set(lt.matmul_algo_config_set_attribute, algorithm.ctypes.data, attribute, typed)
            lt.matmul_algo_check(self._handle, operation, a, b, c, c, algorithm.ctypes.data, result.ptr)
        except lt.cuBLASLtError as error:
            fact = f"cuBLASLt {self.version} has no algorithm {label_of(product.algorithm)} ({error})"
            raise DmcError(str(product), fact, hint="compile with a table that dmc tune makes here") from error
        if np.asarray(result[0]["workspace_size"]).item() > product.workspace.length:
            fact = f"cuBLASLt {self.version} needs more than {product.workspace.length} bytes for {product.algorithm}"
            raise DmcError(str(product), fact, hint="run dmc tune again")
        return algorithm

    def _promising(self, product: Product, operation: Any, layouts: list[Any], count: int) -> list[np.ndarray]:
        """The algorithms that the heuristic gives, at most `count`. Raises DmcError where there is none."""
        lt = self._lt
        preference = lt.matmul_preference_create()
        attributes = lt.MatmulPreferenceAttribute
        set_ = lt.matmul_preference_set_attribute
        self._set(set_, preference, attributes.MAX_WORKSPACE_BYTES, np.uint64(product.workspace.length))
        self._set(set_, preference, attributes.REDUCTION_SCHEME_MASK, np.uint32(_REDUCTION_IN_F32))
        for operand in "ABCD":
            alignment = getattr(attributes, f"MIN_ALIGNMENT_{operand}_BYTES")
            self._set(set_, preference, alignment, np.uint32(product.alignment))
        found = lt.MatmulHeuristicResult(count)
        made = np.zeros(1, np.int32)
        a, b, c = layouts
        lt.matmul_algo_get_heuristic(
            self._handle, operation, a, b, c, c, preference, count, found.ptr, made.ctypes.data
        )
        lt.matmul_preference_destroy(preference)
        if not made[0]:
            raise DmcError(str(product), "cuBLASLt has no algorithm for this product", hint="please report the model")
        texts = (memoryview(found[i]["algo"]).tobytes() for i in range(made[0]))
        return [np.frombuffer(text, np.uint8) for text in texts]

    def _get(self, algorithm: np.ndarray, attribute: int) -> int:
        lt = self._lt
        value = np.zeros(1, lt.get_matmul_algo_config_attribute_dtype(int(attribute)))
        written = np.zeros(1, np.uint64)
        address, size = value.ctypes.data, value.nbytes
        lt.matmul_algo_config_get_attribute(algorithm.ctypes.data, int(attribute), address, size, written.ctypes.data)
        return int(value[0])

    def _set(self, setter: Any, target: Any, attribute: int, value: np.generic) -> None:
        array = np.array([value])
        setter(target, int(attribute), array.ctypes.data, array.nbytes)

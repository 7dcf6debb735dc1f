"""Calls of cuBLASLt for products and algorithms, against bindings that only record them."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from dmc.program.code import ALGORITHM, Matrix, Place, Product
from dmc.runtime.gpu import libraries
from dmc.runtime.gpu.cublaslt import Library
from dmc.runtime.gpu.cuda_streams import CudaStreams

NAMES = SimpleNamespace(**{name: number for number, name in enumerate(ALGORITHM)})
_LIMITS = {f"MIN_ALIGNMENT_{operand}_BYTES": number for number, operand in enumerate("ABCD", 2)}
PREFERENCES = SimpleNamespace(MAX_WORKSPACE_BYTES=0, REDUCTION_SCHEME_MASK=1, **_LIMITS)
PRODUCT = Product(
    Matrix(Place("read", 0, 0, 64), "bf16", 1, 8, 4),
    Matrix(Place("read", 1, 0, 64), "bf16", 1, 4, 8),
    Matrix(Place("write", 0, 0, 128), "bf16", 1, 8, 8),
    Place("scratch", 0, 0, 1024),
)
KNOWN, UNKNOWN = (66, 20, 1, 0, 0, 0, 36, 0, 5), (99, 20, 1, 0, 0, 0, 36, 0, 5)


class Unknown(Exception):
    """What the bindings raise."""


class Bindings:
    """A library that knows algorithms below 90. An algorithm is its numbers, a byte each."""

    cuBLASLtError = Unknown  # noqa: N815
    MatmulAlgoConfigAttribute = NAMES
    MatmulDescAttribute = SimpleNamespace(TRANSA=0, TRANSB=1)
    MatmulPreferenceAttribute = PREFERENCES

    def __init__(self) -> None:
        self.memory: dict[int, np.ndarray] = {}
        self.multiplied: list[bytes] = []
        self.operands: list[tuple[int, ...]] = []
        self.preferences: dict[int, int] = {}
        self.needed = 0

    def create(self) -> int:
        return 1

    def __getattr__(self, name: str) -> Any:
        # Creating descriptors and setting attributes has no effect here.
        return lambda *_: 7

    def get_version(self) -> int:
        return 130100

    def MatmulHeuristicResult(self, count: int) -> Any:  # noqa: N802
        array = np.zeros(count, [("algo", "V64"), ("workspace_size", "u8")])
        self.memory[array.ctypes.data] = array
        return Results(array)

    def matmul_algo_get_heuristic(self, *arguments: Any) -> None:
        count, found, made = arguments[-3:]
        texts = [bytes(KNOWN), bytes(UNKNOWN), bytes(KNOWN)][:count]
        for number, text in enumerate(texts):
            self.memory[found][number]["algo"] = text.ljust(64, b"\0")
        np.ctypeslib.as_array((ctypes.c_int32 * 1).from_address(made))[0] = len(texts)

    def matmul_preference_set_attribute(self, _: int, attribute: int, buffer: int, size: int) -> None:
        self.preferences[attribute] = int.from_bytes(self._bytes(buffer)[:size].tobytes(), "little")

    def _bytes(self, address: int) -> np.ndarray:
        return np.ctypeslib.as_array((ctypes.c_uint8 * 64).from_address(address))

    def get_matmul_algo_config_attribute_dtype(self, attribute: int) -> type:
        return np.uint8

    def matmul_algo_config_get_attribute(self, algorithm: int, attribute: int, buffer: int, *_: int) -> None:
        self._bytes(buffer)[0] = self._bytes(algorithm)[attribute]

    def matmul_algo_config_set_attribute(self, algorithm: int, attribute: int, buffer: int, _: int) -> None:
        self._bytes(algorithm)[attribute] = self._bytes(buffer)[0]

    def matmul_algo_init(self, *arguments: int) -> None:
        self._bytes(arguments[-1])[0] = arguments[-2]

    def matmul_algo_check(self, *arguments: int) -> None:
        if self._bytes(arguments[-2])[0] >= 90:
            raise Unknown("not supported")
        self.memory[arguments[-1]]["workspace_size"] = self.needed

    def matmul(self, *arguments: int) -> None:
        self.multiplied.append(bytes(self._bytes(arguments[-4])[: len(ALGORITHM)]))
        _, _, _, right, _, left, _, _, old, _, result, _, _, workspace, _, stream = arguments
        self.operands.append((left, right, old, result, workspace, stream))


class Results:
    """Results as the bindings wrap them."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.ptr = array, array.ctypes.data

    def __getitem__(self, number: int) -> Any:
        return self.array[number]


def test_an_algorithm_is_had_again_by_its_numbers() -> None:
    bindings = Bindings()
    library = Library(bindings)
    assert library.algorithms(PRODUCT, 3) == [KNOWN], "those that are known, each once"
    for algorithm in (KNOWN, ()):
        library.prepared(replace(PRODUCT, algorithm=algorithm))(1, 2, 3, 4, 5)
    assert bindings.multiplied == [bytes(KNOWN)] * 2
    assert bindings.operands == [(1, 2, 3, 3, 4, 5)] * 2


def test_the_library_chooses_within_what_a_product_allows() -> None:
    bindings = Bindings()
    Library(bindings).prepared(replace(PRODUCT, alignment=8))(1, 2, 3, 4, 5)
    # 2: of the schemes of reduction, that in f32.
    asked = {"MAX_WORKSPACE_BYTES": 1024, "REDUCTION_SCHEME_MASK": 2, **dict.fromkeys(_LIMITS, 8)}
    assert bindings.preferences == {getattr(PREFERENCES, name): value for name, value in asked.items()}


def test_an_algorithm_that_needs_more_memory_is_not_taken() -> None:
    bindings = Bindings()
    bindings.needed = 1025
    with pytest.warns(RuntimeWarning, match="cuBLASLt 130100 needs more than 1024 bytes"):
        Library(bindings).prepared(replace(PRODUCT, algorithm=KNOWN))(1, 2, 3, 4, 5)
    assert Library(bindings).algorithms(PRODUCT, 3) == []


def test_another_version_of_the_library_chooses_and_says_so() -> None:
    bindings = Bindings()
    with pytest.warns(RuntimeWarning, match="cuBLASLt 130100 has no algorithm id=99 .*slower and give other bits"):
        Library(bindings).prepared(replace(PRODUCT, algorithm=UNKNOWN))(1, 2, 3, 4, 5)
    assert bindings.multiplied == [bytes(KNOWN)]


def test_the_library_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = iter([SimpleNamespace(algorithms=lambda product, count: [(count,)])])
    monkeypatch.setattr(libraries, "open_library", lambda: next(opened))
    runtime = SimpleNamespace(CUDARuntimeError=RuntimeError)
    streams = CudaStreams(SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, Device=lambda: None)), None)
    assert [streams.algorithms(PRODUCT, count) for count in (1, 2)] == [[(1,)], [(2,)]]

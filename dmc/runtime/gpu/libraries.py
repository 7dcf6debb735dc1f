"""NVIDIA's libraries on one device: each is opened when a step first needs it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from dmc.errors import DmcError
from dmc.program.code import Attention, DeviceCode, Product
from dmc.runtime.gpu.cublaslt import Library, open_library
from dmc.runtime.gpu.cudnn import Cudnn, open_cudnn


class Libraries:
    """What they compute for the steps of one program, prepared before any of them runs."""

    def __init__(self) -> None:
        self._products: dict[Product, Any] = {}
        self._attentions: dict[Attention, Any] = {}

    def prepare(self, code: DeviceCode) -> None:
        """Prepares the steps of `code`. Raises DmcError where a product cannot be computed; attention, when it is."""
        steps = [step for steps in code.kernels.values() for step in steps]
        self._products |= {step: self._cublaslt.prepared(step) for step in steps if isinstance(step, Product)}
        attentions = dict.fromkeys(step for step in steps if isinstance(step, Attention))
        self._attentions |= {step: self._attention(step) for step in attentions}

    def product(self, product: Product, pointers: list[int], stream: int) -> None:
        """See `dmc.runtime.sessions.replay.issue.Streams`."""
        self._products[product](*pointers, stream)

    def attention(self, attention: Attention, pointers: list[int], stream: int) -> None:
        """See `dmc.runtime.sessions.replay.issue.Streams`. Raises DmcError where it could not be prepared."""
        self._attentions[attention](pointers, stream)

    def algorithms(self, product: Product, count: int) -> list[tuple[int, ...]]:
        """At most so many algorithms of cuBLASLt for a product, the most promising first."""
        return self._cublaslt.algorithms(product, count)

    def versions(self) -> dict[str, str]:
        """The version of cuBLASLt, and of cuDNN if it was needed."""
        found = {"cublaslt": str(self._cublaslt.version)}
        return found | ({"cudnn": str(self._cudnn.version)} if "_cudnn" in self.__dict__ else {})

    def _attention(self, attention: Attention) -> Any:
        try:
            return self._cudnn.prepared(attention)
        except DmcError as error:
            # Where candidates are compared, another may be taken.
            return _raising(error)

    @cached_property
    def _cublaslt(self) -> Library:
        return open_library()

    @cached_property
    def _cudnn(self) -> Cudnn:
        return open_cudnn()


def _raising(error: DmcError) -> Any:
    def refused(*_: Any) -> None:
        raise error

    return refused

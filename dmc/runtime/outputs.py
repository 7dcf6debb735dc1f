"""Outputs of a step: arrays that wait for the step when read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from dmc.dtypes import describe, dtype_of
from dmc.program.signature import TensorSpec
from dmc.runtime.foreign import LOSS, NotOfTorch
from dmc.runtime.sessions.queue import Output, Queue
from dmc.runtime.tensors.number import Number
from dmc.runtime.tensors.ranks import Spread

# Gives bytes to all ranks, and returns those of each.
Exchange: TypeAlias = Callable[[bytes], Sequence[bytes]]


class OfAnother:
    """An output of which not all ranks have a part: those that have it give it to the others. All ranks read it, at the
    same time."""

    def __init__(
        self, own: Output | None, part: TensorSpec, exchange: Callable[[bytes], Sequence[bytes]], rank: int
    ) -> None:
        """own: what this rank has, where it gives that. part: like what it gets. exchange: gives what a rank gives to
        all, and returns what each of them has given. rank: that has this rank's part."""
        self._own, self._part, self._exchange, self._rank = own, part, exchange, rank

    def array(self) -> np.ndarray:
        """See `Output`. Raises DmcError that names the ranks that do not read it."""
        given = self._exchange(b"" if self._own is None else self._own.array().tobytes())
        return np.frombuffer(given[self._rank], dtype_of(self._part.dtype).numpy).reshape(self._part.shape).copy()


class LazyArray:
    """An output of a step that may still be running; reading it waits for that step only.

    Every read raises DmcError if the step has failed on the device.
    """

    def __init__(
        self, session: Queue, readings: Sequence[Output], spread: Spread, spec: TensorSpec, entry: int
    ) -> None:
        """readings: each rank's part, as split by `spread`."""
        self._session: Queue | None = session
        self._readings = readings
        self._spread = spread
        self._entry = entry
        self._spec = spec
        self._array: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per dimension."""
        return self._spec.shape

    @property
    def dtype(self) -> np.dtype:
        """numpy's element type (bf16 is `ml_dtypes.bfloat16`)."""
        return dtype_of(self._spec.dtype).numpy

    def is_ready(self) -> bool:
        """Whether the step is done, so that reading does not wait for it."""
        session = self._session
        return session is None or session.is_done(self._entry)

    def numpy(self) -> np.ndarray:
        """The value, read-only, in host memory; waits for the step."""
        # In this order: another thread may be reading it, too.
        session, readings = self._session, self._readings
        if self._array is None:
            assert session is not None, "released before it was read"
            array = self._spread.whole(lambda rank: session.fetch(readings[rank], self._entry))
            array.flags.writeable = False
            self._array = array
            # The value is on the host: release the device memory and the step.
            self._readings, self._session = (), None
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        """For `torch.as_tensor`; waits for the step."""
        return self._exported().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._exported().__dlpack_device__()

    def _exported(self) -> np.ndarray:
        array = self.numpy()
        # A copy, because what is read-only cannot be exported; bf16 is not numpy's own.
        return array.astype(np.float32) if array.dtype.kind == "V" else array.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and copied as the value alone."""
        return np.array, (self.numpy(),)

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"{kind}({self._array})" if self._array is not None else f"{kind}({self._type()}, not read yet)"

    def _type(self) -> str:
        return describe(self._spec.dtype, self.shape)


class LazyNumber(Number[Any], LazyArray):
    """An output of one element without dimensions: a number when read."""

    def item(self) -> Any:
        """As a Python number; waits for the step."""
        return self.numpy().item()

    def __reduce__(self) -> tuple[Any, ...]:
        value = self.item()
        return type(value), (value,)


class Loss(NotOfTorch, LazyNumber):
    """The loss of one step: a number when read (`loss.item()`, `loss < best`, `f"{loss:.4f}"`)."""

    WAYS = LOSS


def output_kind(spec: TensorSpec, index: int) -> type[LazyArray]:
    """What an output is to its user."""
    if index == 0:
        return Loss
    return LazyArray if spec.shape else LazyNumber

"""What a number in a tensor selects, as in `history[count % 4]`: a trace does not know the number, so it is an index.

Eager's selection is a view. What an index reads is a copy, which is the same as long as neither is written; a model
that could tell them apart is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from dmc.errors import ImportFailure
from dmc.importer.python.known import KnownValues
from dmc.importer.torch_internals import storage_key, version, without_torch_functions

aten = torch.ops.aten
_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)
_ALL = slice(None)


@dataclass
class _Selection:
    """A copy of `source[index]`, with both versions when they were equal, and those of the index's tensors."""

    copy: Tensor
    source: Tensor
    index: tuple[Any, ...]
    versions: tuple[int, int]
    indexed: tuple[int, ...]

    @property
    def is_current(self) -> bool:
        return self.versions == (version(self.copy), version(self.source))

    def is_of(self, x: Tensor, index: tuple[Any, ...]) -> bool:
        """Whether this is a copy of `x[index]` as both are now."""
        pairs = zip(self.index, index, strict=False)
        is_same = all(a is b or (not (isinstance(a, Tensor) or isinstance(b, Tensor)) and a == b) for a, b in pairs)
        is_same = is_same and len(self.index) == len(index) and self.indexed == _versions(index)
        return self.source is x and is_same and self.versions[1] == version(x)


@dataclass
class Selections:
    """Those of one trace, by the memory of their copies. known: tensors whose numbers the trace does know."""

    known: KnownValues
    made: dict[int, _Selection] = field(default_factory=dict[int, _Selection])

    def selects(self, index: Any) -> bool:
        """Whether an index consists of numbers, slices and the like, of which one is a number in a tensor."""
        parts = _parts(index)
        return all(_is_basic(part) for part in parts) and any(self._is_unknown(part) for part in parts)

    def read(self, x: Tensor, index: Any) -> Tensor:
        """`x[index]`, copied."""
        view, indices = self._viewed(x, index)
        copy = aten.index.Tensor(view, indices)
        parts, versions = _parts(index), (version(copy), version(x))
        self.made[storage_key(copy)] = _Selection(copy, x, parts, versions, _versions(parts))
        return copy

    def write(self, x: Tensor, index: Any, value: Any) -> None:
        """`x[index] = value`."""
        # `x[index] += 1` reads, writes the copy, and assigns it where it came from.
        made = self.made.get(storage_key(value)) if isinstance(value, Tensor) else None
        is_back = made is not None and made.copy is value and made.is_of(x, _parts(index))
        self.check((x, index) if is_back else (x, index, value))
        view, indices = self._viewed(x, index)
        shape = [size for size, each in zip(view.shape, [*indices, *[None] * view.dim()], strict=False) if each is None]
        written = _converted(x, value)
        while written.dim() > len(shape) and written.shape[0] == 1:
            written = written[0]
        aten.index_put_.default(view, indices, written.expand(shape))
        if made is not None and is_back:
            made.versions = (version(value), version(x))

    def check(self, values: Any) -> None:
        """Raises ImportFailure where `values` contain a copy that eager's view no longer equals."""
        if not self.made:
            return
        for tensor in pytree.tree_leaves(values):
            made = self.made.get(storage_key(tensor)) if isinstance(tensor, Tensor) else None
            if made is not None and not made.is_current:
                raise _stale()

    def close(self, registered: Collection[Tensor]) -> None:
        """Raises ImportFailure where a copy was written, which eager would have written into its source, or is kept."""
        with without_torch_functions():
            is_kept = bool(self.made) and any(storage_key(each) in self.made for each in registered)
            if is_kept or any(made.versions[0] != version(made.copy) for made in self.made.values()):
                raise _stale()

    def _is_unknown(self, part: Any) -> bool:
        return isinstance(part, Tensor) and not self.known.knows(part)

    def _viewed(self, x: Tensor, index: Any) -> tuple[Tensor, list[Tensor | None]]:
        """What the other parts of an index leave of `x`, and the numbers by its dimensions."""
        parts = list(_spread(_parts(index), x.dim()))
        view = x[tuple(_ALL if self._is_unknown(part) else part for part in parts)]
        kept = [part for part in parts if self._is_unknown(part) or not isinstance(part, int | Tensor)]
        return view, [part.long() if isinstance(part, Tensor) else None for part in kept]


def _parts(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _versions(index: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(version(part) for part in index if isinstance(part, Tensor))


def _is_basic(part: Any) -> bool:
    if isinstance(part, Tensor):
        return part.dim() == 0 and part.dtype in _INTEGERS
    if isinstance(part, slice):
        return all(each is None or type(each) is int for each in (part.start, part.stop, part.step))
    return part is None or part is Ellipsis or type(part) is int


def _spread(parts: tuple[Any, ...], dims: int) -> Iterator[Any]:
    """Each part, with a slice for each dimension that an ellipsis stands for."""
    for part in parts:
        if part is Ellipsis:
            yield from [_ALL] * (dims - sum(each is not None and each is not Ellipsis for each in parts))
        else:
            yield part


def _converted(x: Tensor, value: Any) -> Tensor:
    return value.to(x.dtype) if isinstance(value, Tensor) else x.new_full((), value)


def _stale() -> ImportFailure:
    return ImportFailure(
        None,
        "writes into what a number in a tensor selects, or into what it was selected from, or keeps it in a buffer",
        hint="assign to the selection itself, as in x[i] = x[i] + 1, and select it again afterwards; keep a clone",
    )

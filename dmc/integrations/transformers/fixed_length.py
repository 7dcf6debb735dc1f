"""Batches of few lengths: a step is compiled for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dmc.errors import InputError

_IGNORED = -100
# What padding holds, by input; of others, zero.
_FILLED = {"labels": _IGNORED, "shift_labels": _IGNORED}
_POSITIONS = "position_ids"
# The borders of documents, for kernels that a step does not call; padding would add one.
_BORDERS = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")


@dataclass(frozen=True)
class FixedLength:
    """A data collator that pads the rows of another's batches, such as `DataCollatorWithFlattening`, whose batches are
    one row of documents in a row.

    Padding has no labels, so that it does not count, and no attention, where the batch has a mask; positions begin
    anew, as of one more document. What tells the borders of documents in another way than by positions is left out.
    length: of every row. multiple: instead, rows are padded to a multiple of this many tokens. fill: what an input's
    padding holds, by name.
    """

    collator: Callable[[list[Any]], Mapping[str, Any]]
    length: int | None = None
    multiple: int = 64
    fill: Mapping[str, int] = field(default_factory=dict[str, int])

    def __call__(self, examples: list[Any]) -> dict[str, Any]:
        """The padded batch. Raises InputError for rows that are longer than `length`."""
        batch = dict(self.collator(examples))
        rows, size = next(tuple(each.shape) for each in batch.values() if isinstance(each, Tensor) and each.dim() == 2)
        wanted = self.length or -(-size // self.multiple) * self.multiple
        if size > wanted:
            fact = f"has rows of {size} tokens; they are padded to {wanted}"
            raise InputError("the batch", fact, hint="use a larger length=, or fewer or shorter examples a batch")
        kept = {name: each for name, each in batch.items() if name not in _BORDERS}
        return {name: self._padded(name, each, (rows, size), wanted) for name, each in kept.items()}

    def _padded(self, name: str, value: Any, shape: tuple[int, int], wanted: int) -> Any:
        if not isinstance(value, Tensor) or value.shape != shape:
            return value
        rows, size = shape
        if name == _POSITIONS:
            return torch.cat([value, torch.arange(wanted - size, dtype=value.dtype).expand(rows, -1)], 1)
        return functional.pad(value, (0, wanted - size), value={**_FILLED, **self.fill}.get(name, 0))

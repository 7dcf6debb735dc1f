"""Batches that a training will have, foreseen from its first: one compilation serves for all."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator, Sized
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dmc.integrations.transformers.updates import Inputs


def last_of_epoch(loader: Any, micro: Inputs, accumulate: int) -> list[Inputs]:
    """The micro-batches of an epoch's last update, shaped like `micro`; none where their number is not known."""
    rows, rest = _rows(micro), _rest(loader, _rows(micro))
    if rest is None:
        return []
    count = len(loader) % accumulate or accumulate
    return [micro] * (count - 1) + [_first_rows(micro, rest, rows)]


def batches_of(loader: Any) -> Iterator[Inputs]:
    """The first batch of a loader, and one as its last, which may have fewer rows. Random numbers are drawn afterwards
    as if it had not been asked.
    """
    with _same_random_numbers():
        first = next(iter(islice(loader, 1)), None)
    if first is None:
        return
    yield first
    rest = _rest(loader, _rows(first))
    if rest is not None and rest != _rows(first):
        yield _first_rows(first, rest, _rows(first))


def _rest(loader: Any, rows: int) -> int | None:
    """The rows of a loader's last batch, if it has `rows` in the others."""
    dataset = getattr(loader, "dataset", None)
    if not isinstance(dataset, Sized) or not rows:
        return None
    try:
        rest = len(dataset) - (len(loader) - 1) * rows
    except TypeError:  # A loader of a dataset without length.
        return None
    return rest if 0 < rest <= rows else None


def _rows(batch: Inputs) -> int:
    return next((each.shape[0] for each in batch.values() if isinstance(each, Tensor) and each.dim()), 0)


def _first_rows(batch: Inputs, count: int, rows: int) -> dict[str, Any]:
    def cut(value: Any) -> Any:
        return value[:count] if isinstance(value, Tensor) and value.dim() and value.shape[0] == rows else value

    return {name: cut(value) for name, value in batch.items()}


@contextmanager
def _same_random_numbers() -> Generator[None]:
    own, of_numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        yield
    random.setstate(own)
    np.random.set_state(of_numpy)

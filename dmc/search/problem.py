"""What a plan is searched for: a step, a machine and a cap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from dmc.errors import PlanError
from dmc.importer.forward.precision import Precision
from dmc.machine import machine
from dmc.program.tuning import Table


@dataclass(frozen=True)
class Problem:
    """model, loss, optimizer, example, precision, seed, accumulate: as `dmc.compile` takes them, of one example.

    target: "cpu", "cuda" or both. machine: its name. ranks: how many there are. memory_cap: bytes of device memory of a
    rank; 0 for all that the machine's device has. accumulate: micro-batches that the user asks for; None leaves it to
    the plan.
    """

    model: nn.Module
    loss: Any
    optimizer: Any
    example: Any
    precision: Precision
    target: str
    machine: str
    ranks: int
    memory_cap: int = 0
    accumulate: int | None = None
    seed: int = 0
    tuning: Table | None = None

    @property
    def cap(self) -> int:
        """Bytes of device memory that a rank may use."""
        return self.memory_cap or machine(self.machine).device.memories["device"].bytes

    @property
    def rows(self) -> int:
        """Samples of a batch: dimension 0 of the first tensor that has one; 1 where none has."""
        return next((each.shape[0] for each in tensors(self.example) if each.dim()), 1)


def ranks_of(name: str) -> int:
    """The ranks of a machine. Raises PlanError for a machine of any number of ranks."""
    count = machine(name).ranks
    if count is None:
        hint = "name one with a number of devices, as machine='h100x4'"
        raise PlanError(f"machine {name}", "has any number of ranks, so there is nothing to search a plan for", hint)
    return count


def tensors(example: Any) -> Iterator[torch.Tensor]:
    """The tensors of a batch, in order."""
    yield from (each for each in pytree.tree_leaves(example) if isinstance(each, torch.Tensor))


def check_one(example: Any) -> None:
    """Raises PlanError for a list of several shapes."""
    if isinstance(example, list) and len(example) != 1:
        raise PlanError("example", "is a list of several shapes", "search with the largest, and pass the plan found")


def single(example: Any) -> tuple[Any, ...] | Mapping[str, Any]:
    """The one batch of an example."""
    check_one(example)
    return example[0] if isinstance(example, list) else example

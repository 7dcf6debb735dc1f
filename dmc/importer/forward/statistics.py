"""Running statistics that a normalisation changes, and what else reads them.

PyTorch's batch norm writes its statistics without telling autograd. What its own kernel, or the gradient of an earlier
operation, still reads of them is then changed, or not, as that code happens to be written.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from torch import Tensor, fx

from dmc.errors import ImportFailure
from dmc.importer.torch_internals import regions, storage_key, updates_statistics


def check_statistics(target: Any, args: Sequence[Any], read: Container[int]) -> None:
    """Refuses a normalisation that changes what it normalises, or what gradients of earlier operations may read.

    read: the memory (`storage_key`) that these read so far.
    """
    x, _, _, mean, variance, training, *_ = args
    written = [storage_key(each) for each in (mean, variance) if each is not None and training]
    if storage_key(x) in written:
        raise ImportFailure(
            None,
            "normalises its own running statistics, which it changes meanwhile",
            hint="normalise a copy (.clone())",
        )
    if any(each in read for each in written):
        raise ImportFailure(
            None,
            "changes running statistics that an earlier operation reads, whose gradient may read them again",
            hint="let the earlier operation read a copy (.clone())",
        )


def read_by_gradients(node: fx.Node, operands: Iterable[Any], results: Iterable[Any]) -> dict[int, Tensor]:
    """What the gradient of an operation may read, by memory; none of a normalisation that changes its statistics.

    Operations of a region note themselves what they read. The tensors are kept, so that no other takes their memory.
    """
    changes = updates_statistics(node.target) and node.args[5]
    if changes or regions(node) or not any(isinstance(each, Tensor) and each.requires_grad for each in results):
        return {}
    return {storage_key(each): each for each in operands if isinstance(each, Tensor)}

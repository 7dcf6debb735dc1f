"""What a test model is, and the random batches it is fed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

Loss = Callable[..., torch.Tensor]
Batch = tuple[torch.Tensor, ...] | Mapping[str, torch.Tensor]

IGNORED = -100  # PyTorch's and transformers' label for "no target here".


@dataclass(frozen=True)
class Case:
    """A model in training mode, its loss, and its batches.

    `loss` takes (model output, targets); None where the model returns its own loss. `example(seed)` is a batch, the
    same for the same seed: a tuple (inputs, targets), or keyword inputs where the model returns its own loss.
    """

    name: str
    model: nn.Module
    loss: Loss | None
    example: Callable[[int], Batch]


def token_batch(seed: int, batch: int, length: int, vocabulary: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and next tokens, both i64[batch, length], uniform over the vocabulary."""
    tokens = torch.randint(vocabulary, (batch, length + 1), generator=_generator(seed))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def masked_batch(seed: int, batch: int, length: int, vocabulary: int, mask_token: int) -> dict[str, torch.Tensor]:
    """A masked language-model batch: every row padded to another length, one token in four masked.

    input_ids, attention_mask, labels: i64[batch, length]. The first token of each row is always masked, so that no
    row is without a target.
    """
    generator = _generator(seed)
    tokens = torch.randint(5, vocabulary, (batch, length), generator=generator)
    masked = torch.rand(batch, length, generator=generator) < 0.25
    masked[:, 0] = True
    lengths = torch.randint(length // 2, length + 1, (batch, 1), generator=generator)
    present = torch.arange(length) < lengths
    return {
        "input_ids": tokens.masked_fill(masked, mask_token).masked_fill(~present, 0),
        "attention_mask": present.long(),
        "labels": tokens.masked_fill(~(masked & present), IGNORED),
    }


def image_batch(seed: int, batch: int, size: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images f32[batch, 3, size, size] from a normal distribution, and classes i64[batch]."""
    generator = _generator(seed)
    images = torch.randn(batch, 3, size, size, generator=generator)
    return images, torch.randint(classes, (batch,), generator=generator)


def token_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy in nats of logits [batch, length, vocabulary] against i64[batch, length]."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)

"""Small training steps whose kernels are timed on a CPU: two transformers and a recurrent network."""

from __future__ import annotations

import torch
from torch import nn

from dmc import optim
from dmc.api import compile_artifact
from dmc.runtime.files.artifact import Artifact

# Layers, width, tokens of a sequence, sequences, words.
_TRANSFORMERS = ((2, 96, 96, 8, 512), (3, 192, 64, 8, 256))


class _Block(nn.Module):
    """Attention and a layer of four times the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        batch, tokens, width = x.shape
        heads = self.qkv(self.norms[0](x)).view(batch, tokens, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(*heads.unbind(0), is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.inner(self.norms[1](x))


class _Recurrent(nn.Module):
    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embedding, self.cells = nn.Embedding(words, width), nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The scores of the next word."""
        return self.head(self.cells(self.embedding(tokens))[0])


def samples() -> list[Artifact]:
    """The steps, compiled for this CPU."""
    torch.manual_seed(0)
    made: list[Artifact] = []
    for layers, width, tokens, batch, words in _TRANSFORMERS:
        blocks = [_Block(width) for _ in range(layers)]
        made.append(
            _compiled(nn.Sequential(nn.Embedding(words, width), *blocks, nn.Linear(width, words)), batch, tokens, words)
        )
    made.append(_compiled(_Recurrent(128, 96), 16, 24, 128))
    return made


def _loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def _compiled(model: nn.Module, batch: int, tokens: int, words: int) -> Artifact:
    drawn = torch.randint(words, (batch, tokens))
    adamw = optim.AdamW(lr=1e-3)
    return compile_artifact(model, loss=_loss, optimizer=adamw, example=(drawn, drawn.clone()), verify=False)

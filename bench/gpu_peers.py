"""One training step of PyTorch on a GPU: eager, compiled, and GPT-2 hand-written by an expert."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from bench.gpu_models import MODELS

RATE, DECAY, CLIP = 1e-4, 0.1, 1.0
# A vocabulary that is a multiple of 64: products over it are aligned.
_PADDED = 50304
SYSTEMS = ("eager", "compile", "max-autotune", "hand", "xla")
# Those that only have some models.
FEW_MODELS = {"hand", "xla"}
Step = Callable[[dict[str, torch.Tensor]], torch.Tensor]


def peer(system: str, model: str, dropout: float) -> tuple[Step, nn.Module]:
    """A step of `system` in bf16 autocast with f32 state, clipped gradients, and fused AdamW; and its model.

    Raises KeyError if the system does not have the model.
    """
    if system == "hand":
        net: nn.Module = _HAND[model](dropout).cuda()
        return _step(torch.compile(net), net), net
    net = MODELS[model].build(dropout).cuda()
    modes = {"eager": None, "compile": "default", "max-autotune": "max-autotune-no-cudagraphs"}
    mode = modes[system]
    run = net if mode is None else torch.compile(net, mode=mode)
    return _step(lambda **batch: run(**batch).loss, net), net


def _step(loss_of: Callable[..., torch.Tensor], net: nn.Module) -> Step:
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY, fused=True)

    def step(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of(**batch)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        mixed = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        x = x + functional.dropout(mixed, self.dropout)
        grown = functional.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + functional.dropout(self.down(grown), self.dropout)


class _Gpt2(nn.Module):
    """Causal attention without a mask, and a padded vocabulary of which the padding is never a target."""

    def __init__(self, layers: int, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.tokens, self.places = nn.Embedding(_PADDED, width), nn.Embedding(1024, width)
        self.blocks = nn.Sequential(*(_Block(width, heads, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, _PADDED, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The mean cross entropy of each token but the first, i64[batch, length] twice, given those before it."""
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = functional.dropout(self.tokens(input_ids) + self.places(places), self.dropout)
        logits = self.head(self.norm(self.blocks(x)))
        target = functional.pad(labels[:, 1:], (0, 1), value=-100)
        return functional.cross_entropy(logits.flatten(0, 1), target.flatten())


_HAND: dict[str, Callable[[float], nn.Module]] = {
    "gpt2_124m": lambda dropout: _Gpt2(12, 768, 12, dropout),
    "gpt2_355m": lambda dropout: _Gpt2(24, 1024, 16, dropout),
}

"""Llama and GPT-2 of `transformers` as torch.distributed.pipelining trains them, in bf16 with f32 state.

As torchtitan does: stages of blocks made by hand, autocast, blocks compiled one by one where a schedule allows that,
the loss compiled, gradients clipped by the norm over all stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.gpu_peers import CLIP, DECAY, RATE


@dataclass(frozen=True)
class Peer:
    """schedule: by the name that dmc gives it. kind: PyTorch's class of it. chunks: stages of a rank."""

    schedule: str
    kind: str
    chunks: int = 1
    compiles: bool = True


PEERS = {
    "torch-1f1b": Peer("1f1b", "Schedule1F1B"),
    "torch-interleaved": Peer("interleaved", "ScheduleInterleaved1F1B", chunks=2),
    "torch-zb-v": Peer("zb-v", "ScheduleZBVZeroBubble", chunks=2, compiles=False),
}


class Stage(nn.Module):
    """Some blocks of a Llama; the first stage has the embedding, the last one the head."""

    def __init__(self, net: Any, blocks: range, is_first: bool, is_last: bool) -> None:
        super().__init__()
        own, model = net.model, nn.Module()
        model.layers = nn.ModuleDict({str(number): own.layers[number] for number in blocks})
        model.embed_tokens = own.embed_tokens if is_first else nn.Identity()
        model.norm = own.norm if is_last else nn.Identity()
        self.model: Any = model
        self.lm_head = net.lm_head if is_last else nn.Identity()
        self.rotary = type(own.rotary_emb)(net.config)

    def forward(self, given: Tensor) -> Tensor:
        """given: tokens, or what the stage before gives. Returns hidden states, or logits."""
        with torch.autocast("cuda", torch.bfloat16):
            hidden = self.model.embed_tokens(given)
            places = torch.arange(hidden.shape[1], device=hidden.device)[None]
            turns = self.rotary(hidden, places)
            for block in self.model.layers.values():
                hidden = block(hidden, attention_mask=None, position_ids=places, position_embeddings=turns)
                hidden = hidden[0] if isinstance(hidden, tuple) else hidden
            return self.lm_head(self.model.norm(hidden))


class PipelinedPeer:
    """A training step of one rank."""

    def __init__(self, peer: Peer, model: str, weights: Path, microbatches: int) -> None:
        """weights: a file of safetensors with all parameters."""
        from torch.distributed import pipelining

        from bench.pipelines_cases import MODELS

        self.rank, self.ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        net, _, count, _ = MODELS[model]()
        stages = self.ranks * peer.chunks
        own = [self.rank + chunk * self.ranks for chunk in range(peer.chunks)]
        if peer.schedule == "zb-v":
            own = [self.rank, stages - 1 - self.rank]
        self.parts: Any = nn.ModuleList()
        for stage in own:
            blocks = range(stage * count // stages, (stage + 1) * count // stages)
            part = Stage(net, blocks, stage == 0, stage == stages - 1)
            if peer.compiles:
                for block in part.model.layers.values():
                    block.compile()
            self.parts.append(part)
        rotary = [type(part.rotary)(net.config) for part in self.parts]
        self.parts.to_empty(device="cuda")
        for part, each in zip(self.parts, rotary, strict=True):
            part.rotary = each.cuda()
            _load(part, weights)
        device = torch.device("cuda", torch.cuda.current_device())
        pieces = [
            pipelining.PipelineStage(part, stage, stages, device) for part, stage in zip(self.parts, own, strict=True)
        ]
        schedule = getattr(pipelining, peer.kind, None) or getattr(pipelining.schedules, peer.kind)
        loss = torch.compile(_loss) if peer.compiles else _loss
        self.schedule = schedule(pieces if peer.chunks > 1 else pieces[0], microbatches, loss_fn=loss)
        self.is_first, self.is_last, self.last = 0 in own, stages - 1 in own, (stages - 1) % self.ranks
        if peer.schedule == "zb-v":
            self.last = 0
        self.optimizer = torch.optim.AdamW(self.parts.parameters(), lr=RATE, weight_decay=DECAY, fused=True)

    def __call__(self, batch: Mapping[str, Tensor]) -> Tensor:
        """The mean loss."""
        losses: list[Tensor] = []
        given = (batch["input_ids"],) if self.is_first else ()
        if self.is_last:
            self.schedule.step(*given, target=batch["labels"], losses=losses)
        else:
            self.schedule.step(*given)
        self._clip()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        told = torch.stack(losses).mean().detach() if self.is_last else torch.zeros((), device="cuda")
        torch.distributed.broadcast(told, self.last)
        return told

    def _clip(self) -> None:
        grads = [each.grad for each in self.parts.parameters() if each.grad is not None]
        squares = torch.nn.utils.get_total_norm(grads).square()
        torch.distributed.all_reduce(squares)
        torch.nn.utils.clip_grads_with_norm_(self.parts.parameters(), CLIP, squares.sqrt())


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())


def _load(part: Any, path: Path) -> None:
    from safetensors import safe_open

    with safe_open(path, "pt") as file, torch.no_grad():
        for name, parameter in part.named_parameters():
            parameter.copy_(file.get_tensor(name.replace("_orig_mod.", "")))

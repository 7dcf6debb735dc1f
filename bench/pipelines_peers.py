"""Llama and GPT-2 of `transformers` as torch.distributed.pipelining trains them, in bf16 with f32 state.

As torchtitan does: stages of blocks made by hand, autocast, blocks compiled one by one where a schedule allows that,
the loss compiled, gradients clipped by the norm over all stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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


class LlamaStage(nn.Module):
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
        self._config = net.config

    @property
    def blocks(self) -> Iterable[nn.Module]:
        """Its blocks."""
        return self.model.layers.values()

    def to_gpu(self) -> None:
        """Gets memory there, which is not filled."""
        self.to_empty(device="cuda")
        self.rotary = type(self.rotary)(self._config).cuda()

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


class Gpt2Stage(nn.Module):
    """Some blocks of a GPT-2; the first stage has the embeddings, the last one the head."""

    def __init__(self, net: Any, blocks: range, is_first: bool, is_last: bool) -> None:
        super().__init__()
        own, model = net.transformer, nn.Module()
        model.h = nn.ModuleDict({str(number): own.h[number] for number in blocks})
        if is_first:
            model.wte, model.wpe = own.wte, own.wpe
        model.ln_f = own.ln_f if is_last else nn.Identity()
        self.transformer: Any = model
        self.lm_head = net.lm_head if is_last else nn.Identity()
        self._is_first = is_first

    @property
    def blocks(self) -> Iterable[nn.Module]:
        """Its blocks."""
        return self.transformer.h.values()

    def to_gpu(self) -> None:
        """Gets memory there, which is not filled."""
        self.to_empty(device="cuda")

    def forward(self, given: Tensor) -> Tensor:
        """given: tokens, or what the stage before gives. Returns hidden states, or logits."""
        with torch.autocast("cuda", torch.bfloat16):
            hidden = given
            if self._is_first:
                places = torch.arange(given.shape[1], device=given.device)
                hidden = self.transformer.wte(given) + self.transformer.wpe(places)
            for block in self.transformer.h.values():
                hidden = block(hidden)
                hidden = hidden[0] if isinstance(hidden, tuple) else hidden
            return self.lm_head(self.transformer.ln_f(hidden))


STAGES = {"llama_1b": LlamaStage, "gpt2_355m": Gpt2Stage}


class PipelinedPeer:
    """A training step of one rank."""

    def __init__(self, peer: Peer, model: str, weights: Path, microbatches: int, cut: Sequence[int]) -> None:
        """weights: a file of safetensors with all parameters. cut: the blocks that begin stages 1, 2, …."""
        from torch.distributed import pipelining

        from bench.pipelines_cases import MODELS

        self.rank, self.ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        net, _, count, _ = MODELS[model]()
        stages, bounds = self.ranks * peer.chunks, [0, *cut, count]
        own = [self.rank + chunk * self.ranks for chunk in range(peer.chunks)]
        if peer.schedule == "zb-v":
            own = [self.rank, stages - 1 - self.rank]
        self.parts: Any = nn.ModuleList()
        for stage in own:
            part = STAGES[model](net, range(bounds[stage], bounds[stage + 1]), stage == 0, stage == stages - 1)
            for block in part.blocks if peer.compiles else ():
                block.compile()
            part.to_gpu()
            _load(part, weights)
            self.parts.append(part)
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

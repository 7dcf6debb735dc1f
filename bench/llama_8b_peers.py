"""Llama-3-8B under FSDP2 and torch.compile, as torchtitan trains it: blocks compiled and checkpointed.

Parameters are f32 shards, gathered and multiplied in bf16; the head and its loss are compiled as one function, so that
logits of 128,256 classes are not kept in f32. `every` of 1 checkpoints each block, of 2 every second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Whole(nn.Module):
    """The model and its loss, in one module that FSDP2 gathers."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net
        self.loss = torch.compile(_loss)

    def forward(self, input_ids: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of the rows."""
        hidden = self.net.model(input_ids=input_ids)[0]
        return self.loss(hidden, self.net.lm_head.weight, labels)


def _loss(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    logits = functional.linear(hidden, weight)[:, :-1].flatten(0, 1).float()
    return functional.cross_entropy(logits, labels[:, 1:].flatten())


class Fsdp2:
    """A training step of one rank; `every`: of so many blocks one is checkpointed."""

    def __init__(self, net: nn.Module, folder: Path, every: int, rates: Mapping[str, float]) -> None:
        """net: on the meta device. folder: its parameters, in shards of safetensors."""
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
        self.clip = rates["clip"]
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        whole: Any = Whole(net)
        layers = whole.net.model.layers
        for index in range(len(layers)):
            if index % every == 0:
                layers[index] = checkpoint_wrapper(layers[index])
            layers[index].compile()
            fully_shard(layers[index], mp_policy=policy)
        fully_shard(whole, mp_policy=policy)
        rotary = type(whole.net.model.rotary_emb)(whole.net.config)
        whole.to_empty(device="cuda")
        whole.net.model.rotary_emb = rotary.cuda()
        _load(whole, folder)
        self.whole = whole
        self.optimizer = torch.optim.AdamW(
            whole.parameters(), lr=rates["rate"], weight_decay=rates["decay"], fused=True
        )

    def __call__(self, batch: Mapping[str, Tensor]) -> Tensor:
        """The mean loss of all ranks."""
        loss = self.whole(**batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.whole.parameters(), self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        told = loss.detach()
        torch.distributed.all_reduce(told, torch.distributed.ReduceOp.AVG)
        return told


def _load(whole: nn.Module, folder: Path) -> None:
    """Each rank reads its rows of each tensor."""
    from safetensors import safe_open

    files = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    for name, parameter in whole.named_parameters():
        key = name.removeprefix("net.").replace("_checkpoint_wrapped_module.", "").replace("_orig_mod.", "")
        own: Any = parameter.data
        local = own.to_local()
        with safe_open(folder / files[key], "pt") as file:
            view = file.get_slice(key)
            size = -(-view.get_shape()[0] // ranks)
            local.copy_(view[rank * size : rank * size + local.shape[0]])

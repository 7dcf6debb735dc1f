"""Llama of `transformers` on several GPUs as PyTorch trains it, in bf16 with f32 state, under torch.compile.

`ddp` and `fsdp2` (by block) are as the PyTorch tutorials set them up; `dtensor` is PyTorch's own tensor parallelism,
with sequence parallelism and the loss on split logits (`torch.distributed.tensor.parallel`, its tutorial on
large-scale transformers), compiled by block.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from bench.gpu_peers import CLIP, DECAY, RATE
from bench.gpu_step import load
from bench.seeded import seeded

PEERS = ("fsdp2", "ddp", "dtensor")
Batch = dict[str, torch.Tensor]


@dataclass(frozen=True)
class PeerStep:
    """A training step of one rank. parts: into which the ranks split a batch. loss: of a batch. around: what it runs in
    together with its backward pass.
    """

    net: nn.Module
    optimizer: torch.optim.Optimizer
    parts: int
    loss: Callable[[Batch], torch.Tensor]
    around: Callable[[], AbstractContextManager[Any]] = nullcontext

    def __call__(self, batch: Batch) -> torch.Tensor:
        """The mean loss of all ranks."""
        with self.around():
            with torch.autocast("cuda", torch.bfloat16):
                loss = self.loss(batch)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        told = loss.detach()
        told = told.full_tensor() if hasattr(told, "full_tensor") else told
        if self.parts > 1:
            torch.distributed.all_reduce(told, torch.distributed.ReduceOp.AVG)
        return told


def peer_step(system: str, build: Callable[[float], nn.Module], ranks: int) -> PeerStep:
    """A step of `system` on one of so many ranks, with parameters as at the start."""
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    net = build(0.0).cuda()
    load(net, seeded(build))
    loss = partial(_own_loss, net)
    if system == "ddp":
        parallel: Any = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)
        loss = partial(_own_loss, torch.compile(parallel))
    elif system == "fsdp2":
        _shard_fully(net)
    else:
        loss = _shard_tensors(net, ranks)
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    if system != "dtensor":
        return PeerStep(net, optimizer, ranks, loss)
    from torch.distributed.tensor.parallel import loss_parallel

    return PeerStep(net, optimizer, 1, loss, loss_parallel)


def _own_loss(net: Any, batch: Batch) -> torch.Tensor:
    return net(**batch).loss


def _shard_fully(net: Any) -> None:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in net.model.layers:
        block.compile()
        fully_shard(block, mp_policy=policy)
    fully_shard(net, mp_policy=policy)


def _shard_tensors(net: Any, ranks: int) -> Callable[[Batch], torch.Tensor]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor import parallel as tp

    mesh = init_device_mesh("cuda", (ranks,))
    rows, columns = tp.RowwiseParallel(output_layouts=Shard(1)), tp.ColwiseParallel()
    whole = {"input_layouts": Shard(1), "desired_input_layouts": Replicate()}
    layer: dict[str, tp.ParallelStyle] = {
        "input_layernorm": tp.SequenceParallel(),
        "post_attention_layernorm": tp.SequenceParallel(),
        "self_attn": tp.PrepareModuleInput(
            input_kwarg_layouts={"hidden_states": Shard(1)}, desired_input_kwarg_layouts={"hidden_states": Replicate()}
        ),
        "mlp": tp.PrepareModuleInput(**whole),
        **{f"self_attn.{name}_proj": columns for name in "qkv"},
        "self_attn.o_proj": rows,
        **{f"mlp.{name}_proj": columns for name in ("gate", "up")},
        "mlp.down_proj": rows,
    }
    for block in net.model.layers:
        tp.parallelize_module(block, mesh, layer)
        block.compile()
    around: dict[str, tp.ParallelStyle] = {
        "model.embed_tokens": tp.RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "model.norm": tp.SequenceParallel(),
        "lm_head": tp.ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
    }
    tp.parallelize_module(net, mesh, around)

    def loss(batch: Batch) -> torch.Tensor:
        # The first activations are split by sequence, so positions must be told.
        places = torch.arange(batch["input_ids"].shape[1], device="cuda")[None]
        logits = net(input_ids=batch["input_ids"], position_ids=places).logits
        return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), batch["labels"][:, 1:].flatten())

    return loss

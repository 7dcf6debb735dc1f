"""GPT-2 124M on several GPUs as PyTorch trains it: DDP, or FSDP2 by block, under torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from bench.gpu_models import MODELS
from bench.gpu_peers import CLIP, DECAY, RATE
from bench.gpu_step import load, start

MODEL = "gpt2_124m"
# The systems, and which plan each is an example of.
PEERS = {"ddp": "dp", "fsdp2": "zero3"}
Step = Callable[[dict[str, torch.Tensor]], torch.Tensor]


def mean(loss: torch.Tensor, ranks: int) -> torch.Tensor:
    """The mean of the ranks' losses."""
    if ranks > 1:
        torch.distributed.all_reduce(loss, torch.distributed.ReduceOp.AVG)
    return loss


def peer_step(system: str, ranks: int, dropout: float) -> Step:
    """A step of `system` on one of so many ranks, with the rank's part of a batch; on one rank without either."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.nn.parallel import DistributedDataParallel

    if ranks > 1 and not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    net = MODELS[MODEL].build(dropout).cuda()
    load(net, start(MODEL))
    run: Any = net
    if ranks > 1 and system == "ddp":
        run = torch.compile(DistributedDataParallel(net, gradient_as_bucket_view=True))
    elif ranks > 1:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        blocks: Any = net.transformer
        for block in blocks.h:
            block.compile()
            fully_shard(block, mp_policy=policy)
        fully_shard(net, mp_policy=policy)
    else:
        run = torch.compile(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY, fused=True)

    def step(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step

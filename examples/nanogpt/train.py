"""nanoGPT's training loop, compiled; `train_eager.py` is the same in PyTorch eager."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from nanogpt import GPT, Config, Data, estimate_loss, get_lr

import dmc


def train(config: Config, text: torch.Tensor, **mesh_and_plan: Any) -> list[float]:
    """Trains and returns the loss of each iteration."""
    torch.manual_seed(config.seed)
    data, checkpoint = Data(text, config), Path(config.out) / "ckpt.dmc"
    model, iter_num, history = GPT(config), 0, list[float]()
    optimizer = dmc.optim.FromTorch(model.configure_optimizers(config), clip_grad_norm=config.grad_clip)
    count = config.gradient_accumulation_steps
    example = (torch.zeros(count * config.batch_size, config.block_size, dtype=torch.long),) * 2
    options: dict[str, Any] = {"optimizer": optimizer, "example": example, "accumulate": count, "evaluation": True}
    step = dmc.load(checkpoint) if config.resume else dmc.compile(model, loss=1, **options, **mesh_and_plan)
    iter_num = step.steps_done
    while iter_num < config.max_iters:
        lr = get_lr(iter_num, config)
        if iter_num % config.eval_interval == 0:
            print(iter_num, estimate_loss(step.evaluate, data, config, count))
        history.append(step(*data.get_batch("train", count), lr=lr).item())
        iter_num += 1
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    step.save(checkpoint)
    return history

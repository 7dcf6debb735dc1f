"""nanoGPT's training loop, compiled; `train_eager.py` is the same in PyTorch eager."""

from __future__ import annotations

from pathlib import Path

import torch
from nanogpt import GPT, Config, Data, get_lr

import dmc


def train(config: Config, text: torch.Tensor) -> list[float]:
    """Trains and returns the loss of each iteration."""
    torch.manual_seed(config.seed)
    data, checkpoint = Data(text, config), Path(config.out) / "ckpt.dmc"
    model, iter_num, history = GPT(config), 0, list[float]()
    optimizer = dmc.optim.FromTorch(model.configure_optimizers(config), clip_grad_norm=config.grad_clip)
    count = config.gradient_accumulation_steps
    example = (torch.zeros(count * config.batch_size, config.block_size, dtype=torch.long),) * 2
    options = {"optimizer": optimizer, "example": example, "accumulate": count, "evaluation": True}
    step = dmc.load(checkpoint) if config.resume else dmc.compile(model, loss=1, **options)
    iter_num = step.steps_done

    def estimate_loss() -> dict[str, float]:
        means = {}
        for split in ("train", "val"):
            losses = torch.zeros(config.eval_iters // count)
            for k in range(config.eval_iters // count):
                loss = step.evaluate(*data.get_batch(split, count))
                losses[k] = loss.item()
            means[split] = losses.mean().item()
        return means

    while iter_num < config.max_iters:
        lr = get_lr(iter_num, config)
        if iter_num % config.eval_interval == 0:
            print(iter_num, estimate_loss())
        history.append(step(*data.get_batch("train", count), lr=lr).item())
        iter_num += 1
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    step.save(checkpoint)
    return history

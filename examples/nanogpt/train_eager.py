"""nanoGPT's training loop in PyTorch eager; `train.py` is the same, compiled."""

from __future__ import annotations

from pathlib import Path

import torch
from nanogpt import GPT, Config, Data, estimate_loss, get_lr


def train(config: Config, text: torch.Tensor) -> list[float]:
    """Trains and returns the loss of each iteration."""
    torch.manual_seed(config.seed)
    data, checkpoint = Data(text, config), Path(config.out) / "ckpt.pt"
    model, iter_num, history = GPT(config), 0, list[float]()
    optimizer = model.configure_optimizers(config)
    if config.resume:
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        iter_num = saved["iter_num"]

    @torch.no_grad()
    def evaluate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        model.eval()
        _, loss = model(x, y)
        model.train()
        return loss

    while iter_num < config.max_iters:
        lr = get_lr(iter_num, config)
        for group in optimizer.param_groups:
            group["lr"] = lr
        if iter_num % config.eval_interval == 0:
            print(iter_num, estimate_loss(evaluate, data, config))
        total = 0.0
        for _ in range(config.gradient_accumulation_steps):
            _, loss = model(*data.get_batch("train"))
            (loss / config.gradient_accumulation_steps).backward()
            total += loss.item() / config.gradient_accumulation_steps
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        history.append(total)
        iter_num += 1
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": iter_num}, checkpoint)
    return history

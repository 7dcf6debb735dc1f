"""Generates text with a trained nanoGPT, in PyTorch eager: `python examples/nanogpt/sample.py out/nanogpt/ckpt.dmc`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from nanogpt import GPT, Config

import dmc

PROMPT, LENGTH, TEMPERATURE = "def ", 200, 0.8


def main(arguments: Sequence[str]) -> int:
    """Prints the prompt and what follows it."""
    weights = dmc.load(arguments[0]).state_dict()["model"]
    layers = {name.split(".")[2] for name in weights if name.startswith("transformer.h.")}
    model = GPT(Config(n_layer=len(layers)))
    model.load_state_dict(weights)
    print(generate(model.eval()))
    return 0


@torch.no_grad()
def generate(model: GPT) -> str:
    """Characters drawn one by one."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.tensor([list(PROMPT.encode())])
    for _ in range(LENGTH):
        logits, _ = model(tokens[:, -model.config.block_size :])
        following = torch.multinomial((logits[:, -1] / TEMPERATURE).softmax(-1), 1, generator=generator)
        tokens = torch.cat((tokens, following), 1)
    return bytes(tokens[0].tolist()).decode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Trains nanoGPT on the source of Python's standard library, character by character.

`python examples/nanogpt/run.py` compiles the training step; `--ranks 4` splits it over four ranks (ZeRO-2), all of them
in this process; `--eager` trains in PyTorch eager. The checkpoint is written to `out/nanogpt`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from nanogpt import Config


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains and prints the losses."""
    options = _options(arguments)
    config = Config(
        n_layer=options.layers,
        dropout=options.dropout,
        max_iters=options.iterations,
        out=options.out,
        resume=options.resume,
    )
    losses = _trained(config, options)
    print(f"loss {losses[0]:.4f} → {losses[-1]:.4f} in {len(losses)} iterations; see {config.out}")
    return 0


def _trained(config: Config, options: argparse.Namespace) -> list[float]:
    if options.eager:
        from train_eager import train

        return train(config, standard_library())
    # Here, so that --eager needs PyTorch alone.
    from train import train

    import dmc

    mesh = dmc.Mesh(dp=options.ranks)
    placed: dict[str, Any] = {"mesh": mesh, "plan": dmc.plan(mesh).use(dmc.plans.zero2("dp"))}
    return train(config, standard_library(), **(placed if options.ranks > 1 else {}))


def standard_library() -> torch.Tensor:
    """i64[characters]: the ASCII characters of the modules beside `argparse`."""
    folder = Path(argparse.__file__).parent
    source = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    characters = torch.frombuffer(bytearray(source), dtype=torch.uint8).long()
    return characters[characters < Config.vocab_size]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=Config.max_iters)
    parser.add_argument("--layers", type=int, default=Config.n_layer)
    parser.add_argument("--dropout", type=float, default=Config.dropout)
    parser.add_argument("--out", default=Config.out, help="the folder of the checkpoint")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--ranks", type=int, default=1, help=f"split each batch of {Config.batch_size} over these")
    parser.add_argument("--eager", action="store_true", help="train in PyTorch eager, for comparison")
    options = parser.parse_args(arguments)
    if options.ranks < 1 or Config.batch_size % options.ranks:
        parser.error(f"--ranks must be a divisor of the batch size, {Config.batch_size}")
    if options.eager and options.ranks > 1:
        parser.error("--eager trains on one rank")
    return options


if __name__ == "__main__":
    sys.exit(main())

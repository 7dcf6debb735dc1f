"""Trains a small GPT on the source of Python's standard library, character by character, in about a minute.

`python examples/train_gpt.py` compiles the training step with dmc; `--ranks 4` splits it over four ranks (ZeRO-2), all
of them in this process; `--eager` runs the same with PyTorch eager. All write the loss curve and a sample of generated
text to `out/`.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from corpus import Corpus, standard_library
from gpt import GPT, Shape
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch.nn import functional

BATCH = 16
WARM_UP = 30
PEAK_RATE = 2e-3
CLIP = 1.0
TARGET = 2.4  # nats per character: what 300 steps must reach; a uniform guess is at 4.6.
PROMPT = "def "

TrainStep = Callable[[torch.Tensor, torch.Tensor, float], float]


def main() -> int:
    """Trains, plots, generates; the exit code is 1 where 300 steps or more did not reach the target."""
    options = _options()
    console = Console()
    corpus = standard_library()
    torch.manual_seed(options.seed)
    model = GPT(Shape(vocabulary=len(corpus.symbols)))
    size = sum(parameter.numel() for parameter in model.parameters())
    console.print(f"{size:,} parameters; {len(corpus.data):,} characters, {len(corpus.symbols)} different ones")
    start = time.perf_counter()
    step, trained = _eager(model) if options.eager else _compiled(model, corpus, options.seed, options.ranks)
    console.print(f"step ready after {time.perf_counter() - start:.1f} s")
    losses = _train(step, corpus, model.shape.context, options, console)
    options.out.mkdir(parents=True, exist_ok=True)
    _plot(losses, options.out / "loss.png")
    sample = _generate(trained(), corpus, options.seed)
    (options.out / "sample.txt").write_text(sample)
    console.rule("generated")
    console.print(sample, markup=False, highlight=False)
    console.rule()
    return _report(losses, console)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--eager", action="store_true", help="train with PyTorch eager, for comparison")
    parser.add_argument("--ranks", type=int, default=1, help=f"split each batch of {BATCH} over this many ranks")
    options = parser.parse_args()
    if options.ranks < 1 or BATCH % options.ranks:
        parser.error(f"--ranks must be a divisor of the batch size, {BATCH}")
    if options.eager and options.ranks > 1:
        parser.error("--eager trains on one rank")
    return options


def _loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy in nats per character."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def _compiled(model: GPT, corpus: Corpus, seed: int, ranks: int) -> tuple[TrainStep, Callable[[], GPT]]:
    """The training step compiled by dmc, and the function that gives the trained model."""
    import dmc  # Here, so that --eager needs PyTorch alone.

    example = corpus.batch(BATCH, model.shape.context, torch.Generator())
    optimizer = dmc.optim.AdamW(lr=PEAK_RATE, weight_decay=0.1, clip_grad_norm=CLIP)
    plan = dmc.plan(dmc.Mesh(dp=ranks)).data_parallel("dp", zero=2) if ranks > 1 else None
    step = dmc.compile(model, loss=_loss, optimizer=optimizer, example=example, seed=seed, plan=plan)

    def trained() -> GPT:
        model.load_state_dict(step.state_dict()["model"])
        return model

    return lambda tokens, targets, rate: float(step(tokens, targets, lr=rate)), trained


def _eager(model: GPT) -> tuple[TrainStep, Callable[[], GPT]]:
    """The same training step in PyTorch eager."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, weight_decay=0.1)

    def step(tokens: torch.Tensor, targets: torch.Tensor, rate: float) -> float:
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        loss = _loss(model(tokens), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return loss.item()

    return step, lambda: model


def _rate(index: int, steps: int) -> float:
    """Linear warm-up, then a cosine from the peak down to a tenth of it."""
    if index < WARM_UP:
        return PEAK_RATE * (index + 1) / WARM_UP
    done = (index - WARM_UP) / max(1, steps - WARM_UP)
    return PEAK_RATE * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


def _train(step: TrainStep, corpus: Corpus, length: int, options: argparse.Namespace, console: Console) -> list[float]:
    generator = torch.Generator().manual_seed(options.seed)
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    losses: list[float] = []
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=options.steps, loss=math.nan)
        for index in range(options.steps):
            tokens, targets = corpus.batch(BATCH, length, generator)
            losses.append(step(tokens, targets, _rate(index, options.steps)))
            progress.update(task, advance=1, loss=losses[-1])
    return losses


def _plot(losses: list[float], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")  # Files only: a window would need a display.
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.plot(range(1, len(losses) + 1), losses)
    axes.axhline(TARGET, linestyle="--", color="grey", label=f"target {TARGET}")
    axes.set(xlabel="step", ylabel="loss (nats per character)", title="GPT on the standard library's source")
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")


@torch.no_grad()
def _generate(model: GPT, corpus: Corpus, seed: int, length: int = 400, temperature: float = 0.8) -> str:
    generator = torch.Generator().manual_seed(seed)
    model.eval()
    tokens = torch.tensor([[corpus.symbols.index(character) for character in PROMPT]])
    for _ in range(length):
        scores = model(tokens[:, -model.shape.context :])[0, -1] / temperature
        tokens = torch.cat((tokens, torch.multinomial(scores.softmax(0), 1, generator=generator)[None]), 1)
    return corpus.text(tokens[0])


def _report(losses: list[float], console: Console) -> int:
    last = losses[-20:]
    mean = sum(last) / len(last)
    console.print(f"loss {losses[0]:.3f} → {mean:.3f} nats per character (mean of the last {len(last)} steps)")
    if len(losses) >= 300 and mean >= TARGET:
        console.print(f"above the target of {TARGET}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

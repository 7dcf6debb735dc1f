"""How compile time grows with depth: a GPT of width 64 with 12, 24 and 48 layers, for the CPU.

`python -m bench.compile_time` prints seconds by stage and the ratio to 12 layers, and writes
`bench/results/compile_time.json`. 48 layers are to take at most three times as long as 12.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import dmc
from bench.record import write_record
from dmc.api import compile_artifact
from dmc.observer import RecordingObserver
from examples.gpt import GPT, Shape
from tests.models.case import token_batch, token_loss

DEPTHS = (12, 24, 48)
VOCABULARY, CONTEXT, WIDTH, BATCH = 100, 128, 64, 8
RESULTS = Path(__file__).parent / "results" / "compile_time.json"


def measure(layers: int) -> dict[str, float]:
    """Seconds by stage, and "total", for a GPT of `layers` layers."""
    torch.manual_seed(0)
    model = GPT(Shape(vocabulary=VOCABULARY, context=CONTEXT, width=WIDTH, layers=layers))
    optimizer = dmc.optim.AdamW(lr=1e-3, clip_grad_norm=1.0)
    observer = RecordingObserver()
    begin = time.perf_counter()
    compile_artifact(
        model,
        loss=token_loss,
        optimizer=optimizer,
        example=token_batch(0, BATCH, CONTEXT, VOCABULARY),
        observer=observer,
    )
    total = time.perf_counter() - begin
    return {**{stage.name: stage.seconds for stage in observer.times}, "total": total}


def main() -> None:
    """Measures each depth and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    measure(1)  # Imports and caches of PyTorch are not part of the comparison.
    times = {layers: measure(layers) for layers in DEPTHS}
    table = Table("layers", *next(iter(times.values())), "ratio to 12 layers")
    for layers, seconds in times.items():
        ratio = seconds["total"] / times[DEPTHS[0]]["total"]
        table.add_row(str(layers), *(f"{value:.2f} s" for value in seconds.values()), f"{ratio:.2f}")
    Console().print(table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    write_record(options.out, {"seconds": times, "peak_mib": peak})


if __name__ == "__main__":
    main()

"""How compile time grows with depth: a GPT of width 64 with 12, 24 and 48 layers, for the CPU.

`python -m bench.compile_time` prints seconds by stage and the ratio to 12 layers, and writes
`bench/results/compile_time.json`. The stages are those of a process that has compiled before; "fresh" is the total in a
process that has not, as users see it. 48 layers should take at most three times as long as 12.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
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


def _measure_fresh(layers: int) -> float:
    program = f"from bench.compile_time import measure; print(measure({layers})['total'])"
    return float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Measures each depth and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    measure(1)  # PyTorch's one-time setup is in "fresh" only.
    times = {layers: {**measure(layers), "fresh": _measure_fresh(layers)} for layers in DEPTHS}
    first = times[DEPTHS[0]]
    table = Table("layers", *first, "total, ratio", "fresh, ratio")
    for layers, seconds in times.items():
        ratios = [f"{seconds[kind] / first[kind]:.2f}" for kind in ("total", "fresh")]
        table.add_row(str(layers), *(f"{value:.2f} s" for value in seconds.values()), *ratios)
    Console(width=120).print(table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    write_record(options.out, {"seconds": times, "peak_mib": peak})


if __name__ == "__main__":
    main()

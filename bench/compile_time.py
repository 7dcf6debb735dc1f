"""How long compilation takes: by stage, without and with code that was kept on disk, and by depth.

`python -m bench.compile_time` compiles GPTs of width 64 with 12 to 96 layers for the CPU, and GPT-2 124M (16 × 1024
tokens, bf16-mixed) for CUDA, each in fresh processes, as users do: twice on an empty cache ("cold", then "cached"). It
prints seconds by stage, the ratio to 12 layers, and the time to read the file, and writes
`bench/results/compile_time.json`. 96 layers should take at most 1.5 times the passes' time of 24.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import dmc
from bench.gpu_models import MODELS
from bench.record import write_record
from dmc.api import compile_artifact
from dmc.observer import RecordingObserver
from dmc.runtime.files.artifact import Artifact
from examples.gpt import GPT, Shape
from tests.models.case import token_batch, token_loss

DEPTHS = (12, 24, 48, 96)
GPT2 = "gpt2_124m"
CASES = (*map(str, DEPTHS), GPT2)
VOCABULARY, CONTEXT, WIDTH, BATCH = 100, 128, 64, 8
RESULTS = Path(__file__).parent / "results" / "compile_time.json"


def arguments_of(case: str) -> dict[str, Any]:
    """Those of `dmc.compile`."""
    torch.manual_seed(0)
    optimizer = dmc.optim.AdamW(lr=1e-3, clip_grad_norm=1.0)
    if case == GPT2:
        model = MODELS[GPT2]
        step = {"model": model.build(0.0), "loss": model.loss, "example": model.batch(0)}
        return {**step, "optimizer": optimizer, "precision": "bf16-mixed", "target": "cuda", "verify": False}
    model = GPT(Shape(vocabulary=VOCABULARY, context=CONTEXT, width=WIDTH, layers=int(case)))
    example = token_batch(0, BATCH, CONTEXT, VOCABULARY)
    return {"model": model, "loss": token_loss, "optimizer": optimizer, "example": example}


def measure(case: str) -> dict[str, float]:
    """Seconds by stage, "total", and "load": reading the file. The peak of memory in MiB."""
    arguments, observer = arguments_of(case), RecordingObserver()
    begin = time.perf_counter()
    artifact = compile_artifact(**arguments, observer=observer)
    total = time.perf_counter() - begin
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "step.dmc"
        artifact.write(path)
        begin = time.perf_counter()
        Artifact.read(path, to_run=False)
        load = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    stages = {stage.name: stage.seconds for stage in observer.times}
    return {**stages, "total": total, "load": load, "peak_mib": peak}


def _in_fresh_process(case: str, cache: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.compile_time", "--measure", case]
    environment = {**os.environ, "DMC_CACHE": cache}
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(ended.stdout.splitlines()[-1])


def cold_and_cached(case: str) -> dict[str, dict[str, float]]:
    """The times on an empty cache, and again."""
    with tempfile.TemporaryDirectory() as cache:
        return {kind: _in_fresh_process(case, cache) for kind in ("cold", "cached")}


def _print(times: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    names = list(dict.fromkeys(name for kinds in times.values() for each in kinds.values() for name in each))
    table = Table("seconds", "", *names, "total, ratio")
    for case, kinds in times.items():
        for kind, each in kinds.items():
            first = times.get(str(DEPTHS[0]), {}).get(kind) if case.isdecimal() else None
            ratio = f"{each['total'] / first['total']:.2f}" if first else ""
            table.add_row(case, kind, *(f"{each[name]:.2f}" if name in each else "" for name in names), ratio)
    Console(width=180).print(table)


def main() -> None:
    """Measures each case and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--measure", choices=CASES, help="one case, in this process; prints JSON")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    times = {case: cold_and_cached(case) for case in options.cases}
    _print(times)
    write_record(options.out, {"seconds": times})


if __name__ == "__main__":
    main()

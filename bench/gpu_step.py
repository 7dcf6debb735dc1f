"""A training step on one GPU beside PyTorch's, bf16-mixed with the models' own dropout, AdamW and clipping.

`python -m bench.gpu_step prepare DIRECTORY` compiles each model for CUDA on a machine without a GPU and leaves in
DIRECTORY what the GPU machine needs: `<model>.dmc`, with parameters that are zero and so pack small, and the batches.
The largest takes 20 GB of memory here.

`python -m bench.gpu_step run DIRECTORY` trains each on the GPU, one process for each system: dmc's file with
`dmc.runtime` alone, PyTorch eager, torch.compile, the same with max-autotune, and GPT-2 as an expert writes it
(`bench.hand_gpt2`). It writes `bench/results/gpu_step.json` after each; a system that fails is recorded with its error.
The machine needs torch with CUDA, transformers, CuPy and what `dmc.runtime` needs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.record import write_record

MODELS = ("gpt2_124m", "gpt2_355m", "bert_large", "llama_1b", "vit_b16")
SYSTEMS = ("dmc", "eager", "compile", "max-autotune", "hand")
RESULTS = Path(__file__).parent / "results" / "gpu_step.json"
MACHINE = "h200"
_LONGEST_ERROR = 2000


def main() -> int:
    """Prepares or runs; the exit code of a run is 1 where dmc failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--seconds", type=float, default=540.0, help="begin nothing after (default: %(default)s)")
    parser.add_argument("--longest", type=float, default=300.0, help="of one system (default: %(default)s seconds)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.mode == "prepare":
        for model in options.models:
            prepare(model, options.directory)
        return 0
    results = run(options)
    print(_table(results))
    return 1 if any("error" in each for each in results if each["system"] == "dmc") else 0


def prepare(model: str, directory: Path) -> None:
    """Compiles a model for CUDA; prints how long that took, and how large the file is."""
    import numpy as np

    import dmc
    from bench.step_cases import CASES, batch_of
    from bench.step_worker import BATCHES, CLIP, RATE, WEIGHT_DECAY

    begin, case = time.perf_counter(), CASES[model].build()
    for parameter in case.model.parameters():
        parameter.data.zero_()
    artifact = dmc.compile_artifact(
        case.model,
        optimizer=dmc.optim.AdamW(lr=RATE, weight_decay=WEIGHT_DECAY, clip_grad_norm=CLIP),
        example=case.example(0),
        precision="bf16-mixed",
        target="cuda",
        executor="static",
        machine=MACHINE,
        verify=False,
    )
    artifact.write(directory / f"{model}.dmc")
    for seed in range(BATCHES):
        batch = {name: value.numpy() for name, value in batch_of(case, seed).items()}
        np.savez_compressed(directory / f"{model}.{seed}.npz", allow_pickle=False, **batch)
    size = (directory / f"{model}.dmc").stat().st_size
    print(f"{model}: {time.perf_counter() - begin:.0f} s, {size / 1e6:.1f} MB", flush=True)


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures each system on each model, as long as there is time, and writes the record after each."""
    import torch

    deadline = time.monotonic() + options.seconds
    record: dict[str, Any] = {"device": torch.cuda.get_device_name(), "results": []}
    for model in options.models:
        for system in options.systems:
            if system == "hand" and not model.startswith("gpt2"):
                continue
            left = min(options.longest, deadline - time.monotonic())
            found = _measured(model, system, options.directory, left) if left > 0 else {"error": "no time was left"}
            record["results"].append({"model": model, "system": system, **found})
            print(json.dumps(record["results"][-1]), flush=True)
            write_record(options.out, record)
    return record["results"]


def _measured(model: str, system: str, directory: Path, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.step_worker", model, system, str(directory)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"took longer than {seconds:.0f} s"}
    if done.returncode:
        return {"error": done.stderr[-_LONGEST_ERROR:]}
    return json.loads(done.stdout.splitlines()[-1])


def _table(results: Sequence[dict[str, Any]]) -> str:
    """A line for each system: its step, and how many of dmc's fit into it."""
    own = {each["model"]: each["step_ms"] for each in results if each["system"] == "dmc" and "step_ms" in each}
    lines: list[str] = []
    for each in results:
        head = f"{each['model']:12} {each['system']:14}"
        if "error" in each:
            lines.append(f"{head} {each['error'].strip().splitlines()[-1][:100]}")
            continue
        ratio = f"{each['step_ms'] / own[each['model']]:.2f} × dmc" if each["model"] in own else ""
        gib = each["peak_bytes"] / 2**30
        lines.append(
            f"{head} {each['step_ms']:8.1f} ms  {each['mfu']:6.1%}  {gib:6.1f} GiB  host {each['host_us']:8.0f} µs  "
            f"ready {each['ready_s']:6.1f} s  {ratio}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

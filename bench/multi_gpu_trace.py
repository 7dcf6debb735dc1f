"""What the device did in a step of dmc on several GPUs: communication beside computation, from CUPTI's own clock.

`torchrun --nproc-per-node N -m bench.multi_gpu_trace FILE` replays the step in FILE (`bench.multi_gpu prepare`), and
the same plan in one lane, under PyTorch's profiler. For each the first rank prints how long after a step the next
began, the time in which movements ran (NCCL's kernels, and copies between GPUs), and how much of it others ran beside
them, and writes `bench/results/multi_gpu_trace.json`, with every kernel of a step as [name, stream, begin, end] in
microseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bench.gpu_step import start
from bench.multi_gpu import own_batches
from bench.multi_gpu_peers import MODEL
from bench.record import write_record

RESULTS = Path(__file__).parent / "results" / "multi_gpu_trace.json"
WARM, TRACED = 5, 3

Kernel = tuple[str, int, float, float]


def main() -> int:
    """Traces both."""
    from dmc.lowering.stream.one_lane import in_one_lane
    from dmc.runtime import Artifact

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    artifact = Artifact.read(options.file)
    results: dict[str, Any] = {}
    for name, job in (("planned", artifact.job), ("in one lane", in_one_lane(artifact.job))):
        kernels, interval = traced(replace(artifact, job=job), int(options.file.stem.rpartition("@")[2]))
        times = {"interval_ms": interval / 1e3, **overlap(kernels)}
        results[name] = {**times, "kernels": kernels}
        if os.environ["RANK"] == "0":
            print(json.dumps({"schedule": name, **times}), flush=True)
    if os.environ["RANK"] == "0":
        write_record(options.out, {"device": torch.cuda.get_device_name(), "file": options.file.name, **results})
    return 0


def traced(artifact: Any, batch: int) -> tuple[list[Kernel], float]:
    """The kernels of the last of some steps, in order of their beginning; how long after the one before it began."""
    from dmc.runtime import Step
    from dmc.runtime.world.launch import world_from_environment

    world = world_from_environment(os.environ)
    step = Step(artifact, "cuda", world)
    state = step.state_dict()
    state["model"].update(start(MODEL))
    step.load_state_dict(state)
    given = own_batches(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), batch)
    names = [spec.name for spec in step.signature.batch]
    arrays = {name: given[0][name].numpy() for name in names}
    for _ in range(WARM):
        float(step.call_flat(arrays))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        # Queued as in training: one step is launched while the one before runs.
        last = [step.call_flat(arrays) for _ in range(TRACED)][-1]
        float(last)
        torch.cuda.synchronize()
    step.close()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    kernels = [
        (str(each["name"])[:60], int(each["args"].get("stream", 0)), float(each["ts"]), float(each["ts"] + each["dur"]))
        for each in events
        if each.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    return _last_step(sorted(kernels, key=lambda kernel: kernel[2]))


def _last_step(kernels: Sequence[Kernel]) -> tuple[list[Kernel], float]:
    """All steps do the same; times count from the first kernel of the last."""
    count = len(kernels) // TRACED
    begin, before = kernels[-count][2], kernels[-2 * count][2]
    last = [(name, stream, round(a - begin, 2), round(b - begin, 2)) for name, stream, a, b in kernels[-count:]]
    return last, begin - before


def overlap(kernels: Sequence[Kernel]) -> dict[str, float]:
    """Milliseconds of a step, of those in which anything ran, in which movements did, and others beside them."""
    every = _joined([(a, b) for _, _, a, b in kernels])
    moving = _joined([(a, b) for name, _, a, b in kernels if _moves(name)])
    others = _joined([(a, b) for name, _, a, b in kernels if not _moves(name)])
    both = sum(max(0.0, min(b, d) - max(a, c)) for a, b in moving for c, d in others)
    length = sum(b - a for a, b in moving)
    busy = sum(b - a for a, b in every)
    step = max(b for *_, b in kernels)
    return {"step_ms": step / 1e3, "busy_ms": busy / 1e3, "movements_ms": length / 1e3, "hidden_ms": both / 1e3}


def _moves(name: str) -> bool:
    """Whether it is a kernel of NCCL's, or a copy from one GPU to another (of CUPTI's name for it)."""
    return "nccl" in name.lower() or "PtoP" in name


def _joined(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The times in which any of them runs."""
    joined: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


if __name__ == "__main__":
    sys.exit(main())

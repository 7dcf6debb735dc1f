"""A model of the shape of Llama 3 8B, planned for four H100 without weights: `python -m bench.plan_large [LAYERS]`.

Under ZeRO-3 and under tensor parallelism, 8,192 tokens a rank and a batch of 8,192, layers recomputed, in bf16-mixed.
Records in bench/results/plan_large.json, for each plan, the seconds of each stage, those of the processor in all
processes, the peak of resident memory, the size of the file, and the memory that a GPU needs. Kernels come from the
cache on disk where it has them (DMC_CACHE names another).
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

import dmc
from bench.record import write_record
from dmc.observer import RecordingObserver
from dmc.plans import Plan

_LENGTH = 8192
_PLANS = {
    "zero3": (lambda: dmc.plan(dmc.Mesh(dp=4)).data_parallel("dp", zero=3), 4),
    "tp4": (lambda: dmc.plan(dmc.Mesh(tp=4)).use(dmc.plans.megatron("tp")), 1),
}


def _model(layers: int) -> nn.Module:
    sizes: dict[str, Any] = {"hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256}
    heads: dict[str, Any] = {"num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": layers}
    others: dict[str, Any] = {"max_position_embeddings": _LENGTH, "rope_theta": 500000.0, "use_cache": False}
    with torch.device("meta"):
        return LlamaForCausalLM(LlamaConfig(**sizes, **heads, **others))


def _planned(layers: int, plan: Plan, rows: int) -> dict[str, Any]:
    begin, seen, model = time.perf_counter(), RecordingObserver(), _model(layers)
    tokens = torch.zeros(rows, _LENGTH, dtype=torch.int64)
    artifact = dmc.compile_artifact(
        model,
        optimizer=dmc.optim.AdamW(lr=1e-4),
        example={"input_ids": tokens, "labels": tokens.clone()},
        plan=plan.recompute("model.layers.*"),
        target="cuda",
        precision="bf16-mixed",
        observer=seen,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.dmc"
        artifact.write(path)
        size = path.stat().st_size
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "parameters": sum(each.numel() for each in model.parameters()),
        "stages_s": {each.name: round(each.seconds, 1) for each in seen.times},
        "total_s": round(time.perf_counter() - begin, 1),
        "processor_s": round(sum(each.ru_utime + each.ru_stime for each in used), 1),
        "peak_bytes": max(each.ru_maxrss for each in used) * 1024,
        "file_bytes": size,
        "device_bytes": artifact.device_bytes,
        "load": round(os.getloadavg()[0], 1),
    }


def _run(layers: int, name: str, pipe: Any) -> None:
    make, rows = _PLANS[name]
    pipe.send(_planned(layers, make(), rows))


def main() -> int:
    """Plans and records."""
    layers = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    results: dict[str, Any] = {}
    for name in _PLANS:
        # Each in a process of its own, whose peak is its own.
        ours, theirs = multiprocessing.Pipe()
        worker = multiprocessing.get_context("spawn").Process(target=_run, args=(layers, name, theirs))
        worker.start()
        results[name] = ours.recv()
        worker.join()
        print(name, results[name], flush=True)
    path = Path(__file__).parent / "results" / "plan_large.json"
    write_record(path, {"processor_cores": os.cpu_count(), "layers": layers, "results": results})
    return 0


if __name__ == "__main__":
    sys.exit(main())

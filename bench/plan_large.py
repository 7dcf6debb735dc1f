"""Large Llamas, planned without weights for many GPUs: `python -m bench.plan_large [CASE …]`.

Llama 3 8B for four H100, under ZeRO-3 (8,192 tokens a rank) and under tensor parallelism (a batch of 8,192); and 70B
for 64 H200 in nodes of eight, tensor parallel within a node with sequences split, between nodes under ZeRO-3 (8,192
tokens a node) or as a pipeline (16 micro-batches of 8,192 tokens). Layers are recomputed, in bf16-mixed. Records in
bench/results/plan_large.json, for each case, the seconds of each stage, those of the processor in all processes, the
peak of resident memory, the size of the file, the memory that a GPU needs, the predicted step, and how long its
simulation takes. Kernels come from the cache on disk where it has them (DMC_CACHE names another). `CASE:LAYERS` plans
fewer layers.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

import dmc
from bench.record import write_record
from dmc.machine import machine
from dmc.observer import RecordingObserver
from dmc.plans import Plan
from dmc.simulator import simulate

_LENGTH = 8192
RESULTS = Path(__file__).parent / "results" / "plan_large.json"
SIZES: dict[str, dict[str, int]] = {
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32},
    "70b": {"hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64, "num_hidden_layers": 80},
}


@dataclass(frozen=True)
class Case:
    """A model, the plan of its step for a machine, and the rows of its batch."""

    model: str
    machine: str
    rows: int
    plan: Callable[[], Plan]


CASES = {
    "8b zero3": Case("8b", "h100x4", 4, lambda: dmc.plan(dmc.Mesh(dp=4)).data_parallel("dp", zero=3)),
    "8b tp4": Case("8b", "h100x4", 1, lambda: dmc.plan(dmc.Mesh(tp=4)).use(dmc.plans.megatron("tp"))),
    "70b zero3 × tp8": Case(
        "70b",
        "node8",
        8,
        lambda: (
            dmc.plan(dmc.Mesh(dp=8, tp=8))
            .data_parallel("dp", zero=3)
            .use(dmc.plans.megatron_llama("tp", sequence_parallel=True))
        ),
    ),
    "70b pp8 × tp8": Case(
        "70b",
        "node8",
        16,
        lambda: (
            dmc.plan(dmc.Mesh(pp=8, tp=8))
            .use(dmc.plans.megatron_llama("tp", sequence_parallel=True))
            .pipeline("pp", cut="balanced", microbatches=16, schedule="1f1b")
        ),
    ),
}


def _model(size: str, layers: int) -> nn.Module:
    own: dict[str, Any] = {**SIZES[size], "num_hidden_layers": layers or SIZES[size]["num_hidden_layers"]}
    both: dict[str, Any] = {"vocab_size": 128256, "num_key_value_heads": 8, "rope_theta": 500000.0, "use_cache": False}
    with torch.device("meta"):
        return LlamaForCausalLM(LlamaConfig(**own, **both, max_position_embeddings=_LENGTH))


def _planned(case: Case, layers: int) -> dict[str, Any]:
    begin, seen, model = time.perf_counter(), RecordingObserver(), _model(case.model, layers)
    tokens = torch.zeros(case.rows, _LENGTH, dtype=torch.int64)
    artifact = dmc.compile_artifact(
        model,
        optimizer=dmc.optim.AdamW(lr=1e-4),
        example={"input_ids": tokens, "labels": tokens.clone()},
        plan=case.plan().recompute("model.layers.*"),
        target="cuda",
        machine=case.machine,
        precision="bf16-mixed",
        observer=seen,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.dmc"
        artifact.write(path)
        size = path.stat().st_size
    total = time.perf_counter() - begin
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    begin = time.process_time()
    step_ns = simulate(artifact.job, machine(case.machine), fold=True).step_ns
    return {
        "parameters": sum(each.numel() for each in model.parameters()),
        "ranks": artifact.job.size,
        "stages_s": {each.name: round(each.seconds, 1) for each in seen.times},
        "total_s": round(total, 1),
        "processor_s": round(sum(each.ru_utime + each.ru_stime for each in used), 1),
        "peak_bytes": max(each.ru_maxrss for each in used) * 1024,
        "file_bytes": size,
        "device_bytes": artifact.device_bytes,
        "predicted_ms": round(step_ns / 1e6, 1),
        "simulation_s": round(time.process_time() - begin, 1),
        "load": round(os.getloadavg()[0], 1),
    }


def _run(name: str, layers: int, pipe: Any) -> None:
    pipe.send(_planned(CASES[name], layers))


def main() -> int:
    """Plans and records."""
    wanted = sys.argv[1:] or list(CASES)
    known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    results: dict[str, Any] = {name: found for name, found in known.get("results", {}).items() if name in CASES}
    for each in wanted:
        name, _, layers = each.partition(":")
        # Each in a process of its own, whose peak is its own.
        ours, theirs = multiprocessing.Pipe()
        target = multiprocessing.get_context("spawn").Process(target=_run, args=(name, int(layers or 0), theirs))
        target.start()
        found = ours.recv()
        target.join()
        print(each, found, flush=True)
        if not layers:
            results[name] = found
    write_record(RESULTS, {"processor_cores": os.cpu_count(), "results": results})
    return 0


if __name__ == "__main__":
    sys.exit(main())

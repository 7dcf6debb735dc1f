"""Llama-3-8B on four GPUs (or `--ranks`), 8,192 tokens each: dmc under ZeRO-3 beside FSDP2 with torch.compile.

`python -m bench.llama_8b prepare DIRECTORY` plans the step from a model without numbers, on any machine, and writes it
without its state. `torchrun --nproc-per-node 4 -m bench.llama_8b run DIRECTORY --out FILE`, where the GPUs are, writes
random parameters as shards of safetensors to `--weights`, loads them into each system, and adds to FILE what
`bench.large_models` says of a model. `python -m bench.large_models collect FILE` compares.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

import dmc
from bench.gpu_clock import clocked
from bench.gpu_peers import CLIP, DECAY, RATE
from bench.large_models import Result, add, peer_measured
from bench.llama_8b_peers import Fsdp2

RESULTS = Path(__file__).parent / "results" / "large_models.json"
MODEL, LENGTH, CLASSES = "llama3_8b", 8192, 128256
BATCHES, COMPARED = 10, 10
PEERS = {"fsdp2": 1, "fsdp2_half": 2}
_SHARDS = 8


def meta_model(layers: int) -> nn.Module:
    """On the meta device."""
    config = transformers.LlamaConfig(
        vocab_size=CLASSES,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=LENGTH,
        rms_norm_eps=1e-5,
        use_cache=False,
    )
    with torch.device("meta"):
        return transformers.LlamaForCausalLM(config).train()


def main() -> int:
    """Does what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--ranks", type=int, default=4, help="of `prepare`")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--machine", default="h100", help="with one of the GPUs that the plan is for")
    parser.add_argument("--tuning", type=Path, help="of `prepare`: a table of dmc tune")
    parser.add_argument(
        "--weights", type=Path, default=Path("/tmp/llama_8b"), help="of `run`: where shards are written"
    )
    parser.add_argument("--systems", nargs="*", choices=("dmc", *PEERS), default=("dmc", *PEERS))
    parser.add_argument("--profile", type=Path, help="of `run`: where the time of each command of dmc is written")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    return prepare(options) if options.mode == "prepare" else run(options)


def prepare(options: argparse.Namespace) -> int:
    """Plans the step, predicts it, and writes it without its state."""
    from dmc.api import compile_artifact
    from dmc.machine import machine, machine_for
    from dmc.program.tuning import Table
    from dmc.simulator import simulate

    begin, on = time.perf_counter(), machine_for(options.machine, options.ranks)
    tuning = None if options.tuning is None else Table.read(options.tuning)
    artifact = compile_artifact(
        meta_model(options.layers),
        optimizer=dmc.optim.AdamW(lr=RATE, weight_decay=DECAY, clip_grad_norm=CLIP),
        example=batch_of(0, options.ranks),
        precision="bf16-mixed",
        plan=dmc.plan(dmc.Mesh(dp=options.ranks)).use(dmc.plans.zero3("dp")),
        target="cuda",
        machine=on,
        tuning=options.tuning,
    )
    seconds = time.perf_counter() - begin
    path = options.directory / "zero3.dmc"
    replace(artifact, ir={}).write(path, weights=False)
    predicted = simulate(artifact.job, machine(on, tuning)).step_ns / 1e6
    told = {"predicted_ms": predicted, "compile_s": seconds, "bytes": path.stat().st_size, "layers": options.layers}
    path.with_suffix(".json").write_text(json.dumps(told))
    print(f"{predicted:.1f} ms predicted; {seconds:.0f} s, {path.stat().st_size / 1e6:.1f} MB", flush=True)
    return 0


def batch_of(seed: int, ranks: int) -> dict[str, torch.Tensor]:
    """A global batch, a row for each rank."""
    tokens = torch.randint(CLASSES, (ranks, LENGTH), generator=torch.Generator().manual_seed(seed))
    return {"input_ids": tokens, "labels": tokens.clone()}


def run(options: argparse.Namespace) -> int:
    """Measures one system after another; the first rank writes after each."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    told = json.loads((options.directory / "zero3.json").read_text())
    if not (options.weights / _INDEX).exists():
        write_weights(options.weights, meta_model(told["layers"]), rank)
    given = [
        {name: each[rank : rank + 1].contiguous() for name, each in batch_of(seed, ranks).items()}
        for seed in range(BATCHES)
    ]
    for system in options.systems:
        result = _dmc(options, given, told) if system == "dmc" else _peer(system, options, given, told["layers"])
        gc.collect()
        torch.cuda.empty_cache()
        torch.distributed.barrier()
        if rank == 0:
            print(json.dumps(asdict(result)), flush=True)
            add(options.out, result)
    return 0


def _dmc(options: argparse.Namespace, given: list[dict[str, torch.Tensor]], told: dict[str, Any]) -> Result:
    from dmc.runtime import Artifact, Step
    from dmc.runtime.world.launch import world_from_environment

    arrays = [{name: each.numpy() for name, each in batch.items()} for batch in given]
    free, _ = torch.cuda.mem_get_info()
    begin = time.perf_counter()
    step = Step(Artifact.read(options.directory / "zero3.dmc"), "cuda", world_from_environment(os.environ))
    opened = time.perf_counter()
    step.load_weights(options.weights)
    loaded = time.perf_counter()
    if int(os.environ["RANK"]) == 0:
        print(f"dmc: opened in {opened - begin:.1f} s, weights in {loaded - opened:.1f} s", flush=True)

    def call(index: int) -> Any:
        return step.call_flat(arrays[index % BATCHES])

    empty = _empty("zero3", "dmc")
    losses = tuple(float(call(index)) for index in range(COMPARED))
    step_ms, _ = clocked(call)
    left, _ = torch.cuda.mem_get_info()
    if options.profile:
        profile = step.profile()
        if int(os.environ["RANK"]) == 0:
            profile.write(options.profile)
    step.close()
    return replace(empty, step_ms=step_ms, peak_bytes=free - left, losses=losses, predicted_ms=told["predicted_ms"])


def _peer(system: str, options: argparse.Namespace, given: list[dict[str, torch.Tensor]], layers: int) -> Result:
    rates = {"rate": RATE, "decay": DECAY, "clip": CLIP}

    def made() -> tuple[Any, list[dict[str, torch.Tensor]]]:
        return Fsdp2(meta_model(layers), options.weights, PEERS[system], rates), given

    return peer_measured(_empty(system, system), made, COMPARED)


def _empty(plan: str, system: str) -> Result:
    return Result(MODEL, plan, system, int(os.environ["WORLD_SIZE"]), LENGTH, device=torch.cuda.get_device_name())


_INDEX = "model.safetensors.index.json"


def write_weights(folder: Path, net: nn.Module, rank: int) -> None:
    """Random parameters in bf16, as shards of safetensors with their index; each rank writes some of the shards."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    named = [(name, tuple(each.shape)) for name, each in net.named_parameters()]
    files = {name: f"model-{index % _SHARDS:05}-of-{_SHARDS:05}.safetensors" for index, (name, _) in enumerate(named)}
    for shard in range(rank, _SHARDS, torch.distributed.get_world_size()):
        own: dict[str, torch.Tensor] = {}
        for index, (name, shape) in enumerate(named):
            if index % _SHARDS == shard:
                random = torch.Generator("cuda").manual_seed(index)
                drawn = torch.randn(shape, generator=random, device="cuda") * 0.02 + float(len(shape) == 1)
                own[name] = drawn.bfloat16().cpu()
        save_file(own, folder / f"model-{shard:05}-of-{_SHARDS:05}.safetensors")
    if rank == 0:
        (folder / _INDEX).write_text(json.dumps({"metadata": {}, "weight_map": files}))
    torch.distributed.barrier()


if __name__ == "__main__":
    sys.exit(main())

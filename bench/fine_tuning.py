"""Llama-3-8B with LoRA on all linear layers, 2 × 4,096 tokens on one GPU: dmc beside `peft`, eager and compiled.

`python -m bench.fine_tuning prepare DIRECTORY` plans the step under a cap on memory from a model without numbers, on
any machine, and writes it without its weights. `python -m bench.fine_tuning run DIRECTORY --out FILE`, where the GPU
is, writes random weights as shards of safetensors to `--weights` and adds to FILE for each system: the seconds until
its first step is done, tokens a second (the median of five rounds of ten steps), the peak memory, and the losses of the
first steps. `… collect FILE` says of each result whether its losses are those of the first, and prints ratios.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

import dmc
from bench.collected import add, all_agree, collected
from bench.gpu_clock import clocked
from bench.llama_8b import CLASSES, meta_model

RESULTS = Path(__file__).parent / "results" / "fine_tuning.json"
CASE, ROWS, LENGTH, RANK = "llama3_8b_lora16", 2, 4096, 16
RATE, BATCHES, COMPARED = 1e-4, 4, 6
PEERS = ("peft", "peft-compiled")
_SHARDS = 8


@dataclass(frozen=True)
class Result:
    """One system. ready_s: from opening a file or building a model until the first step is done."""

    case: str
    system: str
    tokens_per_s: float = 0.0
    step_ms: float = 0.0
    peak_bytes: int = 0
    ready_s: float = 0.0
    losses: tuple[float, ...] = ()
    predicted_ms: float | None = None
    agrees: bool | None = None
    failed: str = ""
    device: str = ""


def main() -> int:
    """Does what the command line asks for; the exit code of `collect` is 1 where losses differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run", "collect"))
    parser.add_argument("directory", type=Path, help="of `collect`: a file of results")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--machine", default="h100")
    parser.add_argument("--memory-cap", type=int, default=30_000_000_000, help="bytes; of `prepare`")
    parser.add_argument(
        "--weights", type=Path, default=Path("/tmp/fine_tuning"), help="of `run`: where they are written"
    )
    parser.add_argument("--systems", nargs="*", choices=("dmc", *PEERS), default=("dmc", *PEERS))
    parser.add_argument("--profile", type=Path, help="of `run`: where the time of each command of dmc is written")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.mode == "collect":
        return collect(options.directory)
    options.directory.mkdir(parents=True, exist_ok=True)
    return prepare(options) if options.mode == "prepare" else run(options)


def adapted(layers: int) -> Any:
    """The model on the meta device, its frozen weights in bf16, its adapters in f32, as `peft` makes them."""
    from peft import LoraConfig, get_peft_model

    base: Any = meta_model(layers)
    # As `from_pretrained` does: buffers, such as the frequencies of rotary embeddings, keep their type.
    for parameter in base.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    config = LoraConfig(r=RANK, lora_alpha=2 * RANK, lora_dropout=0.0, target_modules="all-linear")
    with torch.device("meta"):
        return get_peft_model(base, config).train()


def prepare(options: argparse.Namespace) -> int:
    """Plans the step and predicts it."""
    from dmc.api import compile_artifact
    from dmc.machine import machine
    from dmc.simulator import simulate

    begin = time.perf_counter()
    artifact = compile_artifact(
        adapted(options.layers),
        optimizer=dmc.optim.AdamW(lr=RATE),
        example=batch_of(0),
        precision="bf16-mixed",
        target="cuda",
        machine=options.machine,
        memory_cap=options.memory_cap,
    )
    path = options.directory / f"{CASE}.dmc"
    replace(artifact, ir={}).write(path, weights=False)
    predicted = simulate(artifact.job, machine(options.machine)).step_ns / 1e6
    path.with_suffix(".json").write_text(json.dumps({"predicted_ms": predicted, "layers": options.layers}))
    seconds, size = time.perf_counter() - begin, path.stat().st_size / 1e6
    peak = artifact.job.peaks()["device"] / 1e9
    print(f"{predicted:.1f} ms predicted, {peak:.1f} GB; {seconds:.0f} s, {size:.1f} MB", flush=True)
    return 0


def batch_of(seed: int) -> dict[str, torch.Tensor]:
    """A batch."""
    tokens = torch.randint(CLASSES, (ROWS, LENGTH), generator=torch.Generator().manual_seed(seed))
    return {"input_ids": tokens, "labels": tokens.clone()}


def run(options: argparse.Namespace) -> int:
    """Measures one system after another, and writes after each."""
    told = json.loads((options.directory / f"{CASE}.json").read_text())
    write_weights(options.weights, told["layers"])
    runs: dict[str, Callable[[], Result]] = {
        "dmc": lambda: _dmc(options, told),
        **{system: lambda system=system: _peer(system, options, told) for system in PEERS},
    }
    for system in options.systems:
        result = replace(runs[system](), device=torch.cuda.get_device_name())
        gc.collect()
        torch.cuda.empty_cache()
        print(json.dumps(asdict(result)), flush=True)
        add(options.out, result, lambda each: (each.case, each.system))
    return 0


def write_weights(folder: Path, layers: int) -> None:
    """Random parameters, in shards of safetensors with their index: second factors of adapters are zero."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    index = folder / "model.safetensors.index.json"
    if index.exists():
        return
    named = list(adapted(layers).named_parameters())
    files = {name: f"model-{number % _SHARDS:05}-of-{_SHARDS:05}.safetensors" for number, (name, _) in enumerate(named)}
    for shard in sorted(set(files.values())):
        own: dict[str, torch.Tensor] = {}
        for number, (name, each) in enumerate(named):
            if files[name] == shard:
                random = torch.Generator("cuda").manual_seed(number)
                drawn = torch.randn(each.shape, generator=random, device="cuda") * 0.02 + float(each.dim() == 1)
                own[name] = (drawn * (0.0 if ".lora_B." in name else 1.0)).to(each.dtype).cpu()
        save_file(own, folder / shard)
    index.write_text(json.dumps({"metadata": {}, "weight_map": files}))


def _dmc(options: argparse.Namespace, told: dict[str, Any]) -> Result:
    from dmc.runtime import Artifact, Step

    names = ("input_ids", "labels")
    given = [{name: batch_of(seed)[name].numpy() for name in names} for seed in range(BATCHES)]
    free, _ = torch.cuda.mem_get_info()
    begin = time.perf_counter()
    step = Step(Artifact.read(options.directory / f"{CASE}.dmc"), "cuda")
    step.load_weights(options.weights)

    def call(index: int) -> Any:
        return step.call_flat(given[index % BATCHES])

    losses = [float(call(0))]
    ready = time.perf_counter() - begin
    losses += [float(call(index)) for index in range(1, COMPARED)]
    step_ms, _ = clocked(call)
    left, _ = torch.cuda.mem_get_info()
    if options.profile:
        step.profile().write(options.profile)
    step.close()
    return _result("dmc", step_ms, free - left, ready, losses, told["predicted_ms"])


def _peer(system: str, options: argparse.Namespace, told: dict[str, Any]) -> Result:
    torch.compiler.reset()
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    net = _loaded(options.weights, told["layers"])
    net.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if system == "peft-compiled":
        for block in net.base_model.model.model.layers:
            block.compile()
    trained = [each for each in net.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, fused=True)
    given = [{name: value.cuda() for name, value in batch_of(seed).items()} for seed in range(BATCHES)]

    def call(index: int) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            loss = net(**given[index % BATCHES]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    losses = [float(call(0))]
    ready = time.perf_counter() - begin
    losses += [float(call(index)) for index in range(1, COMPARED)]
    step_ms, _ = clocked(call)
    return _result(system, step_ms, torch.cuda.max_memory_allocated(), ready, losses, None)


def _loaded(folder: Path, layers: int) -> Any:
    """The model on the GPU with its weights."""
    from safetensors.torch import load_file

    net: Any = adapted(layers)
    rotary: Any = net.base_model.model.model.rotary_emb
    made = type(rotary)(rotary.config).cuda()
    net.to_empty(device="cuda")
    net.base_model.model.model.rotary_emb = made
    files = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    named: dict[str, nn.Parameter] = dict(net.named_parameters())
    for shard in sorted(set(files.values())):
        for name, tensor in load_file(folder / shard, device="cuda").items():
            named[name].data.copy_(tensor)
    return net


def _result(
    system: str, step_ms: float, peak: int, ready: float, losses: list[float], predicted: float | None
) -> Result:
    rate = ROWS * LENGTH / step_ms * 1e3
    return Result(CASE, system, rate, step_ms, peak, ready, tuple(losses), predicted)


def collect(out: Path) -> int:
    """Says of each result whether its losses are those of the first, and prints ratios."""
    pairs = collected(out, Result, lambda each: each.case)
    for each, base in pairs:
        told = "" if each.predicted_ms is None else f", predicted {each.predicted_ms:.1f}"
        print(
            f"{each.case} {each.system:14} {each.tokens_per_s:8,.0f} tokens/s, {each.step_ms:7.1f} ms{told}, "
            f"{each.peak_bytes / 1e9:5.1f} GB, ready after {each.ready_s:.1f} s, "
            f"{each.tokens_per_s / base.tokens_per_s:.2f} × {base.system}"
        )
    return 0 if all_agree(pairs) else 1


if __name__ == "__main__":
    sys.exit(main())

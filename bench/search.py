"""The plans that dmc finds beside those written by hand, for four simulated H100: `python -m bench.search`.

For each model and cap (a part of what the fastest plan by hand needs without one): the seconds of the search, of which
`processor_s` on this process's processor, the predicted step of the plan found, and that of the best of the ready-made
plans, all planned whole. Models are on the meta device. Writes `bench/results/search.json`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import dmc
from bench.record import write_record
from dmc.errors import MemoryCapError
from dmc.importer.forward.precision import Precision
from dmc.plans import Plan, Recipe
from dmc.search import Problem, find, written
from dmc.search.trial import Trial, Trials

RESULTS = Path(__file__).parent / "results" / "search.json"
MACHINE, RANKS = "h100x4", 4
_Made = tuple[nn.Module, int, int, Callable[..., Recipe]]


def _gpt2() -> _Made:
    return GPT2LMHeadModel(GPT2Config(use_cache=False)), 16, 1024, dmc.plans.megatron_gpt2


def _bert() -> _Made:
    sizes: dict[str, Any] = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
    return BertForMaskedLM(BertConfig(**sizes, intermediate_size=4096)), 32, 512, dmc.plans.megatron_bert


def _llama() -> _Made:
    sizes: dict[str, Any] = {"hidden_size": 2048, "intermediate_size": 5632, "vocab_size": 32000, "use_cache": False}
    heads: dict[str, Any] = {"num_attention_heads": 32, "num_key_value_heads": 4, "num_hidden_layers": 22}
    config = LlamaConfig(**sizes, **heads, max_position_embeddings=2048)
    return LlamaForCausalLM(config), 4, 2048, dmc.plans.megatron_llama


# Each with the rows and the length of a batch, and its tensor parallelism by hand.
MODELS: dict[str, Callable[[], _Made]] = {"gpt2_124m": _gpt2, "bert_large": _bert, "llama_1b": _llama}


def problem_of(name: str) -> tuple[Problem, Callable[..., Recipe]]:
    """The step of a model, and its tensor parallelism by hand."""
    with torch.device("meta"):
        model, rows, length, megatron = MODELS[name]()
    tokens = torch.zeros(rows, length, dtype=torch.int64)
    example = {"input_ids": tokens, "labels": tokens.clone()}
    optimizer = dmc.optim.AdamW(lr=1e-4, clip_grad_norm=1.0)
    given = (model.train(), None, optimizer, example, Precision.BF16_MIXED)
    return Problem(*given, target="cuda", machine=MACHINE, ranks=RANKS), megatron


def by_hand(megatron: Callable[..., Recipe]) -> dict[str, Plan]:
    """Ready-made plans for four ranks."""
    data, tensor, both = dmc.plan(dmc.Mesh(dp=4)), dmc.plan(dmc.Mesh(tp=4)), dmc.plan(dmc.Mesh(dp=2, tp=2))
    zero = {f"zero{stage}": data.data_parallel("dp", zero=stage) for stage in (1, 2, 3)}
    return {
        "data_parallel": data.data_parallel("dp"),
        **zero,
        "megatron": tensor.use(megatron("tp")),
        "megatron, sequence": tensor.use(megatron("tp", sequence_parallel=True)),
        "zero2 × megatron": both.data_parallel("dp", zero=2).use(megatron("tp")),
    }


def _planned(problem: Problem, plans: dict[str, Plan], is_estimate: bool) -> Iterator[tuple[str, Trial]]:
    """Whole plans under the cap; those that do not fit are left out."""
    trials = Trials()
    for name, plan in plans.items():
        try:
            yield name, trials.planned(problem, plan, 1, cap=problem.memory_cap, is_estimate=is_estimate)
        except MemoryCapError as error:
            print(f"  {name}: needs {error.needed * 1e-9:.2f} GB", flush=True)


def results_of(name: str, caps: tuple[float, ...]) -> Iterator[dict[str, Any]]:
    """The lines of a model."""
    problem, megatron = problem_of(name)
    plans = by_hand(megatron)
    free = dict(_planned(problem, plans, is_estimate=True))
    peak = min(free.values(), key=lambda each: each.ns).bytes
    for cap in caps:
        capped = replace(problem, memory_cap=0 if cap == 1.0 else int(cap * peak))
        hand = free if cap == 1.0 else dict(_planned(capped, plans, is_estimate=False))
        best = min(hand, key=lambda each: hand[each].ns) if hand else None
        processor = time.process_time()
        found = find(capped)
        yield {
            "model": name,
            "machine": MACHINE,
            "cap": cap,
            "cap_bytes": capped.memory_cap,
            "system": "dmc",
            "seconds": round(found.seconds, 1),
            "processor_s": round(time.process_time() - processor, 1),
            "plans": found.planned,
            "found": written(found.plan),
            "found_ms": found.best.trial.ns * 1e-6,
            "found_bytes": found.best.trial.bytes,
            "estimated_ms": found.best.estimate.ns * 1e-6,
            "estimated_bytes": found.best.estimate.bytes,
            "best_by_hand": best,
            "best_by_hand_ms": None if best is None else hand[best].ns * 1e-6,
            "by_hand_ms": {each: trial.ns * 1e-6 for each, trial in hand.items()},
        }


def main() -> int:
    """Searches, prints and records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=tuple(MODELS), default=tuple(MODELS))
    parser.add_argument("--caps", nargs="+", type=float, default=(1.0,))
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    for name in options.models:
        for each in results_of(name, tuple(options.caps)):
            found.append(each)
            print({key: each[key] for key in ("model", "cap", "seconds", "found_ms", "best_by_hand_ms")}, flush=True)
            write_record(RESULTS, {"device": f"simulated {MACHINE}", "cores": os.cpu_count(), "results": found})
    table = Table("model", "cap", "search s", "found ms", "by hand ms", "by hand")
    for each in found:
        hand = "" if each["best_by_hand_ms"] is None else f"{each['best_by_hand_ms']:.2f}"
        numbers = (f"{each['seconds']:.0f}", f"{each['found_ms']:.2f}", hand)
        table.add_row(each["model"], f"{each['cap']:.2f}", *numbers, each["best_by_hand"] or "none fits")
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

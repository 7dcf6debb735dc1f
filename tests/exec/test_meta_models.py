"""Models on the device meta: planned without their weights, they train as the same model with weights does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

import dmc
from dmc import dialect
from dmc.compiled_step import CompiledStep
from dmc.errors import ArtifactError, ImportFailure, StateError
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.importer.torch_internals import parameters_of
from dmc.walk import walk
from tests.compiled import assert_same_bits, call

ROOT = Path(__file__).parents[2]
CLASSES = 96
SIZES: dict[str, Any] = {"vocab_size": CLASSES, "bos_token_id": 1, "eos_token_id": 2}
CONFIGS: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=16, **SIZES),
    "llama": lambda: LlamaConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=64,
        tie_word_embeddings=True,
        **SIZES,
    ),
}
OPTIMIZER = dmc.optim.AdamW(lr=1e-2, clip_grad_norm=1.0)


@contextmanager
def empty_weights() -> Generator[None]:
    """As `accelerate.init_empty_weights`: parameters are moved as they are registered, buffers stay, ties break."""
    register = nn.Module.register_parameter

    def registered(module: nn.Module, name: str, param: nn.Parameter | None) -> None:
        register(module, name, param)
        if param is not None:
            parameters_of(module)[name] = type(param)(param.to("meta"), requires_grad=param.requires_grad)

    with mock.patch.object(nn.Module, "register_parameter", registered):
        yield


CONTEXTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "device": lambda: torch.device("meta"),
    "empty weights": empty_weights,
}


def batch(seed: int = 0) -> dict[str, torch.Tensor]:
    ids = torch.randint(0, CLASSES, (4, 16), generator=torch.Generator().manual_seed(seed))
    return {"input_ids": ids, "labels": ids}


def compiled(model: nn.Module, **options: Any) -> CompiledStep:
    return dmc.compile(model, optimizer=OPTIMIZER, example=batch(), progress=False, **options)


def losses(step: CompiledStep) -> list[float]:
    return [float(call(step, batch(seed))) for seed in range(3)]


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", CONFIGS)
def test_it_trains_as_the_model_with_weights(name: str, context: str, tmp_path: Path) -> None:
    config = CONFIGS[name]()
    torch.manual_seed(0)
    whole = AutoModelForCausalLM.from_config(config)
    whole.save_pretrained(tmp_path)
    with CONTEXTS[context]():
        empty = AutoModelForCausalLM.from_config(config)
    devices = {name: tensor.device.type for name, tensor in (*empty.named_parameters(), *empty.named_buffers())}
    step, other = compiled(empty, precision="bf16-mixed"), compiled(whole, precision="bf16-mixed", verify=False)
    now = {name: tensor.device.type for name, tensor in (*empty.named_parameters(), *empty.named_buffers())}
    assert now == devices, "the user's model is as it was"
    step.load_weights(tmp_path)
    assert losses(step) == losses(other)
    assert_same_bits(step.state_dict(), other.state_dict())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("zero", [2, 3])
def test_ranks_take_their_parts(precision: str, zero: int, tmp_path: Path) -> None:
    config = CONFIGS["llama"]()
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(config)
    whole = AutoModelForCausalLM.from_config(config)
    whole.save_pretrained(tmp_path, max_shard_size="10kB")
    mesh = dmc.Mesh(dp=2, tp=2)
    plan = dmc.plan(mesh).data_parallel("dp", zero=zero).use(dmc.plans.megatron("tp"))
    options: dict[str, Any] = {"plan": plan, "precision": precision}
    step, other = compiled(empty, **options), compiled(whole, verify=False, **options)
    step.load_weights(tmp_path)
    assert step.differing_replicas() == ()
    assert losses(step) == losses(other)
    assert_same_bits(step.state_dict(), other.state_dict())


def test_nobody_reads_what_stands_in_for_weights(tmp_path: Path) -> None:
    """Reading it would end the process: its memory may not be touched."""
    script = """
import ctypes
from dmc.importer.capture import stand_ins
from tests.exec.test_meta_models import CONFIGS, AutoModelForCausalLM, compiled, torch
untouched, libc = stand_ins._untouched, ctypes.CDLL(None, use_errno=True)
def forbidden(like, dtype):
    tensor = untouched(like, dtype)
    size = tensor.untyped_storage().nbytes()
    assert libc.mprotect(ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(size), 0) == 0
    return tensor
stand_ins._untouched = forbidden
for name, precision in (("gpt2", "fp32"), ("llama", "bf16")):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(CONFIGS[name]())
    compiled(model, evaluation=True, precision=precision).save("step.dmc")
print("done")
"""
    assert run_in(script, tmp_path).endswith("done\n")


def test_a_large_model_takes_no_memory(tmp_path: Path) -> None:
    """Three gigabytes of parameters and six of their state, which the compiler never holds, nor a file."""
    script = """
import resource, torch, dmc
from torch import nn
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
def artifact(width):
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(width, width) for _ in range(3)))
    example = torch.zeros(2, width), torch.zeros(2, width)
    return dmc.compile_artifact(
        model, loss=nn.functional.mse_loss, optimizer=dmc.optim.AdamW(lr=0.1), example=example, target="cuda",
        progress=False,
    )
artifact(64)
before = peak()
artifact(16384).write("step.dmc")
print(peak() - before)
"""
    assert int(run_in(script, tmp_path)) < 300e6
    assert (tmp_path / "step.dmc").stat().st_size < 2e6


def run_in(script: str, folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Positions(nn.Module):
    """Has numbers that its `reset_parameters` computes, some that it draws, and some that nobody gives."""

    numbers: torch.Tensor

    def __init__(self, kind: str, persistent: bool) -> None:
        super().__init__()
        self.kind, self.weight = kind, nn.Parameter(torch.ones(8))
        self.register_buffer("numbers", torch.arange(8.0), persistent=persistent)

    def reset_parameters(self) -> None:
        if self.kind == "computed":
            self.numbers.copy_(torch.arange(8.0))
        if self.kind == "half":
            self.numbers[:4] = torch.arange(4.0)
        if self.kind == "drawn":
            self.numbers.normal_()
        if self.kind == "raises":
            raise RuntimeError("not on this device")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + self.numbers


def positions(kind: str, persistent: bool) -> CompiledStep:
    with torch.device("meta"):
        model = Positions(kind, persistent)
    options: dict[str, Any] = {"loss": nn.functional.mse_loss, "optimizer": dmc.optim.SGD(lr=0.1), "progress": False}
    step = dmc.compile(model, example=(torch.randn(2, 8), torch.randn(2, 8)), **options)
    assert model.numbers.is_meta and model.weight.is_meta
    return step


def test_a_buffer_that_its_module_computes_has_its_numbers() -> None:
    step = positions("computed", persistent=False)
    step.load_state_dict({"model": {"weight": torch.ones(8)}})
    assert torch.equal(step.state_dict().get("other", {})["numbers"], torch.arange(8.0))


@pytest.mark.parametrize("kind", ["none", "half", "drawn", "raises"])
def test_a_buffer_that_is_not_computed_for_sure_is_refused_or_loaded(kind: str) -> None:
    with pytest.raises(ImportFailure, match=r"^numbers: is a buffer on the device 'meta', which no file"):
        positions(kind, persistent=False)
    step = positions(kind, persistent=True)
    with pytest.raises(StateError, match=r"has no weights yet: 2 tensors .* \(numbers, weight\)"):
        step.state_dict()
    given = {"weight": torch.ones(8), "numbers": torch.full([8], 2.0)}
    step.load_state_dict({"model": given})
    assert_same_bits(step.state_dict()["model"], given)


def test_a_file_without_weights_stays_without_until_they_are_loaded(tmp_path: Path) -> None:
    config = CONFIGS["gpt2"]()
    whole = AutoModelForCausalLM.from_config(config)
    whole.save_pretrained(tmp_path)
    options: dict[str, Any] = {"optimizer": OPTIMIZER, "example": batch(), "progress": False, "evaluation": True}
    artifact = dmc.compile_artifact(whole, verify=False, **options)
    artifact.write(tmp_path / "whole.dmc")
    artifact.write(tmp_path / "none.dmc", weights=False)
    sizes = [(tmp_path / name).stat().st_size for name in ("whole.dmc", "none.dmc")]
    assert sizes[0] - sizes[1] >= sum(4 * each.numel() for each in whole.parameters())
    dmc.load(tmp_path / "none.dmc").save(tmp_path / "again.dmc")
    assert (tmp_path / "again.dmc").read_bytes() == (tmp_path / "none.dmc").read_bytes()
    step, other = dmc.load(tmp_path / "again.dmc"), dmc.load(tmp_path / "whole.dmc")
    unready: list[Callable[[], Any]] = [
        lambda: call(step, batch()),
        lambda: step.evaluate(**batch()),
        step.state_dict,
        lambda: step.rank_state_dict(0),
        lambda: step.save_weights(tmp_path / "weights"),
        lambda: dmc.runtime.Checkpoints(step, tmp_path / "checkpoints").save(),
    ]
    for use in unready:
        with pytest.raises(StateError, match=r"has no weights yet.*\n  hint: call step.load_weights"):
            use()
    with pytest.raises(ArtifactError, match="has no weights: 28 tensors of its state have no numbers yet"):
        dmc.load(tmp_path / "none.dmc", state_only=True)
    step.load_weights(tmp_path)
    assert float(step.evaluate(**batch())) == float(other.evaluate(**batch()))
    assert losses(step) == losses(other)


def test_numbers_do_not_go_to_where_none_are(tmp_path: Path) -> None:
    step = positions("computed", persistent=False)
    step.load_state_dict({"model": {"weight": torch.ones(8)}})
    with torch.device("meta"):
        model = Positions("computed", persistent=False)
    with pytest.raises(StateError, match=r"has 'weight' on the device 'meta', where"):
        step.update(model)


def test_activations_may_be_larger_than_memory(context: Any) -> None:
    """Logits of 18 TB: whatever is traced has no memory."""
    classes, tokens = 1 << 20, 1 << 22
    with torch.device("meta"):
        model = nn.Sequential(nn.Embedding(classes, 8), nn.GELU(), nn.Linear(8, classes))
    example = torch.zeros(tokens, dtype=torch.int64), torch.zeros(tokens, dtype=torch.int64)
    loss = nn.functional.cross_entropy
    imported = import_step(model, loss, OPTIMIZER, example, Precision.FP32, 1, 0, context)
    kinds = {op.opview.kind.value for op in walk(imported.module) if op.name == dialect.CompositeOp.OPERATION_NAME}
    assert {"gelu", "softmax_cross_entropy"} <= kinds

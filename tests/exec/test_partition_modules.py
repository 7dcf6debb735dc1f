"""Small modules under random placements of all that they take: attention, losses, embeddings, norms, dropout."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import dmc.optim
from dmc._mlir import ir
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.mesh import Mesh
from dmc.placement.placement import Placement
from dmc.walk import walk
from tests.partitioned import place, run_on_all_ranks, run_on_one_rank
from tests.placements import random_placement

BATCH, LENGTH, WIDTH, HEAD, ROWS = 4, 4, 8, 4, 8
MESHES = (Mesh(a=2), Mesh(a=4), Mesh(a=2, b=2), Mesh(a=4, b=2), Mesh(a=2, b=2, c=2))
# Scalars, which nothing splits.
WHOLE = ("step", "seed", "lr", "guard")
IGNORED = -100
# Of the largest element. In bf16 each rank's contribution to a gradient is rounded.
TOLERANCE = {Precision.FP32: 2e-5, Precision.BF16: 3e-2}


class Attention(nn.Module):
    """f32[BATCH, LENGTH, WIDTH] → the same; `bias` is the shape of what is added to the scores, and trained."""

    def __init__(self, heads: int, keys: int, bias: tuple[int, ...] = (), causal: bool = False, p: float = 0.0) -> None:
        super().__init__()
        self.q, self.out = nn.Linear(WIDTH, heads * HEAD), nn.Linear(heads * HEAD, WIDTH)
        self.k, self.v = nn.Linear(WIDTH, keys * HEAD), nn.Linear(WIDTH, keys * HEAD)
        self.bias = nn.Parameter(torch.randn(bias)) if bias else None
        self.causal, self.p, self.is_grouped = causal, p, heads != keys

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (each(x).unflatten(2, (-1, HEAD)).transpose(1, 2) for each in (self.q, self.k, self.v))
        attended = functional.scaled_dot_product_attention(
            q, k, v, self.bias, self.p, self.causal, enable_gqa=self.is_grouped
        )
        return self.out(attended.transpose(1, 2).flatten(2))


class Lookup(nn.Module):
    """i64[BATCH, LENGTH] → logits f32[BATCH · LENGTH, rows]."""

    def __init__(self, rows: int, padding: int | None = None, dropout: float = 0.0, is_tied: bool = False) -> None:
        super().__init__()
        self.embedding, self.dropout = nn.Embedding(rows, WIDTH, padding), nn.Dropout(dropout)
        self.head = nn.Linear(WIDTH, rows)
        if is_tied:
            self.head.weight = self.embedding.weight

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.dropout(self.embedding(index)))).flatten(0, 1)


class Normalised(nn.Module):
    """f32[BATCH, 4, 4, 4] → f32[BATCH, 4]: batch norm over images and over rows, layer norm over two dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.plane, self.head, self.rows = nn.LayerNorm([2, 2]), nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        pooled = functional.max_pool2d(torch.relu(self.norm(self.convolution(image))), 2)
        return self.rows(self.head(self.plane(pooled).amax((2, 3))))


def _squares(y: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return ((y - targets) * (y - targets)).mean()


def _entropy(**options: Any) -> Callable[..., torch.Tensor]:
    return lambda y, targets: functional.cross_entropy(y, targets.flatten(), ignore_index=IGNORED, **options)


def _vectors() -> tuple[torch.Tensor, ...]:
    return torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, LENGTH, WIDTH)


def _images() -> tuple[torch.Tensor, ...]:
    return torch.randn(BATCH, 4, 4, 4), torch.randint(4, (BATCH,))


def _tokens(rows: int = ROWS, ignored: int = 0, first: int = 0, batch: int = BATCH) -> Callable[[], Any]:
    """Tokens and targets, of which the first few are ignored, so that ranks count different numbers of them."""

    def make() -> tuple[torch.Tensor, ...]:
        tokens, targets = torch.randint(rows, (batch, LENGTH)), torch.randint(rows, (batch, LENGTH))
        tokens[0, 0] = first
        targets.view(-1)[:ignored] = IGNORED
        return tokens, targets

    return make


@dataclass(frozen=True)
class Case:
    model: Callable[[], nn.Module]
    loss: Callable[..., torch.Tensor]
    batch: Callable[[], tuple[torch.Tensor, ...]]
    precision: Precision = Precision.FP32
    accumulate: int = 1


CASES = {
    "grouped": Case(lambda: Attention(4, 2, causal=True), _squares, _vectors),
    "attention_dropout": Case(lambda: Attention(4, 4, causal=True, p=0.3), _squares, _vectors),
    "grouped_dropout": Case(lambda: Attention(4, 2, (BATCH, 1, 1, LENGTH), p=0.3), _squares, _vectors),
    "bias_of_heads": Case(lambda: Attention(4, 4, (1, 4, LENGTH, LENGTH)), _squares, _vectors),
    "bias_of_batches": Case(lambda: Attention(4, 2, (BATCH, 1, 1, LENGTH)), _squares, _vectors),
    "entropy": Case(lambda: Lookup(ROWS), _entropy(label_smoothing=0.2), _tokens(ignored=7)),
    "entropy_summed": Case(lambda: Lookup(ROWS), _entropy(reduction="sum"), _tokens(ignored=3)),
    "padding": Case(lambda: Lookup(ROWS, padding=3), _entropy(), _tokens(first=3)),
    "many_rows": Case(lambda: Lookup(32, padding=3), _entropy(), _tokens(rows=32, first=3)),
    "out_of_range": Case(lambda: Lookup(ROWS), _entropy(), _tokens(first=ROWS)),
    "nothing_counted": Case(lambda: Lookup(ROWS), _entropy(), _tokens(ignored=BATCH * LENGTH)),
    "bf16": Case(lambda: Lookup(ROWS), _entropy(), _tokens(), Precision.BF16),
    "tied": Case(
        lambda: Lookup(ROWS, dropout=0.3, is_tied=True), _entropy(), _tokens(ignored=5, batch=2 * BATCH), accumulate=2
    ),
    "normalised": Case(Normalised, _entropy(), _images),
}


@dataclass(frozen=True)
class Step:
    """text: form imported. arguments and results: by name; the results are those of one rank."""

    text: str
    arguments: Mapping[str, np.ndarray[Any, Any]]
    results: Mapping[str, np.ndarray[Any, Any]]


def _step(case: Case, context: Any) -> Step:
    torch.manual_seed(0)
    model, batch = case.model().train(), case.batch()
    optimizer = dmc.optim.SGD(lr=0.1, momentum=0.9, clip_grad_norm=1.0)
    imported = import_step(model, case.loss, optimizer, batch, case.precision, case.accumulate, 0, context)
    signature = imported.signature
    arguments = {spec.name: _array(imported.state[spec.name], spec.dtype) for spec in signature.state}
    arguments |= {"lr": np.array([0.1], np.float32), "guard": np.array(0, np.int32)}
    arguments |= {spec.name: _array(tensor, spec.dtype) for spec, tensor in zip(signature.batch, batch, strict=True)}
    results = run_on_one_rank(imported.module, list(arguments.values()))
    names = [spec.name for spec in (*signature.state, *signature.outputs) if getattr(spec, "mutated", True)]
    return Step(str(imported.module), arguments, dict(zip(names, results, strict=True)))


def _array(tensor: torch.Tensor, dtype: str) -> np.ndarray[Any, Any]:
    wide = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    return wide.numpy().astype(ml_dtypes.bfloat16) if dtype == "bf16" else wide.numpy().copy()


def _compare(step: Step, mesh: Mesh, placements: Mapping[str, Placement], tolerance: float) -> ir.Module:
    """Compares all ranks with one; the module of a rank."""
    module = ir.Module.parse(step.text)
    place(module, mesh, placements)
    results, _ = run_on_all_ranks(module, mesh, list(step.arguments.values()))
    for result, (name, whole) in zip(results, step.results.items(), strict=True):
        expected = whole.astype(np.float64)
        atol = tolerance * max(np.abs(np.nan_to_num(expected)).max(initial=0.0), 0.02)
        np.testing.assert_allclose(result, expected, rtol=0, atol=atol, err_msg=f"{name} {mesh} {placements}")
    return module


@pytest.mark.parametrize("name", CASES)
def test_modules(context: Any, name: str) -> None:
    step = _step(CASES[name], context)
    for seed in range(2):
        choose = random.Random(f"{name} {seed}").randrange
        mesh = MESHES[choose(len(MESHES))]
        split = {key: array for key, array in step.arguments.items() if key not in WHOLE}
        placements = {key: random_placement(choose, mesh, array.shape) for key, array in split.items()}
        _compare(step, mesh, placements, TOLERANCE[CASES[name].precision])


# The batch over a, heads over b or c, which split queries, keys and values side by side; grouped heads are repeated.
@pytest.mark.parametrize("name", ["attention_dropout", "grouped_dropout"])
def test_attention_with_dropout_is_whole_on_each_rank(context: Any, name: str) -> None:
    step, tolerance = _step(CASES[name], context), TOLERANCE[Precision.FP32]
    rows = {f"{each}.{kind}": 2 if kind == "weight" else 1 for each in "qkv" for kind in ("weight", "bias")}
    for mesh, split in ((Mesh(a=4), "a"), (Mesh(b=2), "b"), (Mesh(a=2, b=2), "ab"), (Mesh(c=2, a=2, b=1), "ac")):
        heads = split[-1] if split[-1] != "a" else ""
        placements = {key: Placement([[heads], *[[]] * (rank - 1)]) for key, rank in rows.items() if heads}
        if "a" in split:
            placements["x"] = Placement([["a"], [], []])
        module = _compare(step, mesh, placements, tolerance)
        composites = [op for op in walk(module.operation) if op.name == "dm.composite"]
        parts = [op.attributes["kind"].value for op in composites if "whole_1" in op.attributes["parameters"]]
        assert parts == ["attention", "attention_backward"], mesh


def test_what_is_out_of_range_is_nan_on_every_rank(context: Any) -> None:
    step = _step(CASES["out_of_range"], context)
    assert np.isnan(step.results["loss"])
    placements = (Placement([["a"], []]), Placement([["a"], []], blocks={"a": 2}), Placement([[], ["a"]]))
    for placement in placements:
        _compare(step, Mesh(a=2), {"embedding.weight": placement}, TOLERANCE[Precision.FP32])

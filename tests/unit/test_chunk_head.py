"""A step computes the same where its logits are computed in chunks: interpreted, and planned."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from dmc._mlir import ir
from dmc.api import compile_artifact
from dmc.errors import DmcError
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.passes.base import parse_pipeline, run_passes
from dmc.passes.scheduled.tensors.chunk_head import chunk_head
from dmc.passes.scheduled.tensors.chunk_head.chunk_head import chunks_of
from dmc.program import Launch
from dmc.runtime.files.artifact import Artifact
from dmc.step_function import find_step
from tests.compiled import model_state, train
from tests.eager import EagerTrainer
from tests.heads import CLASSES, WIDTH, Columns, Linear
from tests.partitioned import run_on_one_rank
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

PADDED, ROWS = 192, 256
BEFORE = "dm-absorb-casts,dm-inline-composites{keep_whole},canonicalize"
RATE = 0.5


class Halves(nn.Module):
    """Logits that are a product of one half of the rows and of the other: these are no product themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CLASSES, WIDTH)
        self.heads = nn.ModuleList([nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)])

    def forward(self, index: Tensor) -> Tensor:
        pairs = zip(self.heads, self.embedding(index).chunk(2), strict=True)
        return torch.cat([head(x) for head, x in pairs])


def _loss(logits: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(logits, target, label_smoothing=0.1, ignore_index=3)


def _sum(logits: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(logits, target, reduction="sum") / ROWS


def _loss_and_size(logits: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(logits, target) + 0.01 * logits.square().mean()


def _squared(logits: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(logits, target).square()


class _OwnGradient(torch.autograd.Function):
    """Logits times a scale, whose gradient is something else that is computed of that of the logits."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, scale: Tensor, kind: str) -> Tensor:
        ctx.kind = kind
        return logits.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (g,) = grad_outputs
        match ctx.kind:
            case "most":
                return g, g.abs().max(), None
            case "product":
                return g, (1 + g).prod(0)[0], None
            case "count":
                return g, (g > 0).sum(0)[0].float(), None
            case _:
                return g / g.norm(), g.sum(), None


class Own(Linear):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.scale = kind, nn.Parameter(torch.ones(()))

    def forward(self, index: Tensor) -> Tensor:
        return _OwnGradient.apply(super().forward(index), self.scale, self.kind)


class Turned(nn.Module):
    """As many rows as classes, and logits that are a product transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CLASSES, WIDTH)
        self.other = nn.Embedding(CLASSES, WIDTH)

    def forward(self, index: Tensor) -> Tensor:
        return (self.embedding(index) @ self.other(index).T).T


class Two(nn.Module):
    """Two heads: their losses are added, or multiplied, where each gradient depends on the other loss."""

    def __init__(self, *, multiplied: bool) -> None:
        super().__init__()
        self.first, self.second, self.multiplied = Linear(), Linear(tied=True), multiplied

    def forward(self, index: Tensor) -> tuple[Tensor, Tensor, bool]:
        return self.first(index), self.second(index), self.multiplied


def _both(logits: tuple[Tensor, Tensor, bool], target: Tensor) -> Tensor:
    first, second = (functional.cross_entropy(each, target % ROWS) for each in logits[:2])
    return first * second if logits[2] else first + second


def _contrastive(logits: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(logits, target % ROWS)


def _loss_and_logits(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    return functional.cross_entropy(logits, target), logits


def _batch(seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    index, target = (torch.randint(0, CLASSES, (ROWS,), generator=generator) for _ in range(2))
    # Of the first chunk, less is counted than of the others.
    target[2:67] = 3
    return index, target


def _logits(artifact: Artifact, rows: int) -> list[int]:
    """The offsets at which kernels write logits of so many rows, or their gradient."""
    commands = artifact.job.programs[0].commands
    written = (each for command in commands if isinstance(command, Launch) for each in command.writes)
    return [each.offset for each in written if each.length == rows * PADDED * 2]


def _losses(text: str) -> int:
    return text.count('kind = "softmax_cross_entropy",')


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16_MIXED])
@pytest.mark.parametrize("chunks", [2, 4])
@pytest.mark.parametrize(
    ("make", "loss", "heads", "split"),
    [
        (Linear, _loss, 1, 1),
        (lambda: Linear(bias=True), _loss, 1, 1),
        (lambda: Linear(tied=True), _sum, 1, 1),
        (Columns, _loss, 1, 1),
        (lambda: Two(multiplied=False), _both, 2, 2),
        (lambda: Two(multiplied=True), _both, 2, 1),
        (Turned, _contrastive, 1, 0),
        (lambda: Own("most"), _loss, 1, 0),
        (lambda: Own("product"), _loss, 1, 0),
        (lambda: Own("count"), _loss, 1, 0),
        (lambda: Own("divided by its norm"), _loss, 1, 0),
        (Linear, _loss_and_size, 1, 0),
        (Linear, _loss_and_logits, 1, 0),
        (Linear, _squared, 1, 0),
        (Halves, _loss, 1, 0),
    ],
)
def test_a_step_in_chunks_gives_what_it_gave(
    context: Any, precision: Precision, chunks: int, make: Any, loss: Any, heads: int, split: int
) -> None:
    torch.manual_seed(0)
    imported = import_step(make(), loss, dmc.optim.SGD(lr=RATE), _batch(), precision, 1, 0, context)
    state = [tensor.detach().clone().numpy() for tensor in imported.state.values()]
    given = [*state, np.array([RATE], np.float32), np.array(0, np.int32), *(tensor.numpy() for tensor in _batch())]
    run_passes(imported.module, parse_pipeline(BEFORE))
    before = run_on_one_rank(imported.module, [each.copy() for each in given])
    run_passes(imported.module, parse_pipeline(f"dm-chunk-head{{chunks={chunks}}}"))
    text = str(find_step(imported.module))
    assert _losses(text) == heads + split * (chunks - 1)
    assert (f"tensor<{ROWS}x{CLASSES}x" in text or loss is _contrastive) == (split < heads)
    after = run_on_one_rank(imported.module, [each.copy() for each in given])
    # Sums are added up in another order.
    tolerance = 1e-6 if precision is Precision.FP32 else 4e-3
    for wanted, found in zip(before, after, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_rows_that_are_not_divisible_are_refused(context: Any) -> None:
    imported = import_step(Linear(), _loss, dmc.optim.SGD(lr=RATE), _batch(), Precision.FP32, 1, 0, context)
    run_passes(imported.module, parse_pipeline(BEFORE))
    with pytest.raises(DmcError, match=f"has {ROWS} rows of logits, which are not divisible by 3"):
        run_passes(imported.module, parse_pipeline("dm-chunk-head{chunks=3}"))


def test_a_plan_has_a_chunk_of_logits_at_a_time_and_trains_as_eager(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model, batches = Linear(bias=True), [_batch(seed) for seed in range(3)]
    eager, start = copy.deepcopy(model), copy.deepcopy(model).state_dict()
    options: dict[str, Any] = {"optimizer": dmc.optim.SGD(lr=RATE), "example": batches[0], "precision": "bf16-mixed"}
    whole = compile_artifact(copy.deepcopy(model), loss=_loss, target="cpu+cuda", **options)
    for name, value in {"_LEAST": 4, "_TILE": 4, "_LARGE": 1}.items():
        monkeypatch.setattr(chunk_head, name, value)
    artifact = compile_artifact(model, loss=_loss, target="cpu+cuda", memory_cap=1 << 28, **options)
    kinds = [kernel.implementation for kernel in artifact.job.kernels.values()]
    assert "iree" not in kinds
    assert len(_logits(whole, ROWS)) == 2 and not _logits(artifact, ROWS)
    # The logits of a chunk, and their gradient, lie where those before them lay.
    chunks = _logits(artifact, ROWS // 4)
    assert len(chunks) == 8 and len(set(chunks)) == 2
    artifact.write(tmp_path / "step.dmc")
    step = dmc.load(tmp_path / "step.dmc")
    losses = train(step, batches)
    trainer = EagerTrainer(eager, _loss, torch.optim.SGD(eager.parameters(), lr=RATE), precision="bf16-mixed")
    assert_losses_close(losses, [trainer.step(batch) for batch in batches], TOLERANCE["bf16-mixed"])
    assert_states_close(start, model_state(step), eager.state_dict(), TOLERANCE["bf16-mixed"])


@pytest.mark.parametrize(
    ("rows", "classes", "chunks"),
    [(16384, 50257, 4), (65536, 50257, 4), (8192, 32000, 2), (8192, 8000, 1), (4096, 50257, 1), (8320, 50257, 1)],
)
def test_how_many_chunks(context: Any, rows: int, classes: int, chunks: int) -> None:
    text = f"""
    func.func @step(%one: tensor<f32>, %l: tensor<{rows}x{classes}xbf16>, %t: tensor<{rows}xi64>,
        %s: tensor<{rows}xf32>) -> tensor<{rows}x{classes}xbf16> {{
      %g = "dm.composite"(%one, %l, %t, %s)
          {{kind = "softmax_cross_entropy_backward", decomposition = @backward, parameters = {{}}}}
          : (tensor<f32>, tensor<{rows}x{classes}xbf16>, tensor<{rows}xi64>, tensor<{rows}xf32>)
          -> tensor<{rows}x{classes}xbf16>
      return %g : tensor<{rows}x{classes}xbf16>
    }}"""
    module = ir.Module.parse(text)
    (op, _) = module.body.operations[0].regions[0].blocks[0].operations
    assert chunks_of(op) == chunks

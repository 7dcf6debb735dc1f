"""Repeated layers are traced once: the step is, text for text, what it is when each operation is traced."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dmc import dialect, optim
from dmc._mlir import ir
from dmc.errors import ImportFailure
from dmc.importer import differentiate
from dmc.importer.forward.precision import Precision
from dmc.importer.layers.calls import Call
from dmc.importer.step import import_step

WIDTH, ROWS, LAYERS = 8, 4, 3


class Block(nn.Module):
    """Two matrices between a norm and a residual, with dropout."""

    def __init__(self, drop: float = 0.0, inner: int = 2 * WIDTH) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, inner), nn.Linear(inner, WIDTH)
        self.drop = nn.Dropout(drop)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The same shape."""
        inner = nn.functional.gelu(self.up(self.norm(x))) * mask
        return x + self.drop(self.down(inner).sigmoid().exp())


class Counting(Block):
    """Writes a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros([]))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The same shape."""
        self.seen += 1
        return super().forward(x * self.seen, mask)


class Asserting(Block):
    """Asserts something of its numbers."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The same shape."""
        torch.ops.aten._assert_async((x < 1e6).all())
        return super().forward(x, mask)


class Probed(nn.Module):
    """Returns a second output, which the loss does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.probe = Block(), nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The same shape, and one number for each row."""
        x = self.block(x, mask)
        return x, self.probe(x).exp().exp().exp()


class Probes(nn.Module):
    """Blocks whose second outputs are returned beside the first."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Probed() for _ in range(LAYERS))

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """f32 [rows, 1] and those of all blocks"""
        found: list[Tensor] = []
        for block in self.blocks:
            x, probe = block(x, x[:, :1])
            found.append(probe)
        return x[:, :1], found


class Viewed(nn.Module):
    """Blocks whose result is changed in place beside a view of it."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))

    def forward(self, x: Tensor) -> Tensor:
        """f32 [rows, 1]"""
        for block in self.blocks:
            x = block(x, x[:, :1])
            flat = x.view(-1)
            x += 1
            x = x * flat.sum()
        return x[:, :1]


class Remainders(nn.Module):
    """Blocks that compute with a constant made outside of them, which is folded."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Remainder() for _ in range(LAYERS))

    def forward(self, x: Tensor) -> Tensor:
        """f32 [rows, 1]"""
        constant = torch.full((1,), -7)
        for block in self.blocks:
            x = block(x, constant)
        return x[:, :1]


class Remainder(Block):
    """Multiplies by the remainder of a number."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The same shape."""
        return super().forward(x, mask % 3)


class Turned(Block):
    """Multiplies pairs of numbers by complex ones."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The same shape."""
        turned = torch.view_as_complex(x.reshape(ROWS, WIDTH // 2, 2)) * mask
        return super().forward(torch.view_as_real(turned).reshape(ROWS, WIDTH), x[:, :1])


class Turns(nn.Module):
    """Blocks that are given complex numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Turned() for _ in range(LAYERS))

    def forward(self, x: Tensor) -> Tensor:
        """f32 [rows, 1]"""
        angles = torch.polar(torch.ones(WIDTH // 2), torch.arange(WIDTH // 2).float())
        for block in self.blocks:
            x = block(x, angles)
        return x[:, :1]


class Mapped(Block):
    """Runs under `torch.vmap`."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The same shape."""
        return torch.vmap(lambda row: torch.relu(row * 2).sin().cos().exp().sin().cos().exp().tanh())(x) + x


class Drawing(Block):
    """Draws by probabilities that it computes."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The same shape."""
        return super().forward(x + torch.bernoulli(x.sigmoid()), mask)


class Noisy(Block):
    """Draws normal numbers of a deviation that it computes."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The same shape."""
        return super().forward(torch.normal(x, x.exp()), mask)


class Elsewhere(Block):
    """The same operations, on other lines."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The same shape."""
        inner = nn.functional.gelu(self.up(self.norm(x))) * mask
        return x + self.drop(self.down(inner).sigmoid().exp())


class Gamma(Block):
    """Has no gradient."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The same shape."""
        return super().forward(torch.igamma(x.exp(), x.exp()), mask)


class Stack(nn.Module):
    """Blocks one behind another, and a head."""

    def __init__(self, blocks: list[nn.Module], again: bool = False, saves: bool = False) -> None:
        super().__init__()
        self.blocks, self.head = nn.ModuleList(blocks), nn.Linear(WIDTH, 1)
        self.again, self.saves = again, saves
        # Draws before the layers do: the numbers of all draws are computed there in both ways.
        self.first = nn.Dropout(0.125)

    def forward(self, x: Tensor) -> Tensor:
        """f32 [rows, 1]"""
        mask, x = (x[:, :1] > 0).float(), self.first(x)
        for block in [*self.blocks, *(self.blocks if self.again else [])]:
            x = checkpoint(block, x, mask, use_reentrant=False) if self.saves else block(x, mask)
        return self.head(x)


class Stages(nn.Module):
    """Lists of blocks in a list, of which the stages differ."""

    def __init__(self) -> None:
        super().__init__()
        stages = [[Block(inner=inner) for _ in range(2)] for inner in (8, 16)]
        self.stages = nn.ModuleList(map(nn.ModuleList, stages))

    def forward(self, x: Tensor) -> Tensor:
        """f32 [rows, WIDTH]"""
        for stage in self.stages:
            for block in stage.children():
                x = block(x, x[:, :1])
        return x


def frozen_first() -> nn.Module:
    """The first layer has no trained weights, so that its input has no gradient."""
    model = Stack([Block() for _ in range(LAYERS)])
    model.blocks[0].requires_grad_(False)
    return model


MODELS: dict[str, tuple[Callable[[], nn.Module], int | None]] = {
    "equal": (lambda: Stack([Block() for _ in range(LAYERS)]), LAYERS),
    "dropout": (lambda: Stack([Block(0.25) for _ in range(LAYERS)]), LAYERS),
    "other rates": (lambda: Stack([Block(rate) for rate in (0.25, 0.5, 0.25)]), 2),
    "another width": (lambda: Stack([Block(), Block(inner=4), Block()]), 2),
    "called again": (lambda: Stack([Block() for _ in range(2)], again=True), 4),
    "checkpoints": (lambda: Stack([Block(0.25) for _ in range(LAYERS)], saves=True), LAYERS),
    "stages": (Stages, 4),
    "frozen first": (frozen_first, LAYERS),
    "a single one": (lambda: Stack([Block()]), 0),
    "asserting": (lambda: Stack([Asserting() for _ in range(LAYERS)]), LAYERS),
    "probes": (Probes, LAYERS),
    "a view beside a write": (Viewed, 0),
    "a constant from outside": (Remainders, LAYERS),
    "complex numbers": (Turns, None),
    "drawing": (lambda: Stack([Drawing() for _ in range(LAYERS)]), LAYERS),
    "noisy": (lambda: Stack([Noisy() for _ in range(LAYERS)]), LAYERS),
    "other lines": (lambda: Stack([Block(), Elsewhere(), Block()]), 2),
    "vmap": (lambda: Stack([Mapped() for _ in range(LAYERS)]), None),
    "counting": (lambda: Stack([Counting() for _ in range(LAYERS)]), LAYERS),
}


# Whose layers cannot be traced alone: they run under `torch.vmap`, or draw by probabilities that must be in range.
TRACED_WHOLE = ("vmap", "drawing", "noisy")


def _first(outputs: Any, targets: Tensor) -> tuple[Tensor, list[Tensor]]:
    return nn.functional.mse_loss(outputs[0], targets), outputs[1]


def _imported(model: nn.Module, precision: Precision) -> str:
    torch.manual_seed(0)
    optimizer = optim.AdamW(lr=1e-3, clip_grad_norm=1.0)
    example = torch.randn(ROWS, WIDTH), torch.randn(ROWS, 1)
    loss = _first if isinstance(model, Probes) else nn.functional.mse_loss
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        step = import_step(model, loss, optimizer, example, precision, 1, 0, context)
        return step.module.operation.get_asm(enable_debug_info=True)


def _operations(text: str) -> Counter[str]:
    """Those of a module, whatever their order."""
    named = (re.sub(r"%\w+|#map\d*|loc\(.*?\)\)?", "", line) for line in text.splitlines() if line.startswith("    %"))
    return Counter(named)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16_MIXED])
@pytest.mark.parametrize("case", MODELS)
def test_the_step_is_the_same(case: str, precision: Precision, monkeypatch: pytest.MonkeyPatch) -> None:
    build, expected = MODELS[case]
    found: list[Call] = []
    outlined = differentiate.outlined

    def seen(*given: Any) -> list[Call]:
        found.extend(outlined(*given))
        return found

    monkeypatch.setattr(differentiate, "outlined", seen)
    shared = _imported(build(), precision)
    assert expected in (None, len(found)), [call.segment.path for call in found]
    assert {hasattr(call, "layer") for call in found} <= {case not in TRACED_WHOLE}
    monkeypatch.setattr(differentiate, "outlined", lambda *_: [])
    flat = _imported(build(), precision)
    if case == "called again":
        # The gradients of weights that several calls share are added up when a call's are there, not one by one.
        assert _operations(shared) == _operations(flat)
    else:
        assert shared == flat


def test_a_layer_that_cannot_be_differentiated_is_told_with_its_place() -> None:
    with pytest.raises(ImportFailure, match=r"backward pass cannot be traced: .*igamma"):
        _imported(Stack([Gamma() for _ in range(LAYERS)]), Precision.FP32)


def test_equal_layers_are_traced_once_for_inputs_of_one_type(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Call] = []
    outlined = differentiate.outlined
    monkeypatch.setattr(differentiate, "outlined", lambda *given: found.extend(outlined(*given)) or found)
    _imported(Stack([Block() for _ in range(5)]), Precision.FP32)
    assert len({id(call.kind) for call in found}) == 1
    # The input of the first has no gradient.
    assert [found[0].layer is call.layer for call in found] == [True, *[False] * 4]
    assert len({id(call.layer) for call in found[1:]}) == 1

"""Models of repeated layers, each with what may keep its layers from being traced once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

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

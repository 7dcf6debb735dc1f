"""Random programs of what masks choose, as losses of `Choosing`.

A program has values of rows that a mask chooses, f32 [n, WIDTH], each a function of earlier ones. Two are only combined
where they are the same rows, or by mistake: then eager raises where the numbers of rows differ, and dmc refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from tests.choosing import WIDTH, Choosing, Use

# Added to a loss, whose error is relative to it, and whose terms cannot cancel then: others are absolute values.
_AWAY = 4.0
# How many masks a program has.
_MASKS = 4
Rows: TypeAlias = Tensor
Unary: TypeAlias = Callable[[Choosing, Rows], Rows]
# Kind, name, and the numbers of the values (or of the mask) that it takes.
Line: TypeAlias = tuple[str, str, int, int]
Binary: TypeAlias = Callable[[Choosing, Rows, Rows], Rows]

UNARY: dict[str, Unary] = {
    "relu": lambda m, v: v.relu(),
    "tanh": lambda m, v: v.tanh(),
    "log of squares": lambda m, v: (v * v + 0.1).log(),
    "softmax of a row": lambda m, v: v.softmax(-1),
    "softmax of a column": lambda m, v: v.softmax(0),
    "running sum": lambda m, v: v.cumsum(0) * 0.1,
    "running sum of a row": lambda m, v: v.cumsum(1),
    "scaled": lambda m, v: v * m.scale,
    "normalised": lambda m, v: functional.layer_norm(v, (WIDTH,)),
    "turned": lambda m, v: v.flip(1),
    "as pairs": lambda m, v: v.view(-1, 2, WIDTH // 2).transpose(1, 2).flatten(1),
    "transposed twice": lambda m, v: v.t().tanh().t(),
    "sorted rows": lambda m, v: v.sort(1)[0],
    "centred": lambda m, v: v - v.mean(0),
    "of the deviation": lambda m, v: v / (v.var(0, unbiased=False) + 1.0).sqrt(),
    "less its largest": lambda m, v: v - v.amax(0, keepdim=True),
    "by its number": lambda m, v: v * (v.shape[0] * 0.1),
    "attention": lambda m, v: (v @ v.t()).softmax(-1) @ v,
    "gram": lambda m, v: v @ (v.t() @ v).tanh() * 0.1,
    "linear": lambda m, v: m.linear(v),
    "two halves": lambda m, v: torch.cat([v[:, 3:], v[:, :3] * 2.0], 1),
    "in place": lambda m, v: v.clone().mul_(0.5).add_(1.0),
    "a column written": lambda m, v: _column_written(v),
    "rows of a table": lambda m, v: functional.embedding(v.argmax(1), m.linear.weight),
    "one of a row": lambda m, v: v.gather(1, v.argmin(1, keepdim=True)).expand(-1, WIDTH),
    "narrowed": lambda m, v: v.to(torch.bfloat16).float(),
    "where": lambda m, v: torch.where(v > 0.0, v, v * 0.1),
    "stopped": lambda m, v: v.detach() * 0.5 + v,
    "einsum": lambda m, v: torch.einsum("nd,ed->ne", v, m.linear.weight),
}
BINARY: dict[str, Binary] = {
    "sum": lambda m, a, b: a + b,
    "product": lambda m, a, b: a * b,
    "larger": lambda m, a, b: torch.maximum(a, b),
    "chosen of two": lambda m, a, b: torch.where(a > b, a, b),
    "beside": lambda m, a, b: torch.stack([a, b]).mean(0),
    "in halves": lambda m, a, b: torch.cat([a[:, :3], b[:, 3:]], 1),
    "attention to another": lambda m, a, b: (a @ b.t()).softmax(-1) @ b,
    "outer": lambda m, a, b: a @ (b.t() @ a).tanh(),
    "added in place": lambda m, a, b: a.clone().add_(b),
    "einsum": lambda m, a, b: torch.einsum("nd,nd->n", a, b)[:, None] * a,
}
REDUCED: dict[str, Callable[[Rows], Tensor]] = {
    "sum": lambda v: v.sum() * 0.1,
    "mean": lambda v: v.mean(),
    "largest": lambda v: v.max(),
    "mean of norms": lambda v: v.norm(dim=1).mean(),
    "of columns": lambda v: v.amax(0).sum() + v.mean(0).prod(),
    "by number": lambda v: v.sum() / v.shape[0],
    "spread": lambda v: v.std(),
}


def _column_written(v: Tensor) -> Tensor:
    new = v.clone()
    new[:, 1] = v[:, 2] * 2.0
    return new


def program(seed: int) -> tuple[Use, str]:
    """A loss, and what it does in words."""
    random = Random(seed)
    lines, masks = _lines(random)
    ends = [(random.choice([*REDUCED]), i) for i in range(len(masks)) if i >= len(masks) - 2]
    words = [" ".join(map(str, each)) for each in (*lines, *ends)]

    def use(m: Choosing, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
        y = m.linear(x)
        known = (mask, classes > 2, mask & (classes > 1), mask[:, :1].expand_as(mask))
        values: list[Rows] = []
        for kind, name, first, other in lines:
            if kind == "choose":
                values.append((x if name == "x" else y)[known[first]])
            elif kind == "unary":
                values.append(UNARY[name](m, values[first]))
            elif kind == "binary":
                values.append(BINARY[name](m, values[first], values[other]))
            elif name == "positive":
                values.append(values[first][values[first][:, 0] > 0.0])
            else:
                values.append(_whole(y, known[masks[first]], values[first])[known[other]])
        return sum((REDUCED[name](values[i]).abs() for name, i in ends), start=y.mean() + _AWAY)

    return use, "; ".join(words)


def _lines(random: Random) -> tuple[list[Line], list[int]]:
    """Lines of a program; and of each value the mask that chooses its rows, _MASKS or more for one of its own."""
    lines: list[Line] = []
    masks: list[int] = []
    for _ in range(random.randint(1, 2)):
        masks.append(random.randrange(_MASKS))
        lines.append(("choose", random.choice(("x", "y")), masks[-1], 0))
    for _ in range(random.randint(2, 4)):
        first = random.randrange(len(masks))
        alike = [i for i, mask in enumerate(masks) if mask == masks[first] or random.random() < 0.1]
        kind = random.choice(("unary", "unary", "binary", "again"))
        other = random.choice(alike)
        if kind == "again":
            # What was chosen twice cannot be written back by one mask.
            name = random.choice(("positive", "whole")) if masks[first] < _MASKS else "positive"
            lines.append((kind, name, first, random.randrange(_MASKS)))
            masks.append(_MASKS + len(masks) if name == "positive" else lines[-1][3])
        else:
            lines.append((kind, random.choice([*(UNARY if kind == "unary" else BINARY)]), first, other))
            masks.append(masks[first])
    return lines, masks


def _whole(y: Tensor, mask: Tensor, rows: Tensor) -> Tensor:
    """Rows where their mask chose them, in a copy of all."""
    new = y.clone()
    new[mask] = rows
    return new

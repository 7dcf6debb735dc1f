"""`flex_attention`, with masks and functions of scores, trains as the same attention written with a dense mask."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import AuxRequest, and_masks, create_block_mask, flex_attention, or_masks
from torch.nn.functional import mse_loss

from dmc import dialect as dm
from dmc.walk import walk
from tests.interpreted import RATE, InterpretedStep, assert_refused
from tests.large import large_unless
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

BATCH, HEADS, TOKENS, WIDTH, WINDOW, PREFIX, CAP = 2, 4, 12, 8, 3, 4, 2.0
ONES = torch.ones(HEADS, TOKENS)
Mask = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Attention(nn.Module):
    """Grouped queries; documents come with the batch, slopes and a table of distances are the module's."""

    def __init__(self, mask: str, score: str, by_hand: bool) -> None:
        super().__init__()
        self.mask, self.score, self.by_hand = mask, score, by_hand
        self.q, self.kv = nn.Linear(WIDTH, HEADS * WIDTH), nn.Linear(WIDTH, 2 * 2 * WIDTH)
        self.back = nn.Linear(HEADS * WIDTH, WIDTH)
        self.register_buffer("slopes", 2.0 ** -torch.arange(1.0, HEADS + 1))
        self.slopes: Tensor
        self.table = nn.Parameter(torch.randn(HEADS, 2 * TOKENS))

    def forward(self, x: Tensor, documents: Tensor) -> Tensor:
        q = self.q(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
        k, v = self.kv(x).unflatten(-1, (2, 2, WIDTH)).unbind(-3)
        attend = self.dense if self.by_hand else self.flex
        y = attend(q, k.transpose(1, 2), v.transpose(1, 2), documents)
        return self.back(y.transpose(1, 2).flatten(2))

    def flex(self, q: Tensor, k: Tensor, v: Tensor, documents: Tensor) -> Tensor:
        function = MASKS[self.mask](documents)
        blocks = (
            None if function is None else create_block_mask(function, BATCH, HEADS, TOKENS, TOKENS, device=q.device)
        )
        return flex_attention(q, k, v, self.scores(), blocks, enable_gqa=True)  # pyright: ignore[reportReturnType]

    def dense(self, q: Tensor, k: Tensor, v: Tensor, documents: Tensor) -> Tensor:
        place = torch.meshgrid(*map(torch.arange, (BATCH, HEADS, TOKENS, TOKENS)), indexing="ij")
        scores = q @ k.repeat_interleave(2, 1).mT / math.sqrt(WIDTH)
        score, function = self.scores(), MASKS[self.mask](documents)
        scores = scores if score is None else score(scores, *place)
        hidden = torch.zeros_like(scores, dtype=torch.bool) if function is None else ~function(*place)
        weights = scores.masked_fill(hidden, -math.inf).softmax(-1).masked_fill(hidden.all(-1, keepdim=True), 0.0)
        return weights @ v.repeat_interleave(2, 1)

    def scores(self) -> Any:
        return {
            "plain": None,
            "alibi": lambda s, b, h, i, j: s + self.slopes[h] * (j - i),
            "table": lambda s, b, h, i, j: s - self.table[h, i - j + TOKENS],
            "cap": lambda s, b, h, i, j: CAP * torch.tanh(s / CAP),
            "causal inside": lambda s, b, h, i, j: torch.where(i >= j, s + 0.5, -math.inf),
            "scaled by place": lambda s, b, h, i, j: s * (1 + 0.1 * j),
        }[self.score]


def causal(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


def window(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return (i - j).abs() < WINDOW


def _documents(documents: Tensor) -> Mask:
    return lambda b, h, i, j: documents[b, i] == documents[b, j]


def _prefixes(documents: Tensor) -> Mask:
    """A row sees the prefix whose length is the row's first document number."""
    return lambda b, h, i, j: j < documents[b, 0] + 1


MASKS: dict[str, Callable[[Tensor], Mask | None]] = {
    "none": lambda documents: None,
    "causal": lambda documents: causal,
    "window": lambda documents: and_masks(causal, window),
    "documents": _documents,
    "causal documents": lambda documents: and_masks(causal, _documents(documents)),
    "prefix": lambda documents: or_masks(causal, lambda b, h, i, j: j < PREFIX),
    "prefixes of data": lambda documents: or_masks(causal, _prefixes(documents)),
    "by head": lambda documents: lambda b, h, i, j: (i - j).abs() <= h,
    "rows that see nothing": lambda documents: lambda b, h, i, j: (i >= j) & (i > 1),
}
CASES = [
    *((mask, "plain") for mask in MASKS),
    *(("causal documents", score) for score in ("alibi", "table", "cap")),
    ("none", "causal inside"),
    ("window", "scaled by place"),
]
QUICK = (("causal documents", "plain"), ("causal documents", "alibi"), ("causal documents", "cap"))


def _batch(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    documents = torch.randint(3, (BATCH, TOKENS), generator=draw).sort(-1).values
    return (
        torch.randn(BATCH, TOKENS, WIDTH, generator=draw),
        documents,
        torch.randn(BATCH, TOKENS, WIDTH, generator=draw),
    )


@pytest.mark.parametrize("case", large_unless(QUICK, CASES), ids=str)
def test_it_trains_as_with_a_dense_mask(context: Any, case: tuple[str, str]) -> None:
    torch.manual_seed(0)
    model, eager = Attention(*case, by_hand=False), Attention(*case, by_hand=True)
    eager.load_state_dict(model.state_dict())
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    batches = [_batch(seed) for seed in range(3)]
    step = InterpretedStep(context, model, mse_loss, batches[0])
    losses, expected = [step(*batch) for batch in batches], []
    descent = torch.optim.SGD(eager.parameters(), lr=RATE)
    for *inputs, target in batches:
        descent.zero_grad()
        loss = mse_loss(eager(*inputs), target)
        loss.backward()
        descent.step()
        expected.append(loss.item())
    assert_losses_close(losses, expected, TOLERANCE["fp32"])
    found = step.model_state()
    assert_states_close(start, found, {name: eager.state_dict()[name] for name in found}, TOLERANCE["fp32"])


@pytest.mark.parametrize(
    ("score", "fact"),
    [
        (lambda s, b, h, i, j: s + torch.arange(4)[h], "calls arange"),
        (lambda s, b, h, i, j: s - s.amax(), "calls amax"),
        (lambda s, b, h, i, j: s * s.shape[0], r"reads \.shape"),
        (lambda s, b, h, i, j: s + ONES[h][i], "more than one element of a tensor"),
    ],
)
def test_what_is_not_of_elements_is_refused(context: Any, score: Any, fact: str) -> None:
    model = Plain(lambda q: flex_attention(q, q, q, score))
    assert_refused(context, model, f"the function of scores or of a mask .*{fact}", mse_loss, model.batch())


def test_results_beside_the_output_are_refused(context: Any) -> None:
    model = Plain(lambda q: flex_attention(q, q, q, return_aux=AuxRequest(lse=True))[1].lse)  # pyright: ignore
    assert_refused(context, model, "gives its output alone", mse_loss, model.batch())


class Plain(nn.Module):
    """Something of queries that are keys and values, too."""

    def __init__(self, attend: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.q, self.attend = nn.Linear(WIDTH, WIDTH), attend

    def forward(self, x: Tensor) -> Any:
        return self.attend(self.q(x))

    def batch(self) -> tuple[Tensor, Tensor]:
        return (torch.randn(BATCH, HEADS, TOKENS, WIDTH), torch.randn(BATCH, HEADS, TOKENS, WIDTH))


@pytest.mark.parametrize(
    ("mask", "score", "operands"),
    [
        ("causal", "plain", []),
        ("prefix", "plain", [[1, 1, TOKENS, TOKENS]]),
        ("causal documents", "plain", [[BATCH, 1, TOKENS, TOKENS]]),
        ("causal documents", "alibi", [[BATCH, HEADS, TOKENS, TOKENS]]),
    ],
)
def test_it_is_attention_with_the_smallest_mask(context: Any, mask: str, score: str, operands: list[list[int]]) -> None:
    step = InterpretedStep(context, Attention(mask, score, by_hand=False), mse_loss, _batch(0))
    (attention,) = [
        op.opview
        for op in walk(step.module.operation)
        if isinstance(op.opview, dm.CompositeOp) and op.opview.kind.value == "attention"
    ]
    given = [list(each.type.shape) for each in attention.inputs[3:] if len(each.type.shape) == 4]
    assert given == operands

"""Scaled dot-product attention and its gradients, one entry of the batch at a time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dmc.kernels.problem import Problem
from dmc.kernels.references.draws import Draws
from dmc.kernels.references.philox import keep_scale


@dataclass(frozen=True)
class _Attention:
    """The operands that both passes read, by name. places: [batch, heads], which heads of the whole these are."""

    problem: Problem
    q: Tensor
    k: Tensor
    v: Tensor
    bias: Tensor | None
    seed: Tensor
    draw: Tensor
    places: Tensor
    scale: float
    causal: bool

    @staticmethod
    def of(problem: Problem, operands: tuple[Tensor, ...], places: tuple[Tensor, ...]) -> _Attention:
        q, k, v, *bias, seed, draw = operands
        batches, heads = places or (torch.arange(size, device=q.device) for size in q.shape[:2])
        whole = bias[0].double().view((1,) * (4 - bias[0].dim()) + tuple(bias[0].shape)) if bias else None
        causal = bool(problem.get("causal", False))
        numbers = batches[:, None] * int(problem.number("whole_1", q.shape[1])) + heads
        return _Attention(problem, q, k, v, whole, seed, draw, numbers, problem.number("scale"), causal)

    def scores(self, entry: int) -> Tensor:
        scores = self.q[entry].double() @ self.keys(entry).transpose(-1, -2) * self.scale
        if self.bias is not None:
            scores = scores + self.bias[min(entry, self.bias.shape[0] - 1)]
        if self.causal:
            seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
            scores = torch.where(seen, scores, float("-inf"))
        return scores

    def dropped(self, value: Tensor, entry: int) -> Tensor:
        if not self.problem.number("p"):
            return value
        shape = tuple(value.shape[1:])
        firsts = [place * shape[0] for place in self.places[entry].tolist()]
        return value * torch.stack([keep_scale(self.problem, shape, each, self.seed, self.draw) for each in firsts])

    def keys(self, entry: int) -> Tensor:
        return self._of_every_head(self.k[entry])

    def values(self, entry: int) -> Tensor:
        return self._of_every_head(self.v[entry])

    def _of_every_head(self, x: Tensor) -> Tensor:
        return x.double().repeat_interleave(self.q.shape[1] // x.shape[0], 0)


def attention(problem: Problem, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """`out` and `logsumexp` of (q, k, v, [bias], seed, draw, [places]); k and v may have fewer heads than q."""
    given = _Attention.of(problem, *problem.apart(operands))
    outs: list[Tensor] = []
    levels: list[Tensor] = []
    for entry in range(given.q.shape[0]):
        scores = given.scores(entry)
        # `torch.logsumexp` is infinite where a score is, but the softmax of such a row is NaN.
        peak = scores.amax(-1, keepdim=True)
        peak = torch.where(peak == float("-inf"), 0.0, peak)
        level = peak + (scores - peak).exp().sum(-1, keepdim=True).log()
        level = torch.where(level == float("-inf"), float("inf"), level)
        probability = given.dropped((scores - level).exp(), entry)
        outs.append(probability @ given.values(entry))
        levels.append(level)
    return torch.stack(outs), torch.stack(levels)


def attention_backward(problem: Problem, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """`dq`, `dk` and `dv` of (dout, q, k, v, [bias], out, logsumexp, seed, draw, [places]); if asked for, the sums over
    the rows of these as they are rounded.
    """
    (dout, *inputs, out, logsumexp, seed, draw), places = problem.apart(operands)
    given = _Attention.of(problem, (*inputs, seed, draw), places)
    gradients: list[tuple[Tensor, Tensor, Tensor]] = []
    for entry in range(given.q.shape[0]):
        probability = (given.scores(entry) - logsumexp[entry].double()).exp()
        slope = dout[entry].double()
        delta = (slope * out[entry].double()).sum(-1, keepdim=True)
        dprobability = given.dropped(slope @ given.values(entry).transpose(-1, -2), entry)
        dscores = probability * (dprobability - delta) * given.scale
        dk = dscores.transpose(-1, -2) @ given.q[entry].double()
        dv = given.dropped(probability, entry).transpose(-1, -2) @ slope
        shared = [each.unflatten(0, (given.k.shape[1], -1)).sum(1) for each in (dk, dv)]
        gradients.append((dscores @ given.keys(entry), shared[0], shared[1]))
    found = [torch.stack(each) for each in zip(*gradients, strict=True)]
    return (*found, *_sums(problem, found, dout.dtype))


def _sums(problem: Problem, gradients: list[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Of each column of the matrix in which the gradients lie side by side; none if they are not asked for."""
    firsts = [int(problem.number(f"sums_{i}", -1)) for i in range(3)]
    if min(firsts) < 0:
        return ()
    sums = gradients[0].new_zeros(problem.results[-1].shape)
    for gradient, first, type_ in zip(gradients, firsts, problem.results, strict=False):
        of_heads = gradient.to(dtype).double().sum((0, 2))
        for head, each in enumerate(of_heads):
            begin = first + head * type_.steps()[1]
            sums[begin : begin + each.numel()] = each
    return (sums,)


def sample(problem: Problem, draws: Draws) -> tuple[Tensor, ...]:
    """Random operands of the forward pass; a bias hides a tenth of what it broadcasts to."""
    types, places = problem.apart(problem.operands)
    tensors = [draws.normal(type) for type in types[:-2]]
    for bias in tensors[3:]:
        bias.masked_fill_(torch.rand(bias.shape, generator=draws.generator, device=bias.device) < 0.1, float("-inf"))
    numbers = [draws.index(type, 0, int(problem.number(f"whole_{i}"))) for i, type in enumerate(places)]
    return (*tensors, draws.index(types[-2], 0, 2**62), draws.index(types[-1], 0, 2**40), *numbers)


def sample_backward(problem: Problem, draws: Draws) -> tuple[Tensor, ...]:
    """Random operands of the backward pass, with the results of the forward pass."""
    (dout, *inputs, out, logsumexp, seed, draw), places = problem.apart(problem.operands)
    forward = Problem("attention", (*inputs, seed, draw, *places), (out, logsumexp), problem.parameters)
    given = sample(forward, draws)
    saved = [draws.filled(type, value) for type, value in zip((out, logsumexp), attention(forward, given), strict=True)]
    return (draws.normal(dout), *given[: len(inputs)], *saved, *given[len(inputs) :])

"""`nn.LSTM` and `nn.GRU` as time loops over a cell composite, with the large products hoisted out of the loop.

A layer's input product is one matrix product over all time steps, and so are the gradients of its weights: only the
state's own product stays in the loop (Appleyard, Kocisky and Blunsom, "Optimizing Performance of Recurrent Neural
Networks on GPUs", 2016, section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dmc.importer.composites.base import gradients_of
from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.forward.registry import rule

# Dropout between layers: (activations, probability) -> activations.
Dropout = Callable[[Tensor, float], Tensor]
# A layer in one direction: (input gates [T, B, G·H], recurrent weight, recurrent bias, its number among all)
# -> (outputs [T, B, H], *final states [B, H]).
Layer = Callable[[Tensor, Tensor, Tensor | None, int], tuple[Tensor, ...]]


class _LstmSequence(torch.autograd.Function):
    """x_gates [T, B, 4H], weight [4H, H], h [B, H], c [B, H] → outputs [T, B, H], last h, last c."""

    @staticmethod
    def forward(ctx: Any, x_gates: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates, cells, outputs, ctx.arguments = [], [c], [h], (x_gates, weight, h, c)
        for x in x_gates.unbind(0):
            gates.append(x + outputs[-1] @ weight.t())
            h_next, c_next = torch.ops.dmc.lstm_cell(gates[-1], cells[-1])
            outputs.append(h_next)
            cells.append(c_next)
        states = torch.stack(outputs)
        ctx.save_for_backward(weight, states, *gates, *cells)
        return states[1:], outputs[-1].clone(), cells[-1].clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            return gradients_of(_lstm_steps, ctx.arguments, grad_outputs)
        dout, dh, dc = grad_outputs
        weight, states, *saved = ctx.saved_tensors
        steps = dout.shape[0]
        gates, cells = saved[:steps], saved[steps:]
        dgates: list[Tensor] = []
        for t in reversed(range(steps)):
            dg, dc = torch.ops.dmc.lstm_cell_backward(dh + dout[t], dc, gates[t], cells[t], cells[t + 1])
            dgates.append(dg)
            dh = dg @ weight
        all_gates = torch.stack(dgates[::-1])
        return all_gates, _weight_gradient(all_gates, states), dh, dc


def _lstm_steps(x_gates: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As `_LstmSequence`, step by step, for a gradient that is differentiated again."""
    outputs: list[Tensor] = []
    for x in x_gates.unbind(0):
        h, c = torch.ops.dmc.lstm_cell(x + h @ weight.t(), c)
        outputs.append(h)
    return torch.stack(outputs), h.clone(), c.clone()


def _projected_lstm(x_gates: Tensor, weight: Tensor, projection: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """As `_LstmSequence`, with the hidden state projected (Sak, Senior and Beaufays, 2014): h [B, P], weight [4H, P],
    projection [P, H]."""
    outputs: list[Tensor] = []
    for x in x_gates.unbind(0):
        wide, c = torch.ops.dmc.lstm_cell(x + h @ weight.t(), c)
        h = wide @ projection.t()
        outputs.append(h)
    return torch.stack(outputs), h.clone(), c.clone()


class _GruSequence(torch.autograd.Function):
    """x_gates [T, B, 3H], weight [3H, H], bias [3H], h [B, H] → outputs [T, B, H], last h."""

    @staticmethod
    def forward(ctx: Any, x_gates: Tensor, weight: Tensor, bias: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h_gates, outputs, ctx.arguments = [], [h], (x_gates, weight, bias, h)
        for x in x_gates.unbind(0):
            h_gates.append(outputs[-1] @ weight.t() + bias)
            outputs.append(torch.ops.dmc.gru_cell(x, h_gates[-1], outputs[-1]))
        states = torch.stack(outputs)
        ctx.save_for_backward(weight, x_gates, states, *h_gates)
        return states[1:], outputs[-1].clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            return gradients_of(_gru_steps, ctx.arguments, grad_outputs)
        dout, dh = grad_outputs
        weight, x_gates, states, *h_gates = ctx.saved_tensors
        steps = dout.shape[0]
        dx_gates: list[Tensor] = []
        dh_gates: list[Tensor] = []
        for t in reversed(range(steps)):
            dx, dhg, carried = torch.ops.dmc.gru_cell_backward(dh + dout[t], x_gates[t], h_gates[t], states[t])
            dx_gates.append(dx)
            dh_gates.append(dhg)
            dh = dhg @ weight + carried
        recurrent = torch.stack(dh_gates[::-1])
        return torch.stack(dx_gates[::-1]), _weight_gradient(recurrent, states), recurrent.sum((0, 1)), dh


def _gru_steps(x_gates: Tensor, weight: Tensor, bias: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """As `_GruSequence`, step by step, for a gradient that is differentiated again."""
    outputs: list[Tensor] = []
    for x in x_gates.unbind(0):
        h = torch.ops.dmc.gru_cell(x, h @ weight.t() + bias, h)
        outputs.append(h)
    return torch.stack(outputs), h.clone()


def _weight_gradient(dgates: Tensor, states: Tensor) -> Tensor:
    """The gradient [G·H, H] of the recurrent weight, in one product for all steps. states: [T + 1, B, H]; the last is
    no step's input."""
    return dgates.flatten(0, 1).t() @ states[:-1].flatten(0, 1)


@dataclass(frozen=True)
class Stack:
    """Layers and directions, from the last arguments of `aten.lstm.input` and `aten.gru.input`, in their order."""

    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool

    def run(self, x: Tensor, params: Sequence[Tensor], layer: Layer, apply_dropout: Dropout) -> tuple[Tensor, ...]:
        """The output in the layout of `x`, then the final states [layers · directions, B, H], in PyTorch's order."""
        out = x.transpose(0, 1) if self.batch_first else x
        directions = 2 if self.bidirectional else 1
        width = len(params) // (self.num_layers * directions)
        finals: list[list[Tensor]] = []
        for index in range(self.num_layers):
            halves: list[Tensor] = []
            for direction in range(directions):
                number = index * directions + direction
                weights = params[number * width : (number + 1) * width]
                biases = weights[2:4] if self.has_biases else [None, None]
                source = out.flip(0) if direction else out
                x_gates = torch.nn.functional.linear(source, weights[0], biases[0])
                outputs, *final = layer(x_gates, weights[1], biases[1], number)
                halves.append(outputs.flip(0) if direction else outputs)
                finals.append(final)
            out = torch.cat(halves, 2) if self.bidirectional else halves[0]
            if self.train and self.dropout and index + 1 < self.num_layers:
                out = apply_dropout(out, self.dropout)
        states = [torch.stack(state) for state in zip(*finals, strict=True)]
        return out.transpose(0, 1) if self.batch_first else out, *states


def lstm(
    x: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], stack: Stack, apply_dropout: Dropout
) -> tuple[Tensor, ...]:
    """The meaning of `aten.lstm.input`: output, final hidden states, final cell states."""
    h0, c0 = hx
    is_projected = h0.shape[-1] < c0.shape[-1]
    width = len(params) // h0.shape[0]

    def layer(x_gates: Tensor, weight: Tensor, bias: Tensor | None, index: int) -> tuple[Tensor, ...]:
        gates = x_gates if bias is None else x_gates + bias
        if is_projected:
            return _projected_lstm(gates, weight, params[(index + 1) * width - 1], h0[index], c0[index])
        return _LstmSequence.apply(gates, weight, h0[index], c0[index])

    return stack.run(x, params, layer, apply_dropout)


def gru(x: Tensor, h0: Tensor, params: Sequence[Tensor], stack: Stack, apply_dropout: Dropout) -> tuple[Tensor, ...]:
    """The meaning of `aten.gru.input`: output and final hidden states."""

    def layer(x_gates: Tensor, weight: Tensor, bias: Tensor | None, index: int) -> tuple[Tensor, ...]:
        recurrent_bias = torch.zeros_like(weight[:, 0]) if bias is None else bias
        return _GruSequence.apply(x_gates, weight, recurrent_bias, h0[index])

    return stack.run(x, params, layer, apply_dropout)


@rule(torch.ops.aten.lstm.input)
def _lstm(random: Randomness, x: Tensor, hx: list[Tensor], params: list[Tensor], *options: Any) -> Any:
    return lstm(x, hx, params, Stack(*options), random.dropout)


@rule(torch.ops.aten.gru.input)
def _gru(random: Randomness, x: Tensor, h0: Tensor, params: list[Tensor], *options: Any) -> Any:
    return gru(x, h0, params, Stack(*options), random.dropout)

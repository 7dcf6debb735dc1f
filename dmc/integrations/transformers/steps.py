"""A compiled step for the shapes of batches that a training has, compiled again where another one comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import dmc
from dmc.errors import DmcError
from dmc.integrations.transformers.updates import Shape, Update

# Each shape is a program, which takes as long to compile as the first.
MOST_SHAPES = 8


@dataclass
class Steps:
    """The step of an objective. options: further arguments of `dmc.compile`. is_ahead: whether the step has trained
    since its state was last brought back.
    """

    objective: nn.Module
    optimizer: torch.optim.Optimizer
    clip_grad_norm: float | None
    evaluation: Callable[[Any], Any]
    options: Mapping[str, Any]
    is_ahead: bool = False
    _step: dmc.CompiledStep | None = None
    _updates: dict[Shape, Update] = field(default_factory=dict[Shape, Update])
    _evaluated: dict[Shape, Update] = field(default_factory=dict[Shape, Update])

    def expect(self, updates: list[Update], evaluated: list[Update]) -> None:
        """Shapes that will come: compiled with the first."""
        self._updates |= {each.shape: each for each in updates}
        self._evaluated |= {each.shape: each for each in evaluated}

    def train(self, update: Update) -> Any:
        """One step; its loss."""
        step = self._compiled(self._updates, update)
        self.is_ahead = True
        return step(**update.batch())

    def evaluate(self, update: Update) -> Any:
        """The outcome of `evaluation`."""
        return self._compiled(self._evaluated, update).evaluate(**update.batch())

    def bring_back(self) -> None:
        """Gives the model and the optimizer what the step has trained."""
        if self._step is None or not self.is_ahead:
            return
        self._step.update(self.objective)
        self.optimizer.load_state_dict(self._step.torch_optimizer_state(self.optimizer, self.objective))
        self.is_ahead = False

    def take_over(self) -> None:
        """Gives the step the model's tensors."""
        if self._step is not None:
            self._step.load_state_dict({"model": self.objective.state_dict()})

    def close(self) -> None:
        """Frees the step's memory; what it has trained is brought back first."""
        self.bring_back()
        if self._step is not None:
            self._step.close()
        self._step = None

    def _compiled(self, known: dict[Shape, Update], update: Update) -> dmc.CompiledStep:
        if self._step is not None and update.shape in known:
            return self._step
        known[update.shape] = update
        if len(known) > MOST_SHAPES:
            fact = f"are of more than {MOST_SHAPES} shapes, and each is compiled"
            hint = "pad to few lengths: pad_to_multiple_of= of the data collator, or FixedLength(collator)"
            raise DmcError("batches", fact, hint)
        # The first state is that of the objects. One that was trained replaces it, with its count of steps.
        before, state = self._step, None
        if before is not None:
            state = before.state_dict()
            before.close()
        self._step = step = self._compile()
        if state is not None:
            step.load_state_dict(state)
        return step

    def _compile(self) -> dmc.CompiledStep:
        updates, evaluated = list(self._updates.values()), list(self._evaluated.values())
        self.objective.train()
        return dmc.compile(
            self.objective,
            optimizer=dmc.optim.FromTorch(self.optimizer, clip_grad_norm=self.clip_grad_norm),
            example=[each.batch() for each in updates],
            accumulate=[each.accumulate for each in updates],
            evaluation=self.evaluation if evaluated else False,
            evaluation_example=[each.batch() for each in evaluated] or None,
            **self.options,
        )

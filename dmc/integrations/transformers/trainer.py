"""Hugging Face's `Trainer`, whose training steps and evaluation are compiled."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from transformers import Trainer

from dmc.errors import DmcError
from dmc.integrations.transformers.expected import batches_of, last_of_epoch
from dmc.integrations.transformers.objective import Objective
from dmc.integrations.transformers.steps import Steps
from dmc.integrations.transformers.updates import Inputs, Update


class DmcTrainer(Trainer):
    """`transformers.Trainer` with compiled steps; a script changes its import.

    Takes what `Trainer` takes, and trains as it does: the loss of `compute_loss` (a model's own, `compute_loss_func`,
    label smoothing, over the tokens of the whole batch), gradient accumulation, clipping, schedulers, evaluation,
    metrics, callbacks, checkpoints. The step is compiled at the first batch. Each shape of batches is a program: pad to
    few lengths. The model and the optimizer get what was trained where `Trainer` reads them: when it saves, and at the
    end; in a callback, call `bring_back()`.
    """

    def __init__(self, *args: Any, compile_options: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """compile_options: further arguments of `dmc.compile`, such as `plan` or `memory_cap`. Raises DmcError for
        settings of `Trainer` that a compiled step does not have.
        """
        super().__init__(*args, **kwargs)
        self._check_arguments()
        self._compile_options = dict(compile_options or {})
        self._steps: Steps | None = None
        self._micro: list[Inputs] = []

    def bring_back(self) -> None:
        """Copies what was trained into the model and the optimizer."""
        if self._steps is not None:
            self._steps.bring_back()

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """The loss of an update, with its last micro-batch; zero with those before."""
        model.train()
        self._micro.append(self._prepare_inputs(inputs))
        if not self.accelerator.sync_gradients:
            return torch.zeros((), device=self.args.device)
        update, first = self._update(self._micro, num_items_in_batch), self._micro[0]
        self._micro = []
        if self._steps is None:
            self._steps = self._begun()
            self._steps.expect(*self._expected(first, num_items_in_batch))
        with _as_it_was_made(self._own_model):
            loss = self._steps.train(update)
        return torch.tensor(float(loss), device=self.args.device)

    def prediction_step(
        self, model: nn.Module, inputs: Any, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[Any, Any, Any]:
        """The loss, outputs and labels of a batch. Before training, and without labels, they are eager's."""
        labels = [inputs.get(name) for name in self.label_names]
        if self._steps is None or not labels or any(each is None for each in labels):
            return self._predicted_in_eager(model, inputs, prediction_loss_only, ignore_keys)
        if not prediction_loss_only and not self._wants_outputs():
            return self._predicted_in_eager(model, inputs, prediction_loss_only, ignore_keys)
        with _as_it_was_made(self._own_model):
            result = self._steps.evaluate(self._evaluated(inputs))
        loss, outputs = result if isinstance(result, tuple) else (result, {})
        value = torch.tensor(float(loss), device=self.args.device)
        if prediction_loss_only:
            return value, None, None
        ignored = self._ignored() if ignore_keys is None else ignore_keys
        kept = tuple(self._tensors(each) for name, each in outputs.items() if name not in ignored)
        own = tuple(self._tensors(each) for each in labels)
        return value, kept[0] if len(kept) == 1 else kept, own[0] if len(own) == 1 else own

    def save_model(self, *args: Any, **kwargs: Any) -> None:
        """As `Trainer` does, of what was trained."""
        self.bring_back()
        super().save_model(*args, **kwargs)

    def _prepare_for_training(self, *args: Any, **kwargs: Any) -> Any:
        if self._steps is not None:
            self._steps.close()
        self._steps, self._micro = None, []
        return super()._prepare_for_training(*args, **kwargs)

    def _finalize_training(self, *args: Any, **kwargs: Any) -> Any:
        self.bring_back()
        return super()._finalize_training(*args, **kwargs)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        self.bring_back()
        super()._save_optimizer_and_scheduler(output_dir)

    def _load_best_model(self) -> None:
        super()._load_best_model()
        if self._steps is not None:
            self._steps.take_over()

    def _clip_grad_norm(self, model: nn.Module) -> None:
        """The step clips; the norm stays inside it."""

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> None:
        """Not logged."""

    def _check_arguments(self) -> None:
        refused = {
            "fp16": (self.args.fp16, "use bf16=True"),
            "deepspeed": (self.is_deepspeed_enabled, "pass a plan: compile_options={'plan': dmc.plan(…)}"),
            "fsdp": (self.is_fsdp_enabled, "pass a plan: compile_options={'plan': dmc.plan(…)}"),
            "several processes": (self.args.world_size > 1, "start one process, or use dmc.compile in a loop"),
            "several GPUs in one process": (self.args.n_gpu > 1, "show it one: CUDA_VISIBLE_DEVICES=0"),
            "torch_compile": (self.args.torch_compile, "leave it out: the step is compiled"),
        }
        for name, (is_asked, hint) in refused.items():
            if is_asked:
                raise DmcError(f"DmcTrainer: {name}", "is not supported", hint)

    @property
    def _own_model(self) -> nn.Module:
        assert isinstance(self.model, nn.Module), "a trainer has one"
        return self.model

    def _begun(self) -> Steps:
        optimizer: Any = getattr(self.optimizer, "optimizer", self.optimizer)
        return Steps(
            Objective(self._own_model, self._computed),
            optimizer,
            self.args.max_grad_norm or None,
            _outcome if self._wants_outputs() else _loss_alone,
            {
                "precision": "bf16-mixed" if self.args.bf16 else "fp32",
                "seed": self.args.seed,
                "target": self.args.device.type,
                **self._compile_options,
            },
        )

    def _expected(self, micro: Inputs, items: Any) -> tuple[list[Update], list[Update]]:
        """The last update of an epoch, and what is evaluated."""
        loader: Any = self.callback_handler.train_dataloader
        last = last_of_epoch(loader, micro, self.args.gradient_accumulation_steps)
        is_reached = last and self.state.max_steps >= -(-len(loader) // self.args.gradient_accumulation_steps)
        sets = self.eval_dataset if isinstance(self.eval_dataset, dict) else {"": self.eval_dataset}
        loaders = [self.get_eval_dataloader(each) for each in sets.values() if each is not None]
        evaluated = [self._evaluated(batch) for loader in loaders for batch in batches_of(loader)]
        return [self._update(last, items)] if is_reached else [], evaluated

    def _update(self, micro: list[Inputs], items: Any) -> Update:
        return Update.of(micro, items, self._is_scaled(items))

    def _evaluated(self, inputs: Any) -> Update:
        batch = self._prepare_inputs(inputs)
        return Update.of([batch], self._get_num_items_in_batch([batch], self.args.device), is_scaled=True)

    def _computed(self, model: nn.Module, inputs: dict[str, Any], items: Tensor | None) -> tuple[Tensor, Any]:
        loss, outputs = self.compute_loss(model, inputs, return_outputs=True, num_items_in_batch=items)
        if isinstance(outputs, dict):
            outputs = {name: value for name, value in outputs.items() if name not in self._ignored()}
        return loss, outputs

    def _is_scaled(self, items: Any) -> bool:
        """Whether the losses of micro-batches are shares of the update's, as `Trainer.training_step` decides it."""
        if self.loss_is_scaled_for_ga is not None:
            return self.loss_is_scaled_for_ga
        return (self.model_accepts_loss_kwargs and items is not None) or self.compute_loss_func is not None

    def _wants_outputs(self) -> bool:
        return self.compute_metrics is not None and not self.args.prediction_loss_only

    def _ignored(self) -> list[str]:
        return getattr(getattr(self.model, "config", None), "keys_to_ignore_at_inference", ["past_key_values"])

    def _predicted_in_eager(self, model: nn.Module, *args: Any) -> tuple[Any, Any, Any]:
        self.bring_back()
        return super().prediction_step(model, *args)

    def _tensors(self, values: Any) -> Any:
        return pytree.tree_map(lambda each: torch.tensor(np.asarray(each), device=self.args.device), values)


def _outcome(output: Any) -> Any:
    return output


def _loss_alone(output: Any) -> Any:
    loss, _ = output
    return loss


@contextmanager
def _as_it_was_made(model: nn.Module) -> Generator[None]:
    """Without the `forward` of Accelerate, which switches autocast on: the step has a precision of its own."""
    wrapped = vars(model).pop("forward", None) if "_original_forward" in vars(model) else None
    try:
        yield
    finally:
        if wrapped is not None:
            vars(model)["forward"] = wrapped

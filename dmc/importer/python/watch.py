"""Effects of a traced forward pass that export would silently lose: preserved where possible, else refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.fx import traceback
from torch.utils.checkpoint import CheckpointFunction

from dmc.errors import ImportFailure
from dmc.importer import origin
from dmc.importer.python.applied import replacing_parts
from dmc.importer.python.assigned import AssignedData
from dmc.importer.python.calls import PythonCalls, noted_part
from dmc.importer.python.choices import Choices
from dmc.importer.python.gradients import (
    gradient_and_value,
    no_forward_mode,
    vector_jacobian_product,
)
from dmc.importer.python.known import KnownValues
from dmc.importer.python.selected import Selections
from dmc.importer.python.values import undecided
from dmc.importer.torch_internals import (
    func_transforms,
    is_of_checkpoint,
    replacing_functions,
    version,
)


@dataclass
class Watch:
    """One trace. calls: recorded during it. known: what it computes from constants. registered: parameters and buffers
    by name, while the model runs. checkpoints: how many parts of the model were checkpointed. selections, assigned:
    what is done by values where eager shares memory. turned: whether the model changes a shape in place.
    """

    calls: PythonCalls = field(default_factory=PythonCalls)
    known: KnownValues = field(default_factory=KnownValues)
    registered: Mapping[str, Tensor] = field(default_factory=dict)
    checkpoints: int = 0
    assigned: AssignedData = field(default_factory=AssignedData)
    turned: bool = False

    def __post_init__(self) -> None:
        self.selections = Selections(self.known)
        self.choices = Choices(self.known)

    def close(self, registered: Collection[Tensor]) -> None:
        """Raises ImportFailure where what was done by values would differ from what eager does in memory.

        registered: parameters and buffers as the model leaves them.
        """
        self.selections.close(registered)
        self.assigned.close(registered)

    @property
    def is_active(self) -> bool:
        """Whether the model is running."""
        return bool(self.registered)

    def name_of(self, tensor: Tensor) -> str | None:
        """The name of a parameter or buffer."""
        return next((name for name, own in self.registered.items() if own is tensor), None)

    @contextmanager
    def on_guard(self) -> Generator[None]:
        """Intercepts what the model does in this context."""
        patches = (
            mock.patch.object(CheckpointFunction, "apply", self._recomputed),
            replacing_parts(partial(noted_part, self.calls)),
            mock.patch.object(saved_tensors_hooks, "__enter__", self._enter_saved(saved_tensors_hooks.__enter__)),
            mock.patch.object(saved_tensors_hooks, "__exit__", self._exit_saved(saved_tensors_hooks.__exit__)),
            mock.patch.object(torch.inference_mode, "__enter__", _enter_inference),
            mock.patch.object(torch.inference_mode, "__exit__", _exit_inference),
            mock.patch.object(func_transforms, "grad_and_value_impl", gradient_and_value),
            mock.patch.object(func_transforms, "_vjp_with_argnums", vector_jacobian_product),
            mock.patch.object(func_transforms, "jvp_increment_nesting", no_forward_mode),
            replacing_functions(self._replaced),
            undecided(),
        )
        with ExitStack() as stack:
            for each in patches:
                stack.enter_context(each)
            yield

    def _replaced(self, replace: Callable[..., Any]) -> Callable[..., Any]:
        """What export calls instead of a function, with the selections of `Tensor.__getitem__`."""

        def replaced(handler: Any, function: Any, args: Any, kwargs: Any) -> Any:
            if function is torch.Tensor.__getitem__ and self.is_active and self.selections.selects(args[1]):
                return self.selections.read, args, kwargs
            if function is torch.Tensor.__getitem__ and self.is_active and self.choices.ends(args[1]):
                return partial(self.choices.read, function), args, kwargs
            return replace(handler, function, args, kwargs)

        return replaced

    def _recomputed(self, run: Callable[..., Any], _: bool, *args: Any) -> Any:
        """A checkpointed part of the model."""
        before = self._versions()
        with self._checkpoint():
            result = run(*args)
        self._check_versions(before)
        return result

    @contextmanager
    def _checkpoint(self) -> Generator[None]:
        """Marks operations as parts of one checkpoint: what the backward pass reads of them is computed again there."""
        self.checkpoints += 1
        with traceback.preserve_node_meta(), traceback.annotate({origin.CHECKPOINT_KEY: self.checkpoints}):
            yield

    def _enter_saved(self, enter: Callable[[Any], None]) -> Callable[[Any], None]:
        def checked(hooks: Any) -> None:
            # PyTorch's own return their argument.
            if type(hooks) is saved_tensors_hooks or not type(hooks).__module__.startswith("torch."):
                raise ImportFailure(
                    None, "hooks on saved tensors are not supported", hint="write an autograd.Function that saves them"
                )
            hooks.dmc_versions, hooks.dmc_checkpoint = self._versions(), ExitStack()
            if is_of_checkpoint(hooks):
                hooks.dmc_checkpoint.enter_context(self._checkpoint())
            enter(hooks)

        return checked

    def _exit_saved(self, leave: Callable[..., None]) -> Callable[..., None]:
        def checked(hooks: Any, *error: Any) -> None:
            leave(hooks, *error)
            hooks.dmc_checkpoint.close()
            self._check_versions(hooks.dmc_versions)

        return checked

    def _versions(self) -> dict[str, int]:
        return {name: version(tensor) for name, tensor in self.registered.items()}

    def _check_versions(self, before: Mapping[str, int]) -> None:
        changed = [name for name, now in self._versions().items() if before.get(name, now) != now]
        if changed:
            raise ImportFailure(
                None,
                f"{changed[0]} changes in a checkpoint, and again when eager recomputes it",
                hint="keep modules that change buffers, such as batch norm, out of the checkpoint",
            )


def _enter_inference(region: Any) -> None:
    """As a region without gradients, which export records; of inference mode it records nothing."""
    region.dmc_region = torch.no_grad() if region.mode else torch.enable_grad()
    region.dmc_region.__enter__()


def _exit_inference(region: Any, *error: Any) -> None:
    region.dmc_region.__exit__(*error)

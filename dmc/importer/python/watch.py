"""Effects of a traced forward pass that export would silently lose: preserved where possible, else refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.fx import traceback
from torch.fx.experimental import proxy_tensor
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import CheckpointFunction

from dmc.errors import ImportFailure
from dmc.importer import origin
from dmc.importer.python.calls import PythonCalls, noted_function, noted_hook
from dmc.importer.python.ctc import ctc_loss
from dmc.importer.python.gradients import (
    gradient_and_value,
    no_forward_mode,
    noted_gradient,
    vector_jacobian_product,
)
from dmc.importer.python.known import KnownValues
from dmc.importer.python.values import bincount, correlation, covariance, gaussian_nll, narrow, undecided
from dmc.importer.torch_internals import (
    FUNCTION_BASE,
    caller,
    func_transforms,
    is_of_checkpoint,
    traced_apart,
    version,
)


@dataclass
class Watch:
    """One trace. calls: recorded during it. known: what it computes from constants. registered: parameters and buffers
    by name, while the model runs. checkpoints: how many parts of the model were checkpointed.
    """

    calls: PythonCalls = field(default_factory=PythonCalls)
    known: KnownValues = field(default_factory=KnownValues)
    registered: Mapping[str, Tensor] = field(default_factory=dict)
    checkpoints: int = 0

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

        def apply(function: type[torch.autograd.Function], *args: Any, **kwargs: Any) -> Any:
            if function is CheckpointFunction:
                return self._recomputed(*args)
            return noted_function(self.calls, function, *args, **kwargs)

        patches = (
            mock.patch.object(FUNCTION_BASE, "apply", classmethod(apply), create=True),
            mock.patch.object(saved_tensors_hooks, "__enter__", self._enter_saved(saved_tensors_hooks.__enter__)),
            mock.patch.object(saved_tensors_hooks, "__exit__", self._exit_saved(saved_tensors_hooks.__exit__)),
            mock.patch.object(torch.inference_mode, "__enter__", _enter_inference),
            mock.patch.object(torch.inference_mode, "__exit__", _exit_inference),
            mock.patch.object(func_transforms, "grad_and_value_impl", gradient_and_value),
            mock.patch.object(func_transforms, "_vjp_with_argnums", vector_jacobian_product),
            mock.patch.object(func_transforms, "jvp_increment_nesting", no_forward_mode),
            undecided(),
            _Functions(self),
        )
        with ExitStack() as stack:
            for each in patches:
                stack.enter_context(each)
            yield

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


class _Functions(TorchFunctionMode):
    """Intercepts calls of PyTorch functions, including attributes of tensors."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        handler = _HANDLERS.get(func) if self.watch.is_active else None
        if handler is None:
            return func(*args, **(kwargs or {}))
        return handler(self.watch, func, *args, **(kwargs or {}))


def _data(watch: Watch, get: Any, tensor: Tensor) -> Tensor:
    # The same memory, and no gradient: what `.data` means, in a form that is traced.
    return tensor.detach()


def _converted(watch: Watch, convert: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    # Parameters and buffers are kept in their own types.
    if watch.name_of(tensor) is not None:
        return convert(tensor, *args, **kwargs)
    return traced_apart(tensor, lambda: convert(tensor, *args, **kwargs))


def _gaussian_nll(watch: Watch, function: Any, x: Tensor, target: Tensor, var: Any, **options: Any) -> Tensor:
    return gaussian_nll(function, x, target, var, **options)


def _covariance(
    watch: Watch, function: Any, x: Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None
) -> Tensor:
    return covariance(x, correction, fweights, aweights)


def _correlation(watch: Watch, function: Any, x: Tensor) -> Tensor:
    return correlation(x)


def _narrow(watch: Watch, function: Any, x: Tensor, dim: int, start: Any, length: int) -> Tensor:
    return narrow(function, x, dim, start, length)


def _bincount(watch: Watch, function: Any, *args: Any, **kwargs: Any) -> Tensor:
    return bincount(*args, **kwargs)


def _one_hot(watch: Watch, function: Any, *args: Any, **kwargs: Any) -> Tensor:
    # Exported, it is a comparison, which lies in memory as its operand does; eager's is dense.
    return function(*args, **kwargs).contiguous()


def _ctc_loss(watch: Watch, function: Any, *args: Any, **kwargs: Any) -> Tensor:
    return ctc_loss(*args, **kwargs)


def _known(watch: Watch, function: Any, *args: Any, **kwargs: Any) -> Any:
    return watch.known.call(function, *args, **kwargs)


def _hook(watch: Watch, register: Any, tensor: Tensor, hook: Any) -> Any:
    if (name := watch.name_of(tensor)) is not None:
        fact = f"registers another hook on {name} in each call of `forward`"
        raise ImportFailure(None, fact, hint="register it once, before compiling")
    return noted_hook(watch.calls, tensor, hook)


def _requires_grad(watch: Watch, change: Any, tensor: Tensor, wanted: bool = True) -> Any:
    name = watch.name_of(tensor)
    if name is not None and tensor.requires_grad != wanted:
        raise ImportFailure(
            None,
            f"sets requires_grad of {name} in `forward`",
            hint="set it before compiling, or use .detach() where no gradient is wanted",
        )
    return change(tensor, wanted)


def _gradient(watch: Watch, grad: Any, *args: Any, **options: Any) -> Any:
    if proxy_tensor.get_proxy_mode() is None:  # Inside an autograd.Function, which is recorded as a whole.
        return grad(*args, **options)
    given = inspect.signature(grad).bind(*args, **options)
    given.apply_defaults()
    return noted_gradient(watch.calls, given.arguments)


def _refused(fact: str, hint: str, of_library: bool = True) -> Callable[..., Any]:
    def refuse(watch: Watch, function: Any, *args: Any, **kwargs: Any) -> Any:
        if not of_library and _is_called_by_library():
            return function(*args, **kwargs)
        raise ImportFailure(None, fact, hint)

    return refuse


def _is_called_by_library() -> bool:
    """Whether PyTorch itself is the caller; frames of modes are in between."""
    frame = caller(1)
    while frame is not None and frame.f_code.co_name in ("__torch_function__", "refuse", "_is_called_by_library"):
        frame = frame.f_back
    return frame is not None and origin.is_library(frame.f_code.co_filename)


_DIFFERENTIATES = _refused(
    "accumulates gradients inside the step", "take them by torch.autograd.grad(…, create_graph=True)"
)
_ATTRIBUTES: Any = torch.Tensor
# What takes Python numbers from tensors.
_NUMBERS = ("item", "tolist", "__bool__", "__int__", "__float__", "__index__", "equal", "allclose", "is_nonzero")
_CONVERSIONS = ("to", "type", "type_as", "float", "double", "half", "bfloat16")
_HANDLERS: dict[Any, Callable[..., Any]] = {
    **{getattr(torch.Tensor, name): _converted for name in _CONVERSIONS},
    **{getattr(torch.Tensor, name): _known for name in _NUMBERS},
    **dict.fromkeys((torch.equal, torch.allclose, torch.is_nonzero), _known),
    _ATTRIBUTES.data.__get__: _data,
    _ATTRIBUTES.data.__set__: _refused("assigns to .data", "write into the tensor: x.copy_(…) under torch.no_grad()"),
    torch.Tensor.register_hook: _hook,
    torch.Tensor.register_post_accumulate_grad_hook: _refused(
        "a hook after gradient accumulation is not supported", "use register_hook, or the compiled optimizer"
    ),
    torch.Tensor.requires_grad_: _requires_grad,
    _ATTRIBUTES.requires_grad.__set__: _requires_grad,
    _ATTRIBUTES.grad_fn.__get__: _refused(
        "reads .grad_fn, whose hooks are not supported", "use tensor.register_hook or an autograd.Function", False
    ),
    _ATTRIBUTES.grad.__get__: _refused(
        "reads .grad", "gradients exist only inside the compiled step; keep what you need in a buffer", False
    ),
    torch.nn.functional.gaussian_nll_loss: _gaussian_nll,
    torch.nn.functional.one_hot: _one_hot,
    **dict.fromkeys((torch.ctc_loss, torch.nn.functional.ctc_loss), _ctc_loss),
    **dict.fromkeys((torch.bincount, torch.Tensor.bincount), _bincount),
    **dict.fromkeys((torch.cov, torch.Tensor.cov), _covariance),
    **dict.fromkeys((torch.corrcoef, torch.Tensor.corrcoef), _correlation),
    **dict.fromkeys((torch.narrow, torch.Tensor.narrow), _narrow),
    torch.autograd.grad: _gradient,
    torch.autograd.backward: _DIFFERENTIATES,
    torch.Tensor.backward: _DIFFERENTIATES,
}

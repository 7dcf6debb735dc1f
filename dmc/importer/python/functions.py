"""What calls of PyTorch's functions become while a model is traced, where export would lose or refuse their meaning."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental import proxy_tensor
from torch.overrides import TorchFunctionMode

from dmc.errors import ImportFailure
from dmc.importer.python import leaving
from dmc.importer.python.calls import noted_hook
from dmc.importer.python.choices import logsumexp, rolled
from dmc.importer.python.ctc import ctc_loss
from dmc.importer.python.gradients import noted_gradient
from dmc.importer.python.leaving import asked_by_library
from dmc.importer.python.masks import combinations, indexed, masked_select
from dmc.importer.python.values import bincount, correlation, covariance, gaussian_nll, narrow, repeated
from dmc.importer.python.watch import Watch
from dmc.importer.torch_internals import traced_apart

_FIRST = "input"


class Functions(TorchFunctionMode):
    """Intercepts calls of PyTorch functions, including attributes of tensors."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.watch.is_active:
            return func(*args, **(kwargs or {}))
        if func is not torch.Tensor.__setitem__:
            self.watch.selections.check((args, kwargs))
        if (handler := _HANDLERS.get(func)) is None:
            return func(*args, **(kwargs or {}))
        return handler(self.watch, func, *args, **(kwargs or {}))


def _operand_by_name(handler: Callable[..., Any]) -> Callable[..., Any]:
    """The handler of a function whose first operand may be given as `input`."""

    def handle(watch: Watch, function: Any, *args: Any, **kwargs: Any) -> Any:
        first = [kwargs.pop(_FIRST)] if _FIRST in kwargs else []
        return handler(watch, function, *first, *args, **kwargs)

    return handle


def _data(watch: Watch, get: Any, tensor: Tensor) -> Tensor:
    # The same memory, and no gradient: what `.data` means, in a form that is traced.
    return tensor.detach()


def _assigned(watch: Watch, assign: Any, tensor: Tensor, value: Tensor) -> None:
    watch.assigned.assign(watch.name_of(tensor), tensor, value)


def _converted(watch: Watch, convert: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    # Parameters and buffers are kept in their own types.
    if watch.name_of(tensor) is not None:
        return convert(tensor, *args, **kwargs)
    return traced_apart(tensor, lambda: convert(tensor, *args, **kwargs))


@_operand_by_name
def _gaussian_nll(watch: Watch, function: Any, x: Tensor, target: Tensor, var: Any, **options: Any) -> Tensor:
    return gaussian_nll(function, x, target, var, **options)


@_operand_by_name
def _narrow(watch: Watch, function: Any, x: Tensor, dim: int, start: Any, length: int) -> Tensor:
    return narrow(function, x, dim, start, length)


def _one_hot(watch: Watch, function: Any, *args: Any, **kwargs: Any) -> Tensor:
    # Exported, it is a comparison, which lies in memory as its operand does; eager's is dense.
    return function(*args, **kwargs).contiguous()


def _index(watch: Watch, get: Any, x: Tensor, index: Any) -> Tensor:
    return watch.choices.read(get, x, indexed(index, watch.known))


@_operand_by_name
def _masked_select(watch: Watch, function: Any, x: Tensor, mask: Tensor) -> Tensor:
    return masked_select(watch.choices.select, x, mask, watch.known)


@_operand_by_name
def _masked_scatter(watch: Watch, function: Any, x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    return watch.choices.scattered(function, x, mask, source)


def _passed_to(replacement: Callable[..., Any]) -> Callable[..., Any]:
    """The handler of a function for which another stands that may call it."""
    return _operand_by_name(lambda watch, function, *args, **kwargs: replacement(function, *args, **kwargs))


def _constants(watch: Watch, function: Any, *args: Any, **kwargs: Any) -> Any:
    return watch.known.constants(function, *args, **kwargs)


@_operand_by_name
def _places(watch: Watch, function: Any, x: Tensor, **options: Any) -> Any:
    return watch.known.constants(partial(watch.choices.places, function), x, **options)


def _where(watch: Watch, function: Any, *args: Any, **kwargs: Any) -> Any:
    if len(args) + len(kwargs) > 1:
        return function(*args, **kwargs)
    return watch.known.constants(partial(watch.choices.places, function), *args, *kwargs.values())


def _length(watch: Watch, function: Any, x: Tensor) -> int:
    if x.dim() and type(x.shape[0]) is not int:
        fact = "asks for the len of what a mask chooses, which only the running step knows"
        raise ImportFailure(None, fact, hint="divide by its shape, x[mask].shape[0], or by mask.sum()")
    return function(x)


def _assign(watch: Watch, assign: Any, x: Tensor, index: Any, value: Any) -> None:
    if isinstance(value, Tensor) and value.dim():
        index = indexed(index, watch.known)
    index, value = watch.choices.assigned(x, index, value)
    if watch.selections.selects(index):
        return watch.selections.write(x, index, value)
    watch.selections.check((x, index, value))
    return assign(x, index, value)


def _instead(replacement: Callable[..., Any]) -> Callable[..., Any]:
    return _operand_by_name(lambda watch, function, *args, **kwargs: replacement(*args, **kwargs))


@_operand_by_name
def _repeated(
    watch: Watch, function: Any, x: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: Any = None
) -> Tensor:
    if repeats is None:
        x, repeats, dim = torch.arange(len(x)), x, 0
    if not isinstance(repeats, Tensor):
        return function(x, repeats, dim, output_size=output_size)
    return repeated(x, repeats, watch.known.numbers(repeats), dim, output_size)


def _known(watch: Watch, function: Any, *args: Any, **kwargs: Any) -> Any:
    return watch.known.call(function, *args, **kwargs)


def _array(watch: Watch, function: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    return leaving.array(watch.known, function, x, *args, **kwargs)


def _text(watch: Watch, function: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    return leaving.text(watch.known, function, x, *args, **kwargs)


def _turned(watch: Watch, function: Any, *args: Any, **kwargs: Any) -> Any:
    watch.turned = True
    return function(*args, **kwargs)


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
            hint="set it before compiling. Where no gradient is wanted, use x.detach(), or, for a network that passes "
            "gradients on but has none, functional_call(net, {n: p.detach() for n, p in net.named_parameters()}, x)",
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
        if not of_library and asked_by_library():
            return function(*args, **kwargs)
        raise ImportFailure(None, fact, hint)

    return refuse


_DIFFERENTIATES = _refused(
    "accumulates gradients inside the step", "take them by torch.autograd.grad(…, create_graph=True)"
)
_ATTRIBUTES: Any = torch.Tensor
# What takes Python numbers from tensors.
_NUMBERS = ("item", "tolist", "__bool__", "__int__", "__float__", "__index__", "equal", "allclose", "is_nonzero")
# What has as many elements as values say.
_SIZED = ("unique", "unique_consecutive")
_PLACES = ("nonzero", "argwhere")
# What changes the shape of a tensor in place.
_TURNS = ("t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_")
_CONVERSIONS = ("to", "type", "type_as", "float", "double", "half", "bfloat16")
_HANDLERS: dict[Any, Callable[..., Any]] = {
    **{getattr(torch.Tensor, name): _converted for name in _CONVERSIONS},
    **{getattr(torch.Tensor, name): _known for name in _NUMBERS},
    **dict.fromkeys((torch.Tensor.numpy, torch.Tensor.__array__), _array),
    **dict.fromkeys((torch.Tensor.__repr__, torch.Tensor.__format__), _text),
    **dict.fromkeys((torch.equal, torch.allclose, torch.is_nonzero), _known),
    _ATTRIBUTES.data.__get__: _data,
    _ATTRIBUTES.data.__set__: _assigned,
    **{getattr(torch.Tensor, name): _turned for name in _TURNS},
    torch.Tensor.__getitem__: _index,
    torch.Tensor.__setitem__: _assign,
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
    **dict.fromkeys((torch.ctc_loss, torch.nn.functional.ctc_loss), _instead(ctc_loss)),
    **dict.fromkeys((torch.bincount, torch.Tensor.bincount), _instead(bincount)),
    **dict.fromkeys((torch.cov, torch.Tensor.cov), _instead(covariance)),
    **dict.fromkeys((torch.corrcoef, torch.Tensor.corrcoef), _instead(correlation)),
    torch.where: _where,
    **{getattr(owner, name): _constants for owner in (torch, torch.Tensor) for name in _SIZED},
    **{getattr(owner, name): _places for owner in (torch, torch.Tensor) for name in _PLACES},
    **dict.fromkeys((torch.masked_select, torch.Tensor.masked_select), _masked_select),
    **dict.fromkeys((torch.masked_scatter, torch.Tensor.masked_scatter), _masked_scatter),
    **dict.fromkeys((torch.logsumexp, torch.Tensor.logsumexp), _passed_to(logsumexp)),
    **dict.fromkeys((torch.roll, torch.Tensor.roll), _passed_to(rolled)),
    torch.Tensor.__len__: _length,
    torch.combinations: _instead(combinations),
    **dict.fromkeys((torch.narrow, torch.Tensor.narrow), _narrow),
    **dict.fromkeys((torch.repeat_interleave, torch.Tensor.repeat_interleave), _repeated),
    torch.autograd.grad: _gradient,
    torch.autograd.backward: _DIFFERENTIATES,
    torch.Tensor.backward: _DIFFERENTIATES,
}

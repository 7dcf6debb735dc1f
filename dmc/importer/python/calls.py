"""Python that must run while PyTorch differentiates, not while it exports: an `autograd.Function`, whose backward pass
export would leave out, and hooks on tensors. Export records such a call as one node; `differentiate` makes the call.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.autograd.function import FunctionCtx
from torch.fx.experimental import proxy_tensor
from torch.utils import _pytree as pytree

from dmc.errors import DmcError, ImportFailure
from dmc.importer import origin
from dmc.importer.composites.base import LIBRARY
from dmc.importer.python.attributes import attributes_of
from dmc.importer.torch_internals import apply, version, without_torch_functions

# It may write its inputs.
LIBRARY.define("python_call(Tensor(a!)[] inputs, int call) -> Tensor[]")
PYTHON_CALL = torch.ops.dmc.python_call.default

# PyTorch's error where a tensor of one trace appears in another.
_MIXED = "Mixing fake modes"
_NUMPY = ".numpy() is not supported for tensor subclasses"
_NO_BACKWARD = torch.autograd.Function.backward
Rebuild = Callable[[Sequence[Tensor]], Any]


@dataclass(frozen=True)
class PythonCall:
    """`function` on arguments that `rebuild` makes from tensors; `name` identifies it in errors. lacks_backward:
    whether it is an `autograd.Function` that only goes forward."""

    name: str
    function: Callable[..., Any]
    rebuild: Rebuild
    lacks_backward: bool = False

    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tensors that the call returns. Raises ImportFailure where it cannot be traced."""
        try:
            return _tensors(self.function(*self.rebuild(tensors)))
        except DmcError:
            raise
        except Exception as error:  # Users' code raises what it likes.
            raise untraceable(self.name, error) from error


@dataclass
class PythonCalls:
    """The calls of one trace; a node holds the index of its call."""

    calls: list[PythonCall] = field(default_factory=list)

    def note(
        self,
        call: tuple[str, Callable[..., Any]],
        arguments: tuple[Any, ...],
        result: Any,
        is_early: bool = False,
        lacks_backward: bool = False,
    ) -> Any:
        """Adds a node for a call that returns `result` to the graph being traced, and returns `result`. is_early: it
        stands where its one tensor is made."""
        mode = proxy_tensor.get_proxy_mode()
        assert mode is not None
        tensors: list[Tensor] = []
        rebuild = _taken_apart(arguments, tensors, ())
        proxies = [_proxy(tensor, mode.tracer) for tensor in tensors]
        with _behind(proxies[0].node) if is_early else nullcontext():
            node = mode.tracer.create_proxy("call_function", PYTHON_CALL, (proxies, len(self.calls)), {})
        self.calls.append(PythonCall(*call, rebuild, lacks_backward))
        outputs = _tensors(result)
        node.node.meta["val"] = outputs
        proxy_tensor.track_tensor_tree(outputs, node, constant=None, tracer=mode.tracer)
        return result


def _behind(node: fx.Node) -> AbstractContextManager[Any]:
    """New nodes stand behind `node`, and behind the inputs of the graph."""
    last = node.graph.find_nodes(op="placeholder")[-1:] if node.op == "placeholder" else [node]
    return node.graph.inserting_after(last[0])


def noted_part(
    calls: PythonCalls, function: type[torch.autograd.Function], name: str, part: Callable[..., Any]
) -> Callable[..., Any]:
    """Replaces `function.forward`, and `setup_context`, where the function is applied while export traces."""

    def run(*args: Any) -> Any:
        if proxy_tensor.get_proxy_mode() is None:  # Inside another function, which is recorded as a whole.
            return part(*args)
        with proxy_tensor.disable_proxy_modes_tracing(), without_torch_functions():
            given = {id(each): version(each) for each in args if isinstance(each, Tensor)}
            result = pytree.tree_map_only(Tensor, functools.partial(_returned, given), part(*args))
        if name == "forward":
            call = f"autograd.Function '{function.__name__}'", replay
            calls.note(call, _arguments(args), result, lacks_backward=function.backward is _NO_BACKWARD)
        return result

    def replay(*args: Any) -> Any:
        return apply(function, args, {})

    return run


def _returned(given: Mapping[int, int], result: Tensor) -> Tensor:
    """A result that is an argument, and not written, is a view of it. given: versions of arguments by identity."""
    return result.view_as(result) if given.get(id(result)) == version(result) else result


def _arguments(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of `apply`: `forward` may take a context first."""
    return args[1:] if args and isinstance(args[0], FunctionCtx) else args


def noted_hook(calls: PythonCalls, tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Any:
    """Replaces `tensor.register_hook(hook)` while export traces."""
    if not tensor.requires_grad:
        raise ImportFailure(None, "a hook on a tensor that has no gradient", hint="check torch.no_grad and detach")
    calls.note(("a tensor's hook", add_hook), (tensor, hook), ())
    return _Handle()


def add_hook(tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> None:
    """Lets `hook` replace the gradient of `tensor`; one that returns None would do nothing in a compiled step."""
    name = getattr(hook, "__qualname__", type(hook).__name__)

    def checked(gradient: Tensor) -> Tensor:
        try:
            result = hook(gradient)
        except Exception as error:  # Users' code raises what it likes.
            raise untraceable(f"the hook '{name}'", error) from error
        if result is None:
            raise ImportFailure(
                f"the hook '{name}'",
                "returns no gradient: its side effects would be lost in a compiled step",
                hint="return the new gradient, or remove the hook",
            )
        return result

    tensor.register_hook(checked)


class _Handle:
    """The handle of a recorded hook."""

    def remove(self) -> None:
        raise ImportFailure(None, "removes a hook in `forward`", hint="register only hooks that stay")


def _tensors(result: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]


def _proxy(tensor: Tensor, tracer: Any) -> fx.Proxy:
    if proxy_tensor.get_proxy_slot(tensor, tracer, None) is None:
        tensor = tensor.detach()  # A constant new to the graph.
    return proxy_tensor.get_proxy_slot(tensor, tracer).proxy


def _taken_apart(value: Any, tensors: list[Tensor], above: tuple[Any, ...]) -> Rebuild:
    """Appends the tensors in `value` to `tensors`; returns a function that rebuilds `value` with others in their
    place."""
    first = len(tensors)
    if isinstance(value, Tensor):
        tensors.append(value)
        return lambda given: given[first]
    parts = [] if any(value is other for other in above) else _parts(value)
    rebuilds = [_taken_apart(part, tensors, (*above, value)) for part in parts]
    if len(tensors) == first:
        return lambda given: value
    return lambda given: _put_together(value, [rebuild(given) for rebuild in rebuilds])


def _parts(value: Any) -> list[Any]:
    match value:
        case list() | tuple():
            return list(value)
        case dict():
            return list(value.values())
        case types.FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            return [cells, value.__defaults__, value.__kwdefaults__]
        case types.MethodType():
            return [value.__self__]
        case functools.partial():
            return [value.func, value.args, value.keywords]
        case nn.Module() | type():
            return []
        case _ if _is_called_as_object(value):
            return [dict(attributes) for attributes in attributes_of(value)]
        case _:
            return []


def _is_called_as_object(value: Any) -> bool:
    """Whether the class of `value`, which is not PyTorch's, defines `__call__` in Python."""
    is_torch = type(value).__module__.partition(".")[0] == "torch"
    return callable(value) and not is_torch and isinstance(type(value).__call__, types.FunctionType)


def _put_together(value: Any, parts: list[Any]) -> Any:
    match value:
        case types.FunctionType():
            cells, defaults, keyword_defaults = parts
            closure = tuple(types.CellType(cell) for cell in cells)
            new = types.FunctionType(value.__code__, value.__globals__, value.__name__, defaults, closure)
            new.__kwdefaults__ = keyword_defaults
            return new
        case types.MethodType():
            return types.MethodType(value.__func__, *parts)
        case functools.partial():
            function, args, keywords = parts
            return functools.partial(function, *args, **keywords)
        case dict():
            return dict(zip(value, parts, strict=True))
        case list() | tuple():
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        case _:
            new = object.__new__(type(value))
            for own, attributes in zip(attributes_of(new), parts, strict=True):
                own.update(attributes)
            return new


def untraceable(what: str, error: Exception) -> ImportFailure:
    """The error for Python code that failed during tracing; the place is the innermost line of user code."""
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    place = str(origin.of_exception(error, nn.Module()))
    if first.startswith(_MIXED):
        first = "it reads a tensor of the forward pass that is neither an argument nor a local variable"
    if _NUMPY in first:
        fact = f"{what} lets a tensor's numbers leave the step, by NumPy"
        return ImportFailure(place, fact, hint="write it by PyTorch's operations, on tensors")
    hint = "forward and backward must consist of PyTorch operations on tensors that are arguments or local variables"
    return ImportFailure(place, f"{what} cannot be traced: {first}", hint)

"""The private names of PyTorch that the importer needs, in one place."""
# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any
from unittest import mock

import torch
from torch import Tensor, fx, nn
from torch._C import _functorch as functorch
from torch._C._functorch import get_unwrapped, is_batchedtensor
from torch._functorch import eager_transforms, predispatch
from torch._library import simple_registry
from torch._ops import OpOverload
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.amp import autocast_mode
from torch.autograd.function import _SingleLevelFunction
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental import proxy_tensor
from torch.nn.modules import module as nn_module
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.checkpoint import _checkpoint_hook

Registry = dict[str, Any]
REGISTRIES = ("_parameters", "_buffers")
# What `torch.no_grad` and the like call, when they begin and end.
SETS_GRADIENTS = torch._C._set_grad_enabled
BATCH_NORM: Any = _BatchNorm
func_transforms: Any = eager_transforms  # Where `torch.func` looks up what differentiates.
# A function of `torch.nn.modules.transformer`.
CAUSAL_MASK = "_detect_is_causal_mask"
# Normalisations: their schemas do not say that they write the running mean and variance.
_NORMS = ("batch_norm", "instance_norm", "native_batch_norm")
_UPDATES_STATISTICS = {getattr(torch.ops.aten, name).default for name in _NORMS}
# What enters and leaves `torch.autocast` in a graph that is being traced.
enter_autocast, exit_autocast = autocast_mode._enter_autocast, autocast_mode._exit_autocast
# What enters and leaves `torch.vmap` in an exported graph: nothing reads its results.
ENTER_VMAP = predispatch._vmap_increment_nesting
VMAP_NESTING = frozenset((ENTER_VMAP, predispatch._vmap_decrement_nesting))


def replacing_functions(change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> AbstractContextManager[Any]:
    """Changes what export calls instead of functions: (handler, function, args, kwargs) → (function, args, kwargs)."""
    from torch._export.non_strict_utils import _NonStrictTorchFunctionHandler as Handler  # It imports Triton.

    return mock.patch.object(Handler, "_override", change(Handler._override))


def compiled_when_called() -> AbstractContextManager[None]:
    """Graphs made inside become Python code when they are first called, which most never are."""
    return _use_lazy_graph_module(True)


def without_trace_log() -> AbstractContextManager[Any]:
    """PyTorch describes every tensor that it traces, with a stack of frames, for a log kept on request only."""
    log = logging.getLogger("torch.__trace")
    return mock.patch.object(log, "handlers", log.handlers if os.environ.get("TORCH_TRACE") else [])


def without_matrix_checks() -> AbstractContextManager[Any]:
    """Eager raises for a matrix that is singular, which is an effect; a compiled step gives what is not finite."""
    return mock.patch.object(simple_registry.singleton.find("aten::_linalg_check_errors").effect, "_effect", None)


@contextmanager
def unmapped_after_errors() -> Generator[None]:
    """Leaves the levels of `torch.vmap` that an error inside left open."""
    before = functorch.maybe_current_level() or 0
    try:
        yield
    except BaseException:
        while (functorch.maybe_current_level() or 0) > before:
            functorch._vmap_decrement_nesting()
        raise


def is_of_checkpoint(hooks: object) -> bool:
    """Whether hooks on saved tensors are those of `torch.utils.checkpoint`."""
    return isinstance(hooks, _checkpoint_hook)


def parameters_of(module: nn.Module) -> Registry:
    """The module's own parameters by name, None for one that is registered as None."""
    return module._parameters


def buffers_of(module: nn.Module) -> Registry:
    """As `parameters_of`."""
    return module._buffers


def has_backward_hooks(module: nn.Module | None) -> bool:
    """Whether a module has backward hooks; None stands for hooks on all modules."""
    if module is None:
        return bool(nn_module._global_backward_hooks or nn_module._global_backward_pre_hooks)
    return bool(module._backward_hooks or module._backward_pre_hooks)


def hooks_of(tensor: Tensor) -> tuple[Callable[[Tensor], Tensor | None], ...]:
    """The hooks on the gradient of a tensor, in execution order."""
    return tuple((tensor._backward_hooks or {}).values())


def has_hooks_after_accumulation(tensor: Tensor) -> bool:
    """Whether a hook waits for the tensor's `.grad`."""
    return bool(getattr(tensor, "_post_accumulate_grad_hooks", None))


def apply(function: type[torch.autograd.Function], args: Iterable[Any], kwargs: dict[str, Any]) -> Any:
    """What `function.apply` does once it has bound its arguments."""
    return super(_SingleLevelFunction, function).apply(*args, **kwargs)


def argument_names(overload: OpOverload) -> tuple[str, ...]:
    """The names of an operation's arguments, in order."""
    return tuple(argument.name for argument in overload._schema.arguments)


def arguments_of(overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, with defaults for those that are not given."""
    defaults = {each.name: each.default_value for each in overload._schema.arguments if each.has_default_value()}
    return {**defaults, **dict(zip(argument_names(overload), args, strict=False)), **kwargs}


def name_of(overload: OpOverload) -> str:
    """The name of an operation, as "add_" of `aten.add_.Tensor`."""
    return overload._opname


def is_view(overload: Any) -> bool:
    """Whether an operation only moves its operand; PyTorch counts conversions among these."""
    return getattr(overload, "is_view", False)


def is_mutable(overload: OpOverload) -> bool:
    """Whether an operation writes an operand."""
    return overload._schema.is_mutable


def functional_form(overload: OpOverload) -> OpOverload | None:
    """The operation that returns what this one, such as `aten.add_.Tensor`, writes into its first operand."""
    packet = getattr(getattr(torch.ops, overload.namespace), overload._opname.removesuffix("_"), None)
    return getattr(packet, overload._overloadname, None)


def numbers_of(overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The Python numbers that an operation computes with, rather than sizes or dimensions, if any."""
    given = {**dict(zip(argument_names(overload), args, strict=False)), **kwargs}
    named = {
        each.name for each in overload._schema.arguments if "number" in str(each.type) or str(each.type) == "Tensor"
    }
    return [value for name, value in given.items() if name in named]


def draws_numbers(target: Any) -> bool:
    """Whether an operation of PyTorch draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def may_write(node: fx.Node) -> bool:
    """Whether an operation, or one in its regions, changes one of its operands."""
    schema = getattr(node.target, "_schema", None)
    writes = updates_statistics(node.target) or (schema is not None and schema.is_mutable)
    return writes or any(may_write(each) for region in regions(node) for each in region.graph.nodes)


def makes_tensors(target: Any) -> bool:
    """Whether an operation returns memory of its own, not views of its operands."""
    returns = target._schema.returns if isinstance(target, OpOverload) else ()
    return bool(returns) and all(each.alias_info is None for each in returns)


def regions(node: fx.Node) -> list[fx.GraphModule]:
    """The graphs that an operation runs in another mode, as those of `torch.no_grad`; a graph being traced has none."""
    if (owner := node.graph.owning_module) is None:
        return []
    named = [each for each in node.args if isinstance(each, fx.Node) and each.op == "get_attr"]
    values = [getattr(owner, str(each.target)) for each in named]
    return [value for value in values if isinstance(value, fx.GraphModule)]


def recount_users(graph: fx.GraphModule) -> None:
    """Notes at each node, and those of regions, who reads it: export forgets readers of what it passes to a region."""
    for node in graph.graph.nodes:
        node.users.clear()
    for node in graph.graph.nodes:
        for source in node.all_input_nodes:
            source.users[node] = None
        for region in regions(node):
            recount_users(region)


def traced_apart(operand: Tensor, convert: Callable[[], Any]) -> Any:
    """`convert()`; where that gives `operand` itself, another tensor with the same memory and gradient.

    Export would take the conversion for the operand from then on, also where a step's own types make them differ.
    """
    mode = proxy_tensor.get_proxy_mode()
    before = None if mode is None else proxy_tensor.get_proxy_slot(operand, mode.tracer, None)
    result = convert()
    if mode is None or before is None or result is not operand:
        return result
    with proxy_tensor.disable_proxy_modes_tracing(), torch.enable_grad():
        result = operand.view_as(operand)
    proxy_tensor.set_proxy_slot(result, mode.tracer, proxy_tensor.get_proxy_slot(operand, mode.tracer))
    proxy_tensor.set_proxy_slot(operand, mode.tracer, before)
    return result


def traced_node(value: Any) -> tuple[fx.Node | None, Any]:
    """What computes a tensor or number in the graph being traced, and the object that holds that graph's constants."""
    mode = proxy_tensor.get_proxy_mode()
    slot: Any = None if mode is None else proxy_tensor.get_proxy_slot(value, mode.tracer, None)
    proxy = slot.proxy if hasattr(slot, "proxy") else None if slot is None else slot.force()
    return (None, None) if mode is None or proxy is None else (proxy.node, mode.tracer.root)


def literal_of(node: fx.Node, root: Any) -> Tensor | None:
    """The tensor that `torch.tensor(…)` makes of numbers in the graph being traced."""
    if node.target is not torch.ops.aten.lift_fresh_copy.default:
        return None
    (source,) = node.all_input_nodes
    return getattr(root, str(source.target), None)


@contextmanager
def untraced() -> Generator[None]:
    """In this context PyTorch computes with values, although a graph is being traced."""
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        yield


def autocast_of(regions: Sequence[Sequence[Any]]) -> AbstractContextManager[Any]:
    """The context of the last of some regions of `torch.autocast`, as a traced graph enters them; of none, without."""
    device, dtype, enabled, _ = regions[-1] if regions else ("cpu", None, False, None)
    return torch.autocast(device, dtype, enabled, cache_enabled=False)


def written(graph: fx.Graph) -> set[fx.Node]:
    """Tensors that are, or may be, written in place through views: all that a written tensor was computed from."""
    found: set[fx.Node] = set()
    pending = [node for node in graph.nodes if may_write(node)]
    while pending:
        new = set(pending.pop().all_input_nodes) - found
        found |= new
        pending += new
    return found


def updates_statistics(target: Any) -> bool:
    """Of an operation `(x, weight, bias, mean, variance, training, …)`: whether it may write mean and variance."""
    return target in _UPDATES_STATISTICS


def without_torch_functions() -> Any:
    """A context in which modes do not intercept calls."""
    return torch._C.DisableTorchFunction()


def storage_key(tensor: Tensor) -> int:
    """A key, equal for tensors in the same memory."""
    while is_batchedtensor(tensor):  # of `torch.vmap`
        tensor = get_unwrapped(tensor)
    return tensor.untyped_storage()._cdata


def has_overlap_within(tensor: Tensor) -> bool:
    """Whether elements of one tensor certainly share memory, as the rows of an expanded one."""
    return torch._debug_has_internal_overlap(tensor) == 1


def version(tensor: Tensor) -> int:
    """A counter that grows with every write to the tensor."""
    return tensor._version


def is_written(tensor: Tensor) -> bool:
    """Whether a tensor under functionalisation has been written."""
    assert isinstance(tensor, FunctionalTensor)
    return torch._functionalize_has_data_mutation(tensor.elem)


def caller(depth: int) -> FrameType | None:
    """The frame `depth` levels above the caller."""
    return sys._getframe(depth + 1)


def is_of_module_class(frame: FrameType | None) -> bool:
    """Whether code of `nn.Module` itself runs in `frame`."""
    return frame is not None and frame.f_code.co_filename == nn_module.__file__

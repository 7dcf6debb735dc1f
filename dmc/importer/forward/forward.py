"""The exported graph, run under autograd while the step is traced, with composites in place of what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx
from torch.fx import traceback
from torch.utils import _pytree as pytree

from dmc.errors import DmcError, ImportFailure
from dmc.importer import origin
from dmc.importer.forward.assertions import ASSERTS, NUMBERS, number
from dmc.importer.forward.chosen.chosen import computed as chosen_result
from dmc.importer.forward.chosen.values import Choices, Chosen, Count, refused
from dmc.importer.forward.complex_numbers.rules import computed as complex_result
from dmc.importer.forward.memory_layout import as_in_eager, copied_in_eager
from dmc.importer.forward.narrow_integers import computed_wide
from dmc.importer.forward.precision import autocast
from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.forward.readings import Reading, silent
from dmc.importer.forward.registry import rule_of
from dmc.importer.forward.rules import DECLINE, refuse_randomness
from dmc.importer.forward.statistics import check_statistics, read_by_gradients
from dmc.importer.python.calls import PYTHON_CALL, PythonCall, untraceable
from dmc.importer.torch_internals import (
    ENTER_VMAP,
    VMAP_NESTING,
    is_written,
    makes_tensors,
    may_write,
    updates_statistics,
)

higher_order = torch.ops.higher_order

# (values by node, random numbers) -> the values of a layer's nodes that others read, None for the rest; None where its
# operations are run one by one.
LayerCall: TypeAlias = Callable[[Mapping[fx.Node, Any], Randomness], Mapping[fx.Node, Any] | None]


@dataclass(frozen=True)
class Setting:
    """What a run needs besides its tensors. read_only: tensors by name that the graph must not write. conditions:
    what the graph asserts; it adds to them. read: by memory, what gradients may read; it adds to that as well.
    unchecked: by operation of the graph the indices which it must find in range. layers: by the first operation of a
    layer what computes all of it. choices: those that masks make.
    """

    random: Randomness
    calls: tuple[PythonCall, ...]
    read_only: Mapping[str, Tensor]
    conditions: list[Any] = field(default_factory=list[Any])
    read: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    unchecked: Mapping[fx.Node, tuple[Reading, ...]] = field(default_factory=dict[fx.Node, tuple[Reading, ...]])
    layers: Mapping[fx.Node, LayerCall] = field(default_factory=dict[fx.Node, "LayerCall"])
    choices: Choices = field(default_factory=Choices)


class Forward(fx.Interpreter):
    """Runs a graph; `mixed` applies the rules of `precision.autocast`."""

    def __init__(self, graph: fx.GraphModule, setting: Setting, mixed: bool) -> None:
        super().__init__(graph)
        self.setting, self.mixed = setting, mixed
        # What eager's operation returns, of which the types matter.
        self.expected: Any = None
        self.writes = any(may_write(node) for node in graph.graph.nodes)
        # Of layers, until their nodes are reached.
        self.made: dict[fx.Node, Any] = {}
        self.extra_traceback = False  # Errors name their own place.

    def run_node(self, n: fx.Node) -> Any:
        """The result of one operation; its backward operations inherit its origin."""
        if n in self.setting.layers:
            self._call_layer(n, self.setting.layers[n])
        if n in self.made:
            return self.made.pop(n)
        try:
            self.expected = n.meta.get("val")
            operands = _tensors([self.env[each] for each in n.all_input_nodes])
            # Inside vmap each is one of many, which nothing outside could read.
            if not self.setting.random.is_mapped:
                for each in self.setting.unchecked.get(n, ()):
                    self.setting.conditions.append(each.holds(_filled(self.env[each.index])))
            result = super().run_node(n)
            self._note_reads(n, operands, result)
            result = self._laid_out(n, result)
            if n.op == "call_function" and may_write(n):
                _check_not_written(self.setting.read_only)
        except DmcError as error:
            if error.place or n.op != "call_function":
                raise
            place = n.meta["custom"][origin.META_KEY]
            what = "" if n.target is PYTHON_CALL else f": {origin.op_name(n.target)}"
            raise ImportFailure(f"{place}{what}", error.fact, error.hint) from error
        except Exception as error:  # PyTorch raises many exception types for what it cannot trace.
            if n.op != "call_function":
                raise
            failure = untraceable(origin.op_name(n.target), error)
            raise ImportFailure(str(n.meta["custom"][origin.META_KEY]), failure.fact, failure.hint) from error
        # Where gradients are off nothing gets a backward operation, and PyTorch refuses to look for that of a view.
        if torch.is_grad_enabled():
            _mark_backward(n, _tensors(result))
        return result

    def _call_layer(self, n: fx.Node, call: LayerCall) -> None:
        made = call(self.env, self.setting.random)
        if made is not None:
            self.made.update(made)
            _mark_backward(n, made.values())

    def _note_reads(self, n: fx.Node, operands: Iterable[Any], result: Any) -> None:
        if n.op == "call_function":
            self.setting.read.update(read_by_gradients(n, operands, _tensors(result)))

    def _laid_out(self, n: fx.Node, result: Any) -> Any:
        """A result that lies in memory as eager's, and is a copy where eager's is."""
        recorded, first = n.meta.get("val"), n.args[0] if n.args else None
        is_made = rule_of(n.target) is not None or makes_tensors(n.target)
        if isinstance(first, fx.Node) and not is_made:
            operand, recorded_operand = self.env[first], first.meta.get("val")
            copies = copied_in_eager(result, operand, recorded, recorded_operand)
            return as_in_eager(result.clone(), recorded) if copies else result
        # Dropout that is off, and the like, which export takes for a copy.
        is_operand = any(result is self.env[each] for each in n.all_input_nodes)
        return as_in_eager(result, recorded) if is_made and not is_operand else result

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Composites, regions of another mode, and deferred Python calls, each in its own way."""
        if target is higher_order.wrap_with_set_grad_enabled:
            with torch.set_grad_enabled(args[0]):
                return self._run_inner(args[1], args[2:], self.mixed)
        if target is higher_order.wrap_with_autocast:
            return self._run_inner(args[4], args[5:], _is_mixed(*args[:3]))
        if target in VMAP_NESTING:
            self.setting.random.is_mapped = target is ENTER_VMAP
        if target is PYTHON_CALL:
            return self._call_python(*args)
        if target in NUMBERS:
            return number(args[0])
        if target in ASSERTS:
            return self._assert(args[0])
        if (
            target is torch.ops.aten._assert_tensor_metadata.default
        ):  # The operation as exported, before our own choice of types.
            return None
        chosen = chosen_result(
            *(target, args, kwargs, self.expected, self._computed, self.setting.choices, self.setting.conditions),
            is_written=self.writes,
        )
        return self._computed(target, args, kwargs) if chosen is NotImplemented else chosen

    def _assert(self, condition: Any) -> None:
        value = condition.tensor if isinstance(condition, Count) else condition
        if value is not True:
            self.setting.conditions.append(number(value) if isinstance(value, Tensor) else value)

    def _computed(self, target: Any, args: Any, kwargs: Any) -> Any:
        """What an operation gives for tensors of fixed shapes."""
        of_pairs = complex_result(target, args, kwargs, self.expected, self._of_real)
        if of_pairs is not NotImplemented:
            return of_pairs
        if self.mixed:
            args, kwargs = autocast(target, args, kwargs)
        if updates_statistics(target):
            check_statistics(target, args, self.setting.read)
        wide = computed_wide(target, args, kwargs, self.expected)
        if wide is not NotImplemented:
            return wide
        rule = rule_of(target)
        if rule is None:
            refuse_randomness(target, args, kwargs)
        result = DECLINE if rule is None else rule(self.setting.random, *args, **kwargs)
        return super().call_function(target, args, kwargs) if result is DECLINE else result

    def _of_real(self, target: Any) -> Callable[..., Any]:
        """What an operation of real tensors does."""
        rule = rule_of(target)

        def run(*args: Any, **kwargs: Any) -> Any:
            result = DECLINE if rule is None else rule(self.setting.random, *args, **kwargs)
            return target(*args, **kwargs) if result is DECLINE else result

        return run

    def _call_python(self, inputs: list[Tensor], call: int) -> list[Tensor]:
        if any(isinstance(each, Chosen) for each in inputs):
            raise refused("is a Function or a hook of your own, of what a mask chooses, whose number data decide")
        if not self.mixed:
            return self.setting.calls[call].run(inputs)
        with torch.autocast("cpu", torch.bfloat16):
            return self.setting.calls[call].run(inputs)

    def _run_inner(self, graph: fx.GraphModule, args: Any, mixed: bool) -> Any:
        return Forward(graph, replace(self.setting, unchecked=silent(graph)), mixed).run(*args)


def _is_mixed(device: str, dtype: torch.dtype | None, enabled: bool) -> bool:
    """Whether a region under `torch.autocast` computes in mixed precision."""
    if enabled and dtype not in (None, torch.bfloat16):
        raise ImportFailure(None, f"autocast to {dtype} is not supported", hint="use torch.bfloat16")
    return enabled


def _tensors(value: Any) -> list[Any]:
    """What a value consists of, with whole tensors instead of what masks choose of them."""
    return [each.tensor if isinstance(each, Chosen) else each for each in pytree.tree_leaves(value)]


def _filled(value: Any) -> Any:
    return value.filled if isinstance(value, Chosen) else value


def _check_not_written(tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if is_written(tensor):
            raise ImportFailure(
                None,
                f"writes into '{name}', which is not a buffer, so a compiled step would lose the change",
                hint="write into a copy (.clone()), or register the tensor with register_buffer",
            )


def _mark_backward(node: fx.Node, results: Iterable[Any]) -> None:
    """Lets the backward operations of `node` inherit its origin, while a graph is recorded."""
    # Elsewhere nothing would restore what the hooks set: the next graph would inherit it.
    meta = node.meta.get("custom") if traceback.has_preserved_node_meta() else None
    if meta and origin.META_KEY in meta:
        meta = {**meta, origin.META_KEY: replace(meta[origin.META_KEY], part="backward")}
    for result in results:
        if not meta or not isinstance(result, Tensor) or result.grad_fn is None:
            continue
        # An operation that returns its operand, such as a cast to the same type, has no backward operations of its own.
        if result.grad_fn.metadata.setdefault(origin.META_KEY, node) is not node:
            continue

        def enter(_: Any) -> None:
            traceback.current_meta = {**traceback.current_meta, "custom": meta}

        result.grad_fn.register_prehook(enter)

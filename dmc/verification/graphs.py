"""The PyTorch graphs of a request, from the exported to the decomposed one, each run on the first micro-batch."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from dmc.dtypes import Array
from dmc.importer.capture.capture import Capture, capture
from dmc.importer.differentiate import Gradients, differentiate
from dmc.importer.forward.forward import Forward, Setting
from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.python.calls import PYTHON_CALL, PythonCall, add_hook
from dmc.program.labels import GRADIENT
from dmc.verification.arrays import array_of, copy_of
from dmc.verification.choices import FirstOfEqual
from dmc.verification.draws import Draws
from dmc.verification.reference import autocast, micro_batch
from dmc.verification.request import Request

aten = torch.ops.aten


@dataclass
class Trace:
    """The values of a graph's nodes, in order, and their gradients, by node name."""

    values: dict[str, list[Tensor]]
    gradients: dict[str, Tensor]
    nodes: dict[str, fx.Node]

    @staticmethod
    def empty() -> Trace:
        """Nothing yet."""
        return Trace({}, {}, {})

    def note(self, node: fx.Node, result: Any) -> None:
        """Records a copy of a node's value."""
        leaves = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
        self.nodes[node.name] = node
        self.values[node.name] = [leaf.detach().clone() for leaf in leaves]
        if len(leaves) == 1 and leaves[0].requires_grad:
            leaves[0].register_hook(functools.partial(self._keep, node.name))

    def _keep(self, name: str, gradient: Tensor | None) -> None:
        # Where no gradient flows, as through a comparison, PyTorch may return None.
        if gradient is not None:
            self.gradients[name] = gradient.clone()


@dataclass(frozen=True)
class Graphs:
    """`exported` from torch.export, then with patterns replaced (`captured.graph`), and differentiated.

    The values of each are the loss, auxiliary outputs, buffers after the pass, and "gradient of" each parameter.
    """

    request: Request
    counter: int
    exported: fx.GraphModule
    captured: Capture
    gradients: Gradients

    @staticmethod
    def of(request: Request, counter: int) -> Graphs:
        """Imports the request again, as `dmc.importer.step` does."""
        example = micro_batch(request.example, 0, request.accumulate)
        captured = capture(request.model, request.loss, example, request.dtype)
        exported = copy.deepcopy(captured.graph)
        gradients = differentiate(captured, request.is_mixed, frozenset(request.plan().group_of), request.accumulate)
        return Graphs(request, counter * request.accumulate, exported, captured, gradients)

    def of_export(self, trace: Trace) -> dict[str, Array]:
        """The values of the exported graph."""
        return self._by_eager(self.exported, trace)

    def of_patterns(self, trace: Trace) -> dict[str, Array]:
        """The values of the graph with patterns replaced."""
        return self._by_eager(self.captured.graph, trace)

    def of_rules(self, trace: Trace) -> dict[str, Array]:
        """The values of the graph with composites in place of what they mean."""
        random = Randomness(torch.tensor(self.request.draws_by), torch.tensor(self.counter))
        setting = Setting(random, self.captured.calls, {})
        return self._differentiated(_RecordedForward(self.captured.graph, setting, self.request.is_mixed, trace).run)

    def of_decomposed(self, trace: Trace) -> dict[str, Array]:
        """The values of the joint graph of forward and backward, as imported."""
        with torch.no_grad():
            results = _RecordedJoint(self.gradients.graph, trace).run(*self.arguments())
        names = [*self._heads(), *self.gradients.written, *(GRADIENT + name for name in self.gradients.trained)]
        return {name: array_of(each) for name, each in zip(names, results, strict=True)}

    def arguments(self) -> list[Tensor]:
        """The arguments of the joint graph."""
        state = [tensor.detach().clone() for tensor in self.captured.state.values()]
        scalars = [torch.tensor(self.request.draws_by), torch.tensor(self.counter)]
        return [*state, *scalars, *(copy_of(tensor) for _, tensor in self.captured.batch)]

    def whole(self) -> Gradients:
        """The joint graph before decomposition."""
        trained = frozenset(self.gradients.trained)
        return differentiate(self.captured, self.request.is_mixed, trained, self.request.accumulate, decompose=False)

    def _by_eager(self, graph: fx.GraphModule, trace: Trace) -> dict[str, Array]:
        def run(*arguments: Tensor) -> Any:
            with FirstOfEqual(), Draws(self.request.draws_by, self.counter), autocast(self.request.precision):
                return _Exported(graph, trace, self.captured.calls).run(*arguments)

        return self._differentiated(run)

    def _differentiated(self, forward: Callable[..., Any]) -> dict[str, Array]:
        captured = self.captured
        leaves = {name: tensor.detach().clone() for name, tensor in captured.state.items()}
        wanted = {name: leaves[name].requires_grad_() for name in self.gradients.trained}
        batch = [copy_of(tensor) for _, tensor in captured.batch]
        with torch.enable_grad():
            for name, leaf in wanted.items():
                for hook in captured.hooks[name]:
                    add_hook(leaf, hook)
            loss, *others = forward(*(leaves[name] for name in captured.inputs), *batch)
            found: Any = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
        leaves.update(zip(captured.replaced, others[self.gradients.aux :], strict=True))
        values = dict(zip(self._heads(), [loss, *others], strict=False)) | {
            n: leaves[n] for n in self.gradients.written
        }
        values |= {GRADIENT + n: g for n, g in zip(wanted, found, strict=True) if g is not None}
        return {name: array_of(value) for name, value in values.items()}

    def _heads(self) -> list[str]:
        return ["loss", *(f"aux{i}" for i in range(self.gradients.aux))]


class Joint(fx.Interpreter):
    """Runs a joint graph, which writes into no tensor.

    Tensors may have other strides than when it was traced, so that what was a view of one must be a copy.
    """

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        return super().call_function(_COPIES.get(target, target), args, kwargs)


_COPIES: dict[Any, Any] = dict.fromkeys((aten.view.default, aten._unsafe_view.default), aten.reshape.default)


class _Recorded(fx.Interpreter):
    """Runs a graph and records every node's value."""

    def __init__(self, graph: fx.GraphModule, trace: Trace) -> None:
        super().__init__(graph)
        self.trace = trace

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        self.trace.note(n, result)
        return result


class _RecordedJoint(_Recorded, Joint):
    """The same for a joint graph."""


class _Exported(_Recorded):
    """The same for a graph with Python calls."""

    def __init__(self, graph: fx.GraphModule, trace: Trace, calls: Sequence[PythonCall]) -> None:
        super().__init__(graph, trace)
        self.calls = calls

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is PYTHON_CALL:
            return self.calls[args[1]].run(args[0])
        return super().call_function(target, args, kwargs)


class _RecordedForward(Forward):
    """The same with the rules of the importer."""

    def __init__(self, graph: fx.GraphModule, setting: Setting, mixed: bool, trace: Trace) -> None:
        super().__init__(graph, setting, mixed)
        self.trace = trace

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        self.trace.note(n, result)
        return result

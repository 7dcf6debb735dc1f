"""A graph put together from functions, each traced once for all calls of it that are alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from dmc.importer import origin
from dmc.importer.differentiate import results_of, trace
from dmc.memo import Memo


@dataclass
class Assembly:
    """A graph that is being put together. An optimizer does the same to hundreds of parameters of a few shapes, and to
    trace an operation takes PyTorch milliseconds, to copy its node microseconds.
    """

    _graph: fx.Graph = field(default_factory=fx.Graph)
    _examples: FakeTensorMode = field(default_factory=FakeTensorMode)
    _parts: Memo[Hashable, fx.GraphModule] = field(default_factory=Memo[Hashable, fx.GraphModule])

    def argument(self, example: Tensor) -> fx.Node:
        """The next argument of the graph, of the shape and type of `example`."""
        node = self._graph.placeholder(f"arg{len(self._graph.nodes)}")
        node.meta["val"] = self._like(example)
        return node

    def call(
        self, key: Hashable, function: Callable[..., list[Tensor]], arguments: Sequence[fx.Node], place: origin.Origin
    ) -> list[fx.Node]:
        """Adds what `function` does with the `arguments`, attributed to `place`; its results.

        key: the function's name, and whatever it depends on besides the shapes and types of its arguments.
        """
        part = self._part(key, function, [node.meta["val"] for node in arguments])
        copies: dict[fx.Node, Any] = dict(zip(part.graph.find_nodes(op="placeholder"), arguments, strict=True))
        for node in part.graph.nodes:
            if node.op == "call_function":
                copies[node] = copy = self._graph.node_copy(node, copies.__getitem__)
                copy.meta["custom"] = {origin.META_KEY: place}
        return [copies[node] for node in results_of(part)]

    def finished(self, results: Sequence[fx.Node]) -> fx.GraphModule:
        """The graph, which returns these."""
        self._graph.output(list(results))
        return fx.GraphModule(nn.Module(), self._graph)

    def _part(self, key: Hashable, function: Callable[..., Any], given: Sequence[Tensor]) -> fx.GraphModule:
        def traced() -> fx.GraphModule:
            # Each a tensor of its own: to tracing, the same one twice is one argument.
            part = trace(function, [self._like(each) for each in given])
            assert not part.graph.find_nodes(op="get_attr"), f"{key}: a part holds no tensors of its own"
            return part

        return self._parts.of((key, tuple((tuple(each.shape), each.dtype) for each in given)), traced)

    def _like(self, tensor: Tensor) -> Tensor:
        with self._examples:
            return torch.empty(tensor.shape, dtype=tensor.dtype)

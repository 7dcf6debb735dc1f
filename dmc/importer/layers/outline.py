"""The layers of a captured model that are traced once each."""

from __future__ import annotations

from collections.abc import Set

from torch import fx

from dmc.importer.capture.capture import Capture
from dmc.importer.capture.checks import is_of_masks
from dmc.importer.layers.calls import Call, Kind
from dmc.importer.layers.layer import Tracer
from dmc.importer.layers.segments import repeated
from dmc.importer.torch_internals import updates_statistics, written


def outlined(capture: Capture, mixed: bool, others: Set[fx.Node], trace: Tracer) -> list[Call]:
    """The calls of repeated layers. others: operations that are not part of any.

    A model that runs Python in its step, or writes statistics, is traced operation by operation, and so are what masks
    choose and what a tensor that is written in place was computed from: views of it, and what its gradient reads, would
    be lost.
    """
    graph = capture.graph.graph
    if capture.calls or any(updates_statistics(node.target) for node in graph.nodes):
        return []
    chosen = {node for node in graph.nodes if is_of_masks(node)}
    kinds = repeated(graph, others | written(graph) | chosen)
    return [Call(kind, each) for found in kinds for kind in [Kind(found[0], mixed, trace)] for each in found]

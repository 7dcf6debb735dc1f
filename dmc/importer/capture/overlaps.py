"""Writes into tensors whose elements share memory, as the rows of an expanded one, or views of such.

Functionalised, each element would be one of its own: what was written to one would be lost, or be added to the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, fx
from torch.utils import _pytree as pytree

from dmc.errors import ImportFailure
from dmc.importer import origin
from dmc.importer.torch_internals import may_write, regions, storage_key


def check_overlaps(graph: fx.GraphModule, model: str, given: Sequence[set[int]] = ()) -> None:
    """Raises ImportFailure at the first operation of an exported graph that writes into such a tensor.

    `given`: for the graph of a region, the memory of such tensors in each argument.
    """
    arguments = iter(given)
    # By node, the memory of such tensors in its result.
    shared: dict[fx.Node, set[int]] = {}
    for node in graph.graph.nodes:
        of_views = {key for each in node.all_input_nodes for key in shared[each]} & set(
            map(storage_key, _tensors(node))
        )
        own = {storage_key(each) for each in _tensors(node) if _overlaps(each)}
        shared[node] = of_views | own | (next(arguments, set()) if node.op == "placeholder" else set())
        for region in regions(node):
            check_overlaps(region, model, [shared[each] for each in node.all_input_nodes if each.op != "get_attr"])
        if of_views and not regions(node) and may_write(node):
            raise ImportFailure(
                f"{origin.of_exported_node(node, model)}: {origin.op_name(node.target)}",
                "writes into a tensor whose elements share memory, as those of `expand` do",
                hint="write into the tensor that was expanded, or into a copy (.clone())",
            )


def _tensors(node: fx.Node) -> list[Tensor]:
    return [each for each in pytree.tree_leaves(node.meta.get("val")) if isinstance(each, Tensor)]


def _overlaps(tensor: Tensor) -> bool:
    """Whether two elements may be the same memory: a step is no longer than all steps of shorter dimensions."""
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride <= reach:
            return True
        reach += (size - 1) * stride
    return False

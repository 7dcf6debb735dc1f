"""Graphs put together from parts."""

from __future__ import annotations

from collections import Counter
from functools import partial

import torch
from torch import Tensor

from dmc.importer import origin
from dmc.importer.assembly import Assembly

PLACE, OTHER = origin.Origin("h.0", "", 0, "update"), origin.Origin("h.1", "", 0, "update")


def _times(number: float, x: Tensor) -> list[Tensor]:
    return [x * number]


def test_what_is_alike_is_traced_once() -> None:
    traced: Counter[tuple[int, ...]] = Counter()

    def scaled(x: Tensor, y: Tensor) -> list[Tensor]:
        traced[tuple(x.shape)] += 1
        return [x * y, x - y]

    assembly = Assembly()
    x, y, wide = (assembly.argument(torch.zeros(shape)) for shape in ([3], [3], [4]))
    product, difference = assembly.call("scaled", scaled, [x, y], PLACE)
    (square, _), (other, _) = (assembly.call("scaled", scaled, [each, each], OTHER) for each in (difference, wide))
    graph = assembly.finished([product, square, other])
    assert traced == {(3,): 1, (4,): 1}
    given = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 6.0, 9.0]), torch.arange(4.0)]
    results = graph(*given)
    for actual, expected in zip(results, [given[0] * given[1], (given[0] - given[1]) ** 2, given[2] ** 2], strict=True):
        torch.testing.assert_close(actual, expected)
    places = [node.meta["custom"][origin.META_KEY] for node in graph.graph.nodes if node.op == "call_function"]
    assert places == [PLACE, PLACE, OTHER, OTHER, OTHER, OTHER]


def test_what_a_function_depends_on_is_part_of_its_key() -> None:
    assembly = Assembly()
    x = assembly.argument(torch.zeros(2))
    results = [assembly.call(("times", n), partial(_times, n), [x], PLACE)[0] for n in (2.0, 3.0)]
    twice, thrice = assembly.finished(results)(torch.ones(2))
    assert (twice.tolist(), thrice.tolist()) == ([2.0, 2.0], [3.0, 3.0])


def test_an_argument_may_be_a_result() -> None:
    assembly = Assembly()
    x = assembly.argument(torch.zeros(2))
    (same,) = assembly.call("same", lambda x: [x], [x], PLACE)
    (result,) = assembly.finished([same])(torch.ones(2))
    assert result.tolist() == [1.0, 1.0]


def test_two_arguments_that_were_one_when_traced() -> None:
    assembly = Assembly()
    x, y = (assembly.argument(torch.zeros(2)) for _ in range(2))
    results = [assembly.call("difference", lambda a, b: [a - b], pair, PLACE)[0] for pair in ((x, x), (x, y))]
    none, difference = assembly.finished(results)(torch.tensor([1.0, 2.0]), torch.tensor([5.0, 9.0]))
    assert (none.tolist(), difference.tolist()) == ([0.0, 0.0], [-4.0, -7.0])

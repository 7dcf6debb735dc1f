"""Each operation of what masks choose: as PyTorch of the chosen elements, whatever the others are; refused where masks
differ, and where its rule forgets to say how an operand takes part."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from dmc.errors import ImportFailure
from dmc.importer.forward.chosen import calls, chosen
from dmc.importer.forward.chosen.parts import Parts
from tests.chosen_calls import COUNT, OPERATIONS, Operation, Rows, X
from tests.large import large

aten = torch.ops.aten


def _outcome(operation: Operation, is_known: bool = True) -> str:
    """Whether dmc computes what PyTorch does, refuses it, or is wrong; and why."""
    torch.manual_seed(0)
    try:
        made, expected = operation.run(is_known)
    except ImportFailure as failure:
        return f"refused: {failure.fact}"
    pairs = [*zip(pytree.tree_leaves(made), pytree.tree_leaves(expected), strict=True)]
    agree = [a.shape == b.shape and torch.allclose(a.to(b.dtype), b, 1e-4, 1e-5) for a, b in pairs]
    return "right" if all(agree) else f"wrong: {pairs}"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: str(each.target))
def test_computes_what_is_chosen(operation: Operation) -> None:
    assert _outcome(operation) == "right"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: str(each.target))
@pytest.mark.parametrize("is_known", [False, pytest.param(True, marks=large)])
def test_different_masks_are_refused_or_right(operation: Operation, is_known: bool) -> None:
    """Of as many elements each, so that PyTorch computes it; by what rules say alone, and by what PyTorch says, too."""
    every = [("m", *others) for others in itertools.product("mn", repeat=len(operation.masks()) - 1)]
    outcomes = {names: _outcome(operation.with_masks(names), is_known) for names in every}
    assert not [names for names in every if outcomes[names].startswith("wrong")]


def _mutants(parts: Parts) -> Iterator[Parts]:
    """Each forgets one thing that a rule says."""
    for name, labels in parts.labels.items():
        yield replace(parts, labels={other: each for other, each in parts.labels.items() if other != name})
        for place in range(len(labels)):
            # A dimension that meets none.
            lost = [object() if place == each else label for each, label in enumerate(labels)]
            every = {*parts.kept, *(label for label in lost if not isinstance(label, int | str | tuple))}
            yield replace(parts, labels={**parts.labels, name: lost})
            yield replace(parts, labels={**parts.labels, name: lost}, kept=every)
    for label in parts.kept:
        yield replace(parts, kept={*parts.kept} - {label})
    for label in parts.summed:
        yield replace(parts, summed={*parts.summed} - {label})
    for label in parts.fills:
        yield replace(parts, fills={other: each for other, each in parts.fills.items() if other != label})
    for label in parts.met:
        yield replace(parts, met={other: each for other, each in parts.met.items() if other != label})


def _mutated(monkeypatch: Any, number: int) -> Callable[[], int]:
    """Lets rules say what the mutant of this number says. Returns what counts them."""
    counts: list[int] = []
    followed = calls.followed

    def follow(call: calls.Call, by: calls.Rule) -> Any:
        mutants = [*_mutants(by.takes(call))]
        counts.append(len(mutants))
        return followed(call, replace(by, takes=lambda _: mutants[number]) if number < len(mutants) else by)

    monkeypatch.setattr(chosen, "followed", follow)
    return lambda: max(counts)


@pytest.mark.parametrize(
    "operations", [OPERATIONS[::8], pytest.param(OPERATIONS, marks=large)], ids=("some operations", "all operations")
)
def test_what_a_rule_forgets_is_refused(monkeypatch: Any, operations: list[Operation]) -> None:
    """With one mask and with different ones it is refused, or right all the same; never wrong."""
    for operation in operations:
        _check_mutants(monkeypatch, operation)


def _check_mutants(monkeypatch: Any, operation: Operation) -> None:
    number, last, masks = 0, 1, operation.masks()
    while number < last:
        for names in (masks, ["mn"[place % 2] for place in range(len(masks))]):
            with monkeypatch.context() as patch:
                count = _mutated(patch, number)
                outcome = _outcome(operation.with_masks(names))
                last = count()
            assert not outcome.startswith("wrong"), (operation, number, names, outcome)
        number += 1


def test_a_rule_that_says_nothing_is_refused(monkeypatch: Any) -> None:
    rule = calls.Rule(lambda call: Parts({}), calls.plain)
    monkeypatch.setitem(calls.RULES, "dot", rule)
    assert "no rule that says how its operand 'self'" in _outcome(Operation(aten.dot.default, (Rows(("m",)),) * 2))


def test_a_rule_that_forgets_an_operand_is_refused(monkeypatch: Any) -> None:
    """Also one that no mask chooses."""
    rule = calls.Rule(lambda call: Parts({"self": [0, 1]}, [0, 1]), calls.plain)
    monkeypatch.setitem(calls.RULES, "gather", rule)
    rows = Operation(aten.gather.default, (X, 1, Rows((COUNT, 2), "index")))
    assert "no rule that says how its operand 'index'" in _outcome(rows)


def test_a_rule_that_says_that_nothing_meets_is_refused(monkeypatch: Any) -> None:
    """The result has not what the second operand is said to keep."""
    rule = calls.Rule(lambda call: Parts({"self": ["a", 1], "other": ["b", 1]}, ["a", "b", 1]), calls.plain)
    monkeypatch.setitem(calls.RULES, "add", rule)
    mixed = Operation(aten.add.Tensor, (X, Rows(("n", 4))))
    assert "chooses some rows" in _outcome(mixed)


def test_a_rule_whose_result_no_operand_keeps_is_refused(monkeypatch: Any) -> None:
    rule = calls.Rule(lambda call: Parts({"self": ["rows", 1]}, [1], {"rows": 0}), lambda call: call.given["self"])
    monkeypatch.setitem(calls.RULES, "sum", rule)
    assert "chosen by what no operand is" in _outcome(Operation(aten.sum.dim_IntList, (X, [0])))

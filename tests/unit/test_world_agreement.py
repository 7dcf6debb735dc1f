"""Ranks start only if all agree; each rank is a thread here."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dmc.errors import DmcError
from dmc.runtime.tensors.arrays import zeros
from dmc.runtime.world.agreement import agree, facts_of
from tests.artifacts import artifact_of
from tests.unit.test_world_store import stores

FACTS = {"plan": "a" * 64, "code": "b" * 64, "number of ranks": "3"}


def refusals(changes: dict[int, dict[str, str]], size: int = 3, trouble: str = "") -> list[str]:
    """Each rank's error, or "" if it starts. changes: to the facts of a rank. trouble: of the last rank."""
    opened = stores(size)

    def ask(rank: int) -> str:
        try:
            agree(opened[rank], FACTS | changes.get(rank, {}), trouble if rank == size - 1 else "", 5)
        except DmcError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(ask, range(size)))


def test_ranks_that_agree_start() -> None:
    assert refusals({}) == [""] * 3


@pytest.mark.parametrize(
    ("changes", "size", "trouble", "lines"),
    [
        (
            {1: {"plan": "c" * 64}, 2: {"driver": "580"}},
            3,
            "",
            [
                "the plan of rank 1 differs from that of rank 0 (cccccccccccc, not aaaaaaaaaaaa)",
                "the driver of rank 2 differs from that of rank 0 (580, not none)",
            ],
        ),
        ({}, 3, "cuda:2: there is no such device", ["rank 2 cannot start: cuda:2: there is no such device"]),
    ],
)
def test_all_ranks_name_those_that_differ(
    changes: dict[int, dict[str, str]], size: int, trouble: str, lines: list[str]
) -> None:
    expected = "\n".join(["the ranks: do not start:", *(f"  {line}" for line in lines), "  hint: start all ranks"])
    said = refusals(changes, size, trouble)
    assert len(set(said)) == 1
    assert said[0].startswith(expected)


@pytest.mark.parametrize(
    ("ranks", "compiled_for", "hint"),
    [("3", "3 ranks", "start 3 ranks, or compile it for 2"), ("1", "1 rank", "start it alone, without torchrun, or ")],
)
def test_another_number_of_ranks_is_told_before_a_missing_device(ranks: str, compiled_for: str, hint: str) -> None:
    facts = {"number of ranks": ranks}
    (said,) = set(refusals({0: facts, 1: facts}, 2, "cuda:1: there is no such device"))
    lines = said.splitlines()
    assert lines[:2] == [
        "the ranks: do not start:",
        f"  the step was compiled for {compiled_for}; torchrun has started 2",
    ]
    assert lines[2].startswith(f"  hint: {hint}") and "mesh=dmc.Mesh(dp=2)" in lines[2]


def test_the_state_is_a_fact_by_tensor() -> None:
    artifact = artifact_of()
    known = {spec.name: array for spec, array in zip(artifact.signature.state, artifact.state, strict=True)}

    def fact(**changed: np.ndarray) -> str:
        state = tuple((known | {name.replace("_", "."): each for name, each in changed.items()}).values())
        return facts_of(dataclasses.replace(artifact, state=state))["state"]

    assert fact() == fact(weight=known["weight"].copy())
    assert fact() != fact(weight=2 * known["weight"])
    # Which tensor is zero counts, and not how its zeros are held.
    zero, ones = np.zeros(2, np.float32), np.ones(2, np.float32)
    assert fact(bias=zero) == fact(bias=zeros((2,), zero.dtype))
    # All between the two are zero, too.
    none = zeros((2,), known["scale"].dtype)
    assert fact(scale=none, bias=zero, bias_momentum=ones) != fact(scale=none, bias=ones, bias_momentum=zero)

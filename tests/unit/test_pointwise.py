"""What may be computed in place: hand-written bodies, and random ones run in hostile orders on shared memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmc._mlir import ir
from dmc.analysis.storage.pointwise import in_place_pairs
from dmc.step_function import functions
from tests.examples import IN_ONE_CONTEXT

# Places (row, column) that an op reads for the one it writes, as affine maps and as functions.
ACCESSES: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "(d0, d1) -> (d0, d1)": lambda i, j: (i, j),
    "(d0, d1) -> (d1, d0)": lambda i, j: (j, i),
    "(d0, d1) -> (d0, 0)": lambda i, _: (i, 0),
}
SAME = next(iter(ACCESSES))
N, ARGUMENTS = 3, 2
MATRIX = f"tensor<{N}x{N}xi64>"
PLACES = [(i, j) for i in range(N) for j in range(N)]


@dataclass(frozen=True)
class Op:
    """Two results for each place: of the operands (values by number, each read by an access) each takes some."""

    operands: tuple[tuple[int, str], ...]
    taken: tuple[tuple[int, ...], tuple[int, ...]]


def pairs_of(text: str) -> set[tuple[int, int]]:
    module = ir.Module.parse(text)
    return set(in_place_pairs(functions(module)[0]))


def random_body(random: Random) -> tuple[list[Op], list[int]]:
    """Ops, each of which makes two more values, and which values are results. Values 0 and 1 are the arguments."""
    ops: list[Op] = []
    for number in range(1 + random.randrange(4)):
        values = ARGUMENTS + 2 * number
        names = [SAME] * 5 + list(ACCESSES)
        operands = tuple((random.randrange(values), random.choice(names)) for _ in range(1 + random.randrange(3)))
        first, second = (tuple(i for i in range(len(operands)) if random.randrange(4)) for _ in range(2))
        ops.append(Op(operands, (first, second)))
    made = range(ARGUMENTS, ARGUMENTS + 2 * len(ops))
    return ops, random.sample(made, min(len(made), 1 + random.randrange(3)))


def text_of(ops: list[Op], results: list[int]) -> str:
    lines: list[str] = []
    for number, op in enumerate(ops):
        names, count = f"%v{number}", len(op.operands)
        maps = ", ".join(f"affine_map<{access}>" for access in [*(a for _, a in op.operands), SAME, SAME])
        inputs = ", ".join(_name(value) for value, _ in op.operands)
        head = f'linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}}'
        lines += [f"{names}e = tensor.empty() : {MATRIX}"]
        lines += [f"{names}:2 = {head} ins({inputs} : {', '.join([MATRIX] * count)})"]
        lines += [f"  outs({names}e, {names}e : {MATRIX}, {MATRIX}) {{"]
        lines += [f"^bb0({', '.join(f'%a{i}: i64' for i in range(count))}, %o: i64, %p: i64):"]
        for result, taken in enumerate(op.taken):
            total = f"%s{result}"
            lines += [f"{total} = arith.constant {number + result} : i64"]
            for i in taken:
                lines += [f"{total}_{i} = arith.addi {total}, %a{i} : i64"]
                total = f"{total}_{i}"
            lines += [f"%y{result} = arith.addi {total}, {total} : i64"]
        lines += [f"linalg.yield %y0, %y1 : i64, i64 }} -> ({MATRIX}, {MATRIX})"]
    types = ", ".join([MATRIX] * len(results))
    body = "\n  ".join(lines)
    given_ = f"%x0: {MATRIX}, %x1: {MATRIX}"
    last = f"return {', '.join(map(_name, results))} : {types}"
    return f"func.func private @f({given_}) -> ({types}) {{\n  {body}\n  {last}\n}}"


def _name(value: int) -> str:
    return f"%x{value}" if value < ARGUMENTS else f"%v{(value - ARGUMENTS) // 2}#{value % 2}"


def run(
    ops: list[Op], order: list[tuple[int, tuple[int, int]]], shared: tuple[int, int] | None
) -> list[dict[tuple[int, int], int]]:
    """All values; of `shared` (an argument, a value) both lie in one memory. order: (op, place), as they are run."""
    values: list[dict[tuple[int, int], int]] = [
        {(i, j): 10 ** (k + 1) * (3 * i + j + 1) for i, j in PLACES} for k in range(ARGUMENTS)
    ]
    values += [{} for _ in range(2 * len(ops))]
    if shared is not None:
        values[shared[1]] = values[shared[0]]
    for number, place in order:
        op = ops[number]
        read = [values[value][ACCESSES[access](*place)] for value, access in op.operands]
        for result, taken in enumerate(op.taken):
            values[ARGUMENTS + 2 * number + result][place] = 2 * (number + result + sum(read[i] for i in taken))
    return values


def hostile_order(ops: list[Op], random: Random) -> list[tuple[int, tuple[int, int]]]:
    """Any order in which each place of an op comes after what it reads."""
    done: set[tuple[int, tuple[int, int]]] = set()
    waiting = [(number, place) for number in range(len(ops)) for place in PLACES]
    order: list[tuple[int, tuple[int, int]]] = []
    while waiting:
        ready = [each for each in waiting if _needs(ops[each[0]], each[1]) <= done]
        order.append(random.choice(ready))
        done.add(order[-1])
        waiting.remove(order[-1])
    return order


def _needs(op: Op, place: tuple[int, int]) -> set[tuple[int, tuple[int, int]]]:
    made = [(value, access) for value, access in op.operands if value >= ARGUMENTS]
    return {((value - ARGUMENTS) // 2, ACCESSES[access](*place)) for value, access in made}


@given(st.integers(0, 10**9))
@settings(IN_ONE_CONTEXT, max_examples=300)
def test_in_place_means_the_same_in_any_order(context: Any, seed: int) -> None:
    random = Random(seed)
    ops, results = random_body(random)
    in_order = [(number, place) for number in range(len(ops)) for place in PLACES]
    expected = run(ops, in_order, None)
    for operand, result in pairs_of(text_of(ops, results)):
        for _ in range(5):
            got = run(ops, hostile_order(ops, random), (operand, results[result]))
            # The memory of the operand holds the result in the end, so it is compared as that.
            assert all(got[value] == expected[value] for value in results)


def _body(arguments: int, results: int, text: str) -> str:
    given_ = ", ".join(f"%{name}: tensor<4x4xf32>" for name in "abcdef"[:arguments])
    types = ", ".join(["tensor<4x4xf32>"] * results)
    return f"func.func private @f({given_}) -> ({types}) {{\n{text} : {types}\n}}"


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        # Momentum: the new momentum in place of the old one or of the gradient, the parameter in its own.
        (
            _body(
                3,
                2,
                "%m = arith.addf %b, %c : tensor<4x4xf32>\n%p = arith.subf %a, %m : tensor<4x4xf32>\nreturn %p, %m",
            ),
            {(0, 0), (1, 0), (2, 0), (1, 1), (2, 1)},
        ),
        # What is read for both results may be overwritten by neither.
        (
            _body(1, 2, "%p = math.exp %a : tensor<4x4xf32>\n%q = math.tanh %a : tensor<4x4xf32>\nreturn %p, %q"),
            set(),
        ),
        # By way of a reshape the elements stay in order.
        (
            _body(
                1,
                1,
                "%l = tensor.collapse_shape %a [[0, 1]] : tensor<4x4xf32> into tensor<16xf32>\n"
                "%e = math.exp %l : tensor<16xf32>\n"
                "%r = tensor.expand_shape %e [[0, 1]] output_shape [4, 4] : tensor<16xf32> into tensor<4x4xf32>\n"
                "return %r",
            ),
            {(0, 0)},
        ),
        # A matrix product reads an element for many.
        (
            _body(
                2,
                1,
                "%r = linalg.matmul ins(%a, %b : tensor<4x4xf32>, tensor<4x4xf32>) outs(%b : tensor<4x4xf32>)"
                " -> tensor<4x4xf32>\nreturn %r",
            ),
            set(),
        ),
        # The operand itself is not a new value.
        (_body(1, 1, "return %a"), set()),
    ],
)
def test_hand_written_bodies(context: Any, text: str, pairs: set[tuple[int, int]]) -> None:
    assert pairs_of(text) == pairs

"""Sums that share their movements are those of the reductions that they replace, on every rank, to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dmc import dialect
from dmc._mlir import ir
from dmc.dtypes import numpy_type
from dmc.interpreter import spmd
from dmc.passes.placed.exchange_sums import ExchangeSums
from dmc.walk import walk

MESH = """"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 4>,
  device = #dm.device<"cpu">, links = [#dm.link<"memory">]} : () -> ()
"""
RANKS, ROWS = 4, 1024
# Of each sum: columns; the number of an earlier value that is added to what is summed; whether it is negated then.
Sum = tuple[int, int | None, bool]


def _sums(count: int) -> st.SearchStrategy[list[Sum]]:
    read = st.none() | st.integers(0, count - 1)
    return st.lists(st.tuples(st.sampled_from([1, 2, 3]), read, st.booleans()), min_size=2, max_size=count)


@settings(max_examples=60, deadline=None)
@given(
    sums=_sums(6),
    element=st.sampled_from(["f32", "bf16"]),
    limit=st.sampled_from([1 << 13, 1 << 14, 1 << 20]),
    seed=st.integers(0, 1000),
)
def test_sums_in_buckets_are_the_same(sums: list[Sum], element: str, limit: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    arguments = [
        [draw.standard_normal((ROWS, columns)).astype(numpy_type(element)) for columns, _, _ in sums]
        for _ in range(RANKS)
    ]
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        before, after = (ir.Module.parse(_module(sums, element)) for _ in range(2))
        ExchangeSums(min_bytes=0, bucket_bytes=limit, machine="h200x4").run(after)
        assert after.operation.verify()
        assert _count(after, "dm.all_reduce") == 0
        assert _count(after, "dm.all_to_all") == len(sums) - _spared(sums, element, limit)
        wanted, found = (spmd.run(each, "step", arguments).results for each in (before, after))
    for own, other in zip(wanted, found, strict=True):
        assert [one.tobytes() for one in own] == [one.tobytes() for one in other]


def _module(sums: Sequence[Sum], element: str) -> str:
    """A step that adds over ranks what it is given, one after the other."""
    kinds = [f"tensor<{ROWS}x{columns}x{element}>" for columns, _, _ in sums]
    lines = list[str]()
    for number, ((_, read, is_negated), kind) in enumerate(zip(sums, kinds, strict=True)):
        given = f"%x{number}"
        if _reads(sums, number):
            lines.append(f"  %g{number} = arith.addf %x{number}, %v{read} : {kind}")
            given = f"%g{number}"
        lines.append(
            f'  %s{number} = "dm.all_reduce"({given}) {{reduction = #dm.reduction<"sum">, accumulate = f32, '
            f'dm.tensor = "gradient of {number}", group = #dm.group<@mesh, ["dp"]>}} : ({kind}) -> {kind}'
        )
        operation = "arith.negf" if is_negated else "math.absf"
        lines.append(f"  %v{number} = {operation} %s{number} : {kind}")
    signature = ", ".join(f"%x{number}: {kind}" for number, kind in enumerate(kinds))
    values = ", ".join(f"%v{number}" for number in range(len(sums)))
    made = ", ".join(kinds)
    return (
        f"{MESH}func.func @step({signature}) -> ({made}) {{\n" + "\n".join(lines) + f"\n  return {values} : {made}\n}}"
    )


def _reads(sums: Sequence[Sum], number: int) -> bool:
    """Whether a sum reads an earlier one, which has its shape."""
    columns, read, _ = sums[number]
    return read is not None and read < number and sums[read][0] == columns


def _spared(sums: Sequence[Sum], element: str, limit: int) -> int:
    """How many movements there are less: a sum joins those before it, unless it reads one of them or is too much."""
    spared, members, held = 0, set[int](), 0
    for number, (columns, read, _) in enumerate(sums):
        size = ROWS * columns * numpy_type(element).itemsize
        reads = {read} if _reads(sums, number) else set[Any]()
        if members and held + size <= limit and not reads & members:
            spared += 1
        else:
            members, held = set[int](), 0
        members.add(number)
        held += size
    return spared


def _count(module: ir.Module, name: str) -> int:
    return sum(op.name == name for op in walk(module.operation))

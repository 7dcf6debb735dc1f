"""Every collective, for every element type, on virtual ranks through IREE, bit for bit as numpy has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dmc.dtypes import dtype_of
from dmc.errors import DmcError
from dmc.lowering.kernel_code import CodeLibrary
from dmc.lowering.stream.program import stream_module
from tests.planned_jobs import COMM, COPY_IN, COPY_OUT, Draft, run, session

COUNT = 12
ACCUMULATE = {"bf16": "f32", "f16": "f32", "i8": "i32"}
COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


@dataclass(frozen=True)
class Case:
    """A movement of `COUNT` elements per rank; `in_place`: the target is the source."""

    kind: Any
    dtype: str
    reduction: Any = None
    in_place: bool = False

    @property
    def name(self) -> str:
        return "_".join(filter(None, (self.kind, self.dtype, self.reduction, "in_place" if self.in_place else "")))

    @property
    def accumulate(self) -> str | None:
        return ACCUMULATE.get(self.dtype, self.dtype) if self.reduction else None

    def more(self, ranks: int) -> dict[str, Any]:
        """What the command says besides."""
        match self.kind:
            case "broadcast":
                return {"peer": ranks - 1}
            case "permute":
                # The last rank sends nothing, the first gets nothing.
                return {"pairs": tuple((i, i + 1) for i in range(ranks - 1))}
            case _:
                return {"reduction": self.reduction, "accumulate": self.accumulate} if self.reduction else {}

    def target_count(self, ranks: int) -> int:
        """Elements that each rank gets."""
        return {"all_gather": COUNT * ranks, "reduce_scatter": COUNT // ranks}.get(self.kind, COUNT)

    def expected(self, values: list[np.ndarray]) -> list[np.ndarray]:
        """What each rank gets."""
        n = len(values)
        match self.kind:
            case "all_gather":
                return [np.concatenate(values)] * n
            case "all_reduce":
                return [self._reduced(values)] * n
            case "reduce_scatter":
                return np.split(self._reduced(values), n)
            case "all_to_all":
                pieces = [np.split(value, n) for value in values]
                return [np.concatenate([pieces[i][j] for i in range(n)]) for j in range(n)]
            case "broadcast":
                return [values[-1]] * n
            case _:
                return [np.zeros_like(values[0]), *values[:-1]]

    def _reduced(self, values: list[np.ndarray]) -> np.ndarray:
        wide = dtype_of(self.accumulate or self.dtype).numpy
        total = values[0].astype(wide)
        for value in values[1:]:
            total = COMBINE[self.reduction](total, value.astype(wide))
        total = total / wide.type(len(values)) if self.reduction == "mean" else total
        return total.astype(values[0].dtype)


def cases() -> Iterator[Case]:
    """Every kind for every type that has it."""
    for dtype in ("f32", "bf16", "i32", "i64", "i1", "f64", "f16", "i8"):
        for kind in ("all_gather", "all_to_all", "broadcast", "permute"):
            yield Case(kind, dtype)
        for reduction in ("sum", "mean", "prod", "min", "max"):
            if dtype == "i1" or (reduction == "mean" and "f" not in dtype):
                continue
            for kind in ("all_reduce", "reduce_scatter"):
                yield Case(kind, dtype, reduction)
            yield Case("all_reduce", dtype, reduction, in_place=True)


def values_of(dtype: str, ranks: int, seed: int) -> list[np.ndarray]:
    """A value for each rank."""
    rng = np.random.default_rng(seed)
    drawn = [rng.standard_normal(COUNT) * 3 for _ in range(ranks)]
    return [(value > 0) if dtype == "i1" else value.astype(dtype_of(dtype).numpy) for value in drawn]


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_bit_for_bit(ranks: int) -> None:
    draft = Draft(ranks)
    todo = list(cases())
    sources = {case: draft.load(case.name, case.dtype, (COUNT,)) for case in todo}
    draft.order(COPY_IN, COMM)
    targets = {case: _move(draft, case, sources[case]) for case in todo}
    draft.order(COMM, COPY_OUT)
    for case in todo:
        draft.store(f"{case.name}_out", case.dtype, (case.target_count(ranks),), targets[case])
    given = {case.name: values_of(case.dtype, ranks, seed) for seed, case in enumerate(todo)}
    loaded = session(draft.job())
    outputs = run(loaded, given)
    loaded.close()
    for case in todo:
        for got, wanted in zip(outputs[f"{case.name}_out"], case.expected(given[case.name]), strict=True):
            np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8), err_msg=case.name)


def _move(draft: Draft, case: Case, source: Any) -> Any:
    target = source if case.in_place else draft.room(case.dtype, (case.target_count(draft.ranks),))
    draft.collective(case.kind, case.dtype, COUNT, source, target, **case.more(draft.ranks))
    return target


def test_many_ranks_combine_in_steps() -> None:
    ranks = 35  # more than a dispatch has buffers, and more lanes than there are devices
    draft = Draft(ranks)
    source = draft.load("x", "f32", (COUNT,))
    draft.order(COPY_IN, COMM)
    draft.collective("all_reduce", "f32", COUNT, source, source, reduction="mean", accumulate="f32")
    draft.order(COMM, COPY_OUT)
    draft.store("y", "f32", (COUNT,), source)
    given = values_of("f32", ranks, 7)
    loaded = session(draft.job())
    outputs = run(loaded, {"x": given})
    loaded.close()
    for got, wanted in zip(outputs["y"], Case("all_reduce", "f32", "mean").expected(given), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("kind", "dtype", "accumulate", "ranks", "message"),
    [
        ("all_reduce", "bf16", "f32", 32, "combines 32 members in f32, but at most 31 are supported"),
        ("reduce_scatter", "f32", "f32", 32, "combines 32 members, but at most 31 are supported"),
        ("all_reduce", "i1", "i1", 2, "cannot combine elements of type i1"),
        ("gossip", "f32", "f32", 2, "has no rule for a 'gossip'"),
    ],
)
def test_what_cannot_be_done_is_refused(kind: str, dtype: str, accumulate: str, ranks: int, message: str) -> None:
    draft = Draft(ranks)
    x, y = draft.room(dtype, (32,)), draft.room(dtype, (32,))
    draft.collective(kind, dtype, 32, x, y, reduction="sum", accumulate=accumulate)
    with pytest.raises(DmcError, match=message):
        stream_module(draft.job(), CodeLibrary("", {}, {}))

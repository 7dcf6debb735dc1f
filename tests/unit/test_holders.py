"""Tensors that only some ranks have, as the stages of a pipeline do: their parts, slots and checkpoints."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc import executors
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.analysis.dataflow.recorder import Recorder
from dmc.errors import ArtifactError
from dmc.program import Job, Program, Range, Slot
from dmc.program.signature import Paddings, Signature, Splits, StateSpec, TensorSpec
from dmc.runtime.checks import check_artifact
from dmc.runtime.files.consistency import misfits
from dmc.runtime.sessions.iree.planned_memory import Places
from dmc.runtime.tensors.holders import holders_of, with_holders
from dmc.runtime.tensors.ranks import Ranks, Spread
from dmc.runtime.world.checkpoint import CheckpointWriter, latest, read_checkpoint
from tests import linear_step
from tests.artifacts import artifact_of
from tests.unit.test_world_checkpoint import bits
from tests.unit.test_world_store import stores

MESH = {"dp": 2, "pp": 2}
# The ranks of either stage.
FIRST, LAST = (0, 2), (1, 3)
SPECS = (
    StateSpec("embed", "f32", (4, 6)),
    StateSpec("head", "f32", (3,)),
    StateSpec("head.moment", "f32", (3,), role="optimizer"),
    StateSpec("tied", "bf16", (2, 2)),
    StateSpec("step", "i64", (), role="counter"),
)
SIGNATURE = Signature(
    state=SPECS,
    controls=(TensorSpec("lr", "f32", (1,)), TensorSpec("guard", "i32", ())),
    batch=(TensorSpec("x", "f32", (4, 2)),),
    outputs=(TensorSpec("loss", "f32", ()), TensorSpec("finite", "i32", ()), TensorSpec("pred", "f32", (4,))),
    args={"tuple": [{"leaf": 0}]},
    kwargs={"dict": {}},
    aux={"leaf": 0},
    learning_rates=(0.1,),
    mesh=MESH,
    splits={
        "embed": ((), (("dp", 1),)),
        "head.moment": ((("dp", 1),),),
        "x": ((("dp", 1),), ()),
        "pred": ((("dp", 1),),),
    },
    paddings={"head.moment": ((1, 4),)},
    holders={"embed": FIRST, "head": LAST, "head.moment": LAST, "x": FIRST, "loss": LAST, "pred": LAST},
)
Case = tuple[dict[str, int], tuple[int, ...], Splits, Paddings, tuple[int, ...]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A mesh, a shape that some of its axes divide once it is padded, and ranks that have all of it together."""
    mesh = {axis: draw(st.integers(1, 3)) for axis in draw(st.lists(st.sampled_from("abc"), unique=True, min_size=1))}
    shape, splits, paddings = list[int](), list[Any](), list[tuple[int, int]]()
    left = list(mesh)
    for _ in range(draw(st.integers(0, 2))):
        own = [left.pop() for _ in range(draw(st.integers(0, len(left))))]
        blocks = draw(st.sampled_from((1, 2)))
        wide = math.prod(mesh[axis] for axis in own) * draw(st.integers(1, 2))
        uses = tuple((axis, blocks if place == 0 else 1) for place, axis in enumerate(own))
        inside = draw(st.integers(1, wide)) if uses else wide
        shape.append(blocks * inside)
        splits.append(uses)
        paddings.append((blocks, wide))
    every = Spread(shape, tuple(splits), mesh, tuple(paddings))
    some = {draw(st.sampled_from(ranks)) for ranks in every.replicas}
    holders = sorted(some | set(draw(st.lists(st.sampled_from(every.ranks)))))
    return mesh, tuple(shape), tuple(splits), tuple(paddings), tuple(holders)


@given(cases())
def test_holders_have_their_parts_and_others_nothing(case: Case) -> None:
    mesh, shape, splits, paddings, holders = case
    every, some = Spread(shape, splits, mesh, paddings), Spread(shape, splits, mesh, paddings, holders=holders)
    whole = np.arange(1, math.prod(shape) + 1, dtype=np.float32).reshape(shape)
    parts = some.parts(whole)
    for rank, (part, all_of_it) in enumerate(zip(parts, every.parts(whole), strict=True)):
        np.testing.assert_array_equal(part, all_of_it if rank in holders else np.empty(0, np.float32))
        assert part.shape == some.shape_on(rank)
        if some.part_shape != shape:
            np.testing.assert_array_equal(some.part(all_of_it, rank), part)
        np.testing.assert_array_equal(some.held(part, rank), every.held(all_of_it, rank) if rank in holders else part)
        first = some.first_with(rank)
        assert first in holders
        np.testing.assert_array_equal(parts[first], all_of_it)
    assert some.is_split == (every.is_split or len(holders) < len(parts))
    assert some.is_everywhere == (len(holders) == len(parts))


@given(cases())
def test_the_whole_comes_from_the_first_holder_of_each_part(case: Case) -> None:
    mesh, shape, splits, paddings, holders = case
    spread = Spread(shape, splits, mesh, paddings, holders=holders)
    whole = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    parts, asked = spread.parts(whole), list[int]()
    np.testing.assert_array_equal(spread.whole(lambda rank: (asked.append(rank), parts[rank])[1]), whole)
    assert asked == [ranks[0] for ranks in spread.replicas]
    assert sorted(itertools.chain(*spread.replicas)) == sorted(holders)
    # A reader who knows no holders counts the parts in the same order.
    every = Spread(shape, splits, mesh, paddings).replicas
    assert all(set(own) <= set(ranks) for own, ranks in zip(spread.replicas, every, strict=True))


def test_all_ranks_in_one_process() -> None:
    ranks = Ranks(SIGNATURE)
    linked = {spec.name: spec.shape for spec in (*ranks.linked.state, *ranks.linked.batch, *ranks.linked.outputs)}
    assert [linked[f"embed@{rank}"] for rank in range(4)] == [(4, 3), (0,), (4, 3), (0,)]
    assert [linked[f"head.moment@{rank}"] for rank in range(4)] == [(0,), (2,), (0,), (2,)]
    assert [linked[f"loss@{rank}"] for rank in range(4)] == [(0,), (), (0,), ()]
    assert (ranks.linked.holders, ranks.linked.splits) == ({}, {})
    given = ranks.scatter(SIGNATURE.batch, [np.arange(8, dtype=np.float32).reshape(4, 2)])
    assert [array.tolist() for array in given] == [[[0, 1], [2, 3]], [], [[4, 5], [6, 7]], []]


def test_a_process_without_a_part_takes_what_the_others_take() -> None:
    """The whole, or the part that it would have by its place; it keeps nothing of either."""
    ranks = Ranks(SIGNATURE, only=1)
    (x,) = SIGNATURE.batch
    for rows in (4, 2):
        (kept,) = ranks.scatter([x], [np.ones((rows, 2), np.float32)])
        assert (kept.shape, kept.dtype) == ((0,), np.float32)
    assert ranks.seen(x)[0].shape == (2, 2)
    assert [spec.shape for spec in ranks.linked.batch] == [(0,)]


def _job(held: Mapping[str, Sequence[int]]) -> Job:
    """In which these ranks have a slot for a tensor of 64 bytes."""
    programs = [
        Program(
            rank,
            {"device": 4096},
            (),
            tuple(
                Slot(name, "parameter", "f32", (16,), Range("device", 64 * place, 64))
                for place, (name, ranks) in enumerate(held.items())
                if rank in ranks
            ),
            (),
        )
        for rank in range(4)
    ]
    return Job.of(dict(MESH), (), {}, programs, ("pp",))


def test_slots_say_who_has_a_tensor() -> None:
    everywhere = range(4)
    held = {"a": FIRST, "b": everywhere, "c": (1,), "other": (2,)}
    names = ("a", "b", "c", "nowhere")
    signature = replace(SIGNATURE, state=tuple(StateSpec(name, "f32", (16,)) for name in names), controls=())
    empty = TensorSpec("empty", "f32", (0, 3))
    signature = replace(signature, batch=(empty,), outputs=(), holders={})
    assert holders_of(_job(held), signature) == {"a": FIRST, "c": (1,), "nowhere": ()}
    assert with_holders(signature, _job(dict.fromkeys(names, everywhere))) == signature


def test_a_plan_says_it(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_y(module: Any) -> Job:
        return job_of(module).mapped(
            lambda own: msgspec.structs.replace(own, slots=tuple(slot for slot in own.slots if slot.name != "y"))
        )

    certificate = artifact_of().certificate
    monkeypatch.setattr(executors, "job_of", without_y)
    monkeypatch.setattr(executors, "verify", lambda *_: certificate)
    monkeypatch.setattr(Recorder, "dataflow", lambda *_: None)
    step = ir.Module.parse(linear_step.MLIR, context)
    built = executors.Builder(step, linear_step.SIGNATURE, executors.Settings("cpu", "cpu")).plan()
    assert built.signature.holders == {"y": ()}


def test_ranks_have_slots_for_what_they_hold_and_nothing_else() -> None:
    spec = StateSpec("a", "f32", (16,))
    signature = replace(SIGNATURE, state=(spec,), splits={}, paddings={}, holders={"a": FIRST})
    linked = Ranks(signature).linked.state
    found = Places(_job({"a": FIRST}).programs).of(linked)
    assert [(rank, slot.range.length) for rank, slot in found] == [(0, 64), (1, 0), (2, 64), (3, 0)]
    with pytest.raises(ArtifactError, match="has no slot for 'a@2'"):
        Places(_job({"a": (0,)}).programs).of(linked)
    with pytest.raises(ArtifactError, match=r"has 'a@1' as f32\[16\], not as f32\[0\]"):
        Places(_job({"a": range(4)}).programs).of(linked)


def test_programs_beside_each_other_hold_the_same() -> None:
    own = artifact_of()
    signature = replace(own.signature, mesh={"dp": 1}, holders={"bias": ()})
    with pytest.raises(ArtifactError, match="is split over ranks in another way for its evaluation: bias"):
        check_artifact(replace(own, programs={"evaluation": replace(own, signature=signature, state=())}))


@pytest.mark.parametrize(
    ("holders", "fact"),
    [
        ({"nothing": (0,)}, "holders: 'nothing' is not in the signature"),
        ({"head": (4,)}, r"holders: 'head' is on ranks \[4\], which are not some of 4 in order"),
        ({"head": (1, 1)}, r"holders: 'head' is on ranks \[1, 1\], which"),
        ({"head": (3, 1)}, r"holders: 'head' is on ranks \[3, 1\], which"),
        ({"head": ()}, "holders: 'head' has parts that no rank has"),
        ({"loss": ()}, "holders: 'loss' has parts that no rank has"),
        ({"embed": (0, 1)}, "holders: 'embed' has parts that no rank has"),
    ],
)
def test_holders_that_contradict_the_mesh(holders: Any, fact: str) -> None:
    assert list(misfits(SIGNATURE)) == []
    (found,) = misfits(replace(SIGNATURE, holders=holders))
    assert re.match(fact, found)


def test_inputs_may_be_nowhere() -> None:
    assert list(misfits(replace(SIGNATURE, holders={"x": (), "lr": ()}))) == []


def test_they_survive_json() -> None:
    assert msgspec.convert(SIGNATURE.to_json(), Signature) == SIGNATURE
    for wrong in (-1, 1 << 20, "0"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({**SIGNATURE.to_json(), "holders": {"head": [wrong]}}, Signature)


LAYOUTS: dict[str, Signature] = {
    "dp×pp": SIGNATURE,
    "pp": replace(
        SIGNATURE,
        mesh={"pp": 3},
        splits={},
        paddings={},
        holders={"embed": (0,), "head": (2,), "head.moment": (2,), "tied": (0, 2), "step": (1,)},
    ),
    "dp": replace(
        SIGNATURE,
        mesh={"dp": 2},
        splits={"embed": ((("dp", 1),), ()), "head.moment": ((("dp", 1),),)},
        holders={},
    ),
    "one": replace(SIGNATURE, mesh=None, splits={}, paddings={}, holders={}),
}


def _state() -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    kinds = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "i64": np.int64}
    return [(100 * draw.standard_normal(spec.shape)).astype(kinds[spec.dtype]) for spec in SPECS]


def _save(folder: Path, signature: Signature, arrays: Sequence[np.ndarray]) -> None:
    ranks = Ranks(signature)
    opened = stores(ranks.count)

    def keep(rank: int) -> None:
        keeper = CheckpointWriter(folder, opened[rank], signature)
        keeper.save(1, Ranks(signature, only=rank).scatter(SPECS, arrays))
        keeper.wait()

    with ThreadPoolExecutor(ranks.count) as threads:
        list(threads.map(keep, range(ranks.count)))


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_checkpoint_fits_every_mesh(name: str, tmp_path: Path) -> None:
    """With and without a pipeline: what is read is whole, and whatever reads it takes its own parts of that."""
    arrays = _state()
    _save(tmp_path, LAYOUTS[name], arrays)
    folder = latest(tmp_path)
    assert folder is not None
    found = [array for array in read_checkpoint(folder, SPECS)[1] if array is not None]
    assert bits(found) == bits(arrays)
    for other in LAYOUTS.values():
        ranks = Ranks(other)
        parts = iter(ranks.scatter(SPECS, found))
        for spec, array in zip(SPECS, arrays, strict=True):
            own = [next(parts) for _ in range(ranks.count)]
            np.testing.assert_array_equal(ranks.spreads[spec.name].whole(own.__getitem__), array)
    written = sum(_data_bytes(path) for path in folder.glob("*.safetensors"))
    padding = 4 if LAYOUTS[name].paddings else 0
    assert written == sum(array.nbytes for array in arrays) + padding, "each part is written once"


def _data_bytes(path: Path) -> int:
    data = path.read_bytes()
    return len(data) - 8 - int.from_bytes(data[:8], "little")

"""A signature whose parts contradict each other is refused where a file is read, with the field that is wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from dmc.errors import ArtifactError
from dmc.program.signature import IndexBound, TensorSpec
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.files.consistency import misfits
from dmc.runtime.state.saved_state import read_state
from tests.artifacts import artifact_of
from tests.linear_step import SIGNATURE

DEEP: dict[str, Any] = reduce(lambda inner, _: {"tuple": [inner]}, range(80), {"leaf": 0})
SPLIT = ((("dp", 1),), ())


def _bound(**changes: Any) -> dict[str, Any]:
    return {"bounds": (replace(IndexBound("x", "a table", 9, None, ((0, 4), (0, 3))), **changes),)}


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"batch": (*SIGNATURE.batch, SIGNATURE.batch[0])}, "batch: two tensors are called 'x'"),
        ({"outputs": (*SIGNATURE.outputs, TensorSpec("o", "f9", (2,)))}, "outputs: 'o' has an element type 'f9'"),
        ({"batch": (TensorSpec("x", "f32", (1 << 40, 1 << 40)),)}, "batch: 'x' has more bytes than any memory"),
        ({"mesh": {"a": 4096, "b": 4096}}, "mesh: has 16,777,216 ranks"),
        ({"splits": {"none": SPLIT}}, "splits: 'none' is not in the signature"),
        ({"splits": {"weight": SPLIT}}, "splits: 'weight' is split along dp, which the mesh does not have"),
        ({"mesh": {"dp": 2}, "splits": {"weight": SPLIT}}, "splits: 'weight' of shape (3, 2) cannot be split"),
        ({"mesh": {"dp": 3}, "splits": {"weight": SPLIT[:1]}}, "splits: 'weight' of shape (3, 2) cannot be split"),
        (_bound(input="none"), "bounds: 'none' is not an input"),
        (_bound(box=((0, 4), (2, 1))), "bounds: 'x' of shape (4, 3) has no box"),
        (_bound(box=((0, 4),)), "bounds: 'x' of shape (4, 3) has no box"),
        ({"args": {"list": []}}, "args: is no tree"),
        ({"args": {"tuple": [DEEP]}}, "args: is nested more than 64 deep"),
        ({"args": {"tuple": [{"leaf": -1}]}}, "args: has a node that is none"),
        ({"args": {"tuple": [{"leaf": 0}, {"leaf": 0}]}}, "args, kwargs: have the inputs"),
        ({"kwargs": {"dict": {"x": {}}}}, "kwargs: has a node that is none: {}"),
        ({"aux": {"leaf": 99}}, "aux: has the outputs [99]; there are 2"),
        (
            {"state": tuple(replace(s, shape=(2,)) if s.role == "counter" else s for s in SIGNATURE.state)},
            "state: the counter 'step' is i64[2], not one number",
        ),
    ],
)
def test_contradictions_are_named(change: dict[str, Any], fact: str) -> None:
    assert next(misfits(SIGNATURE), "") == ""
    assert next(misfits(replace(SIGNATURE, **change)), "").startswith(fact)


def test_a_file_with_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "step.dmc"
    artifact_of(signature=replace(SIGNATURE, **_bound(input="none"))).write(path)
    for read in (Artifact.read, read_state):
        with pytest.raises(ArtifactError, match=re.escape(f"{path}: signature: bounds: 'none' is not an input")):
            read(path)

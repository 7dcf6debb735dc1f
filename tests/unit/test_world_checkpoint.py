"""Checkpoints of a mesh are read as global tensors; damaged ones, and those of other models, are refused."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dmc.errors import DmcError, StateError
from dmc.program.signature import Signature, StateSpec
from dmc.runtime.checkpoints import Checkpoints
from dmc.runtime.tensors.ranks import Ranks
from dmc.runtime.world.checkpoint import CheckpointWriter, latest, manifest, read_checkpoint, writer
from dmc.runtime.world.store import Store, alone
from tests.unit.test_world_store import on_all, stores

MESH = {"dp": 2, "tp": 2}
SPECS = (
    StateSpec("w", "f32", (4, 6)),
    StateSpec("v", "bf16", (8,), role="frozen", mutated=False),
    StateSpec("w.moment", "f32", (4, 6), role="optimizer"),
    StateSpec("empty", "f32", (0, 3), role="buffer"),
    StateSpec("step", "i64", (), role="counter"),
)
SIGNATURE = Signature(
    state=SPECS,
    controls=(),
    batch=(),
    outputs=(),
    args={"tuple": []},
    kwargs={"dict": {}},
    aux=None,
    learning_rates=(),
    mesh=MESH,
    splits={"w": ((), (("tp", 3),)), "w.moment": ((("dp", 1),), (("tp", 3),)), "v": ((("tp", 1), ("dp", 1)),)},
)


def state(seed: int) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    kinds = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "i64": np.int64}
    return [(100 * draw.standard_normal(spec.shape)).astype(kinds[spec.dtype]) for spec in SPECS]


def save(folder: Path, steps: dict[int, list[np.ndarray]]) -> None:
    """All ranks write checkpoints of these steps; with {rank} in the folder, each to its own."""
    opened, ranks = stores(4), Ranks(SIGNATURE)

    def keep(rank: int) -> None:
        keeper = CheckpointWriter(Path(str(folder).format(rank=rank)), opened[rank], SIGNATURE)
        for step, arrays in steps.items():
            parts = [ranks.spreads[spec.name].parts(each)[rank] for spec, each in zip(SPECS, arrays, strict=True)]
            keeper.save(step, parts)
        keeper.wait()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(keep, range(4)))


def bits(arrays: Iterable[np.ndarray | None]) -> list[tuple[str, tuple[int, ...], bytes]]:
    return [(str(each.dtype), each.shape, each.tobytes()) for each in arrays if each is not None]


def test_what_ranks_write_is_read_whole(tmp_path: Path) -> None:
    written = {step: state(step) for step in (1, 2, 3)}
    assert latest(tmp_path) is None
    save(tmp_path, written)
    # The last two are kept.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000002", "step-00000003"]
    last = latest(tmp_path)
    assert last is not None
    step, arrays = read_checkpoint(last, SPECS)
    assert step == 3
    assert bits(list(arrays)) == bits(written[3])
    # Replicas are written once: without their headers, the shards are as large as the state.
    sizes = [
        int(np.prod(spec.shape)) * np.dtype(each.dtype).itemsize for spec, each in zip(SPECS, written[3], strict=True)
    ]
    assert sum(_data_bytes(path) for path in last.glob("*.safetensors")) == sum(sizes)


def test_a_checkpoint_is_written_again(tmp_path: Path) -> None:
    save(tmp_path, {1: state(1)})
    save(tmp_path, {1: state(5)})
    _, arrays = read_checkpoint(tmp_path / "step-00000001", SPECS)
    assert bits(list(arrays)) == bits(state(5))


def test_what_was_just_written_stays(tmp_path: Path) -> None:
    save(tmp_path, dict.fromkeys((100, 200), state(0)))
    save(tmp_path, dict.fromkeys((10, 20, 30), state(1)))
    found = [path.name for path in sorted(tmp_path.iterdir())]
    assert found == ["step-00000020", "step-00000030", "step-00000100", "step-00000200"]


def test_all_ranks_resume_from_what_rank_0_has_found(tmp_path: Path) -> None:
    save(tmp_path / "0", dict.fromkeys((1, 2), state(0)))
    shutil.copytree(tmp_path / "0" / "step-00000001", tmp_path / "1" / "step-00000001")

    def resume(store: Store) -> str:
        peers = SimpleNamespace(store=store)
        step: Any = SimpleNamespace(signature=SIGNATURE, peers=peers, steps_done=2, fingerprints={})
        step.load_state_dict = lambda _: None
        try:
            return str(Checkpoints(step, tmp_path / str(store.world.rank)).resume())
        except StateError as error:
            return error.place

    assert on_all(2, resume) == ["2", str(tmp_path / "1" / "step-00000002")]


def test_a_process_with_all_ranks_writes_whole_tensors(tmp_path: Path) -> None:
    """Whatever the mesh pads, splits or puts on some of its ranks only."""
    loaded: list[Any] = []
    signature = replace(SIGNATURE, paddings={"w": ((1, 6), (1, 6))}, holders={"v": (1, 3)})
    step: Any = SimpleNamespace(signature=signature, peers=None, steps_done=1, fingerprints={})
    step.own_state = lambda indices: [state(1)[index] for index in indices]
    step.load_state_dict = loaded.append
    checkpoints = Checkpoints(step, tmp_path, frozen=True)
    checkpoints.save()
    checkpoints.wait()
    assert checkpoints.resume() == 1
    assert bits([loaded[0]["model"]["w"], loaded[0]["model"]["v"]]) == bits(state(1)[:2])


def test_what_was_left_half_written_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".step-00000009").mkdir()
    (tmp_path / ".step-00000009" / "rank-00000.safetensors").write_bytes(b"half")
    assert latest(tmp_path) is None
    save(tmp_path, {1: state(1)})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_a_rank_that_cannot_write_is_named_by_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, {1: state(1)})
    write = writer.write_shard

    def full(path: Path, tensors: dict[str, np.ndarray]) -> str:
        if path.name == "rank-00002.safetensors":
            raise OSError(28, "No space left on device", str(path))
        return write(path, tensors)

    monkeypatch.setattr(writer, "write_shard", full)
    with pytest.raises(DmcError) as error:
        save(tmp_path, {2: state(2)})
    path = tmp_path / ".step-00000002" / "rank-00002.safetensors"
    assert error.value.fact == f"rank 2 could not write it: {path}: No space left on device"
    assert error.value.hint == f"free disk space, then resume from {tmp_path / 'step-00000001'}"
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_a_failure_is_raised_once_and_the_next_checkpoint_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, failures = writer.write_shard, [OSError(28, "No space left on device", "disk")]

    def full_once(path: Path, tensors: dict[str, np.ndarray]) -> str:
        if failures:
            raise failures.pop()
        return write(path, tensors)

    monkeypatch.setattr(writer, "write_shard", full_once)
    keeper = CheckpointWriter(tmp_path, alone(), replace(SIGNATURE, mesh=None, splits={}))
    keeper.save(1, state(1))
    with pytest.raises(DmcError, match="No space left on device"):
        keeper.wait()
    keeper.wait()
    keeper.save(2, state(2))
    keeper.wait()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]


def test_a_directory_that_ranks_do_not_share_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DmcError, match=r"rank 0 could not write it: .*rank-00001.safetensors: No such file"):
        save(tmp_path / "{rank}", {1: state(1)})
    assert not list(tmp_path.glob("*/step-*"))


def test_any_failure_is_told_to_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, tensors: dict[str, np.ndarray]) -> str:
        raise MemoryError(path.name)

    monkeypatch.setattr(writer, "write_shard", full)
    with pytest.raises(DmcError, match=r"rank 0 could not write it: MemoryError: rank-00000.safetensors; rank 1 "):
        save(tmp_path, {1: state(1)})


def test_a_manifest_that_would_not_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "MAX_MANIFEST", 100)
    with pytest.raises(DmcError, match=r"rank 0 could not write it: manifest.json: would have .* at most 100 are read"):
        save(tmp_path, {1: state(1)})
    assert latest(tmp_path) is None


@pytest.mark.parametrize(
    ("damage", "fact"),
    [
        ("cut", "rank-00001.safetensors: is damaged"),
        ("take", "rank-00001.safetensors: no such file"),
        ("manifest", "step-00000001: is not a checkpoint"),
    ],
)
def test_damage_is_seen(tmp_path: Path, damage: str, fact: str) -> None:
    save(tmp_path, {1: state(1)})
    folder = tmp_path / "step-00000001"
    shard = folder / "rank-00001.safetensors"
    if damage == "cut":
        data = bytearray(shard.read_bytes())
        data[-1] ^= 1
        shard.write_bytes(data)
    else:
        (shard if damage == "take" else folder / "manifest.json").unlink()
    with pytest.raises(StateError, match=fact):
        read_checkpoint(folder, SPECS)


def test_another_model_is_refused(tmp_path: Path) -> None:
    save(tmp_path, {1: state(1)})
    other = (replace(SPECS[0], shape=(6, 4)), *SPECS[1:4], StateSpec("bias", "f32", (2,)))
    with pytest.raises(StateError, match=r"to another model or optimizer: counter.step, model.bias, model.w"):
        read_checkpoint(tmp_path / "step-00000001", other)


def test_steps_go_on_while_a_checkpoint_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_write, write = threading.Event(), writer.write_shard
    monkeypatch.setattr(writer, "write_shard", lambda path, tensors: may_write.wait(5) and write(path, tensors))
    alone = replace(SIGNATURE, mesh=None, splits={})
    keeper = CheckpointWriter(tmp_path, stores(1)[0], alone)
    keeper.save(1, state(1))
    assert latest(tmp_path) is None
    may_write.set()
    keeper.wait()
    assert latest(tmp_path) == tmp_path / "step-00000001"


def _data_bytes(path: Path) -> int:
    data = path.read_bytes()
    return len(data) - 8 - int.from_bytes(data[:8], "little")

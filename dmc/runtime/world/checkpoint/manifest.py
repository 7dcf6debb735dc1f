"""The manifest of a checkpoint: the layout of its tensors on the mesh of the job that wrote it."""

from __future__ import annotations

import errno
import math
import re
from pathlib import Path

import msgspec

from dmc.errors import StateError
from dmc.program.limits import (
    DECODE_ERRORS,
    MAX_MANIFEST,
    MAX_RANKS,
    Axis,
    AxisSize,
    Count,
    Digest,
    ElementType,
    Name,
    Shape,
)
from dmc.program.signature import Paddings, Role, Splits, StateSpec
from dmc.runtime.files.consistency import misfit_of_split
from dmc.runtime.files.regular_file import open_regular

SCHEMA = 1
MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(\d{8})")
OTHER = "pass a directory step-…"


class Tensor(msgspec.Struct, frozen=True):
    """The layout of a tensor: its global shape, how it is split and padded before, and the shard of each distinct part.

    role, aliases, transient: as of `dmc.program.signature.StateSpec`.
    """

    dtype: ElementType
    shape: Shape
    splits: Splits
    shards: tuple[Count, ...]
    role: Role = "parameter"
    aliases: tuple[Name, ...] = ()
    transient: tuple[Name, ...] = ()
    paddings: Paddings | None = None


class Manifest(msgspec.Struct, frozen=True):
    """mesh: of the job that wrote it, axis to size. shards: SHA-256 of each, in rank order. frozen: fingerprints of the
    frozen tensors that are left out.
    """

    schema: int
    step: Count
    mesh: dict[Axis, AxisSize]
    shards: tuple[Digest, ...]
    tensors: dict[Name, Tensor]
    frozen: dict[Name, Digest] = {}


def read_manifest(path: Path) -> Manifest:
    """The manifest, whose parts fit each other."""
    place = path / MANIFEST
    if not place.exists():
        raise StateError(str(path), "is not a checkpoint", hint=OTHER)
    with open_regular(place, StateError, OTHER, OTHER) as file:
        data = file.read(MAX_MANIFEST + 1)
    try:
        if len(data) > MAX_MANIFEST:
            raise StateError(str(place), f"has more than {MAX_MANIFEST:,} bytes", hint=OTHER)
        manifest = msgspec.json.decode(data, type=Manifest)
    except DECODE_ERRORS as error:
        raise StateError(str(place), f"is not a checkpoint's ({error})", hint=OTHER) from error
    if manifest.schema != SCHEMA:
        fact = f"has schema {manifest.schema}; this dmc reads {SCHEMA}"
        raise StateError(str(path), fact, hint="use another version of dmc")
    if fact := _misfit(manifest):
        raise StateError(str(place), fact, hint="resume from another checkpoint")
    return manifest


def _misfit(manifest: Manifest) -> str:
    """How the manifest contradicts itself; "" where it does not."""
    ranks = math.prod(manifest.mesh.values())
    if ranks > MAX_RANKS:
        return f"has {ranks:,} ranks; at most {MAX_RANKS:,} are read"
    if twice := sorted({*manifest.tensors} & {*manifest.frozen}):
        return f"holds {twice[0]!r}, and leaves it out"
    for name, tensor in manifest.tensors.items():
        if fact := misfit_of_split(tensor.shape, tensor.dtype, tensor.splits, manifest.mesh, tensor.paddings):
            return f"{name!r} {fact}"
        parts = math.prod(manifest.mesh[axis] for uses in tensor.splits for axis, _ in uses)
        if len(tensor.shards) != parts or any(shard >= len(manifest.shards) for shard in tensor.shards):
            return f"{name!r} has {parts} parts in shards {tensor.shards} of {len(manifest.shards)}"
    return ""


def layout(spec: StateSpec, splits: Splits, paddings: Paddings | None, shards: tuple[int, ...]) -> Tensor:
    """Of one tensor."""
    return Tensor(spec.dtype, spec.shape, splits, shards, spec.role, spec.aliases, spec.transient, paddings)


def encoded(manifest: Manifest) -> bytes:
    """As JSON. Raises OSError for one that no reader would take."""
    data = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    if len(data) > MAX_MANIFEST:
        raise OSError(errno.EFBIG, f"would have {len(data):,} bytes; at most {MAX_MANIFEST:,} are read", MANIFEST)
    return data


def latest(directory: Path) -> Path | None:
    """The last complete checkpoint in a directory, if there is one."""
    found = complete(directory)
    return found[-1] if found else None


def complete(directory: Path) -> list[Path]:
    """The complete checkpoints in a directory, in order."""
    return sorted(path for path in directory.glob("step-*") if _NAME.fullmatch(path.name))


def name_of(step: int) -> str:
    """The name of a checkpoint."""
    return f"step-{step:08}"


def shard_of(rank: int) -> str:
    """The name of a rank's shard."""
    return f"rank-{rank:05}.safetensors"

"""Hostile variants of a `.dmc` file: damaged bytes, tricks with zips, and changed values with recomputed checksums.

Each is the same for the same random numbers.
"""

from __future__ import annotations

import hashlib
import json
import stat
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from dmc.runtime.files.container import MANIFEST

Members = dict[str, bytes]
# Bytes before the packed values of a job: its mark and schema.
_HEADS = {"job.bin": 8, "code.bin": 0}

_ODD: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 255, 10**9, 2**31, 2**53, 2**62, 2**63 - 1, 2**64 - 1, -(2**63), 1e308, -0.5),
    *("", "x", "device", "host", "../up", "\x1b[2J", "f32", "f9999", "index", "x" * 5000, b"", b"\xff" * 9),
    *([], {}, [[]], [0], [-1], ["x"], {"x": 1}, {"leaf": 0}, {"links": 2}, ["launch"], [1] * 3000),
)


def members_of(path: Path) -> Members:
    """The members of a file that dmc has written."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, members: Members) -> None:
    """Writes them as they are."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)


def damaged(path: Path, whole: bytes, random: Random) -> None:
    """Cuts the file off, flips a bit, or overwrites, inserts or removes some bytes."""
    at, length = random.randrange(len(whole)), random.choice((1, 4, 100, 5000))
    # The directory, at the end, is the most interesting part.
    at = max(len(whole) - random.randrange(3000), 0) if random.random() < 0.5 else at
    noise = random.choice((random.randbytes(length), bytes(length), b"\xff" * length))
    flipped = bytes([whole[at] ^ 1 << random.randrange(8)]) if at < len(whole) else b""
    path.write_bytes(
        random.choice(
            (
                whole[:at],
                whole[:at] + flipped + whole[at + 1 :],
                whole[:at] + noise + whole[at + length :],
                whole[:at] + noise + whole[at:],
                whole[:at] + whole[at + length :],
                whole[:at] + whole[at : at + length] * 2 + whole[at + length :],
            )
        )
    )


def tricked(path: Path, members: Members, random: Random) -> None:
    """A zip that says more than one thing, or says it in another way than dmc."""
    random.choice(_TRICKS)(path, members, random)


def changed(path: Path, members: Members, random: Random) -> None:
    """One to three values in one of the parts are others; all checksums and the certificate are made to fit."""
    forged = dict(members)
    name = random.choice([name for name in members if _reads(name) is not None])
    value = _decoded(name, forged[name])
    for _ in range(random.choice((1, 1, 2, 3))):
        value = _mutated(value, random)
    try:
        forged[name] = _encoded(name, forged[name], value)
    except (TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
        # JSON has no bytes, MessagePack no larger numbers, and neither encoder goes so deep.
        forged[name] = forged[name][: random.randrange(len(forged[name]))]
    write(path, sealed(forged))


def sealed(members: Members) -> Members:
    """With the checksums, sizes and certificates of what the members hold now, as far as that can be said."""
    sealed = dict(members)
    manifest = _json(sealed.pop(MANIFEST))
    for name in [name for name in sealed if name.endswith("certificate.json")]:
        sealed[name] = _certified(sealed, name)
    if isinstance(manifest, dict):
        for prefix, head in _heads(manifest):
            head["unpacked"] = {
                name: len(_raw(name, sealed[prefix + name])) for name in _HEADS if prefix + name in sealed
            }
        manifest["sha256"] = {name: hashlib.sha256(data).hexdigest() for name, data in sealed.items()}
    return {MANIFEST: json.dumps(manifest).encode(), **sealed}


def _heads(manifest: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    programs = manifest.get("programs")
    others = programs.items() if isinstance(programs, dict) else ()
    heads = [("", manifest), *((f"programs/{name}/", head) for name, head in others)]
    return [(prefix, head) for prefix, head in heads if isinstance(head, dict) and "unpacked" in head]


def _certified(members: Members, name: str) -> bytes:
    prefix = name.removesuffix("certificate.json")
    certificate = _json(members[name])
    if not isinstance(certificate, dict) or prefix + "job.bin" not in members:
        return members[name]
    raw = _raw("job.bin", members[prefix + "job.bin"])
    certificate["digest"] = hashlib.sha256(raw).hexdigest()
    peaks: dict[str, int] = {}
    # Without a type, what is swollen would fill this process.
    if len(raw) > 1 << 22:
        return json.dumps(certificate).encode()
    try:
        for program in msgspec.msgpack.decode(raw)[3]:
            peaks |= {space: max(size, peaks.get(space, 0)) for space, size in program[1].items()}
        certificate["peaks"] = peaks
    except (msgspec.DecodeError, RecursionError, TypeError, LookupError, AttributeError):
        certificate["peaks"] = {}
    if prefix + "code.bin" in members and isinstance(certificate.get("code"), dict):
        certificate["code"]["gpu"] = hashlib.sha256(_raw("code.bin", members[prefix + "code.bin"])).hexdigest()
    return json.dumps(certificate).encode()


def _reads(name: str) -> str | None:
    last = name.rpartition("/")[2]
    return last if last in (*_HEADS, MANIFEST, "certificate.json", "ledger.json") else None


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode(errors="replace")


def _raw(name: str, data: bytes) -> bytes:
    try:
        return zlib.decompress(data[_HEADS[name.rpartition("/")[2]] :])
    except zlib.error:
        return b""


def _decoded(name: str, data: bytes) -> Any:
    return msgspec.msgpack.decode(_raw(name, data)) if _reads(name) in _HEADS else json.loads(data)


def _encoded(name: str, old: bytes, value: Any) -> bytes:
    if (reads := _reads(name)) not in _HEADS:
        return json.dumps(value).encode()
    return old[: _HEADS[str(reads)]] + zlib.compress(msgspec.msgpack.encode(value), 1)


def _mutated(value: Any, random: Random) -> Any:
    """The value with one of its parts, however deep, replaced, moved, repeated or removed."""
    if isinstance(value, (list, dict)) and value and random.random() < 0.93:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = random.choice(keys)
        made: Any = value.copy()
        # Where nothing is below, the list or dictionary itself is what changes.
        if random.random() < 0.85:
            made[key] = _mutated(made[key], random)
        elif random.random() < 0.4:
            del made[key]
        elif random.random() < 0.5:
            made[key] = made[random.choice(keys)]
        elif isinstance(made, list):
            made[key:key] = [made[key]] * random.choice((1, 300))
        return made
    return _other(value, random)


def _other(value: Any, random: Random) -> Any:
    if isinstance(value, int) and random.random() < 0.5:
        return random.choice((value + 1, value - 1, -value, 2 * value, value + 256, value << 40))
    if random.random() < 0.03:
        return _nested(random.choice((100, 900, 5000)))
    return random.choice(_ODD)


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def _twice(path: Path, members: Members, random: Random) -> None:
    name = random.choice(list(members))
    write(path, members)
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name), random.choice((members[name], b"other")))


def _elsewhere(path: Path, members: Members, random: Random) -> None:
    name = random.choice(("/etc/passwd", "../up", "state/../../up", "a//b", "state/\x1b[2J", "modules/./x.vmfb", "."))
    write(path, sealed({**members, name: b"x"}))


def _deflated(path: Path, members: Members, random: Random) -> None:
    bomb = random.choice(list(members))
    with zipfile.ZipFile(path, "w", random.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))) as archive:
        for name, data in members.items():
            archive.writestr(name, bytes(20 << 20) if name == bomb else data)


def _linked(path: Path, members: Members, random: Random) -> None:
    chosen, kind = random.choice(list(members)), random.choice((stat.S_IFLNK, stat.S_IFIFO, stat.S_IFDIR))
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (kind | 0o777) << 16 if name == chosen else 0
            archive.writestr(info, data)


def _patched(path: Path, members: Members, random: Random) -> None:
    """A field of an entry of the directory, or of the record at the end, is another."""
    write(path, members)
    data = bytearray(path.read_bytes())
    (begin,) = struct.unpack_from("<L", data, len(data) - 6)
    places = [at for at in range(begin, len(data)) if bytes(data[at : at + 4]) in (b"PK\1\2", b"PK\5\6")]
    at = random.choice([*places, places[-1]])
    field = random.choice((8, 10, 20, 24, 28, 30, 34, 38, 42) if at != places[-1] else (4, 6, 8, 10, 12, 16, 20))
    number = random.choice((0, 1, 20, 0x7FFF, 0xFFFF, 0xFFFFFFFF, random.randrange(len(data))))
    size = 2 if field in (4, 6, 8, 10, 28, 30, 34) or (at == places[-1] and field == 20) else 4
    data[at + field : at + field + size] = (number % (1 << 8 * size)).to_bytes(size, "little")
    path.write_bytes(data)


def _wrapped(path: Path, members: Members, random: Random) -> None:
    """Something before, between or behind what belongs to the zip, such as a second one."""
    write(path, members)
    one = path.read_bytes()
    write(path, dict.fromkeys(members, b"other"))
    other = random.choice((path.read_bytes(), b"#!/bin/sh\n", bytes(random.randrange(1, 70000))))
    path.write_bytes(random.choice((one + other, other + one, one[:-22] + other + one[-22:])))


def _swollen(path: Path, members: Members, random: Random) -> None:
    """A part that becomes much more when it is unpacked, whatever the manifest says of that."""
    name = random.choice([name for name in members if _reads(name) in _HEADS])
    kind = random.choice((b"\0", b"\xc0", b"\x93\x01\x02\x03", b"\x91"))
    # Also a list that says that it has 2³¹ elements.
    start = random.choice((b"", b"\xdd\x7f\xff\xff\xff", b"\x94\xdf\x7f\xff\xff\xff"))
    bomb = members[name][: _HEADS[str(_reads(name))]] + zlib.compress(start + kind * (30 << 20), 9)
    forged = {**members, name: bomb}
    write(path, sealed(forged) if random.random() < 0.7 else forged)


def _nested_json(path: Path, members: Members, random: Random) -> None:
    name = random.choice([name for name in members if name.endswith(".json")])
    depth = random.choice((500, 5000, 100_000))
    forged = dict(members)
    forged[name] = random.choice((b"[" * depth, b'{"a":' * depth, b"[" * depth + b"]" * depth, b"9" * depth, b"\xff{}"))
    write(path, forged if name == MANIFEST else sealed(forged))


_TRICKS: tuple[Callable[[Path, Members, Random], None], ...] = (
    *(_twice, _elsewhere, _deflated, _linked, _patched, _patched, _patched, _wrapped, _swollen, _nested_json),
)

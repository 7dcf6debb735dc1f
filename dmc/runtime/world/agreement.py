"""Before the first step all ranks compare plan, code, state and versions with rank 0, and start only if all agree."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

import dmc
from dmc.errors import DmcError
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.files.stored_state import keys_of, store
from dmc.runtime.world.launch import World
from dmc.runtime.world.store import TIMEOUT_S, Store

_RANKS = "number of ranks"
_SAME = "start all ranks with the same file and the same version of dmc, each with its own GPU"


class _Claim(msgspec.Struct, frozen=True):
    """What a rank is about to run, and what prevents it, if anything."""

    facts: dict[str, str]
    trouble: str


def facts_of(artifact: Artifact, **more: str) -> dict[str, str]:
    """The facts that must be the same on all ranks, by name. more: further facts, for example `driver="580.1"`."""
    signature = json.dumps(artifact.signature.to_json(), sort_keys=True).encode()
    certificate = artifact.certificate
    return {
        "dmc": dmc.__version__,
        "plan": artifact.job.digest(),
        "code": _digest(f"{name} {digest}".encode() for name, digest in sorted(certificate.code.items())),
        **{f"plan of the {name}": program.job.digest() for name, program in artifact.programs.items()},
        "table of costs": certificate.cost_table,
        "signature": _digest([signature]),
        "state": _digest(_parts(artifact)),
        _RANKS: str(artifact.job.size),
        **more,
    }


def _parts(artifact: Artifact) -> Iterator[bytes | memoryview]:
    """What makes up the state: the keys of tensors, and the bytes of those that have any but zeros."""
    yield from map(str.encode, keys_of(artifact.signature.state, artifact.unset))
    for key, data in store(artifact.signature.state, artifact.state, artifact.unset):
        yield key.encode()
        yield from () if data is None else (data,)


def agree(store: Store, facts: Mapping[str, str], trouble: str = "", timeout_s: float = TIMEOUT_S) -> None:
    """Returns if all ranks have the same facts (`facts_of`), their number is that of the plan, and none has trouble.

    trouble: what prevents this rank from starting, for example a missing GPU. Otherwise all ranks raise DmcError that
    names each rank that differs and what differs; on timeout, the missing ranks.
    """
    mine = msgspec.json.encode(_Claim(dict(facts), trouble))
    claims = [msgspec.json.decode(each, type=_Claim) for each in store.exchange("start", mine, timeout_s)]
    # Where their number is wrong, a rank may lack a GPU for that reason.
    wrong_size = _wrong_size(claims, store.world)
    if found := wrong_size or _troubles(claims) or _differences(claims):
        # Rank 0, which may be the server, waits until all ranks have read.
        store.leave(timeout_s)
        hint = _size_hint(claims[0], store.world) if wrong_size else _SAME
        raise DmcError("the ranks", "do not start:\n" + "\n".join(f"  {line}" for line in found), hint)


def _troubles(claims: Sequence[_Claim]) -> list[str]:
    return [f"rank {rank} cannot start: {claim.trouble}" for rank, claim in enumerate(claims) if claim.trouble]


def _differences(claims: Sequence[_Claim]) -> list[str]:
    first, lines = claims[0].facts, list[str]()
    for rank, claim in enumerate(claims):
        for name in [name for name in {**first, **claim.facts} if first.get(name) != claim.facts.get(name)]:
            own, other = (facts.get(name, "none")[:12] or "none" for facts in (claim.facts, first))
            lines.append(f"the {name} of rank {rank} differs from that of rank 0 ({own}, not {other})")
    return lines


def _wrong_size(claims: Sequence[_Claim], world: World) -> list[str]:
    """Where all ranks have a step for another number of ranks; if they differ in that, it is a difference."""
    counts = {claim.facts[_RANKS] for claim in claims}
    if len(counts) > 1 or counts == {str(world.size)}:
        return []
    ranks = "1 rank" if counts == {"1"} else f"{claims[0].facts[_RANKS]} ranks"
    return [f"the step was compiled for {ranks}; {world.launcher} has started {world.size}"]


def _size_hint(claim: _Claim, world: World) -> str:
    compiled = f"or compile it for {world.size} ranks, say, with mesh=dmc.Mesh(dp={world.size}) and a plan"
    if claim.facts[_RANKS] == "1":
        return f"start it alone, without {world.launcher}, {compiled}"
    return f"start {claim.facts[_RANKS]} ranks, {compiled}"


def _digest(parts: Iterable[bytes | memoryview]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()

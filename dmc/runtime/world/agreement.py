"""Before the first step every rank compares what it is about to run with rank 0, and starts only if all agree."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

import msgspec

import dmc
from dmc.errors import DmcError
from dmc.runtime.artifact import Artifact
from dmc.runtime.world.store import TIMEOUT_S, Store

_RANKS = "number of ranks"


class _Claim(msgspec.Struct, frozen=True):
    """What a rank is about to run, and what keeps it from that, if anything does."""

    facts: dict[str, str]
    trouble: str


def facts_of(artifact: Artifact, **more: str) -> dict[str, str]:
    """What all ranks must have alike, by what it is called. more: what else, by name, as `driver="580.1"`."""
    signature = json.dumps(artifact.signature.to_json(), sort_keys=True).encode()
    certificate = artifact.certificate
    return {
        "dmc": dmc.__version__,
        "plan": artifact.job.digest(),
        "code": _digest(f"{name} {digest}".encode() for name, digest in sorted(certificate.code.items())),
        "table of costs": certificate.cost_table,
        "signature": _digest([signature]),
        "state": _digest(array.tobytes() for array in artifact.state),
        _RANKS: str(len(artifact.job.programs)),
        **more,
    }


def agree(store: Store, facts: Mapping[str, str], trouble: str = "", timeout_s: float = TIMEOUT_S) -> None:
    """Returns where all ranks have the same facts (`facts_of`), are as many as the plan is for, and have no trouble.

    trouble: what keeps this rank from starting, as a GPU that is missing. Where any rank differs, or has trouble, all
    raise DmcError, which says who and in what; so they do where a rank does not come in time.
    """
    mine = msgspec.json.encode(_Claim(dict(facts), trouble))
    claims = [msgspec.json.decode(each, type=_Claim) for each in store.exchange("start", mine, timeout_s)]
    if found := _troubles(claims) or _differences(claims) or _wrong_size(claims[0], store):
        # Whoever keeps the values waits until all have read them.
        store.leave(timeout_s)
        hint = "start every rank from one file, with one dmc, on machines of one kind, each with a GPU of its own"
        raise DmcError("the ranks", "do not start:\n" + "\n".join(f"  {line}" for line in found), hint)


def _troubles(claims: Sequence[_Claim]) -> list[str]:
    return [f"rank {rank} cannot: {claim.trouble}" for rank, claim in enumerate(claims) if claim.trouble]


def _differences(claims: Sequence[_Claim]) -> list[str]:
    first, lines = claims[0].facts, list[str]()
    for rank, claim in enumerate(claims):
        for name in [name for name in {**first, **claim.facts} if first.get(name) != claim.facts.get(name)]:
            own, other = (facts.get(name, "none")[:12] or "none" for facts in (claim.facts, first))
            lines.append(f"rank {rank} has another {name} than rank 0 ({own}, not {other})")
    return lines


def _wrong_size(claim: _Claim, store: Store) -> list[str]:
    world = store.world
    if claim.facts[_RANKS] == str(world.size):
        return []
    return [f"the step was compiled for {claim.facts[_RANKS]} ranks; {world.launcher} has started {world.size}"]


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()

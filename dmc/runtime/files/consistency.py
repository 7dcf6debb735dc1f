"""Whether the parts of a signature fit each other: what no field shows by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

from dmc.dtypes import byte_count, describe
from dmc.errors import DmcError
from dmc.program.limits import MAX_RANKS
from dmc.program.signature import IndexBound, Paddings, Signature, Splits, StateSpec, TensorSpec, Tree
from dmc.runtime.files.stored_state import state_key

# Deeper than anybody nests inputs; what walks a tree calls itself for each level.
_DEPTH = 64
_MOST_BYTES = 1 << 62
# A dimension of one element may be padded for each rank.
_MOST_PADDING = MAX_RANKS


def misfits(signature: Signature) -> Iterator[str]:
    """The contradictions, each as a field and a fact."""
    lists = {"state": signature.state, "controls": signature.controls}
    lists |= {"batch": signature.batch, "outputs": signature.outputs}
    for field, specs in lists.items():
        names = (state_key(spec) for spec in signature.state) if field == "state" else (spec.name for spec in specs)
        yield from (f"{field}: two tensors are called {name!r}" for name, count in Counter(names).items() if count > 1)
        yield from (f"{field}: {spec.name!r} {fact}" for spec in specs for fact in _size(spec))
    yield from (f"state: {fact}" for fact in misfits_of_numbers(signature.state))
    if (ranks := prod((signature.mesh or {}).values())) > MAX_RANKS:
        yield f"mesh: has {ranks:,} ranks; at most {MAX_RANKS:,} are read"
    known = {spec.name: spec for specs in lists.values() for spec in specs}
    for name, splits in signature.splits.items():
        spec, mesh = known.get(name), signature.mesh or {}
        padded = signature.paddings.get(name)
        fact = misfit_of_split(spec.shape, spec.dtype, splits, mesh, padded) if spec else "is not in the signature"
        yield from [f"splits: {name!r} {fact}"] if fact else []
    yield from _misfits_of_holders(signature, known)
    alone = sorted({*signature.paddings} - {*signature.splits})
    yield from (f"paddings: {name!r} is not split" for name in alone)
    inputs = {spec.name: spec for spec in signature.batch}
    yield from (f"bounds: {bound.input!r} {fact}" for bound in signature.bounds for fact in _bound(bound, inputs))
    yield from _trees(signature)


def _misfits_of_holders(signature: Signature, known: Mapping[str, TensorSpec]) -> Iterator[str]:
    """Ranks that do not exist, and parts of what is read that no rank has."""
    mesh = signature.mesh or {}
    ranks = prod(mesh.values())
    read = {spec.name for spec in (*signature.state, *signature.outputs)}
    for name, holders in signature.holders.items():
        axes = {axis for uses in signature.splits.get(name, ()) for axis, _ in uses}
        if name not in known:
            yield f"holders: {name!r} is not in the signature"
        elif any(one >= other for one, other in pairwise(holders)) or any(rank >= ranks for rank in holders):
            yield f"holders: {name!r} is on ranks {list(holders[:8])}, which are not some of {ranks} in order"
        elif name in read and axes <= {*mesh} and _parts_on(holders, mesh, axes) < prod(mesh[axis] for axis in axes):
            yield f"holders: {name!r} has parts that no rank has"


def _parts_on(holders: Sequence[int], mesh: Mapping[str, int], axes: Collection[str]) -> int:
    """How many parts of a tensor that is split along these axes some ranks have together."""
    strides = dict(zip(mesh, [prod([*mesh.values()][place + 1 :]) for place in range(len(mesh))], strict=True))
    return len({tuple(rank // strides[axis] % mesh[axis] for axis in axes) for rank in holders})


def misfits_of_numbers(state: Sequence[StateSpec]) -> Iterator[str]:
    """Counters and seeds that are no single integers."""
    for spec in state:
        if spec.role in ("counter", "seed") and (spec.dtype, spec.shape) != ("i64", ()):
            yield f"the {spec.role} {spec.name!r} is {describe(spec.dtype, spec.shape)}, not one number"


def _size(spec: TensorSpec) -> Iterator[str]:
    try:
        size = byte_count(spec)
    except DmcError as error:
        yield f"has an {error.place}: {error.fact}"
        return
    if size > _MOST_BYTES:
        yield "has more bytes than any memory"


def misfit_of_split(
    shape: Sequence[int], dtype: str, splits: Splits, mesh: Mapping[str, int], paddings: Paddings | None = None
) -> str:
    """How a tensor contradicts its type, its shape, its padding, or the mesh that it is split over; "" where it does
    not."""
    if fact := next(_size(TensorSpec("", dtype, tuple(shape))), ""):
        return fact
    axes = [axis for uses in splits for axis, _ in uses]
    if foreign := sorted({*axes} - {*mesh}):
        return f"is split along {', '.join(foreign)}, which the mesh does not have"
    padded = tuple((1, size) for size in shape) if paddings is None else paddings
    if len(padded) != len(shape) or not all(map(_is_padding, shape, padded)):
        return f"of shape {tuple(shape)} cannot be padded as {paddings}"
    sizes = tuple(blocks * wide for blocks, wide in padded)
    if fact := next(_size(TensorSpec("", dtype, sizes)), ""):
        return fact
    is_whole = all(_divides(size, uses, mesh) for size, uses in zip(sizes, splits, strict=False))
    if len(splits) != len(shape) or len({*axes}) < len(axes) or not is_whole:
        return f"of shape {tuple(shape)} cannot be split as {splits}"
    return ""


def _is_padding(size: int, padded: tuple[int, int]) -> bool:
    """Whether blocks of a size are made larger, by less than ranks and what stays together need."""
    blocks, wide = padded
    return size % blocks == 0 and size // blocks <= wide <= max(1, size // blocks) * _MOST_PADDING


def _divides(size: int, uses: Sequence[tuple[str, int]], mesh: Mapping[str, int]) -> bool:
    for axis, blocks in uses:
        if size % (blocks * mesh[axis]):
            return False
        size //= mesh[axis]
    return True


def _bound(bound: IndexBound, inputs: Mapping[str, TensorSpec]) -> Iterator[str]:
    spec = inputs.get(bound.input)
    if spec is None:
        yield "is not an input"
    elif len(bound.box) != len(spec.shape) or any(
        not first <= end <= size for (first, end), size in zip(bound.box, spec.shape, strict=True)
    ):
        yield f"of shape {spec.shape} has no box {bound.box}"


def _trees(signature: Signature) -> Iterator[str]:
    """Inputs are each in one place, positional or by keyword; so are the outputs behind the loss and its guard."""
    leaves: list[int] = []
    for field, tree, kind in (("args", signature.args, "tuple"), ("kwargs", signature.kwargs, "dict")):
        fact = "is no tree" if set(tree) != {kind} else _walk(tree, leaves, 0)
        if fact:
            yield f"{field}: {fact}"
            return
    if sorted(leaves) != [*range(len(signature.batch))]:
        yield f"args, kwargs: have the inputs {sorted(leaves)[:8]}; there are {len(signature.batch)}"
    others: list[int] = []
    if signature.aux is not None and (fact := _walk(signature.aux, others, 0)):
        yield f"aux: {fact}"
    elif others and max(others) >= (count := len({spec.name for spec in signature.outputs} - {"loss", "finite"})):
        yield f"aux: has the outputs {sorted(others)[:8]}; there are {count}"


def _walk(tree: Any, leaves: list[int], depth: int) -> str:
    """Collects the leaves; a fact about the first node that is none."""
    if depth > _DEPTH:
        return f"is nested more than {_DEPTH} deep"
    match tree:
        case {"leaf": int(index), **rest} if not rest and not isinstance(index, bool) and index >= 0:
            leaves.append(index)
            return ""
        case {"constant": None | bool() | int() | float() | str(), **rest} if not rest:
            return ""
        case {"tuple": list(children), **rest} | {"list": list(children), **rest} if not rest:
            return _first(children, leaves, depth)
        case {"dict": dict(children), **rest} if not rest:
            return _first([*children.values()], leaves, depth)
        case _:
            return f"has a node that is none: {str(tree)[:80]}"


def _first(children: list[Tree], leaves: list[int], depth: int) -> str:
    return next((fact for child in children if (fact := _walk(child, leaves, depth + 1))), "")

"""A plan for heads of keys and values that are fewer than the ranks that share them: some ranks have copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any

from dmc.mesh import Mesh
from dmc.plans import Plan
from dmc.plans.patterns import find
from dmc.plans.rules import DataParallel, Rule, Shard
from dmc.plans.tensors import TensorPlan
from dmc.plans.uneven import Factors


@dataclass(frozen=True)
class _Copies:
    """The heads of one axis: `few` of keys and values, by the names of their layers; `heads` of each layer.

    The first `groups` ranks along the axis have different heads of keys; ranks with the same one share its queries.
    """

    axis: str
    few: int
    heads: Mapping[str, int]
    groups: int
    sharing: int

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that take the place of the axis."""
        return (self.axis,) if self.groups == 1 else (f"{self.axis}_0", f"{self.axis}_1")


def with_copies(
    plan: Plan, tensors: Mapping[str, TensorPlan], factors: Mapping[str, Sequence[Factors]]
) -> tuple[Plan, tuple[str, ...]]:
    """`plan` with copies of heads where an axis has more ranks than a model heads of keys and values; and notes.

    Two heads over `tp=4` become two axes: `tp_0=2`, which splits keys, and `tp_1=2`, along which they are copied, and
    the queries that read one head are split. Where the ranks share no heads evenly, and padding is no worse, nothing
    changes. tensors: as the plan places them. factors: of their dimensions.
    """
    data = {rule.axis for rule in plan.rules if isinstance(rule, DataParallel)}
    notes: list[str] = []
    for axis in plan.mesh.axes:
        copies = None if axis in data else _copies(axis, plan.mesh.axis_size(axis), tensors, factors)
        if copies is not None:
            names = {name: each.spec.shape for name, each in tensors.items()}
            rules = tuple(new for rule in plan.rules for new in _rules(rule, copies, names))
            plan = replace(plan, mesh=_mesh(plan.mesh, copies), rules=rules)
            heads = f"{copies.few} head{'s' if copies.few > 1 else ''} of keys and values"
            ranks = f"{copies.groups * copies.sharing} ranks of '{axis}'"
            notes.append(f"{heads} for {ranks}: {copies.sharing} ranks have a copy of each")
    return plan, tuple(notes)


def _copies(
    axis: str, ranks: int, tensors: Mapping[str, TensorPlan], factors: Mapping[str, Sequence[Factors]]
) -> _Copies | None:
    heads = dict(_heads(axis, tensors, factors))
    few, many = min(heads.values(), default=1), max(heads.values(), default=1)
    if few % ranks == 0 or few == many:
        return None
    groups, repeats = gcd(few, ranks), many // few
    sharing = ranks // groups
    padded, copied = -(-few // ranks) * ranks / few, -(-repeats // sharing) * sharing / repeats
    if copied >= padded or (groups > 1 and repeats % sharing):
        return None
    return _Copies(axis, few, heads, groups, sharing)


def _heads(
    axis: str, tensors: Mapping[str, TensorPlan], factors: Mapping[str, Sequence[Factors]]
) -> Iterator[tuple[str, int]]:
    """The layers whose heads an axis splits, and how many they have."""
    for name, each in tensors.items():
        for dim, uses in enumerate(each.used.dims):
            if name not in factors or [use.axis for use in uses] != [axis]:
                continue
            left, blocks = list(factors[name][dim]), uses[0].blocks
            while left and blocks > 1 and blocks % left[0][0] == 0:
                blocks //= left.pop(0)[0]
            free = next((i for i, (_, is_free) in enumerate(left) if not is_free), None)
            if blocks == 1 and free is not None:
                yield name, prod(size for size, _ in left[:free])


def _mesh(mesh: Mesh, copies: _Copies) -> Mesh:
    sizes: dict[str, Any] = {}
    links = {axis: link for axis, link in zip(mesh.axes, mesh.links, strict=True) if link is not None}
    for axis, size in mesh.items():
        if axis != copies.axis or len(copies.axes) == 1:
            sizes[axis] = size
            continue
        sizes |= dict(zip(copies.axes, (copies.groups, copies.sharing), strict=True))
        links |= dict.fromkeys(copies.axes, links.pop(axis)) if axis in links else {}
    return Mesh(links=links, **sizes)


def _rules(rule: Rule, copies: _Copies, names: Mapping[str, tuple[int, ...]]) -> Iterator[Rule]:
    """What takes the place of a rule."""
    if copies.axis not in rule.axes:
        yield rule
        return
    if not isinstance(rule, Shard):
        yield from (replace(rule, axis=axis) for axis in copies.axes)  # pyright: ignore[reportCallIssue] - it has one
        return
    for name in find(rule, rule.pattern, names, "parameter or buffer", rule.optional):
        # From the root: the path of one model may be the end of another's.
        yield from _of_tensor(replace(rule, pattern=f".{name}"), copies, copies.heads.get(name))


def _of_tensor(rule: Shard, copies: _Copies, heads: int | None) -> Iterator[Shard]:
    *first, last = copies.axes
    yield from (replace(rule, axis=axis) for axis in first)
    if heads is None:
        yield replace(rule, axis=last)
    elif heads > copies.few:
        # Of the queries of each head that a rank has.
        yield replace(rule, axis=last, blocks=rule.blocks * (copies.few // copies.groups))

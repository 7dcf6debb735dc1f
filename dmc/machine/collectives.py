"""The cost of a collective: a measured curve if there is one, else latency and bandwidth (α-β) of rings and trees.

What each kind sends, and in how many steps, is in `dmc.program.collectives`.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dmc.errors import DmcError
from dmc.machine.cost import move_ns
from dmc.machine.machine import Link, Machine
from dmc.program.collectives import KINDS

_NS = 1e9


@dataclass(frozen=True)
class _Members:
    """How the members of a group are spread over the nodes of a machine: `local` is the fewest on one node."""

    count: int
    nodes: int
    local: int


def collective_ns(machine: Machine, kind: str, ranks: Sequence[int], bytes: int) -> float:
    """Nanoseconds from the arrival of all members until all are done, with exclusive use of the links.

    ranks: the members, which determine node boundaries. bytes: of the larger of source and target of one member. kind:
    one of `dmc.program.CollectiveKind`. Raises DmcError for another kind, if the machine does not have these ranks, and
    if no link connects them.
    """
    machine.check_ranks(max(ranks) + 1)
    if len(ranks) == 1:
        return move_ns(machine, "device", "device", bytes)
    per_node = Counter(map(machine.node, ranks))
    members = _Members(len(ranks), len(per_node), min(per_node.values()))
    link = links_of(machine, ranks)[0]
    if kind not in link.bandwidth:
        hint = f"kinds are {', '.join(link.bandwidth)}"
        raise DmcError(f"collective of kind '{kind}'", f"has no bandwidth over {link.name}", hint=hint)
    measured = link.curves.get(f"{kind}/{members.count}")
    if measured is not None and (members.nodes == 1 or members.local == 1):
        return _interpolated(measured, bytes)
    if link.topology == "memory":
        return link.start_ns + KINDS[kind].copied(members.count) * bytes / link.bandwidth[kind] * _NS
    if members.nodes > 1 and machine.link is not None:
        return _over_network(machine.link, link, kind, members, bytes)
    return _within(link, kind, members.count, bytes)


def links_of(machine: Machine, ranks: Sequence[int]) -> tuple[Link, ...]:
    """The links that these ranks use: the network first, if they are on several nodes, then that within a node.

    Raises DmcError if none connects them.
    """
    nodes = {machine.node(rank) for rank in ranks}
    used = ([machine.network] if len(nodes) > 1 else []) + ([machine.link] if len(nodes) < len(ranks) else [])
    links = tuple(link for link in used if link is not None)
    if len(links) < len(used):
        hint = "take a machine with more devices, or one with a network (node8)"
        raise DmcError(f"ranks {', '.join(map(str, ranks))}", f"are not connected on {machine.name}", hint=hint)
    return links


def _within(link: Link, kind: str, n: int, bytes: int) -> float:
    """Ranks that all reach each other over one link."""
    sending = KINDS[kind].sent(n) * bytes / link.bandwidth[kind] * _NS
    return link.start_ns + KINDS[kind].hops(n) * link.hop_ns + sending


def _over_network(link: Link, network: Link, kind: str, members: _Members, bytes: int) -> float:
    """Ranks of several nodes, each with its own port to the network.

    Rings and trees cross a node's border once per port, so a node's ports share one ring's bytes. In pairwise
    exchanges, each rank sends the bytes that leave the node through its own port.
    """
    start = max(link.start_ns, network.start_ns)
    if kind == "all_to_all":
        near = bytes * (members.local - 1) / members.count / link.bandwidth[kind]
        far = bytes * (members.count - members.local) / members.count / network.bandwidth[kind]
        return start + network.hop_ns + max(near, far) * _NS
    if KINDS[kind].is_pairwise:
        return start + network.hop_ns + bytes / network.bandwidth[kind] * _NS
    bandwidth = min(link.bandwidth[kind], members.local * network.bandwidth[kind])
    share = members.nodes / members.count  # of the hops of a ring that cross a border
    hops = KINDS[kind].hops(members.count) * ((1 - share) * link.hop_ns + share * network.hop_ns)
    among, inside = KINDS[kind].hops(members.nodes), KINDS[kind].hops(members.count // members.nodes)
    tree = among * network.hop_ns + inside * link.hop_ns
    latency = min(hops, tree) if KINDS[kind].has_tree else hops
    return start + latency + KINDS[kind].sent(members.count) * bytes / bandwidth * _NS


def _interpolated(curve: Sequence[tuple[float, float]], bytes: int) -> float:
    """Linear between the measured sizes, and beyond the last; the first one's time below it."""
    sizes = [size for size, _ in curve]
    if bytes <= sizes[0] or len(curve) == 1:
        return curve[0][1] * (max(1.0, bytes / sizes[0]) if len(curve) == 1 else 1.0)
    upper = min(max(bisect.bisect_left(sizes, bytes), 1), len(curve) - 1)
    (low, low_ns), (high, high_ns) = curve[upper - 1], curve[upper]
    return low_ns + (bytes - low) / (high - low) * (high_ns - low_ns)

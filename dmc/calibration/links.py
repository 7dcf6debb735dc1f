"""What movements between the GPUs of one host take, and how much they slow down kernels beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from msgspec.structs import replace

from dmc.calibration.fits import Line, line, slowdown
from dmc.calibration.gpu import COMM, products
from dmc.calibration.graphs import DEVICE_BYTES, Graphs
from dmc.machine import Link
from dmc.program import COPIED_BYTES, Channel, Collective, CollectiveKind, Job, Range
from dmc.program.collectives import KINDS, MESSAGES

_CHANNEL = "dp"
# On both sides of where copy engines begin.
_SIZES = (64 << 10, COPIED_BYTES - 1024, COPIED_BYTES, 1 << 20, 8 << 20, 64 << 20, 256 << 20)
_KINDS: tuple[CollectiveKind, ...] = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "permute",
)
_REPEATS, _PRODUCTS, _BESIDE = 4, 24, 128 << 20


def job(ranks: int) -> Job:
    """A job whose one channel joins all ranks."""
    return Job({"dp": ranks}, (Channel(_CHANNEL, ("dp",)),), {}, ())


def measured(
    base: Link, graphs: Graphs, ranks: int, agreed: Callable[[int], int] = lambda own: own, are_copied: bool = True
) -> Link:
    """The link with what was measured. All ranks call this.

    agreed: gives all ranks the number of one of them: each must issue the same movements. are_copied: whether copy
    engines move what they can; if not, what kernels lose beside them stays as in `base`.
    """
    found: dict[str, dict[int, float]] = {kind: {} for kind in _KINDS}
    for kind in _KINDS:
        for size in _SIZES:
            commands = [_collective(kind, size, ranks, index) for index in range(_REPEATS)]
            found[kind][size] = graphs.ns(commands) / _REPEATS
    slowdown = _slowdown("all_reduce", graphs, ranks, agreed)
    copied = _slowdown("permute", graphs, ranks, agreed) if are_copied else base.copy_slowdown
    return replace(fitted(base, found, ranks), compute_slowdown=slowdown, copy_slowdown=copied)


def fitted(base: Link, times: Mapping[str, Mapping[int, float]], ranks: int) -> Link:
    """The link with the latency and the bandwidth of measured times, by kind and by bytes of the larger side."""
    lines = {kind: _line(kind, each, ranks) for kind, each in times.items()}
    bandwidth = {kind: each.per_second for kind, each in lines.items()}
    # A message is one of a permutation.
    bandwidth |= dict.fromkeys(MESSAGES, bandwidth["permute"])
    start = median(each.start - KINDS[kind].hops(ranks) * base.hop_ns for kind, each in lines.items())
    curves = {
        f"{kind}/{ranks}": tuple(sorted((float(s), ns) for s, ns in each.items())) for kind, each in times.items()
    }
    return replace(
        base,
        bandwidth={**base.bandwidth, **bandwidth},
        start_ns=max(start, 0.0),
        curves={**base.curves, **curves},
        source=f"measured by dmc calibrate on {ranks} ranks; latency of a hop: {base.source}",
    )


def _line(kind: str, times: Mapping[int, float], ranks: int) -> Line:
    return line([KINDS[kind].sent(ranks) * size for size in times], list(times.values()))


def _slowdown(kind: CollectiveKind, graphs: Graphs, ranks: int, agreed: Callable[[int], int]) -> float:
    large = list(products(_PRODUCTS))
    moving = graphs.ns([_collective(kind, _BESIDE, ranks, 0)])
    alone = graphs.ns(large)
    # About half as long as the products, so that all of them run beside these.
    count = agreed(max(1, int(alone / moving / 2)))
    movements = [_collective(kind, _BESIDE, ranks, index) for index in range(count)]
    return slowdown(alone, graphs.ns([*movements, *large]), graphs.ns(movements))


def _collective(kind: CollectiveKind, size: int, ranks: int, instance: int) -> Collective:
    """A movement of bf16 whose larger side has `size` bytes."""
    small = size // ranks
    given, made = {"all_gather": (small, size), "reduce_scatter": (size, small)}.get(kind, (size, size))
    details: dict[str, Any] = {}
    if KINDS[kind].reduces:
        details = {"reduction": "sum", "accumulate": "bf16"}
    if kind == "broadcast":
        details = {"peer": 0}
    if kind == "permute":
        details = {"pairs": tuple((rank, (rank + 1) % ranks) for rank in range(ranks))}
    source, target = Range("device", 0, given), Range("device", DEVICE_BYTES // 2, made)
    return Collective(
        COMM, kind, _CHANNEL, tuple(range(ranks)), instance, "bf16", given // 2, source, target, **details
    )

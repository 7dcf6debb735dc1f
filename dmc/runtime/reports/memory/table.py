"""A memory report as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rich.console import RenderableType
from rich.table import Table

from dmc.program import IN_FLIGHT, STAGED
from dmc.program.categories import CATEGORIES
from dmc.program.rank_memory import RankMemory
from dmc.program.sizes import size_text
from dmc.runtime.reports.tables import UNKNOWN, table

_LARGEST = 10
Size = Callable[[int], str]


def parts(ranks: Sequence[RankMemory], exact: bool) -> Iterator[RenderableType]:
    """Contents of the arena, activations by module, the largest buffers at the peak."""
    size = partial(size_text, exact=exact)
    for memory in ranks:
        yield head(memory, exact)
        for made in (_categories, _waiting, _kept, _modules, _largest):
            if (shown := made(memory, size)) is not None:
                yield shown


def head(memory: RankMemory, exact: bool = False) -> str:
    """One sentence: who, how much, and where the peak is."""
    others = [f"{size_text(size, exact)} of {space.replace('_', ' ')} memory" for space, size in memory.arenas.items()]
    where = memory.labels[memory.peak_command] if memory.labels else ""
    at = f"command {memory.peak_command}" + (f", {where}" if where else "")
    return f"{ranks_text(memory.ranks)}: {', '.join(others) or 'no memory'}; the peak is at {at}"


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 0`, or `ranks 0–3, 8`."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and spans[-1][1] == rank - 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    words = [str(first) if first == last else f"{first}–{last}" for first, last in spans]
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(words)}"


def rows(memory: RankMemory) -> Iterator[tuple[str, int, int | None]]:
    """The uses of the arena: a name, the bytes at the peak, and the most at any time (None where not meaningful)."""
    most = memory.most
    for category, size in memory.at_peak.items():
        if most[category]:
            yield CATEGORIES[category], size, most[category]
    yield "fragmentation and alignment", memory.fragmentation, None
    yield "arena", memory.arena, None
    if inputs := memory.arenas.get(STAGED, 0):
        yield "beside it, inputs of calls in flight", IN_FLIGHT * inputs, None


def _categories(memory: RankMemory, size: Size) -> Table:
    made = table("device memory", "at the peak", "share", "most at any time")
    for name, used, most in rows(memory):
        share = f"{100 * used / memory.arena:.1f} %" if memory.arena else UNKNOWN
        made.add_row(name, size(used), share, UNKNOWN if most is None else size(most))
    return made


def _waiting(memory: RankMemory, size: Size) -> Table | None:
    """None where no state waits."""
    if not memory.waiting:
        return None
    made = table("optimizer state in host memory, by module", "size")
    for module, used in memory.in_host_memory().items():
        made.add_row(module, size(used))
    made.add_row("all", size(sum(memory.in_host_memory().values())))
    return made


def _kept(memory: RankMemory, size: Size) -> Table:
    made = table("activations for the backward pass, by module", "kept", "computed again", "offloaded")
    columns = (memory.kept(), memory.recomputed(), memory.offloaded())
    for module in dict.fromkeys(module for column in columns for module in column):
        made.add_row(module, *(size(column.get(module, 0)) for column in columns))
    made.add_row("all", *(size(sum(column.values())) for column in columns))
    return made


def _modules(memory: RankMemory, size: Size) -> Table:
    made = table("activations at the peak, by module", "size")
    for module, used in memory.modules().items():
        made.add_row(module, size(used))
    return made


def _largest(memory: RankMemory, size: Size) -> Table:
    made = table("largest at the peak", "size", "what", words=("what",))
    alive = memory.alive(memory.peak_command)
    for buffer in alive[:_LARGEST]:
        made.add_row(buffer.label or UNKNOWN, size(buffer.range.length), CATEGORIES[buffer.category])
    if rest := alive[_LARGEST:]:
        made.add_row(f"{len(rest)} others", size(sum(buffer.range.length for buffer in rest)), "")
    return made

"""The report of dm-form-kernels."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.kernels.cost import Work, dominant, traffic
from dmc.analysis.kernels.graph import Graph, Kind
from dmc.analysis.kernels.groups import Refusal
from dmc.dialect.labels import module_path
from dmc.passes.scheduled.form_kernels.outline import Outline, outline
from dmc.passes.shared.report import print_table

MOST_REFUSALS = 20


def print_reasons(
    graph: Graph, works: Mapping[int, Work], units: Sequence[Outline | int], refusals: Iterable[Refusal]
) -> None:
    """Prints, on stderr, bytes before and after, the kernels of each kind, and the largest fusions refused."""
    singles = [(number,) for number, kind in enumerate(graph.kinds) if kind is Kind.COMPUTE]
    apart, kernels = _kernels(outline(graph, singles, {}).units), _kernels(units)
    before, after = (sum(_bytes(graph, each) for each in some) for some in (apart, kernels))
    saved = 1 - after / before if before else 0.0
    print(f"{len(apart)} computations, {before:,} bytes through device memory", file=sys.stderr)
    print(f"{len(kernels)} kernels, {after:,} bytes through device memory ({saved:.1%} less)\n", file=sys.stderr)
    whole = [op.opview for op in graph.ops if op.name == dm.KernelOp.OPERATION_NAME]
    if whole:
        moved = sum(op.bytes.value for op in whole)
        print(f"and {len(whole)} kernels of whole composites, {moved:,} bytes\n", file=sys.stderr)
    by_kind: dict[str, list[Outline]] = {}
    for kernel in kernels:
        own = [works[number] for number in kernel.members]
        by_kind.setdefault(own[dominant(own)].kind, []).append(kernel)
    rows = [
        (
            kind,
            len(some),
            f"{sum(works[number].flops for kernel in some for number in kernel.members):,}",
            f"{sum(_bytes(graph, kernel) for kernel in some):,}",
        )
        for kind, some in sorted(by_kind.items())
    ]
    print_table(("kind", "kernels", "flops", "bytes"), rows)
    largest = [
        (f"{each.bytes:,}", module_or_name(graph.ops[each.first]), module_or_name(graph.ops[each.second]), each.why)
        for each, _ in zip(refusals, range(MOST_REFUSALS), strict=False)
    ]
    print(file=sys.stderr)
    print_table(("bytes", "kernel with", "and kernel with", "are not fused because of"), largest)


def module_or_name(op: ir.Operation) -> str:
    """`linalg.matmul (h.3.mlp)`."""
    path = module_path(op.location)
    return f"{op.name} ({path})" if path else op.name


def _kernels(units: Iterable[Outline | int]) -> list[Outline]:
    return [unit for unit in units if isinstance(unit, Outline)]


def _bytes(graph: Graph, kernel: Outline) -> int:
    return traffic(graph, kernel.body, kernel.inputs, kernel.outputs)

"""A resolved plan as a table of plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dmc.mesh import Mesh
from dmc.plans.layout import Layout
from dmc.plans.pipelines import PipelinePlan
from dmc.plans.tensors import ActivationPlan, InputPlan, TensorPlan
from dmc.plans.uneven import local_shape

HEAD = ("name", "shape", "placement", "local shape", "gradient", "optimizer", "rule")
LEGEND = """\
[dp tp, -]   dimension 0 is split over axis dp and each piece over tp; dimension 1 is not split
3×tp         the dimension is three blocks side by side, and each of them is split over tp"""


def table(
    mesh: Mesh,
    tensors: Mapping[str, TensorPlan],
    inputs: Mapping[str, InputPlan],
    activations: Sequence[ActivationPlan],
    pipeline: PipelinePlan | None,
    notes: Sequence[str],
) -> str:
    """One line per parameter and buffer, then per input, then per constraint on an activation, then per stage of the
    pipeline, then `notes`."""
    rows: list[tuple[str, ...]] = [HEAD]
    for name, each in tensors.items():
        local = local_shape(each.spec.shape, each.stored, mesh, each.pads)
        rest = (_layout(each.reduced), _layout(each.optimizer), "; ".join(each.rules) or "no rule")
        rows.append((name, _shape(each.spec.shape), str(each.stored), _shape(local), *rest))
    for name, each in inputs.items():
        local = local_shape(each.spec.shape, each.layout, mesh, each.pads)
        why = "; ".join(each.rules) or "no rule"
        rows.append((f"input {name}", _shape(each.spec.shape), str(each.layout), _shape(local), "", "", why))
    for each in activations:
        where = f"{each.side} of {each.module or 'the model'}"
        for dim, uses in each.dims.items():
            text = f"{'tokens' if dim is None else f'dimension {dim}'}: {' '.join(map(str, uses))}"
            rows.append((where, "", text, "", "", "", "; ".join(use.rule for use in uses)))
    for stage, first in enumerate(() if pipeline is None else ("the model", *pipeline.cut)):
        rows.append((f"stage {stage}", "", f"begins at {first}", "", "", "", pipeline.rule if pipeline else ""))
    notes = [*([] if pipeline is None else [f"pipeline: {pipeline}"]), *notes]
    head = f"plan over {mesh}, {mesh.size} ranks"
    return "\n".join([head, "", *_aligned(rows), "", LEGEND, *notes])


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _layout(layout: Layout | None) -> str:
    return "" if layout is None else str(layout)


def _shape(shape: Sequence[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"

"""What a composite says of its results, it says rightly each time it is asked."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import dmc.importer.composites  # Registers them all.
from dmc.importer.composites.base import REGISTRY

assert "attention" in dmc.importer.composites.__all__
SCALAR = torch.tensor(0.5)


def _said(name: str, *arguments: object) -> list[tuple[torch.Size, tuple[int, ...], torch.dtype]]:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in arguments]
        said = getattr(torch.ops.dmc, name)(*fake)
    return [(t.shape, t.stride(), t.dtype) for t in (said if isinstance(said, tuple) else (said,))]


def _given(name: str, *arguments: object) -> list[tuple[torch.Size, tuple[int, ...], torch.dtype]]:
    given = REGISTRY[name].definition(*arguments)
    return [(t.shape, t.stride(), t.dtype) for t in (given if isinstance(given, tuple) else (given,))]


def test_results_are_known_by_shape_stride_type_and_constants() -> None:
    wide, narrow = torch.ones(3, 4), torch.ones(3, 4).bfloat16()
    uses: list[tuple[str, tuple[object, ...]]] = [
        ("gelu", (wide, "none")),
        ("gelu", (narrow, "none")),
        ("gelu", (wide.t(), "none")),
        ("gelu", (torch.ones(5), "none")),
        ("optimizer_update_keep", (narrow, narrow, SCALAR > 0)),
        ("optimizer_update_keep", (wide, wide, SCALAR > 0)),
        ("embedding_backward", (wide, torch.tensor([1, 0, 1]), 7, -1)),
        ("embedding_backward", (wide, torch.tensor([1, 0, 1]), 2, -1)),
    ]
    for name, arguments in uses * 2:
        assert _said(name, *arguments) == _given(name, *arguments), name

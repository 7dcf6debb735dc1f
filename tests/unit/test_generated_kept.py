"""Generated kernels come from the cache as they were made; so do the reasons why there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dmc.cache import Cache, using
from dmc.kernels.generated import Declined, generate, kept
from tests.generated_golden import SIZES
from tests.generated_regions import region, regions_of, shaped


def _unmade(_: Any) -> Any:
    raise AssertionError("made again")


@pytest.mark.parametrize("name", SIZES)
def test_kernels_are_kept(context: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = shaped(name, **SIZES[name])
    function = regions_of(module)["region"]
    expected = generate(function)
    with using(Cache(tmp_path)):
        assert kept.generated(function) == expected
        monkeypatch.setattr(kept, "generate", _unmade)
        assert kept.generated(function) == expected


@pytest.mark.parametrize("part", ["sources", "version"])
def test_kernels_of_other_versions_are_made_again(
    context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    module = shaped("rows", **SIZES["rows"])
    function = regions_of(module)["region"]
    with using(Cache(tmp_path)):
        kept.generated(function)
        owner = kept if part == "sources" else kept.metadata
        monkeypatch.setattr(owner, part, lambda *_: "another")
        monkeypatch.setattr(kept, "generate", _unmade)
        with pytest.raises(AssertionError, match="made again"):
            kept.generated(function)


def test_reasons_are_kept(context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = region("(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> { return %x : tensor<4xcomplex<f32>> }")
    function = regions_of(module)["region"]
    with using(Cache(tmp_path)):
        for _ in range(2):
            with pytest.raises(Declined, match="elements of type complex<f32>"):
                kept.generated(function)
            monkeypatch.setattr(kept, "generate", _unmade)


def test_another_region_has_other_kernels(context: Any, tmp_path: Path) -> None:
    modules = [
        region(f"(%x: tensor<{size}xf32>) -> tensor<{size}xf32> {{ return %x : tensor<{size}xf32> }}")
        for size in (4, 8)
    ]
    with using(Cache(tmp_path)):
        four, eight = (kept.generated(regions_of(each)["region"]) for each in modules)
    assert four != eight

"""The sources of generated kernels as they read, and the machine code that they become."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.generated_golden import SIZES, source
from tests.generated_regions import FOLDER
from tests.machine_code import machine_code


@pytest.mark.parametrize("name", SIZES)
def test_a_source_reads_as_the_golden_file(context: Any, name: str) -> None:
    hint = "if the change is meant: python -m tests.generated_golden"
    assert source(name) == (FOLDER / f"{name}.golden").read_text(encoding="utf-8"), hint


def test_every_schedule_becomes_machine_code() -> None:
    texts = [(FOLDER / f"{name}.mlir.in").read_text(encoding="utf-8") for name in ("elements", "rows", "columns")]
    for i, sizes in enumerate(
        ({"r": 300, "c": 70, "n": 21000}, {"r": 300, "c": 20000, "n": 600}, {"r": 3000, "c": 65})
    ):
        for name, size in sizes.items():
            texts[i] = texts[i].replace(f"${name}", str(size))
    product = (FOLDER / "product.mlir.in").read_text(encoding="utf-8")
    for name, size in {"type": "bf16", "m": 129, "n": 70, "k": 2048}.items():
        product = product.replace(f"${name}", str(size))
    large = (FOLDER / "product.mlir.in").read_text(encoding="utf-8")
    for name, size in {"type": "bf16", "m": 4104, "n": 1024, "k": 136}.items():
        large = large.replace(f"${name}", str(size))
    every = machine_code([*((text, -1) for text in (*texts, product, large)), (large, 0)])
    for entry in (entry for entries in every[:-1] for entry in entries):
        assert entry["is_elf"] and "sm_90" in entry["ptx"], entry["name"]
        assert "generated_" not in entry["ptx"], "the code says where its source lies"
        assert entry["ptx"].count(".param .u64") == entry["pointers"], entry["name"]
    told = [([entry["name"] for entry in entries], "wgmma" in entries[0]["ptx"]) for entries in every[:-1]]
    one, two = ["region"], ["region", "region_2"]
    assert told == [(one, False), (one, False), (two, False), (two, True), (one, True)], told
    in_turn = every[-1][0]
    assert in_turn["threads"] == 384 and "setmaxnreg" in in_turn["ptx"], "two groups that multiply, and one that copies"
    # One thread says that a product is done: for its whole group, which meets at a barrier before.
    steps = re.findall(r"bar\.sync|wgmma|mbarrier\.arrive\.shared::cta", in_turn["ptx"])
    before = [steps[i - 1] for i, step in enumerate(steps) if step.startswith("mbarrier")]
    assert before and set(before) == {"bar.sync"}, before

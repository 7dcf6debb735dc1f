"""What compiled code needs of a processor, and whether this one has it."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from dmc.errors import ArtifactError
from dmc.lowering.iree.cpu_features import required_features, with_used_features
from dmc.runtime.process.cpu import check_cpu, is_checked, missing_features

TARGET = (
    '#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {{cpu = "znver4", cpu_features = "{}", '
    'native_vector_size = 64 : i64, target_triple = "x86_64-unknown-unknown-eabi-elf"}}>'
)
# Shortened from a machine of 2015.
HASWELL = """processor\t: 0
model name\t: Intel(R) Core(TM) i7-4790
flags\t\t: fpu sse sse2 pni ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt xsave avx f16c lahf_lm abm bmi1 avx2 bmi2
bugs\t\t: avx512f
"""


@pytest.mark.parametrize(
    ("features", "required"),
    [
        ("", ()),
        ("+sse4.1,-avx,+avx2", ("avx2", "sse4.1")),
        ("+fma,+avx512f,-avx512f,-bmi,+bmi", ("bmi", "fma")),
        ("+64bit,+avx", ("avx",)),
    ],
    ids=["none", "sorted", "the-last-entry-counts", "x86-64-itself"],
)
def test_features_of_a_target(features: str, required: tuple[str, ...]) -> None:
    assert required_features(TARGET.format(features)) == ("x86_64", *required)


def test_what_no_kernel_uses_is_turned_off() -> None:
    given = TARGET.format("+64bit,+aes,+avx10.1,-fma,+avx512f,+vaes,-vaes,+fma,+xsave,+egpr")
    used = with_used_features(given)
    assert used == TARGET.format("-aes,-avx10.1,-egpr,-xsave,+64bit,+avx512f,+fma")
    assert required_features(used) == ("x86_64", "avx512f", "fma")
    other = given.replace("x86_64-unknown", "aarch64-unknown")
    assert with_used_features(other) == other


def test_a_gpu_asks_for_no_processor() -> None:
    assert required_features('#hal.executable.target<"cuda", "cuda-nvptx-fb", {target_info = "sm_80"}>') == ()


def test_missing_features() -> None:
    there = ["avx2", "bmi", "crc32", "lzcnt", "sahf", "sse3", "sse4.1", "x87"]
    assert missing_features(there, HASWELL) == []
    assert missing_features(["avx2", "avx512f", "avx512vnni", "sse4.2"], HASWELL) == ["avx512f", "avx512vnni"]


def test_features_that_linux_does_not_show_are_not_checked() -> None:
    assert is_checked(("x86_64", "avx2", "avx512f"))
    assert not is_checked(("x86_64", "avx2", "egpr"))
    assert not is_checked(("aarch64",))


@pytest.fixture
def haswell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    (tmp_path / "cpuinfo").write_text(HASWELL)
    return tmp_path / "cpuinfo"


def test_an_older_processor_is_refused(haswell: Path) -> None:
    check_cpu(("x86_64", "avx2", "fma"), "gpt.dmc", haswell)
    with pytest.raises(ArtifactError, match=r"gpt\.dmc: requires avx512f, avx512vl, which this") as caught:
        check_cpu(("x86_64", "avx2", "avx512f", "avx512vl"), "gpt.dmc", haswell)
    assert "cpu:x86-64-v3" in caught.value.hint


def test_another_architecture_is_refused(haswell: Path) -> None:
    with pytest.raises(ArtifactError, match="contains code for aarch64, but this processor is x86_64"):
        check_cpu(("aarch64",), "gpt.dmc", haswell)


def test_where_nothing_lists_the_features_the_architecture_alone_counts(haswell: Path) -> None:
    haswell.unlink()
    check_cpu(("x86_64", "avx512f"), "gpt.dmc", haswell)

"""The features that a processor must have to run IREE's code: those that the code may use, and no more."""

from __future__ import annotations

import functools
import platform
import re
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
# What LLVM recognises a processor by, in the words of Linux.
_IDENTITY = frozenset(
    ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "CPU implementer", "CPU part", "Features")
)
_FEATURES = re.compile(r'(cpu_features = ")([^"]*)(".*?target_triple = "(\w+)-)')
_X86 = "x86_64"
_ON = "+"
# By LLVM's names, the features it uses for tensor arithmetic. A processor's name enables many more: instructions for
# operating systems, cryptography, matrix units that IREE does not use, and integer extensions.
_USED = frozenset(
    "avx avx2 avx512bf16 avx512bw avx512cd avx512dq avx512f avx512fp16 avx512vl avx512vnni avxvnni bmi bmi2 cmov "
    "crc32 cx16 cx8 f16c fma fma4 fxsr lzcnt mmx movbe popcnt sahf sse sse2 sse3 sse4.1 sse4.2 sse4a ssse3 tbm x87 "
    "xop".split()
)
# x86-64 itself.
_SELF = "64bit"


def with_used_features(program: str) -> str:
    """IREE's `program` with the features that tensor code does not need disabled, so that its code cannot use them.

    Only for x86-64; unchanged for other architectures.
    """
    return _FEATURES.sub(_with_used, program)


@functools.cache
def processor() -> str:
    """This machine's processor: where that is equal, so is code for "host".

    Systems other than Linux name the machine as well.
    """
    if not _CPUINFO.exists():
        return f"{platform.machine()} {platform.processor()} {platform.node()}"
    first, *_ = _CPUINFO.read_text().split("\n\n")
    lines = [line.partition(":") for line in first.splitlines()]
    return "\n".join(f"{key.strip()}:{value}" for key, _, value in lines if key.strip() in _IDENTITY)


def _with_used(target: re.Match[str]) -> str:
    before, features, behind, architecture = target.groups()
    if architecture != _X86:
        return target[0]
    enabled = _enabled(features)
    used = [f"{_ON}{name}" for name in enabled if name in _USED or name == _SELF]
    unused = [f"-{name}" for name in enabled if f"{_ON}{name}" not in used]
    # Disabling a feature disables those that depend on it, so the enabled ones come last.
    return f"{before}{','.join([*unused, *used])}{behind}"


def required_features(program: str) -> tuple[str, ...]:
    """The architecture, then, sorted and by LLVM's names, the features that code for the target of IREE's `program` may
    use; empty if that target is not a CPU.
    """
    target = _FEATURES.search(program)
    if target is None:
        return ()
    return (target[4], *(name for name in _enabled(target[2]) if name != _SELF))


def _enabled(features: str) -> list[str]:
    """Sorted. Later entries override earlier ones: first those of the processor's name, then those detected."""
    states = {entry[1:]: entry[0] == _ON for entry in filter(None, features.split(","))}
    return sorted(name for name, is_on in states.items() if is_on)

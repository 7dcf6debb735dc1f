"""Whether this machine's processor can run compiled code, which would otherwise crash on an illegal instruction
(SIGILL)."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from dmc.errors import ArtifactError

_HINT = "compile the step on this machine, or for the oldest processor you use, as in target='cpu:x86-64-v3'"
_CPUINFO = Path("/proc/cpuinfo")
_ARCHITECTURES = {"AMD64": "x86_64", "arm64": "aarch64"}

# LLVM's name of each feature that code may use → the flag that Linux shows for it (arch/x86/include/asm/cpufeatures.h).
_FLAGS = {
    **{name: name for name in "avx avx2 bmi2 cmov cx16 cx8 f16c fma fma4 fxsr mmx movbe popcnt".split()},
    **{name: name for name in "sse sse2 sse4a ssse3 tbm xop".split()},
    **{f"avx512{name}": f"avx512{name}" for name in "bw cd dq f vl".split()},
    **{f"avx512{name}": f"avx512_{name}" for name in "bf16 fp16 vnni".split()},
    "avxvnni": "avx_vnni",
    "bmi": "bmi1",
    "crc32": "sse4_2",
    "lzcnt": "abm",
    "sahf": "lahf_lm",
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "x87": "fpu",
}


def check_cpu(requires: Sequence[str], place: str, cpuinfo: Path = _CPUINFO) -> None:
    """Raises ArtifactError unless this machine's processor has everything that `requires` names (see
    `Artifact.requires`).

    Features are checked on x86-64 under Linux, which lists them in `cpuinfo`. On other systems and processors only the
    architecture is checked.
    """
    if not requires:
        return
    architecture, *features = requires
    here = _ARCHITECTURES.get(platform.machine(), platform.machine())
    if architecture != here:
        raise ArtifactError(place, f"contains code for {architecture}, but this processor is {here}", hint=_HINT)
    if architecture != "x86_64" or not cpuinfo.exists():
        return
    if missing := missing_features(features, cpuinfo.read_text()):
        raise ArtifactError(place, f"requires {', '.join(missing)}, which this processor lacks", hint=_HINT)


def is_checked(requires: Sequence[str]) -> bool:
    """Whether `check_cpu` checks every feature in `requires`, so that code that passes will run."""
    return bool(requires) and requires[0] == "x86_64" and set(requires[1:]) <= _FLAGS.keys()


def missing_features(features: Iterable[str], cpuinfo: str) -> list[str]:
    """Those of LLVM's x86 `features`, in order, whose flag the text of /proc/cpuinfo lacks."""
    lines = (line.partition(":") for line in cpuinfo.splitlines())
    flags = next((set(value.split()) for key, _, value in lines if key.strip() == "flags"), set[str]())
    return [name for name in features if name in _FLAGS and _FLAGS[name] not in flags]

"""Versions of the tools that built a file, and whether the installed runtime can run it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import metadata

import dmc
from dmc.errors import ArtifactError

COMPILER = "iree-base-compiler"
RUNTIME = "iree-base-runtime"


def tool_versions(packages: Iterable[str] = ("torch", "torch-mlir", COMPILER, RUNTIME)) -> dict[str, str]:
    """dmc's own version, then the installed version of each distribution; missing distributions are omitted."""
    versions = {"dmc": dmc.__version__}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def check_runtime(versions: Mapping[str, str], file: str) -> None:
    """Raises ArtifactError unless the installed IREE runtime can run code of the IREE compiler version in `versions`.

    IREE promises no compatibility of compiled modules across releases, so major and minor number must be equal.
    """
    from iree.runtime import version

    compiled = versions.get(COMPILER, "")
    if not _release(compiled):
        raise ArtifactError(file, f"has no version of {COMPILER}", hint="compile the step again")
    if _release(compiled) == _release(version.VERSION):
        return
    raise ArtifactError(
        file,
        f"was compiled by IREE {compiled}; the installed runtime is {version.VERSION}",
        hint=f"pip install '{RUNTIME}=={compiled}', or compile the step again",
    )


def _release(version: str) -> tuple[int, int] | None:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None

"""Versions of PyTorch: those that are supported, and operations that only some of them have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch

import dmc
from dmc.errors import DmcError

Value = TypeVar("Value")

# Exported graphs and private names change from one to the next: these are tested. `pyproject.toml` asks for them.
SUPPORTED = ((2, 13), (2, 14))


def version_of(text: str) -> tuple[int, int]:
    """Major and minor number, as (2, 13) of "2.13.0+cpu"."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def check_version(found: str = torch.__version__) -> None:
    """Raises DmcError for a version that is not supported."""
    if version_of(found) in SUPPORTED:
        return
    names = " and ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
    (major, minor), (last, newest) = SUPPORTED[0], SUPPORTED[-1]
    hint = f"pip install 'torch>={major}.{minor},<{last}.{newest + 1}'"
    raise DmcError(f"PyTorch {found}", f"is not supported by dmc {dmc.__version__}, which works with {names}", hint)


def until(version: tuple[int, int], table: Mapping[str, Value]) -> dict[Any, Value]:
    """A table by operations of `torch.ops.aten`, such as "cholesky.default", that this version and later ones lack."""
    if version_of(torch.__version__) >= version:
        return {}
    return {_operation(name): value for name, value in table.items()}


def _operation(name: str) -> Any:
    packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)

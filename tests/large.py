"""What `make test` leaves to `make matrix`: tests marked `large`."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

large = pytest.mark.large


def large_unless(quick: tuple[object, ...], names: Iterable[object]) -> list[ParameterSet]:
    """Parameters of a test, one for each name; those that are not `quick` are large."""
    return [pytest.param(name, marks=() if name in quick else large) for name in names]

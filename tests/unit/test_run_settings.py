"""What the environment says of how a step is run."""

from __future__ import annotations

import pytest

from dmc.errors import DmcError
from dmc.runtime.settings import RunSettings


def test_settings() -> None:
    assert RunSettings.of({}) == RunSettings()
    assert RunSettings.of({"DMC_CUDA_GRAPH": "0", "DMC_PATIENCE_S": "120"}) == RunSettings(False, 120.0)


@pytest.mark.parametrize(
    ("name", "value"), [("DMC_CUDA_GRAPH", "no"), ("DMC_PATIENCE_S", "0"), ("DMC_PATIENCE_S", "x")]
)
def test_settings_that_cannot_be(name: str, value: str) -> None:
    with pytest.raises(DmcError, match=f"the variable {name}: is '{value}'"):
        RunSettings.of({name: value})

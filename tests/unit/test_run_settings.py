"""What the environment says of how a step is run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn

from dmc import api
from dmc.errors import DmcError
from dmc.runtime.process.settings import RunSettings


def test_settings() -> None:
    assert RunSettings.of({}) == RunSettings()
    assert RunSettings.of({"DMC_CUDA_GRAPH": "0", "DMC_PATIENCE_S": "120"}) == RunSettings(False, 120.0)
    assert RunSettings.of({"DMC_DIRECT_COPIES": "0"}) == RunSettings(is_direct=False)


def test_a_compiled_step_runs_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[dict[str, Any]] = []
    monkeypatch.setenv("DMC_CUDA_GRAPH", "0")
    monkeypatch.setattr(api, "compile_artifact", lambda *_, **__: SimpleNamespace(requires=()))
    monkeypatch.setattr(api, "check_cpu", lambda *_: None)
    monkeypatch.setattr(api, "CompiledStep", lambda _, **given: taken.append(given))
    model: Any = nn.Linear(1, 1)
    api.compile(model, optimizer=model, example=())
    assert taken[0]["settings"] == RunSettings(is_captured=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [("DMC_CUDA_GRAPH", "no"), ("DMC_DIRECT_COPIES", ""), ("DMC_PATIENCE_S", "0"), ("DMC_PATIENCE_S", "x")],
)
def test_settings_that_cannot_be(name: str, value: str) -> None:
    with pytest.raises(DmcError, match=f"the variable {name}: is '{value}'"):
        RunSettings.of({name: value})

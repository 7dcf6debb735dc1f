"""How `dmc.compile` shows itself."""

from __future__ import annotations

import inspect

import dmc


def test_compile_takes_what_compile_artifact_takes() -> None:
    signature = inspect.signature(dmc.compile)
    assert signature.parameters == inspect.signature(dmc.compile_artifact).parameters
    assert list(signature.parameters)[:3] == ["model", "optimizer", "example"]


def test_every_argument_is_documented() -> None:
    text = inspect.getdoc(dmc.compile) or ""
    undocumented = {name for name in inspect.signature(dmc.compile).parameters if f"{name}:" not in text}
    assert undocumented == {"model"}

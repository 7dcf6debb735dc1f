"""What cuDNN's bindings, which only record it, are asked for attention."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from dmc.errors import DmcError
from dmc.program.code import DeviceCode
from dmc.runtime.gpu.cudnn import Cudnn
from dmc.runtime.gpu.libraries import Libraries
from tests.unit.test_library_attention import SHAPE, STEP, STEPS


class Tensor:
    """What the library calls one: what was set of it."""

    def __init__(self, **given: Any) -> None:
        self.facts = given

    def __getattr__(self, name: str) -> Any:
        def set_(value: Any) -> Tensor:
            self.facts[name.removeprefix("set_")] = value
            return self

        return set_


class NotSupported(Exception):
    """What the bindings raise."""


class Bindings:
    """cuDNN's frontend. needs: the size of its workspace; fails: at which call."""

    cudnnGraphNotSupportedError = NotSupported  # noqa: N815
    data_type = SimpleNamespace(FLOAT="f", BFLOAT16="b", HALF="h")
    diagonal_alignment = SimpleNamespace(TOP_LEFT="top")
    heur_mode = SimpleNamespace(A="a")

    def __init__(self, needs: int = 0, fails: str = "") -> None:
        self.needs, self.fails, self.asked = needs, fails, list[Any]()
        self.made: dict[str, Tensor] = {}

    def create_handle(self) -> int:
        return 5

    def backend_version(self) -> int:
        return 91900

    def set_stream(self, handle: int, stream: int) -> None:
        self.asked.append(("stream", handle, stream))

    def pygraph(self, **given: Any) -> Any:
        self.asked.append(given)
        return self

    def tensor(self, name: str, **given: Any) -> Tensor:
        self.made[name] = Tensor(**given)
        return self.made[name]

    def sdpa(self, name: str, q: Tensor, k: Tensor, v: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
        assert [q, k, v] == [self.made[each] for each in "qkv"]
        self.asked.append(given)
        self.made |= {"out": Tensor(), "level": Tensor()}
        return self.made["out"], self.made["level"]

    def get_workspace_size(self) -> int:
        return self.needs

    def execute(self, buffers: dict[Tensor, int], workspace: int, handle: int) -> None:
        if self.fails == "execute":
            raise ValueError("a null pointer")
        names = {tensor: name for name, tensor in self.made.items()}
        self.asked.append(({names[tensor]: pointer for tensor, pointer in buffers.items()}, workspace, handle))

    def __getattr__(self, name: str) -> Any:
        def step(*_: Any) -> None:
            if name == self.fails:
                raise NotSupported("no engine") if name == "check_support" else ValueError("no shape")

        return step


def test_the_library_is_asked_for_what_the_step_says() -> None:
    library = Bindings(needs=1 << 20)
    attend = Cudnn(library).prepared(replace(STEP, k=replace(STEP.k, shape=(2, 2, 64, 128))))
    types = {"io_data_type": "b", "intermediate_data_type": "f", "compute_data_type": "f"}
    assert library.asked == [
        {**types, "handle": 5},
        {"attn_scale": 0.25, "generate_stats": True, "diagonal_alignment": "top", "diagonal_band_right_bound": 0},
    ]
    assert library.made["k"].facts == {"dim": [2, 2, 64, 128], "stride": [*STEPS], "data_type": "b"}
    assert library.made["out"].facts == {"output": True, "dim": [*SHAPE], "stride": [*STEPS]}
    assert library.made["level"].facts == {
        "output": True,
        "data_type": "f",
        "dim": [2, 4, 64, 1],
        "stride": [256, 64, 1, 1],
    }
    attend([1, 2, 3, 4, 5, 6], 7)
    buffers = {"q": 1, "k": 2, "v": 3, "out": 4, "level": 5}
    assert library.asked[2:] == [("stream", 5, 7), (buffers, 6, 5)]


def test_without_a_causal_mask_no_diagonal_is_named() -> None:
    library = Bindings()
    Cudnn(library).prepared(replace(STEP, causal=False, dtype="f16"))
    assert library.asked[0]["io_data_type"] == "h"
    assert library.asked[1] == {"attn_scale": 0.25, "generate_stats": True}


@pytest.mark.parametrize(
    ("library", "message"),
    [
        (Bindings(fails="check_support"), r"cuDNN 91900 cannot compute bf16 \[2, 4, 64, 128\] \(no engine\)"),
        (Bindings(fails="validate"), r"cuDNN 91900 cannot compute bf16 \[2, 4, 64, 128\] \(no shape\)"),
        (Bindings(needs=(1 << 20) + 1), "cuDNN 91900 needs a workspace of 1048577 bytes, and has 1048576"),
    ],
)
def test_what_it_cannot_compute_is_an_error(library: Bindings, message: str) -> None:
    with pytest.raises(DmcError, match=message):
        Cudnn(library).prepared(STEP)


def test_what_fails_when_it_is_launched_is_an_error() -> None:
    attend = Cudnn(Bindings(fails="execute")).prepared(STEP)
    with pytest.raises(DmcError, match=r"cuDNN 91900 fails for bf16 \[2, 4, 64, 128\] \(a null pointer\)"):
        attend([1, 2, 3, 4, 5, 6], 7)


def test_a_step_that_needs_it_says_so_when_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries, code = Libraries(), DeviceCode({}, {"attention_0": (STEP,)})
    monkeypatch.setitem(sys.modules, "cudnn", None)
    libraries.prepare(code)
    with pytest.raises(DmcError, match=r"requires cuDNN for attention .*\n  hint: pip install 'dmc-compiler\[cudnn\]'"):
        libraries.attention(STEP, [1, 2, 3, 4, 5, 6], 7)
    library = Bindings()
    monkeypatch.setitem(sys.modules, "cudnn", library)
    libraries.prepare(code)
    libraries.attention(STEP, [1, 2, 3, 4, 5, 6], 7)
    assert library.asked[-1][1:] == (6, 5)

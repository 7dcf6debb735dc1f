"""Fixtures. The bindings are imported on first use, so that tests of the runtime stay free of the compiler."""

from __future__ import annotations

import gc
import inspect
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.filecheck import FLAGS, find_filecheck

# Triton decides when it is imported whether it interprets kernels; tests import it in any order, also through PyTorch.
os.environ["TRITON_INTERPRET"] = "1"

# How long an example takes says more about what else runs on a machine than about dmc.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# LLVM's name of the processor for which tests compile in this process, instead of this machine's.
PROCESSOR = "DMC_TEST_PROCESSOR"


def pytest_configure(config: pytest.Config) -> None:
    """Lets the target "cpu" stand for the processor that the environment names.

    Code is kept for the time of this run only: what earlier runs left must not decide anything.
    """
    if hasattr(config, "workerinput"):
        # As many processes as cores run tests: with several threads each, PyTorch's would wait for each other.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    else:
        # The processes of xdist, and those that tests start, inherit it.
        kept = tempfile.TemporaryDirectory(prefix="dmc-tests-")
        config.add_cleanup(kept.cleanup)
        os.environ["DMC_CACHE"] = kept.name
    if processor := os.environ.get(PROCESSOR):
        from dmc.target import TARGETS, target

        TARGETS["cpu"] = target(f"cpu:{processor}")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Takes what was imported, which lives until the end, out of every later collection of garbage."""
    gc.collect()
    gc.freeze()
    # At the end everything must be collected: the bindings report what is left as leaks.
    session.config.add_cleanup(gc.unfreeze)


@pytest.fixture
def context() -> Iterator[Any]:
    """An MLIR context with `dm`, entered, with an unknown location: the entry point of a test."""
    from dmc import dialect
    from dmc._mlir import ir

    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        yield context


@pytest.fixture
def filecheck(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[object], None]:
    """`filecheck(module)` checks the text of `module` against the `# CHECK` comments of the test that calls it."""

    def check(text: object) -> None:
        checks = tmp_path / f"{request.function.__name__}.checks"
        checks.write_text(inspect.getsource(request.function), encoding="utf-8")
        command = [find_filecheck(), *FLAGS, str(checks)]
        result = subprocess.run(command, input=str(text), capture_output=True, text=True, check=False)
        if result.returncode != 0:
            pytest.fail(result.stderr, pytrace=False)

    return check

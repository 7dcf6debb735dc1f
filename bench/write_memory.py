"""The memory that writing a step takes beside its state: `python -m bench.write_memory [MILLIONS]` of parameters.

Prints, in MB, the size of the state, and by how much the resident memory of the process rises at its peak while the
compiled artifact is written, while a step on the CPU is saved, and while its weights are saved, loaded and made anew.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import dmc
from dmc.compiled_step import CompiledStep

_WIDTH = 4096


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def _rise(do: Callable[[], object]) -> int:
    """Bytes by which the peak of resident memory exceeds what is resident before."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _status("VmRSS:")
    do()
    return _status("VmHWM:") - before


def _model(layers: int) -> nn.Module:
    return nn.Sequential(*(nn.Linear(_WIDTH, _WIDTH, bias=False) for _ in range(layers)))


def main() -> int:
    """Prints the table."""
    layers = max(1, int(sys.argv[1]) * 10**6 // _WIDTH**2) if len(sys.argv) > 1 else 12
    model = _model(layers)
    example = torch.zeros(2, _WIDTH), torch.zeros(2, _WIDTH)
    options: dict[str, Any] = {
        "loss": nn.functional.mse_loss,
        "optimizer": dmc.optim.AdamW(lr=1e-3),
        "example": example,
    }
    artifact = dmc.compile_artifact(model, verify=False, **options)
    print(f"{'state':<16}{3 * 4 * layers * _WIDTH**2 / 1e6:>8.0f}")
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder) / "step.dmc"
        print(f"{'artifact.write':<16}{_rise(lambda: artifact.write(path)) / 1e6:>8.0f}", flush=True)
        step = CompiledStep(artifact)
        float(step(*example))
        print(f"{'step.save':<16}{_rise(lambda: step.save(path)) / 1e6:>8.0f}", flush=True)
        weights = Path(folder) / "weights"
        print(f"{'save_weights':<16}{_rise(lambda: step.save_weights(weights)) / 1e6:>8.0f}", flush=True)
        print(f"{'load_weights':<16}{_rise(lambda: step.load_weights(weights)) / 1e6:>8.0f}", flush=True)
        print(f"{'initialise':<16}{_rise(lambda: step.initialise(lambda: _model(layers))) / 1e6:>8.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

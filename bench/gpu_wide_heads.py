"""Attention of heads of 128 by cuDNN beside dmc's own: alone, and in a whole step, on one GPU.

`python -m bench.gpu_wide_heads prepare DIRECTORY` compiles a Llama of six layers (4 × 2048 tokens, width 2048, 16 heads
on 4, bf16-mixed) twice, and the candidates for its attention, on any machine. `python -m bench.gpu_wide_heads run
DIRECTORY` needs a GPU and the extras `cuda` and `cudnn`: it times and compares the candidates as `dmc tune` does,
then runs both steps in turn, from the same parameters, and writes `bench/results/gpu_wide_heads.json`. The exit code is
1 where cuDNN's results or losses differ, or a step's bits from its own.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu_clock import clocked
from bench.gpu_models import llama
from bench.gpu_steps import drawn_state
from bench.packed import PACKED, load_packed, write_packed
from bench.record import write_record
from dmc.program.kernel import types_of
from dmc.program.tuning import CANDIDATES, CUDNN, TUNED, Candidates, Choice, Table

RESULTS = Path(__file__).parent / "results" / "gpu_wide_heads.json"
OURS, ROUNDS, STEPS = "dmc", 3, 6
MODEL = llama(6, 16, 4)
# Of a loss in bf16: six steps of rounding each.
TOLERANCE = 2e-3


def main() -> int:
    """Prepares or runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--machine", default="h200", help="of `prepare`: for which machine steps are planned")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.mode == "prepare":
        prepare(options.directory, options.machine)
        return 0
    device, kernels = _tuned(options.directory)
    steps = {name: _Step(options.directory / f"{name}{PACKED}") for name in (OURS, CUDNN)}
    for each in (each for _ in range(ROUNDS) for each in steps.values()):
        each.run()
    ours, theirs = (np.array(step.losses[0]) for step in steps.values())
    apart = float(np.abs(theirs / ours - 1).max())
    found = {name: {"step_ms": step.ms, "losses": step.losses[0]} for name, step in steps.items()}
    write_record(options.out, {"device": device, "kernels": kernels, "steps": found, "losses_apart": apart})
    print(f"losses differ by {apart:.1e}; ms a step: {', '.join(f'{n} {s.ms}' for n, s in steps.items())}")
    is_right = apart <= TOLERANCE and all(CUDNN in each["us"] for each in kernels)
    return 0 if is_right and all(step.repeats() for step in steps.values()) else 1


def prepare(directory: Path, machine: str) -> None:
    """Compiles the step with dmc's attention, its candidates, and the step with cuDNN's."""
    from bench.gpu_compiled import compiled
    from dmc.cli.tune import write_candidates

    begin = time.perf_counter()
    ours = compiled(MODEL, 0.0, machine, None)
    write_packed(ours, directory / f"{OURS}{PACKED}")
    found = write_candidates(ours, directory / f"{OURS}{CANDIDATES}")
    wide = [each for each in found.tunables if CUDNN in (candidate.label for candidate in each.candidates)]
    (directory / f"{OURS}{CANDIDATES}").write_bytes(Candidates(tuple(wide), found.modules).to_bytes())
    table = directory / f"{CUDNN}{TUNED}"
    chosen = {each.key: Choice(each.kernel, types_of(each.reads, each.writes), CUDNN, {CUDNN: 1.0}) for each in wide}
    Table(chosen).write(table)
    theirs = compiled(MODEL, 0.0, machine, table)
    by = [name for name, kernel in theirs.job.kernels.items() if kernel.implementation == CUDNN]
    if len(by) != len(wide) or not by:
        raise SystemExit(f"by cuDNN are {by}, expected {[each.kernel for each in wide]}")
    write_packed(theirs, directory / f"{CUDNN}{PACKED}")
    print(f"{', '.join(by)} by cuDNN; {time.perf_counter() - begin:.0f} s")


def _tuned(directory: Path) -> tuple[str, list[dict[str, Any]]]:
    """The device and its versions, and what was measured of each kernel."""
    from dmc.runtime.gpu.cuda_streams import open_device
    from dmc.runtime.sessions.replay.tuner import tune

    path = directory / f"{OURS}{CANDIDATES}"
    found: list[dict[str, Any]] = []
    device = open_device()
    for _, choice, refused in tune(device, Candidates.from_bytes(path.read_bytes(), str(path))):
        print(choice.kernel, choice.reason(), *refused, sep="\n  ", flush=True)
        found.append({"kernel": choice.kernel, "chosen": choice.label, "us": choice.us, "refused": refused})
    versions = (f"{name} {value}" for name, value in device.versions().items() if value != device.name)
    return ", ".join((device.name, *versions)), found


class _Step:
    """One of both steps. ms: of each round. losses: of the first steps of each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.ms: list[float] = []
        self.losses: list[list[float]] = []

    def run(self) -> None:
        """A round, from the same parameters and batches as every other."""
        step = load_packed(self._path)
        step.load_state_dict(drawn_state(step))
        drawn = (MODEL.batch(seed) for seed in range(STEPS))
        batches = [{spec.name: each[spec.name].numpy() for spec in step.signature.batch} for each in drawn]
        self.losses.append([float(step.call_flat(batch)) for batch in batches])
        self.ms.append(round(clocked(lambda index: step.call_flat(batches[index % STEPS]))[0], 3))
        step.close()

    def repeats(self) -> bool:
        """Whether each round gave the same bits."""
        return all(each == self.losses[0] for each in self.losses)


if __name__ == "__main__":
    sys.exit(main())

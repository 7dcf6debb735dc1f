"""`dmc run --verify` on a GPU: the first step of a file compared with the CPU's, by one plan for both.

`python -m bench.gpu_verify prepare DIRECTORY` plans the small GPT of the tests, with dropout, for CPU and GPU
(`target="cpu+cuda"`) and writes `gpt.dmc` and `batches.npz`. It needs no GPU.

`python -m bench.gpu_verify run DIRECTORY` runs the command on the GPU: once with `--verify`, which must succeed and say
so, once without, whose losses must be the same, and once on the CPU, where `--verify` must be refused. Then it hands
the GPU other tokens than the CPU, which must be found. It prints what came of each as JSON, and writes
`bench/results/gpu_verify.json`. It needs CUDA, CuPy and what `dmc.runtime` needs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.record import write_record

RESULTS = Path(__file__).parent / "results" / "gpu_verify.json"
STEPS = 3
DROPOUT, RATE, CLIP = 0.1, 1e-3, 1.0
AGREES = "step 1 agrees with the CPU's result for the same plan"
REFUSED = "already runs on the CPU"


@dataclass(frozen=True)
class Ran:
    """A run of the command. losses: as printed. text: the rest, standard error last."""

    code: int
    losses: tuple[str, ...]
    text: tuple[str, ...]


def main() -> int:
    """Prepares or runs; the exit code of `run` is 1 where something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--device", default="cuda", help="where a step is verified")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.mode == "prepare":
        prepare(options.directory)
        return 0
    record = run(options.directory, options.device)
    print(json.dumps(record, indent=1), flush=True)
    write_record(options.out, record)
    return 0 if record["as_it_must_be"] else 1


def prepare(directory: Path) -> None:
    """Plans the step for both machines and writes it with its batches; prints their sizes."""
    import dmc
    from dmc.api import compile_artifact
    from tests.models import demo_gpt

    case = demo_gpt.build(DROPOUT)
    artifact = compile_artifact(
        case.model,
        loss=case.loss,
        optimizer=dmc.optim.AdamW(lr=RATE, weight_decay=0.1, clip_grad_norm=CLIP),
        example=case.example(0),
        target="cpu+cuda",
        verify=True,
    )
    artifact.write(directory / "gpt.dmc")
    batches = [list(case.example(seed)) for seed in range(STEPS)]
    names = [spec.name for spec in artifact.signature.batch]
    arrays = {name: np.stack([batch[i].numpy() for batch in batches]) for i, name in enumerate(names)}
    np.savez(directory / "batches.npz", allow_pickle=False, **arrays)
    print(", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in sorted(directory.iterdir())))


def run(directory: Path, device: str) -> dict[str, Any]:
    """The outcome of every run, and whether all is as expected."""
    verified = _command(directory, "--device", device, "--verify")
    alone = _command(directory, "--device", device)
    on_cpu = _command(directory, "--device", "cpu", "--verify")
    found = _other_tokens(directory, device)
    as_it_must_be = (
        (verified.code, alone.code) == (0, 0)
        and AGREES in verified.text
        and verified.losses == alone.losses
        and len(alone.losses) == STEPS
        and on_cpu.code != 0
        and any(REFUSED in line for line in on_cpu.text)
        and "differs from the CPU's result for the same plan" in found
    )
    runs = {"verified": asdict(verified), "alone": asdict(alone), "on_the_cpu": asdict(on_cpu)}
    return {"device": _name(device), "as_it_must_be": as_it_must_be, **runs, "other_tokens": found}


def _command(directory: Path, *options: str) -> Ran:
    files = [str(directory / "gpt.dmc"), "--batches", str(directory / "batches.npz"), "--steps", str(STEPS)]
    done = subprocess.run(
        [sys.executable, "-m", "dmc.cli.main", "run", *files, *options], capture_output=True, text=True, check=False
    )
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    # Paths of the machine are not part of the result.
    lines = [line.replace(str(directory), ".") for line in lines]
    losses = [line for line in lines if line.startswith("step ") and " loss " in line]
    return Ran(done.returncode, tuple(losses), tuple(line for line in lines if line not in losses))


def _other_tokens(directory: Path, device: str) -> str:
    """What verification says of a GPU that is given other tokens than the CPU."""
    from dmc.errors import VerificationError
    from dmc.runtime import load

    step = load(directory / "gpt.dmc", device, verify=True)
    session = vars(step)["_session"]
    issue = session.issue

    def rolled(controls: Sequence[np.ndarray], batch: Sequence[np.ndarray]) -> Any:
        return issue(controls, [np.roll(array, 1, axis=-1) for array in batch[:1]] + list(batch[1:]))

    session.issue = rolled
    with np.load(directory / "batches.npz") as arrays:
        first = {name: arrays[name][0] for name in arrays.files}
    try:
        step.call_flat(first)
    except VerificationError as error:
        return str(error)
    finally:
        step.close()
    return "nothing was found"


def _name(device: str) -> str:
    cupy: Any = importlib.import_module("cupy")
    number = int(device.partition(":")[2] or 0)
    return cupy.cuda.runtime.getDeviceProperties(number)["name"].decode()


if __name__ == "__main__":
    sys.exit(main())

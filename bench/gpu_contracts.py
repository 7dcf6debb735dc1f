"""Do a GPU's kernels respect their launches? Each runs there alone between guard bytes (`tests.guarded`).

`python -m bench.gpu_contracts DIRECTORY` takes the kernels of each `*.dmc` in DIRECTORY that contains GPU code, such as
those of `bench.gpu_nonfinite prepare` and `bench.gpu_replay prepare`. It writes `bench/results/gpu_contracts.json`, and
needs CUDA, CuPy and what `dmc.runtime` needs.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.record import write_record
from dmc.program import Job
from dmc.program.code import DeviceCode
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.gpu.cuda_streams import CudaStreams, open_device
from dmc.runtime.sessions.replay.issue import issue
from tests.guarded import faults, launches_of

RESULTS = Path(__file__).parent / "results" / "gpu_contracts.json"


@dataclass(frozen=True)
class Result:
    """One file. launches: those that differ in kernel, in-place operands, or alignment."""

    file: str
    kernels: int
    launches: int
    faults: list[str]


def main() -> int:
    """Runs; the exit code is 1 if a kernel violates its launch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    results = [run(path, open_device()) for path in sorted(options.directory.glob("*.dmc"))]
    write_record(options.out, {"results": [asdict(result) for result in results]})
    return 1 if any(result.faults for result in results) else 0


def run(path: Path, device: CudaStreams) -> Result:
    """Runs the kernels of one file and prints the outcome. Raises DmcError if the device fails."""
    artifact = Artifact.read(path)
    job, code = artifact.job, artifact.code
    assert code is not None, f"{path} is not planned for a GPU"
    found = faults(job, lambda guarded, memory: _executed(guarded, code, memory, device))
    result = Result(path.stem, len(job.kernels), len(launches_of(job)), found)
    print(json.dumps(asdict(result)), flush=True)
    return result


def _executed(job: Job, code: DeviceCode, memory: np.ndarray, device: CudaStreams) -> np.ndarray:
    """The memory after all launches."""
    (program,) = job.programs
    device.prepare(len(program.lanes), code)
    arena = device.allocate(memory.nbytes)
    device.upload(arena.ptr, memory.tobytes())
    issue(program, code, {"device": arena.ptr}, device)
    device.drain()
    return device.download(arena.ptr, memory.nbytes).view(memory.dtype)


if __name__ == "__main__":
    sys.exit(main())

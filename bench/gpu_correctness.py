"""Is every family of kernels right on a GPU? Against float64, under compute-sanitizer, and over fifty steps.

`python -m bench.gpu_correctness prepare DIRECTORY` compiles everything on any machine. On one with a GPU, CuPy, PyTorch
and compute-sanitizer, `python -m bench.gpu_correctness run DIRECTORY` runs, each in processes of its own:

* kernels: every candidate of the kernels written by hand, at the sizes of the benchmarks, against its float64
  reference, with poisoned outputs, twice for the same bits (`bench.gpu_kernels`);
* products: every way of a product that the copy engine loads, against each other (`bench.gpu_sanitizer --products`);
* memcheck, racecheck, synccheck: every family on small, odd shapes (`bench.gpu_sanitizer`);
* curves: fifty steps of seven small models in fp32 and bf16-mixed, twice the same bits, beside PyTorch's
  (`bench.gpu_curves`).

It prints and writes what passed, with the end of what the others said (`bench/results/gpu_correctness.json`), and exits
with 1 where something did not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from bench.record import write_record

RESULTS = Path(__file__).parent / "results" / "gpu_correctness.json"
TOOLS = ("memcheck", "racecheck", "synccheck")
PARTS = ("kernels", "products", *TOOLS, "curves")
# Lines of what a part said that are kept.
_KEPT = 20
# Seconds after which a part has failed.
_LIMIT = 1200.0


def main() -> int:
    """Prepares or runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.mode == "prepare":
        for words in _prepared(options.directory):
            subprocess.run([sys.executable, "-m", *words], check=True)
        return 0
    results: list[dict[str, object]] = []
    for part in options.parts:
        results.append(_run(part, options.directory, options.out.parent))
        # What is done is kept, whatever becomes of the rest.
        write_record(options.out, {"device": _device(), "results": results})
    return 0 if all(each["passed"] for each in results) else 1


def _prepared(directory: Path) -> list[list[str]]:
    return [
        ["bench.gpu_kernels", "--compile", str(directory / "kernels")],
        ["bench.gpu_sanitizer", "prepare", str(directory / "small")],
        ["bench.gpu_curves", "prepare", str(directory / "curves")],
    ]


def _command(part: str, directory: Path, out: Path) -> list[str]:
    """The command of a part; what it writes besides lies beside the results."""
    python = [sys.executable, "-m"]
    small = [*python, "bench.gpu_sanitizer", "run", str(directory / "small")]
    if part in TOOLS:
        # NVIDIA's bindings look for functions that a driver may lack.
        return ["compute-sanitizer", "--report-api-errors", "no", "--error-exitcode", "1", "--tool", part, *small]
    if part == "products":
        return [*small, "--products"]
    if part == "kernels":
        wanted = ["--run", str(directory / "kernels"), "--seconds", str(_LIMIT)]
        return [*python, "bench.gpu_kernels", *wanted, "--out", str(out / "gpu_kernels.json")]
    return [*python, "bench.gpu_curves", "run", str(directory / "curves"), "--out", str(out / "gpu_curves.json")]


def _run(part: str, directory: Path, out: Path) -> dict[str, object]:
    begun = time.monotonic()
    try:
        done = subprocess.run(
            _command(part, directory, out), capture_output=True, text=True, timeout=_LIMIT, check=False
        )
        passed, lines = done.returncode == 0, (done.stderr + done.stdout).splitlines()
    except subprocess.TimeoutExpired:
        passed, lines = False, [f"not done after {_LIMIT:.0f} s"]
    print(f"{part}: {'passed' if passed else 'FAILED'}", *([] if passed else lines[-_KEPT:]), sep="\n  ", flush=True)
    said = lines[-1:] if passed else lines[-_KEPT:]
    return {"part": part, "passed": passed, "seconds": round(time.monotonic() - begun, 1), "said": said}


def _device() -> str:
    import torch

    return torch.cuda.get_device_name()


if __name__ == "__main__":
    sys.exit(main())

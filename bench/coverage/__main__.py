"""`python -m bench.coverage modules operators --jobs 2`: see the package."""

from __future__ import annotations

import argparse
import re
from importlib import import_module
from pathlib import Path

from bench.coverage.sweep import Sweep
from tests.fuzz.train import Mode

KINDS = ("modules", "operators", "undifferentiable", "gradients", "architectures")


def main() -> None:
    """Runs the sweeps that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="+", choices=KINDS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, help="only each n-th entry")
    parser.add_argument("--samples", type=int, default=12, help="of an entry that has more")
    parser.add_argument("--only", default="", help="a regular expression that names match")
    parser.add_argument("--way", choices=("interpreter", "compiled"), default="interpreter")
    parser.add_argument("--precision", choices=("fp32", "bf16-mixed"), default="fp32")
    parser.add_argument("--out", type=Path, default=Path("out/coverage"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for kind in given.kinds:
        names = import_module(f"bench.coverage.{kind}").names()
        chosen = [name for name in names if re.search(given.only, name)][:: given.every]
        path = given.out / f"{kind}_{given.way}_{given.precision}.jsonl"
        Sweep(kind, path, given.samples, given.way, Mode(given.precision)).run(chosen, given.jobs)


if __name__ == "__main__":
    main()

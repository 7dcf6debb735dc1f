"""Results of several runs in one file: `python -m bench.merge bench/results/gpu_replay.json RUN.json …`.

A result takes the place of that of the same model, or of the same group and type. All runs are of one device.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

KEYS = ("model", "group", "type")
Record = Mapping[str, Any]


def main() -> None:
    """Reads the runs, and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    options = parser.parse_args()
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in (options.file, *options.runs)]
    options.file.write_text(json.dumps(merged(runs), indent=1) + "\n", encoding="utf-8")


def merged(runs: Sequence[Record]) -> Record:
    """The first record with the results of all, and the date and versions of the last."""
    if len({run["device"] for run in runs}) > 1:
        raise SystemExit("the runs are of different devices")
    results = {tuple(result.get(key) for key in KEYS): result for run in runs for result in run["results"]}
    last = {key: runs[-1][key] for key in ("date", "versions")}
    return {**runs[0], **last, "results": list(results.values())}


if __name__ == "__main__":
    main()

"""Small fills and copies of a step's graph as kernels: that they do the same, and what launches and calls then cost.

`python -m bench.gpu_small_kernels STEP… --out DIRECTORY`, where steps are files that `bench.gpu_step prepare` or
`dmc.compile_artifact(…).write` left, fills and copies bytes of many sizes on the GPU both ways. Then it loads each step
with its graph as captured, of kernels, and as captured once more: losses of three steps and the state after them must
have the same bits. It measures calls (`bench.host_calls`) and launches of the graph alone (`bench.cuda_graphs`), writes
`DIRECTORY/small_kernels.json` after each part, and exits with 1 where anything differs. `--as-captured` leaves the
kernels out. It needs neither torch-mlir nor IREE.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from bench.cuda_driver import Driver
from bench.cuda_graphs import measured
from bench.host_calls import batches_of, call_parts, graph_of, launched_graph, opened

CAPTURED, KERNELS = "as captured", "of kernels"
LAUNCHES, COMPARED = 10, 3
OFFSETS, LENGTHS, PATTERNS = (0, 1, 2, 4, 8), (1, 2, 3, 4, 8, 12, 100, 1000, 4096, 65536, 65600), (1, 2, 4)
GAP, SPREAD = 256, 0.02


def main() -> int:
    """Compares and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", type=Path, metavar="STEP")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--as-captured", action="store_true", help="only graphs as they were captured")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    is_same = True

    def keep(name: str, result: Any) -> None:
        found[name] = result
        (options.out / "small_kernels.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    if not options.as_captured:
        wrong = [describe for describe, bits in _small_ones() if len(set(bits)) != 1]
        is_same = not wrong
        keep("fills and copies that differ", wrong)
        print(f"fills and copies that differ: {wrong or 'none'}", flush=True)
    for path in options.steps:
        results: dict[str, Any] = {}
        for number, kind in enumerate((CAPTURED,) if options.as_captured else (CAPTURED, KERNELS, CAPTURED)):
            with _graphs(kind):
                results[f"{number}, {kind}"] = result = _step(path, kind)
            keep(path.name, results)
            print(json.dumps({kind: {name: each for name, each in result.items() if name != "call"}}, indent=1))
            print(json.dumps({name: each for name, each in result["call"].items() if name != "profile"}), flush=True)
        same = len({(*each["losses"], each["state"]) for each in results.values()}) == 1
        print(f"{path.name}: {'the same bits' if same else 'DIFFERENT BITS'}", flush=True)
        is_same = is_same and same
    return 0 if is_same else 1


@contextmanager
def _graphs(kind: str) -> Generator[None]:
    """Sessions that are opened meanwhile have such graphs."""
    if kind == KERNELS:
        yield
        return
    with patch("dmc.runtime.gpu.captured_graph.SmallKernels.replace"):
        yield


def _small_ones() -> list[tuple[str, list[bytes]]]:
    """What fills and copies leave in device and in pinned memory, with each kind of graph."""
    from dmc.program.code import DeviceCode
    from dmc.runtime.gpu.cuda_streams import open_device

    streams = open_device()
    streams.prepare(1, DeviceCode({}, {}))
    size = 2 * max(LENGTHS) + 4 * GAP
    memory, pinned = streams.allocate(size), streams.allocate_pinned(size)
    view = np.frombuffer(pinned, np.uint8, size)
    start = np.random.default_rng(0).integers(0, 256, size, np.uint8)

    def left(work: Callable[[], None], kind: str) -> bytes:
        with _graphs(kind):
            launch = streams.captured(work)
        view[:] = start[::-1]
        streams.upload(memory.ptr, start.tobytes())
        launch()
        streams.drain()
        return view.tobytes() + streams.download(memory.ptr, size).tobytes()

    works: dict[str, Callable[[], None]] = {}
    for offset, length in product(OFFSETS, LENGTHS):
        at, other = memory.ptr + GAP + offset, pinned.ptr + GAP
        works[f"copy out, {length} bytes at {offset}"] = lambda a=at, b=other, n=length: streams.copy(0, b, a, n)
        works[f"copy in, {length} bytes at {offset}"] = lambda a=at, b=other, n=length: streams.copy(0, a, b, n)
        for width in (each for each in PATTERNS if offset % each == 0 and length % each == 0):
            pattern = b"\x89\xab\xcd\xef"[:width]
            works[f"fill by {width}, {length} bytes at {offset}"] = lambda a=at, n=length, p=pattern: streams.fill(
                0, a, n, p
            )
    return [(name, [left(work, kind) for kind in (CAPTURED, KERNELS)]) for name, work in works.items()]


def _step(path: Path, kind: str) -> dict[str, Any]:
    """The first steps of a step, and what its calls and its launches cost."""
    step = opened(path, SPREAD)
    batches = batches_of(step)
    losses = [float(step.call_flat(batches[number])) for number in range(COMPARED)]
    driver = Driver()
    graph = (launched_graph if kind == KERNELS else graph_of)(driver, step)
    result = {
        "losses": [each.hex() for each in losses],
        "state": _digest(step.own_state()),
        "nodes": dict(Counter(graph.kind(node) for node in graph.nodes())),
        "launch": measured(graph, LAUNCHES),
        "call": call_parts(step),
    }
    step.close()
    return result


def _digest(arrays: Sequence[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())

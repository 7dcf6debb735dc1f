"""What may happen to a running step: signals, threads, forks, many loads. Each drill counts what it saw.

    python -m bench.running_step step.dmc [--device cuda] [--only interrupts …]

Without `--only` all run, those of the issue in full: 500 interrupts, 4 × 1000 calls, every way to fork, 1000 loads. It
fails where a step was lost, a state was wrong, a child did not end, or memory grew.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dmc.dtypes import dtype_of
from dmc.runtime import Signature, Step, load

Make = Callable[[], Step]
Batch = Mapping[str, np.ndarray]
Counts = Counter[str]

# What a child does with the step of its parent, and what it prints where that is not nothing.
FORKS = {
    "exits": "",
    "ends at once": "os._exit(0)",
    "drops it": "del step; gc.collect(); print('dropped')",
    "calls it": "tried(lambda: step.call_flat(batch))",
    "reads a loss": "tried(lambda: float(first(loss)))",
    "saves it": "tried(lambda: step.save('never'))",
    "closes it": "step.close(); print('closed')",
    "loads its own": "tried(lambda: load(sys.argv[1], sys.argv[2]))",
}
_PARENT = """
import gc, os, signal, sys, warnings
from bench.running_step import any_batch, first, load
warnings.simplefilter('ignore')
def tried(call):
    try: print(call())
    except Exception as error: print(type(error).__name__, error)
step = load(sys.argv[1], sys.argv[2]); batch = any_batch(step.signature)
loss = step.call_flat(batch)
if not (pid := os.fork()):
    signal.alarm(20)
    {body}
    sys.exit(0)
status = os.waitpid(pid, 0)[1]
losses = [float(first(each)) for each in (loss, step.call_flat(batch))]
print('child', os.waitstatus_to_exitcode(status), 'parent', *(0 * each for each in losses))
"""


def any_batch(signature: Signature) -> Batch:
    """Random numbers, and zeros where they may be indices."""
    rng = np.random.default_rng(0)
    return {spec.name: _any(rng, spec.shape, dtype_of(spec.dtype).numpy) for spec in signature.batch}


def _any(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    return np.zeros(shape, dtype) if dtype.kind in "iub" else rng.standard_normal(shape, np.float32).astype(dtype)


def first(result: Any) -> Any:
    """The loss in what a call returns."""
    return result[0] if isinstance(result, tuple) else result


def interrupts(make: Make, batch: Batch, count: int) -> Counts:
    """Ctrl-C at random moments of calls, reads and writes. After each the step is used, and its state compared, bit for
    bit, with that of a step that did as many steps undisturbed."""
    step, other, counts = make(), make(), Counts()
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for number in range(count):
            counts += _interrupted(partial(_WAYS[number % len(_WAYS)], step, batch))
            while other.steps_done < step.steps_done:
                other.call_flat(batch)
            counts["right" if _equal(step, other) else "wrong"] += 1
        counts += _interrupted_loads(make, batch, max(1, count // 10))
    finally:
        signal.signal(signal.SIGALRM, previous)
    step.close()
    other.close()
    return counts


def _call(step: Step, batch: Batch) -> None:
    step.call_flat(batch)


def _read(step: Step, batch: Batch) -> None:
    float(first(step.call_flat(batch)))


def _load(step: Step, batch: Batch) -> None:
    step.load_state_dict(step.state_dict())


_WAYS = (_call, _call, _read, _load)


def _interrupted(work: Callable[[], object]) -> Counts:
    """Does some work again and again, until a signal ends it. Python drops what is raised while it frees an object:
    after a while there is another."""
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 6e-3), 1.0)
        while True:
            work()
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
        return Counts({"interrupts": 1})


def _interrupted_loads(make: Make, batch: Batch, count: int) -> Counts:
    """Interrupts while a step is opened and closed; afterwards another can be."""
    counts = Counts()

    def work() -> None:
        step = make()
        step.call_flat(batch)
        step.close()

    for _ in range(count):
        counts["interrupted loads"] += _interrupted(work)["interrupts"]
        work()
    return counts


def _equal(step: Step, other: Step) -> bool:
    pairs = zip(step.snapshot().state, other.snapshot().state, strict=True)
    return all(own.tobytes() == theirs.tobytes() for own, theirs in pairs)


def threads(make: Make, batch: Batch, count: int, calls: int) -> Counts:
    """Threads that all train one step with one batch, while others read its state and losses."""
    step, other, counts = make(), make(), Counts()
    losses: list[Any] = [step.call_flat(batch)]
    done = threading.Event()

    def train() -> None:
        losses.extend(step.call_flat(batch) for _ in range(calls))

    def look() -> None:
        while not done.is_set():
            float(first(losses[-1]))
            before = step.state_dict()["step"]
            assert isinstance(before, int), "the step has no phases"
            counts["states seen"] += step.steps_done >= before

    trainers, lookers = ([threading.Thread(target=each) for _ in range(count)] for each in (train, look))
    for thread in (*lookers, *trainers):
        thread.start()
    for thread in trainers:
        thread.join()
    done.set()
    for thread in lookers:
        thread.join()
    expected = [other.call_flat(batch) for _ in range(1 + count * calls)]
    both = [sorted(float(first(loss)) for loss in each) for each in (losses, expected)]
    counts["calls"] = count * calls
    counts["right" if _equal(step, other) and both[0] == both[1] else "wrong"] += 1
    step.close()
    other.close()
    return counts


def fork(path: Path, device: str, name: str) -> subprocess.CompletedProcess[str]:
    """A process that loads a step, calls it, and forks; see `FORKS`. It says how the child ended."""
    command = [sys.executable, "-c", _PARENT.format(body=FORKS[name]), str(path), device]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def growth(make: Make, count: int) -> float:
    """KiB of memory that each load and close leaves behind."""
    for _ in range(20):
        make().close()
    gc.collect()
    before = _resident_kib()
    for _ in range(count):
        make().close()
    gc.collect()
    return (_resident_kib() - before) / count


def _resident_kib() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="+", default=["interrupts", "threads", "forks", "loads"])
    parser.add_argument("--interrupts", type=int, default=500)
    parser.add_argument("--loads", type=int, default=1000)
    given = parser.parse_args()
    make = partial(load, given.path, given.device)
    batch, failed = any_batch(make().signature), False
    if "interrupts" in given.only:
        failed |= _shown("interrupts", interrupts(make, batch, given.interrupts))
    if "threads" in given.only:
        failed |= _shown("threads", threads(make, batch, 4, 1000))
    for name in FORKS if "forks" in given.only else ():
        ended = fork(given.path, given.device, name)
        print(f"a child that {name}:", ended.returncode, ended.stdout.strip().replace("\n", " | "), ended.stderr[-200:])
        failed |= ended.returncode != 0 or "child 0" not in ended.stdout or bool(ended.stderr)
    if "loads" in given.only:
        kib = growth(make, given.loads)
        print(f"{given.loads} loads and closes: {kib:.2f} KiB each")
        # An allocator may keep 2 MiB more or less; each load once left 90 KiB.
        failed |= kib > 4 + 2048 / given.loads
    sys.exit(int(failed))


def _shown(name: str, counts: Counts) -> bool:
    print(f"{name}:", ", ".join(f"{count} {what}" for what, count in counts.items() if count), flush=True)
    return counts["wrong"] > 0


if __name__ == "__main__":
    main()

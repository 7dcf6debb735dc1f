"""Commands on the GPUs of one machine, one at a time on each: a command sees its GPU alone."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Sequence


def run_each(commands: Sequence[Sequence[str]], gpus: int, limit: float | None = None) -> None:
    """Runs every command, in this order as GPUs become free, for at most `limit` seconds each."""
    waiting: queue.SimpleQueue[Sequence[str]] = queue.SimpleQueue()
    for command in commands:
        waiting.put(command)

    def work(gpu: int) -> None:
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": str(gpu)}
        while True:
            try:
                command = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                subprocess.run(command, env=environment, check=False, timeout=limit)
            except subprocess.TimeoutExpired:
                print(f"not done within {limit:.0f} s: {' '.join(command)}", flush=True)

    threads = [threading.Thread(target=work, args=(gpu,)) for gpu in range(gpus)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

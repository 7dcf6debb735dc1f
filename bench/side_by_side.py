"""Commands on the GPUs of one machine, one at a time on each: a command sees its GPU alone."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Sequence


def run_each(commands: Sequence[Sequence[str]], gpus: int) -> list[int]:
    """Runs every command, in this order as GPUs become free; their exit codes."""
    waiting: queue.SimpleQueue[tuple[int, Sequence[str]]] = queue.SimpleQueue()
    for numbered in enumerate(commands):
        waiting.put(numbered)
    codes = [0] * len(commands)

    def work(gpu: int) -> None:
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": str(gpu)}
        while True:
            try:
                number, command = waiting.get_nowait()
            except queue.Empty:
                return
            codes[number] = subprocess.run(command, env=environment, check=False).returncode

    threads = [threading.Thread(target=work, args=(gpu,)) for gpu in range(gpus)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return codes

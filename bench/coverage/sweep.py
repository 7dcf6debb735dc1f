"""Runs cases in processes of their own, and keeps what they came to: a line of JSON each, which a next run skips."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from bench.coverage.check import OUTSIDE, check
from bench.coverage.steps import Sample
from tests.fuzz.check import Verdict, Way
from tests.fuzz.train import PLAIN, Mode
from tests.fuzz.workers import Worker, side_by_side

# Seconds for one entry by the interpreter, and compiled.
PATIENCE: dict[Way, float] = {"interpreter": 60.0, "compiled": 300.0}
NONE = Verdict("refused", "no such sample", "none")


@dataclass(frozen=True)
class Task:
    """An entry of a table: its sample of that number, or all of them, at most `most`; to be compared with eager."""

    kind: str
    name: str
    most: int
    sample: int | None
    way: Way = "interpreter"
    mode: Mode = PLAIN

    @property
    def patience(self) -> float:
        """Seconds that it may take on a machine of its own."""
        return PATIENCE[self.way]

    def verdict(self) -> Verdict:
        """What it comes to; NONE where there is no such sample."""
        try:
            chosen = samples(self.kind, self.name, self.most)
        # PyTorch's own tables and `transformers` build the samples, which may fail in any way: a package is missing, or
        # a type on this machine. The page lists the error.
        except Exception as error:
            return NONE if self.sample else Verdict("refused", str(error), OUTSIDE)
        if self.sample is None:
            return check(chosen, self.way, self.mode)
        return check([chosen[self.sample]], self.way, self.mode) if self.sample < len(chosen) else NONE


@lru_cache(maxsize=1)
def samples(kind: str, name: str, most: int) -> list[Sample]:
    """Samples of an entry, evenly spread where it has more; the same in every process."""
    torch.manual_seed(0)
    every = import_module(f"bench.coverage.{kind}").samples(name)
    return [every[i * len(every) // most] for i in range(most)] if len(every) > most else every


@dataclass
class Sweep:
    """The entries of a table, some at a time; results are appended to `path`."""

    kind: str
    path: Path
    most: int = 12
    way: Way = "interpreter"
    mode: Mode = PLAIN
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, names: Iterable[str], jobs: int) -> None:
        """Tries the entries that `path` does not know yet."""
        known = {entry["name"] for entry in entries(self.path)}
        left = iter([name for name in names if name not in known])

        def job(_: int, worker: Worker) -> None:
            while (name := self._next(left)) is not None:
                self._note(name, self._verdicts(worker, name))

        side_by_side(jobs, job, preload="bench.coverage.preload")

    def _next(self, left: Iterator[str]) -> str | None:
        with self.lock:
            return next(left, None)

    def _note(self, name: str, verdicts: Sequence[Verdict]) -> None:
        line = {"name": name, "verdicts": [asdict(each) for each in verdicts]}
        with self.lock, self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{self.kind} {name}: {_in_words(verdicts)}", flush=True)

    def _verdicts(self, worker: Worker, name: str) -> list[Verdict]:
        """All samples in one step, which is fast; where that does not agree, each of several alone."""
        whole = worker.check(Task(self.kind, name, self.most, None, self.way, self.mode))
        if whole.outcome == "agrees" or self.most == 1:
            return [whole]
        verdicts: list[Verdict] = []
        while (verdict := self._alone(worker, name, len(verdicts))) != NONE:
            verdicts.append(verdict)
        return verdicts

    def _alone(self, worker: Worker, name: str, sample: int) -> Verdict:
        if sample == self.most:
            return NONE
        return worker.check(Task(self.kind, name, self.most, sample, self.way, self.mode))


def entries(path: Path) -> list[dict[str, Any]]:
    """What earlier runs came to."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _in_words(verdicts: Sequence[Verdict]) -> str:
    counts = {outcome: sum(each.outcome == outcome for each in verdicts) for outcome in {v.outcome for v in verdicts}}
    reasons = dict.fromkeys(each.kind for each in verdicts if each.kind)
    return f"{counts} {'; '.join(reasons)[:200]}"

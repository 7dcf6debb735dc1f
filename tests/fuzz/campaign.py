"""Tries programs until the time is over, and counts."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.fuzz.check import FINDS, Verdict, Way
from tests.fuzz.generate import Misfit, drawn, is_valid
from tests.fuzz.program import Program, source
from tests.fuzz.shrink import shrink
from tests.fuzz.train import PLAIN, Mode
from tests.fuzz.workers import Request, Worker, side_by_side

MODES = (
    PLAIN,
    PLAIN,
    PLAIN,
    Mode(precision="bf16-mixed"),
    Mode(accumulate=2),
    Mode(ranks=2),
)


@dataclass(frozen=True)
class Drawn(Verdict):
    """The program of a seed; None if there is none."""

    program: Program | None = None


@dataclass(frozen=True)
class Drawing:
    """A task for a worker: the program of a seed."""

    seed: int
    patience: float = 30.0

    def verdict(self) -> Drawn:
        """What was drawn."""
        try:
            return Drawn("agrees", program=drawn(self.seed))
        except Misfit:
            return Drawn("refused")


@dataclass(frozen=True)
class Find:
    """seed: of the program as it was drawn. text: the source of the program as it was shrunk."""

    seed: int
    way: Way
    mode: Mode
    verdict: Verdict
    operators: tuple[str, ...]
    text: str

    @property
    def kind(self) -> str:
        """Two finds of one kind are taken for one fault."""
        return f"{self.way}: {self.verdict.outcome}: {self.verdict.kind}: {' '.join(sorted(self.operators))}"


@dataclass
class Tally:
    """The results of the programs so far."""

    outcomes: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    finds: dict[str, list[Find]] = field(default_factory=dict)
    repeats: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, program: Program, way: Way, verdict: Verdict) -> None:
        """Counts a program."""
        with self.lock:
            self.outcomes[f"{way}: {verdict.outcome}"] += 1
            if verdict.outcome == "refused":
                self.refusals[verdict.kind] += 1
            if verdict.outcome == "agrees":
                self.operators.update(program.operators())

    def known(self, way: Way, verdict: Verdict, program: Program) -> str | None:
        """The kind of a find that `program` seems to repeat: it ends the same, and has its operators."""
        with self.lock:
            for kind, (first, *_) in self.finds.items():
                same = (first.way, first.verdict.outcome, first.verdict.kind) == (way, verdict.outcome, verdict.kind)
                if same and set(first.operators) <= set(program.operators()):
                    return kind
        return None

    def add_find(self, find: Find) -> bool:
        """Notes a find; gives whether it is the first of its kind."""
        with self.lock:
            same = self.finds.setdefault(find.kind, [])
            same.append(find)
            return len(same) == 1


@dataclass(frozen=True)
class Campaign:
    """Programs from seeds `first`, `first` + 1 …, some at a time.

    share: of the programs that agree by the interpreter, how many are compiled as well. told: hears of each new find.
    """

    first: int
    seconds: float
    jobs: int
    share: float
    told: Callable[[Find], None]
    tally: Tally = field(default_factory=Tally)

    def run(self) -> Tally:
        """Tries programs until the time is over."""
        end = time.monotonic() + self.seconds

        def job(number: int, worker: Worker) -> None:
            for seed in itertools.count(self.first + number, self.jobs):
                if time.monotonic() >= end:
                    return
                self._try(worker, seed)

        side_by_side(self.jobs, job)
        return self.tally

    def _try(self, worker: Worker, seed: int) -> None:
        choose = random.Random(seed)
        # Drawing runs programs in eager, which crashes at some.
        answer = worker.check(Drawing(seed))
        program = answer.program if isinstance(answer, Drawn) else None
        if program is None:
            self.tally.outcomes["not drawn" if isinstance(answer, Drawn) else f"eager {answer.outcome}"] += 1
            return
        verdict = self._check(worker, seed, program, "interpreter", PLAIN)
        if verdict.outcome in ("agrees", "uncertain") and choose.random() < self.share:
            mode = MODES[choose.randrange(len(MODES))]
            # dmc widens what autocast does on GPUs. Eager runs on a CPU, where that is less: powers of f16 stay narrow.
            is_like_eager = mode.precision == "fp32" or "torch.float16" not in source(program)
            self._check(worker, seed, program, "compiled", mode if is_like_eager else PLAIN)

    def _check(self, worker: Worker, seed: int, program: Program, way: Way, mode: Mode) -> Verdict:
        verdict = worker.check(Request(source(program), way, mode))
        self.tally.add(program, way, verdict)
        if verdict.outcome in FINDS and (kind := self.tally.known(way, verdict, program)) is not None:
            self.tally.repeats[kind] += 1
        elif verdict.outcome in FINDS:
            self._shrink(worker, seed, program, Request("", way, mode), verdict)
        return verdict

    def _shrink(self, worker: Worker, seed: int, program: Program, like: Request, verdict: Verdict) -> None:
        def keeps(candidate: Program) -> bool:
            if not is_valid(candidate):
                return False
            found = worker.check(Request(source(candidate), like.way, like.mode))
            return (found.outcome, found.kind) == (verdict.outcome, verdict.kind)

        small = shrink(program, keeps)
        last = worker.check(Request(source(small), like.way, like.mode))
        title, mode = f"Seed {seed}, {like.way}: {verdict.outcome}.", "" if like.mode == PLAIN else repr(like.mode)
        find = Find(seed, like.way, like.mode, last, small.operators(), source(small, title, mode))
        if self.tally.add_find(find):
            self.told(find)
